/* executor.h - the interface between the engine and what computes: a record of limits, and functions.
 *
 * Above this interface are requests, policies and samplers; below it weights, KV rows and kernels. The engine
 * plans within the limits and names rows by slot (the number of a running sequence, stable while it runs) and
 * position; it never sees blocks, tables or tiles. The executor of llm.c allows everything. One with static
 * shapes declares what it cannot do (mix prompts with decoding, split prompts, run several prompts at once),
 * and the same engine plans accordingly.
 *
 * The rows of a slot are a prefix of a sequence. run() computes the next ones, for which reserve() has
 * reserved memory. All calls come from one thread, and run() must not allocate.
 *
 * gallop.h offers the same functions to schedulers outside (gallop_executor.c). If these keep the KV blocks
 * themselves, the executor has n_blocks instead of slots: each executor_rows brings the block table of its
 * sequence, and begin(), reserve() and release() are not used.
 */
#ifndef GALLOP_ENGINE_EXECUTOR_H
#define GALLOP_ENGINE_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/threads/pool.h"
#include "kern/kern.h"

struct executor_caps {
    size_t n_slots;    /* sequences that run at once */
    size_t max_len;    /* positions of a slot */
    size_t max_tokens; /* most rows of a step, at least n_slots */
    size_t max_wanted; /* most rows of a step with logits or hidden states, at least n_slots */
    size_t max_logits; /* most rows of one call of logits() or hidden(), at least 1 */
    /* Most sequences of a step that compute more than one row. 0: no limit. */
    size_t max_prompts;
    /* Sequences with one row and sequences with more may share a step. */
    bool mixes;
    /* The missing rows of a sequence may be computed over several steps. */
    bool chunks;
    size_t block; /* rows that are reserved together */
    /* KV blocks that the caller owns, with block 0, which holds zeros and is never written. 0: the executor
     * has slots. */
    size_t n_blocks;
    size_t n_vocab;
    size_t n_hidden; /* floats of a hidden state; 0: there is no hidden() */
};

/* The rows that one sequence computes in a step. */
struct executor_rows {
    size_t slot;
    const int32_t *id; /* [n] new tokens */
    /* [pos + n] All tokens of the sequence so far. NULL: the rows are not published to the prefix cache. */
    const int32_t *token;
    size_t n, pos;   /* new tokens; rows computed before them */
    size_t n_prompt; /* tokens of the prompt */
    size_t n_total;  /* tokens of the sequence when the step was planned */
    size_t n_wanted; /* the last N_WANTED rows need logits or hidden states */
    /* [n_blocks] Where the caller owns the KV blocks: those of rows [0, pos + n). SLOT is then the index in
     * ROWS. */
    const int32_t *block;
    size_t n_blocks;
};

/* Rows [0, n) of a slot. */
struct executor_want {
    size_t slot, n;
};

/* The sequence that a slot begins with. */
struct executor_prefix {
    const int32_t *id; /* [n] tokens */
    size_t n, n_prompt;
    /* The most rows that may be shared with other sequences, at most n - 1. 0: compute all of them. */
    size_t n_shared;
    /* [16] Only sequences with equal salts share rows. NULL: no salt. */
    const uint8_t *salt;
};

/* Results of ahead() that are no handle. */
enum { EXECUTOR_NOTHING = -1, EXECUTOR_LATER = -2 };

struct executor {
    struct executor_caps caps;
    void *ctx;
    /* The samplers use its threads between runs. NULL: they use the caller's thread. */
    struct pool *pool;
    const struct kern *kern; /* for the samplers */

    /* Whether all of WANT [n] could be reserved now, together. */
    bool (*has_room)(void *ctx, const struct executor_want *want, size_t n);
    /* Begins a sequence in the empty SLOT with rows that the prefix cache has. Returns their number, at most
     * p->n_shared. */
    size_t (*begin)(void *ctx, size_t slot, const struct executor_prefix *p);
    /* Reserves memory for rows [0, n) of SLOT. 0, ERR_NOSPACE (over budget) or ERR_NOMEM; on failure nothing
     * has changed. */
    int (*reserve)(void *ctx, size_t slot, size_t n);
    /* Begins the sequence P in the empty slot TO with the first N rows of FROM. On failure a code, and TO
     * stays empty. */
    int (*fork)(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p);
    /* Empties SLOT. Its rows, which are those of TOKEN [n], may stay in the prefix cache. */
    void (*release)(void *ctx, size_t slot, const int32_t *token, size_t n);
    /* The rows computed so far do not suit a sequence of TOTAL tokens, though they did suit one of
     * LAST_TOTAL. */
    bool (*is_stale)(void *ctx, size_t computed, size_t last_total, size_t total);
    /* Reading ahead from a store (NULL: there is none). ahead() starts to read the KV blocks of P, so that
     * begin() will find them in memory. It returns a handle, and in [*from, *to) the rows that will come; the
     * ids of P are borrowed until the read ends. EXECUTOR_NOTHING: the store has nothing more.
     * EXECUTOR_LATER: another read brings what P needs, or all handles are in use. */
    int (*ahead)(void *ctx, const struct executor_prefix *p, size_t *from, size_t *to);
    bool (*ahead_go_on)(void *ctx, int handle);    /* takes blocks that have come; true: the read is done */
    void (*ahead_end)(void *ctx, int handle);      /* cancels the read; blocks that have come stay */
    void (*ahead_wait)(void *ctx, double seconds); /* waits until a block comes, at most SECONDS */
    /* Computes ROWS [n]. Their rows with logits or hidden states are numbered from 0, in the order of
     * ROWS. */
    void (*run)(void *ctx, const struct executor_rows *rows, size_t n);
    /* Logits [n, n_vocab] of the numbered rows [first, first + n) of the last run, at most max_logits rows.
     * Valid until the next call of run(), logits() or hidden(). */
    const float *(*logits)(void *ctx, size_t first, size_t n);
    /* Their hidden states [n, n_hidden] after the last norm, likewise. Computes no logits. */
    const float *(*hidden)(void *ctx, size_t first, size_t n);
    double (*clock_s)(void *ctx); /* seconds of a monotonic clock */

    /* For schedulers outside only; NULL: not offered. */

    /* All rows that a query at position N of SLOT sees are in the cache. */
    bool (*sees)(void *ctx, size_t slot, size_t n);
    /* Drops the rows of SLOT from N on. sees(SLOT, N) must be true. */
    void (*truncate)(void *ctx, size_t slot, size_t n);
    /* Where the caller owns the KV blocks: copies block FROM to block TO, which is not 0. */
    void (*copy_block)(void *ctx, size_t from, size_t to);
};

#endif
