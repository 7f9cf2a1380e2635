/* fill.h - fills the KV cache for long contexts without computing them.
 *
 * The first rows of a prompt, at most 512, are computed once, and sequences of any length are filled with
 * copies of them. Each sequence has its own memory, so the speed of attention is that of computed rows;
 * its results are meaningless, because copies have the positions of the original rows. */
#ifndef GALLOP_LAB_BENCH_FILL_H
#define GALLOP_LAB_BENCH_FILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct llm;

struct bench_fill {
    struct llm *m; /* borrowed */
    size_t n;      /* number of computed rows; a multiple of 16, or the longest context */
    char *tile;    /* [L][K, V][n_kv][ceil(n / 16)] tiles of the computed rows */
    size_t bytes;  /* size of `tile` */
    size_t *len;   /* [max_seqs] number of filled rows of each sequence */
};

/* Computes the rows of the tokens IDS, of which there are at least min(512, LONGEST). LONGEST is the longest
 * context that will be requested. Uses sequence 0, which must be empty and is left empty. */
int bench_fill_open(struct bench_fill *f, struct llm *m, const int32_t *ids, size_t longest, struct err *e);
void bench_fill_close(struct bench_fill *f); /* leaves the filled sequences in the cache */

/* Fills or truncates SEQ to exactly N rows; rows that were filled before are kept where possible. After
 * ERR_NOSPACE and ERR_NOMEM, SEQ is empty. */
int bench_fill_sequence(struct bench_fill *f, size_t seq, size_t n, struct err *e);

/* Empties SEQ. */
void bench_fill_drop(struct bench_fill *f, size_t seq);

#endif
