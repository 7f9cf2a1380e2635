/* executor.h - what computes, as the engine sees it: a record of what it allows, and the calls made to it.
 *
 * Above this seam are requests, policies and samplers; below it, weights, KV rows and kernels. The engine
 * plans within the record and names rows by slot (the number of a running sequence, stable while it runs) and
 * position; it never sees blocks, tables or tiles. The executor of llm.c allows everything; one of static
 * shapes says what it cannot do (phases that do not mix, prompts one at a time and whole), and the same
 * engine keeps to it.
 *
 * The rows of a slot are a prefix of a sequence. run() computes the next ones, whose places reserve() has
 * taken. Calls come from one thread, run() between guards against allocation.
 *
 * gallop.h offers the same record to schedulers outside (gallop_executor.c). Where these keep the rows in
 * blocks of their own, the executor has n_blocks of them instead of slots: each row of a run comes with the
 * table of its sequence, and nothing is begun, reserved or released.
 */
#ifndef GALLOP_ENGINE_EXECUTOR_H
#define GALLOP_ENGINE_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/threads/pool.h"
#include "kern/kern.h"

struct executor_caps {
    size_t n_slots;     /* sequences that can run at once */
    size_t max_len;     /* positions of a slot */
    size_t max_tokens;  /* rows of a step, at least n_slots */
    size_t max_wanted;  /* rows of a step whose results can be asked for, at least n_slots */
    size_t max_logits;  /* rows of one call of logits() or hidden(), at least 1 */
    size_t max_prompts; /* sequences of a step with more than one row to compute; 0: any number */
    bool mixes;         /* such sequences and others may share a step */
    bool chunks;        /* the missing rows of a sequence may come in several steps */
    size_t block;       /* rows that are reserved together: room is counted in it */
    size_t n_blocks;    /* that the caller owns, block 0 (zeros, never written) among them; 0: it has slots */
    size_t n_vocab;
    size_t n_hidden; /* floats of a hidden state; 0: there is no hidden() */
};

/* New tokens of one sequence. */
struct executor_rows {
    size_t slot;
    const int32_t *id;    /* [n] */
    const int32_t *token; /* [pos + n] all tokens so far; NULL: not known, nobody else can have the rows */
    size_t n, pos;        /* tokens; position of the first = rows computed so far */
    size_t n_prompt;      /* length of the prompt */
    size_t n_total;       /* tokens known when the step was planned */
    size_t n_wanted;      /* of the last N_WANTED of them, logits or hidden states are asked for */
    /* [n_blocks] that hold rows [0, pos + n), where the caller owns them; SLOT is then the number among
     * ROWS */
    const int32_t *block;
    size_t n_blocks;
};

/* Rows [0, n) of a slot that would be needed. */
struct executor_want {
    size_t slot, n;
};

/* A sequence that begins. */
struct executor_prefix {
    const int32_t *id; /* [n] its tokens */
    size_t n, n_prompt;
    size_t n_shared;     /* rows that may come from others, at most n - 1; 0: all are to be computed */
    const uint8_t *salt; /* [16] tells apart who may share rows; NULL: all may */
};

/* Instead of a place where rows are read ahead. */
enum { EXECUTOR_NOTHING = -1, EXECUTOR_LATER = -2 };

struct executor {
    struct executor_caps caps;
    void *ctx;
    struct pool *pool;       /* sampling takes place on its threads, between runs; NULL: on the caller's */
    const struct kern *kern; /* of the samplers */

    /* All of WANT [n] could be had at once as things stand. */
    bool (*has_room)(void *ctx, const struct executor_want *want, size_t n);
    /* An empty slot begins a sequence. Returns how many of its rows are there already, from others that began
     * alike: at most p->n_shared. */
    size_t (*begin)(void *ctx, size_t slot, const struct executor_prefix *p);
    /* Rows [0, n) of SLOT will have a place: 0, ERR_NOSPACE (a budget) or ERR_NOMEM, nothing changed. */
    int (*reserve)(void *ctx, size_t slot, size_t n);
    /* The same, with the first N rows of FROM, which are those of P: 0, or a code and TO stays empty. */
    int (*fork)(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p);
    /* SLOT is empty. Its rows, those of TOKEN [n], may be kept for others. */
    void (*release)(void *ctx, size_t slot, const int32_t *token, size_t n);
    /* COMPUTED rows of a sequence of LAST_TOTAL tokens are not those of one of TOTAL. */
    bool (*is_stale)(void *ctx, size_t computed, size_t last_total, size_t total);
    /* Rows that are kept beyond the executor's memory, read ahead for a sequence that waits, so that begin()
     * finds them; NULL: there are none. ahead() returns a place, and that rows [*from, *to) of P (whose ids
     * are borrowed until the end) will come; EXECUTOR_NOTHING; or EXECUTOR_LATER: what P needs is being read
     * for another, or all places are taken. */
    int (*ahead)(void *ctx, const struct executor_prefix *p, size_t *from, size_t *to);
    bool (*ahead_go_on)(void *ctx, int place);     /* takes what has come; true: it is at its end */
    void (*ahead_end)(void *ctx, int place);       /* before that; what has come stays */
    void (*ahead_wait)(void *ctx, double seconds); /* at most; until something comes */
    /* Computes ROWS [n]. Their wanted rows, in the order of ROWS, are numbered from 0 for logits() and
     * hidden(). */
    void (*run)(void *ctx, const struct executor_rows *rows, size_t n);
    /* Logits [n, n_vocab] of wanted rows FIRST to FIRST + N of the last run, at most max_logits of them.
     * Valid until the next call of run(), logits() or hidden(). */
    const float *(*logits)(void *ctx, size_t first, size_t n);
    /* Their hidden states [n, n_hidden] behind the last norm, likewise; no logits are computed. */
    const float *(*hidden)(void *ctx, size_t first, size_t n);
    double (*clock_s)(void *ctx); /* seconds since some moment */

    /* What the engine does not need, but schedulers outside do; NULL: it is not offered. */

    /* A row at position N of SLOT would find all that it sees. */
    bool (*sees)(void *ctx, size_t slot, size_t n);
    /* The rows of SLOT from N on are not needed; sees() says that it can be done. */
    void (*truncate)(void *ctx, size_t slot, size_t n);
    /* Of blocks that the caller owns: what is in FROM, into TO, which is not 0. */
    void (*copy_block)(void *ctx, size_t from, size_t to);
};

#endif
