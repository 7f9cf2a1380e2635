/* gallop_priv.h - an open engine, for the files that have its functions.
 *
 * gallop.c opens and closes it, gallop_submit.c turns requests into sequences, and gallop_events.c runs steps, gives
 * events, and takes what other threads have submitted and cancelled.
 */
#ifndef GALLOP_ENGINE_GALLOP_PRIV_H
#define GALLOP_ENGINE_GALLOP_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "gallop.h"

struct seq;

enum { ENGINE_PENDING_CANCELS = 256 };

struct gallop {
    /* The parts, in the same block of memory. */
    struct llm *llm;
    struct step *step;
    struct constraints *constraints;
    struct embedder *embedder; /* result of engine_read_embedder() */
    struct sampling *config;   /* values of generation_config.json, with the model's end tokens */
    struct arena config_arena;
    struct pool *pool;             /* the threads of `llm`; borrowed */
    struct guess_sources *guesses; /* NULL: no speculative decoding */
    struct executor executor;
    struct frames *frames;        /* the executor "pjrt"; NULL: llm.h computes */
    struct plugin_source *plugin; /* plugin of the executor "pjrt"; NULL: another executor */
    struct engine_info info;
    struct gallop_model_info model; /* info.model points to it */
    struct texts *texts; /* NULL in engines that gallop_open() did not open; closed by CLOSE_TEXTS */
    void (*close_texts)(struct texts *t);
    struct err embedder_missing; /* why `embedder` cannot be used; code 0: it can */
    _Atomic uint64_t last_id;    /* id of the newest request; also read by gallop_cancel() */
    struct rng_seeds seeds;      /* seeds for requests that give none */
    _Atomic(struct seq *) inbox; /* list of submitted sequences that no step has accepted, newest first */
    _Atomic bool sleeping;       /* gallop_step() waits for the condition `submitted` */
    bool woken;                  /* engine_wake() was called since the last wait */
    pthread_mutex_t lock;        /* protects this wait and `woken` only */
    pthread_cond_t submitted;
    /* the sequence of the last event, if it was FINISHED; freed by the next gallop_take() */
    struct seq *finished;
    /* pending cancellations: an id, or CANCEL_UP_TO | id; 0: free */
    _Atomic uint64_t cancel[ENGINE_PENDING_CANCELS];
};

void engine_open_inbox(struct gallop *g);
void engine_close_inbox(struct gallop *g); /* frees the sequences that no step has */

/* Posts S and its siblings to the inbox and wakes the computing thread. Returns the id of the request. */
uint64_t engine_post(struct gallop *g, struct seq *s);

#endif
