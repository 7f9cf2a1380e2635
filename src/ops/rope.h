/* rope.h - rotary positions: the frequency of each pair of dims, and the cosines of a step's rows.
 *
 * Types: default, linear, dynamic (NTK), llama3, yarn, longrope, proportional, as Hugging Face transformers
 * computes them (modeling_rope_utils.py, version 5): inverse frequencies, angles and factors are rounded to
 * fp32 where it rounds them. Cosines are computed per step for the rows at hand, once for all layers, so
 * nothing is sized by the context length.
 */
#ifndef GALLOP_OPS_ROPE_H
#define GALLOP_OPS_ROPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "ops/batch.h"

enum rope_type {
    ROPE_NONE,
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONGROPE,
    ROPE_PROPORTIONAL
};

/* What the config says; the reader of configs fills it (defaults included). */
struct rope_params {
    enum rope_type type;
    size_t dim; /* rotated dims of a head, even */
    double theta;
    double factor;
    double original;             /* original_max_position_embeddings; for dynamic: max_position_embeddings */
    double low_freq, high_freq;  /* llama3 */
    double beta_fast, beta_slow; /* yarn */
    double attention_factor;     /* < 0: by the type's formula */
    double mscale, mscale_all;   /* yarn; 0: not given */
    bool truncate;               /* yarn */
    size_t n_rotated;            /* proportional: number of dims that rotate; the other pairs keep still */
    double max_pos;              /* longrope: max_position_embeddings, where factor is not given */
    const double *short_factor, *long_factor; /* longrope: [dim / 2], borrowed for rope_open() only */
};

struct rope {
    enum rope_type type;
    size_t dim, half;
    double theta, factor, original;
    float attention_factor;
    float *inv;      /* [half] */
    float *inv_long; /* [half], longrope only */
};

int rope_open(struct rope *r, const struct rope_params *p, struct err *e);
void rope_close(struct rope *r); /* a zeroed one is fine */

/* Cosines and sines of the rows [begin, end) of B: cos, sin [T, half]. */
void rope_fill(const struct rope *r, const struct batch *b, size_t begin, size_t end, float *cos, float *sin);

/* The same that rotate a row further, from its position behind AT back to AT, without any attention factor; rows up
 * to AT are left out. Not for frequencies that change with the length (dynamic NTK). */
void rope_back(const struct rope *r, const struct batch *b, size_t begin, size_t end, size_t at, float *cos,
               float *sin);

/* Rows computed while fewer than this many tokens were known must be computed again once a sequence has
 * N_TOTAL of them (longrope's switch): 0 if that never happens, else the largest length of the short regime.
 * */
size_t rope_switch_length(const struct rope *r);

#endif
