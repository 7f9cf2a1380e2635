/* fill.h - fills the KV cache for long contexts without computing them.
 *
 * The first rows of one prompt, at most 512, are computed. Every sequence is then filled with copies of them up to the
 * requested length: the speed of attention depends on where the rows lie, not on their values, and each sequence has
 * its own memory. The positions of copies are wrong, so the results of attention are meaningless. */
#ifndef GALLOP_LAB_BENCH_FILL_H
#define GALLOP_LAB_BENCH_FILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/llm.h"

struct bench_fill {
    struct llm *m; /* borrowed */
    size_t n;      /* computed rows; a multiple of 16 unless no context is longer */
    char *tile;    /* [L][K, V][n_kv][ceil(n / 16)] copies of their tiles */
    size_t bytes;
    size_t *len; /* [max_seqs] rows that each sequence was filled with, 0: none */
};

/* Computes the rows in sequence 0, which must be empty and is empty again afterwards. IDS holds at least min(512,
 * LONGEST) tokens; LONGEST is the longest context that will be used. */
int bench_fill_open(struct bench_fill *f, struct llm *m, const int32_t *ids, size_t longest, struct err *e);
void bench_fill_close(struct bench_fill *f); /* sequences keep their rows */

/* Gives SEQ exactly N rows. As many filled rows as possible stay; computed rows after them are dropped. ERR_NOSPACE,
 * ERR_NOMEM: SEQ is empty. */
int bench_fill_sequence(struct bench_fill *f, size_t seq, size_t n, struct err *e);

/* Empties SEQ. */
void bench_fill_drop(struct bench_fill *f, size_t seq);

#endif
