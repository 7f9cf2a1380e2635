/* engine.h - the door into the engine for the program and the server: what they use beyond gallop.h.
 *
 * The functions of gallop.h serve C programs, which know neither the tokenizer's type nor a sampling record. The
 * floors above the engine know both. They see facts of the opened engine (engine_info), submit requests with a
 * sampling record that was read from options or JSON, and wait; they do not see the model, the cache or the
 * scheduler, which engine_priv.h gives to measurements and tests.
 */
#ifndef GALLOP_ENGINE_ENGINE_H
#define GALLOP_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gallop.h"

struct checkpoint;
struct err;
struct sampling;
struct tok;

/* Facts of an engine that do not change while it is open, for the floors above the engine. gallop_stats() gives C
 * programs state and counters; the few facts that both have (context length, vocabulary, load time, threads) are
 * there because those programs have no engine_info. Pointers are borrowed until gallop_close(). */
struct engine_info {
    const struct tok *tok;           /* NULL: the checkpoint has no tokenizer, */
    const char *tok_missing;         /* for this reason; else NULL */
    const struct sampling *defaults; /* what generation_config.json says, with the model's end tokens */
    const char *headless;            /* why the model generates no tokens; NULL: it does */
    const char *model_type;          /* config.json's "model_type" */
    bool is_gguf;
    bool is_bidirectional; /* attention sees all of a prompt, which then is computed in one step */
    bool has_store;        /* KV blocks are also kept outside the process */
    size_t max_len;        /* context length: tokens of prompt and answer */
    size_t max_step_tokens;
    size_t vocab, hidden, n_layers, inner, n_heads, n_kv, n_params;
    double load_s; /* seconds that opening took */
    int threads;
};

/* gallop_open() of the model at O->model, which C is, opened; C outlives the engine, which closes C's files
 * when the weights are read. C NULL: the engine opens it. */
int engine_open(struct gallop **out, const struct gallop_options *o, struct checkpoint *c, struct err *e);

const struct engine_info *engine_info(const struct gallop *g);

/* gallop_submit() with USER, which is merged over the defaults, in place of R->sampling. */
int engine_submit(struct gallop *g, const struct gallop_request *r, const struct sampling *user, uint64_t *id,
                  struct err *e);

/* Waits up to WAIT_S seconds until a request is submitted. gallop_step() does the same where there is nothing to
 * compute; callers that measure steps wait here instead. */
void engine_await(struct gallop *g, double wait_s);

/* The policy "fair" tells clients apart by a number below ENGINE_FAIR_KEYS: that of the client KEY [n], 0 for none. */
enum { ENGINE_FAIR_KEYS = 1024 };
uint32_t engine_fair_key(const char *key, size_t n);

#endif
