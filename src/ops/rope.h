/* rope.h - rotary positions: the frequency of each pair of dims, and the cosines of a step's rows.
 *
 * Types: default, linear, dynamic (NTK), llama3, yarn, longrope, proportional, as Hugging Face transformers
 * computes them (modeling_rope_utils.py, version 5): inverse frequencies, angles and factors are rounded to
 * fp32 where it rounds them. Cosines are computed per step for the rows at hand, once for all layers, so
 * no table has the size of the context length.
 */
#ifndef GALLOP_OPS_ROPE_H
#define GALLOP_OPS_ROPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "ops/batch.h"

/* Which dims RoPE rotates together: (i, i + half) as Llama, or (2i, 2i + 1) as GPT-J. */
enum rope_pairs { ROPE_PAIRS_HALF, ROPE_PAIRS_NEXT };

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

/* The parameters of a config, with the defaults of the keys that it lacks. */
struct rope_params {
    enum rope_type type;
    /* Number of dims of a head that rope covers; even. */
    size_t dim;
    double theta;
    double factor;
    /* original_max_position_embeddings; for dynamic: max_position_embeddings. */
    double original;
    /* Of llama3. */
    double low_freq, high_freq;
    /* Of yarn. */
    double beta_fast, beta_slow;
    /* < 0: computed by the formula of the type. */
    double attention_factor;
    /* Of yarn; 0: not given. */
    double mscale, mscale_all;
    /* Of yarn. */
    bool truncate;
    /* Of proportional: the number of dims that rotate; the other pairs do not. */
    size_t n_rotated;
    /* Of longrope: max_position_embeddings, used if factor is not given. */
    double max_pos;
    /* Of longrope: [dim / 2], borrowed for rope_open() only. */
    const double *short_factor, *long_factor;
};

struct rope {
    enum rope_type type;
    size_t dim, half;
    double theta, factor, original;
    float attention_factor;
    /* [half] inverse frequencies. */
    float *inv;
    /* [half] those of the long factors; longrope only. */
    float *inv_long;
};

/* Computes the frequencies. */
int rope_open(struct rope *r, const struct rope_params *p, struct err *e);

/* A zeroed R is allowed. */
void rope_close(struct rope *r);

/* Computes cosines and sines of rows [begin, end) of B into cos and sin [T, half]. */
void rope_fill(const struct rope *r, const struct batch *b, size_t begin, size_t end, float *cos, float *sin);

/* Computes the cosines and sines that rotate rows back to position AT, without an attention factor. Rows at
 * positions up to AT are left out. Not for frequencies that change with the length (dynamic NTK). */
void rope_back(const struct rope *r, const struct batch *b, size_t begin, size_t end, size_t at, float *cos,
               float *sin);

/* Returns the largest length for which longrope uses its short factors: when a sequence grows longer, its
 * rows must be computed again. 0: rows never need to be computed again. */
size_t rope_switch_length(const struct rope *r);

#endif
