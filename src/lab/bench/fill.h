/* fill.h - long contexts without the time that computing them takes.
 *
 * The first rows of one prompt, at most 512, are really computed. Every sequence is then filled with copies
 * of them, over and over up to the length that is asked for: the speed of attention does not depend on what
 * the rows hold, only on where they lie, and each sequence has memory of its own. Positions of copies are
 * wrong, so what is computed from them means nothing. */
#ifndef GALLOP_LAB_BENCH_FILL_H
#define GALLOP_LAB_BENCH_FILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/llm.h"

struct bench_fill {
    struct llm *m; /* borrowed */
    size_t n;      /* rows that were computed; a multiple of 16 unless no context is longer */
    char *tile;    /* [L][K, V][n_kv][ceil(n / 16)] tiles: their copies */
    size_t bytes;
    size_t *len; /* [max_seqs] rows that each sequence was filled with, 0: none */
};

/* Computes the rows in sequence 0, which must be empty and is again afterwards. IDS holds at least min(512,
 * LONGEST) tokens; LONGEST is the longest context that will be asked for. */
int bench_fill_open(struct bench_fill *f, struct llm *m, const int32_t *ids, size_t longest, struct err *e);
void bench_fill_close(struct bench_fill *f); /* a zeroed one is fine; sequences keep their rows */

/* Gives SEQ exactly N rows, keeping of what it was filled with before as much as it can; what was computed
 * behind that is gone. ERR_NOSPACE, ERR_NOMEM: SEQ is empty. */
int bench_fill_sequence(struct bench_fill *f, size_t seq, size_t n, struct err *e);

/* Empties SEQ. */
void bench_fill_drop(struct bench_fill *f, size_t seq);

#endif
