/* executor.h - the interface between the engine and the code that computes steps: a struct of limits and functions.
 *
 * Above this interface are requests, policies and samplers; below it are weights, KV rows and kernels. The engine plans
 * within the limits and addresses rows by slot (the number of a running sequence, constant while it runs) and position;
 * it does not know blocks, tables and tiles. The executor of llm.c has no restrictions. An executor with static shapes
 * can declare restrictions (it cannot mix prompts with decoding, split prompts, or compute several prompts in a step),
 * within which the engine then plans.
 *
 * The rows of a slot are the first rows of a sequence. run() computes the next rows, for which reserve() has reserved
 * memory, and settle() then makes them final or drops them. All calls come from one thread, and run() must not
 * allocate.
 *
 * An executor may fail, for instance because its device does: run() returns an error, and the rows of all slots are
 * lost. The engine then releases the slots, puts their sequences back into the queue, calls reopen() until the executor
 * computes again (schedule/outage.h), and has the rows computed anew. Nothing of a sequence depends on the failed run,
 * so that its answer goes on with the same tokens.
 *
 * gallop_executor.c offers the same functions to schedulers outside of the library. If such a scheduler owns the KV
 * blocks, the executor has n_blocks instead of slots: each executor_rows contains the block table of its sequence, and
 * begin(), reserve() and release() are not used.
 */
#ifndef GALLOP_ENGINE_EXECUTOR_H
#define GALLOP_ENGINE_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kern;

struct err;

struct executor_caps {
    size_t n_slots;    /* maximum number of running sequences */
    size_t max_len;    /* maximum number of positions of a slot */
    size_t max_tokens; /* maximum number of rows of a step, at least n_slots */
    size_t max_wanted; /* maximum number of rows of a step with logits or hidden states, at least n_slots */
    size_t max_logits; /* maximum number of rows of a call of logits() or hidden(), at least 1 */
    /* Maximum number of sequences of a step that compute more than one row. 0: no limit. */
    size_t max_prompts;
    bool mixes;  /* a step may contain sequences with one row and sequences with more rows */
    bool chunks; /* the rows of a prompt may be computed in several steps */
    /* a decoding sequence may compute rows of guessed tokens, too, which may be dropped later */
    bool guesses;
    bool shares;  /* fork() shares the KV blocks of the forked rows instead of copying them */
    size_t block; /* rows of a KV block, which are reserved together */
    /* Maximum number of rows of all slots together. 0: no limit, since windows drop rows. */
    size_t pool_rows;
    /* Number of KV blocks that the caller owns. One is block 0, which contains zeros and is never written. 0: the
     * executor has slots. */
    size_t n_blocks;
    size_t n_vocab;
    size_t n_hidden; /* floats of a hidden state; 0: hidden() is not supported */
};

/* The rows that one sequence computes in a step. */
struct executor_rows {
    size_t slot;
    const int32_t *id; /* [n] new tokens */
    size_t n, pos;     /* number of new tokens, and position of the first */
    size_t n_prompt;   /* tokens of the prompt */
    size_t n_total;    /* known tokens of the sequence when the step was planned */
    size_t n_wanted;   /* the last n_wanted rows need logits or hidden states */
    /* If the caller owns the KV blocks: [n_blocks] the blocks of rows 0 to pos + n - 1. `slot` is then the
     * index of this struct in the run. */
    const int32_t *block;
    size_t n_blocks;
};

/* A question to has_room(): can KV rows [0, n) of a slot be reserved? */
struct executor_want {
    size_t slot, n;
};

/* A sequence that starts to run in a slot. */
struct executor_prefix {
    const int32_t *id; /* [n] tokens */
    size_t n, n_prompt;
    /* Maximum number of rows that may be taken from other sequences, at most n - 1. 0: all rows are computed. */
    size_t n_shared;
    /* [16] Only sequences with equal salts share rows. NULL: no salt. */
    const uint8_t *salt;
};

/* Results of read_ahead() that are not handles. reopen() also returns EXECUTOR_LATER. */
enum { EXECUTOR_NOTHING = -1, EXECUTOR_LATER = -2 };

struct executor {
    struct executor_caps caps;
    void *ctx; /* the first argument of the functions */
    /* Threads that the samplers use between runs. NULL: they use the caller's thread. */
    struct pool *pool;
    const struct kern *kern; /* kernels of the samplers */

    /* Returns true if all of WANT [n] could be reserved together now. */
    bool (*has_room)(void *ctx, const struct executor_want *want, size_t n);
    /* Starts the sequence P in the empty SLOT with the rows that the prefix cache has for P. Returns the
     * number of these rows, at most p->n_shared. */
    size_t (*begin)(void *ctx, size_t slot, const struct executor_prefix *p);
    /* Reserves memory for rows [0, n) of SLOT. Returns 0, or without any change ERR_NOSPACE (the cache is
     * full) or ERR_NOMEM. */
    int (*reserve)(void *ctx, size_t slot, size_t n);
    /* Starts the sequence P in the empty slot TO with the first N rows of slot FROM. Returns 0 or an error
     * code, after which TO is still empty; if the executor has failed, the next run() returns the error. */
    int (*fork)(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p);
    /* Empties SLOT. Its rows, which were computed from TOKEN [n], may stay in the prefix cache (TOKEN NULL: they do
     * not). */
    void (*release)(void *ctx, size_t slot, const int32_t *token, size_t n);
    /* Returns true if the first COMPUTED rows of a sequence, computed when it had LAST_TOTAL tokens, are invalid now
     * that it has TOTAL tokens, because RoPE depends on the length. */
    bool (*is_stale)(void *ctx, size_t computed, size_t last_total, size_t total);
    /* Starts to read KV blocks of P from the store, so that begin() finds them in memory. Returns a handle, and the
     * rows of the blocks as [*from, *to); the ids of P are borrowed until the read ends. EXECUTOR_NOTHING: the store
     * has no further block of P. EXECUTOR_LATER: another read includes the blocks, or all handles are in use. NULL,
     * like the next three functions: there is no store. */
    int (*read_ahead)(void *ctx, const struct executor_prefix *p, size_t *from, size_t *to);
    /* Accepts blocks that were read (true: the read is complete); cancels the read, whose blocks so far stay in the
     * cache; and waits for the next block, at most SECONDS. */
    bool (*read_ahead_go_on)(void *ctx, int handle);
    void (*read_ahead_end)(void *ctx, int handle);
    void (*read_ahead_wait)(void *ctx, double seconds);
    /* Computes ROWS [n]. The wanted rows are numbered from 0, in the order of ROWS. Before the next run() of a slot,
     * the caller calls settle() or release() for it. Returns 0, or an error code: the executor has failed, and the
     * rows of all slots are lost. Then the caller calls release() for each slot in use, with TOKEN NULL, and
     * read_ahead_end() for each read, and after that only clock_s() and the functions that reopen, until reopen() has
     * returned 0. */
    int (*run)(void *ctx, const struct executor_rows *rows, size_t n, struct err *e);
    /* Opens the executor again after run() has failed, in several calls, each of which returns soon. Returns 0: it
     * computes again, and all slots are empty; EXECUTOR_LATER: it is not open yet; or an error code, after which the
     * next call starts anew. NULL, like the next function: run() never fails. */
    int (*reopen)(void *ctx, struct err *e);
    void (*reopen_wait)(void *ctx, double seconds); /* waits SECONDS, or until reopen() has a result */
    /* Makes the first N rows of SLOT, which belong to TOKEN [n], final, and drops later rows. The rows may now be
     * published to the prefix cache (TOKEN NULL: they are not), and rows that no later query sees may be dropped. */
    void (*settle)(void *ctx, size_t slot, const int32_t *token, size_t n);
    /* Returns the logits [n, n_vocab] of the wanted rows FIRST to FIRST + N - 1 of the last run; N is at most
     * max_logits. Valid until the next call of run(), logits() or hidden(). NULL: the executor has failed.
     * The caller then acts as if run() had returned the error that failure() writes. */
    const float *(*logits)(void *ctx, size_t first, size_t n);
    /* Returns the argmax tokens [n] of the wanted rows FIRST to FIRST + N - 1 (of equal logits the lowest id); -1: the
     * row needs logits(). This costs less than logits(), and logits() may still be called. Valid until the next call of
     * run(). NULL as for logits(). The member is NULL if this is not supported. */
    const int32_t *(*best)(void *ctx, size_t first, size_t n);
    /* Writes the error of the executor to *E after logits() or best() has returned NULL. The member is NULL if they
     * never return NULL; an executor with hidden() must be of this kind. */
    void (*failure)(void *ctx, struct err *e);
    /* Returns the hidden states [n, n_hidden] after the final norm of the wanted rows FIRST to FIRST + N - 1,
     * without computing logits. */
    const float *(*hidden)(void *ctx, size_t first, size_t n);
    double (*clock_s)(void *ctx); /* returns the seconds of a monotonic clock */

    /* Functions for gallop_executor.c only; NULL: not supported. */

    /* Returns true if the cache has all rows to which a query at position N of SLOT attends. */
    bool (*sees)(void *ctx, size_t slot, size_t n);
    /* Drops the rows of SLOT from row N on. sees(SLOT, N) must be true. */
    void (*truncate)(void *ctx, size_t slot, size_t n);
    /* If the caller owns the KV blocks: copies block FROM to block TO, which is not 0. */
    void (*copy_block)(void *ctx, size_t from, size_t to);
};

#endif
