/* frames.h - executor.h on a PJRT device: every step is a frame of fixed shape, whose program was compiled when the
 * executor was opened.
 *
 * A sequence has a slot of the caches on the device, from its first row to its last. Prompts are computed one after the
 * other in frames of one sequence, decoding sequences together in frames with the same number of rows for each: one, or
 * more if tokens are guessed. The smallest bucket that fits is taken, and the rest is padding, which is stored in a
 * scratch row. A prompt that begins with the tokens whose rows were left in its slot uses these rows.
 *
 * Results stay on the device until they are needed. A frame computes the logits of its wanted rows and their argmax
 * tokens; for greedy sequences only the tokens are copied to the host. If several rows of a prompt are wanted, their
 * hidden states are kept, and a program of its own computes logits of a few of them at a time.
 *
 * After an error of the plugin in a step, all KV rows on the device are lost, and run(), logits() or best() fails.
 * reopen() makes new caches, on a thread of its own. If it cannot, or if the next run fails again, it closes the
 * plugin's client with all that is on the device, and opens client, programs and weights again as frames_open() does.
 */
#ifndef GALLOP_ENGINE_PJRT_FRAMES_H
#define GALLOP_ENGINE_PJRT_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

struct engine_executor;
struct engine_program;
struct err;
struct executor;
struct llm;
struct plugin_source;

enum { FRAMES_MAX_BUCKETS = 16 };

/* Sizes for which programs are compiled, ascending. */
struct frames_buckets {
    size_t size[FRAMES_MAX_BUCKETS + 1], n; /* FRAMES_MAX_BUCKETS are read; the maximum is added */
};

struct frames_options {
    struct plugin_source *source; /* borrowed until frames_close() */
    /* Rows of prompts, numbers of decoding sequences, and rows of a slot that a program reads. n 0: the default. */
    struct frames_buckets prompts, batches, contexts;
    size_t most_rows;    /* maximum number of rows of a step: no larger buckets of prompts are needed */
    size_t most_guesses; /* maximum number of guesses of a decoding sequence in a step */
    /* Called before each program is compiled or loaded: DONE of TOTAL are ready. NULL: not called. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *progress_ctx;
};

struct frames;

/* Reads "16,64,512" as ascending sizes from 1 to MOST. */
int frames_read_buckets(struct frames_buckets *b, const char *text, const char *name, size_t most,
                        struct err *e);

/* Opens the executor *OUT for M, which it borrows: loads the plugin, compiles the programs or takes them from the cache
 * folder, and copies the weights. */
int frames_open(struct frames **out, struct llm *m, const struct frames_options *o, struct err *e);

/* Closes F. Stops calls of a plugin in a process of its own, and waits at most 1.8 seconds for calls of a plugin in
 * this process. Returns false, after a line in the log, if one has not returned: it may return later, so F, its model
 * and its source must stay. F may be NULL. */
bool frames_close(struct frames *f);

/* Initializes *X as the executor F, which it borrows. */
void frames_executor(struct frames *f, struct executor *x);

/* frames_state() adds the counts of programs to *S; frames_program() describes program I in *P. Any thread may call
 * them. */
void frames_state(const struct frames *f, struct engine_executor *s);
void frames_program(const struct frames *f, size_t i, struct engine_program *p);

/* Facts for `inspect` and `compile`. */
struct frames_stats {
    const char *plugin, *platform, *version, *kind; /* texts of the plugin, borrowed */
    size_t n_programs;                              /* number of programs */
    size_t n_compiled, n_loaded; /* programs that were compiled, and programs loaded from files */
    size_t n_kept;               /* compiled programs that were written to a file */
    double compile_s;
    size_t n_devices,
        memory_bytes; /* devices of the plugin, and the memory of this one; 0: it does not tell */
    size_t weight_bytes, cache_bytes; /* bytes of weights and of caches on the device */
    size_t down_bytes;                /* bytes of results that were copied from the device so far */
};
void frames_stats(const struct frames *f,
                  struct frames_stats *s); /* numbers of the device are 0 while it is down */

#endif
