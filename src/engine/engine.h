/* engine.h - the functions of the engine that the command line and the server use in addition to gallop.h.
 *
 * gallop.h is for C programs outside of this tree, and has neither the tokenizer's type nor struct sampling.
 * This header adds facts of the opened engine (engine_info), submission with a struct sampling that was read
 * from options or JSON, and waiting. It does not give access to the model, the cache or the scheduler;
 * engine_priv.h gives this access to measurements and tests.
 */
#ifndef GALLOP_ENGINE_ENGINE_H
#define GALLOP_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gallop.h"

struct chat;
struct checkpoint;
struct embedder;
struct err;
struct sampling;
struct texts;
struct tok;

/* Facts of an engine that are constant while it is open. Pointers are borrowed until gallop_close(). */
struct engine_info {
    /* Sizes, formats and names, as in gallop.h; without the members about texts, which gallop_describe() has. The name
     * is the value of the option `model`. */
    const struct gallop_model_info *model;
    const struct tok *tok; /* NULL: the checkpoint has no tokenizer */
    /* Values of generation_config.json, with the model's end tokens, and gallop_options.seed if it is given. */
    const struct sampling *defaults;
    bool is_gguf;
    bool is_bidirectional; /* every token attends to the whole prompt, so a prompt is computed in one step */
    bool has_store;        /* there is a KV store */
    bool has_priorities;   /* the scheduling policy uses priorities */
    double load_s;         /* seconds that opening took */
};

/* Opens an engine like gallop_open(). C is the opened checkpoint of O->model; it outlives the engine, which
 * closes C's files after reading the weights. C NULL: the engine opens the checkpoint. */
int engine_open(struct gallop **out, const struct gallop_options *o, struct checkpoint *c, struct err *e);

const struct engine_info *engine_info(const struct gallop *g);

/* Opens the chat templates of the model's files. */
int engine_open_chat(const struct gallop *g, struct chat **out, struct err *e);

/* Reads the embedding settings of the model's files, for GALLOP_POOL_AUTO. Returns ERR_NOMEM at once; other errors are
 * returned later, by engine_embedder(). */
int engine_read_embedder(struct gallop *g, struct err *e);

/* Sets *OUT to the settings that engine_read_embedder() has read if POOLING is GALLOP_POOL_AUTO, else to
 * NULL. */
int engine_embedder(const struct gallop *g, enum gallop_pooling pooling, const struct embedder **out,
                    struct err *e);

/* engine_keep_texts() stores T, the data for the text functions of gallop.h (chat/texts.h), until
 * gallop_close() calls CLOSE. engine_texts() returns it. Only engines that gallop_open() opens have it. */
void engine_keep_texts(struct gallop *g, struct texts *t, void (*close)(struct texts *t));
struct texts *engine_texts(const struct gallop *g);

/* Submits a request like gallop_submit(), with the sampling parameters USER instead of R->sampling. */
int engine_submit(struct gallop *g, const struct gallop_request *r, const struct sampling *user, uint64_t *id,
                  struct err *e);

/* Returns whether no request is submitted, waiting or running, and no event is left to take. */
bool engine_is_idle(const struct gallop *g);

/* Returns whether R can be submitted without compiling a constraint, which may take seconds. */
bool engine_is_compiled(struct gallop *g, const struct gallop_request *r);

/* Waits up to WAIT_S seconds for a submission or engine_wake(). For callers that measure the time of gallop_step()
 * without its waiting. */
void engine_await(struct gallop *g, double wait_s);

/* Ends the call of engine_await() that waits now or, if none does, the next one. Any thread may call it. */
void engine_wake(struct gallop *g);

/* The state of the executor and, if it has fixed shapes, of its compiled programs. */
struct engine_executor {
    bool is_down; /* a run has failed, and the executor is being opened again (schedule/outage.h) */
    uint64_t n_restarts;
    size_t n_programs; /* 0: shapes are not fixed, and the rest is 0 */
    uint64_t n_compiled, n_loaded, n_kept, n_damaged;
    double compile_s;
};

/* A program of an executor with fixed shapes. */
struct engine_program {
    const char *kind;                /* "prompt", "decode", "head" (logits of scored prompts) or "copy" */
    size_t n_seqs, n_rows, n_seen;   /* sequences of a frame, rows of each, and cached rows that it reads */
    uint64_t n_runs, n_padding_rows; /* runs so far, and rows of padding in them */
};

/* Any thread may ask for the state. Programs are numbered from 0 to n_programs - 1. */
void engine_executor_state(const struct gallop *g, struct engine_executor *s);
void engine_executor_program(const struct gallop *g, size_t i, struct engine_program *p);

/* Returns the number, from 1 to ENGINE_FAIR_KEYS - 1, by which the policy "fair" identifies the client KEY
 * [n]; 0 if N is 0. */
enum { ENGINE_FAIR_KEYS = 1024 };
uint32_t engine_fair_key(const char *key, size_t n);

/* Returns RC. If RC is not 0, copies the sentence of E to ERR [GALLOP_ERR_SIZE], which may be NULL. */
int engine_give(char *err, const struct err *e, int rc);

#endif
