/* rope.h - rotary positions: the frequency of each pair of dims, and the cosines and sines of a step's rows.
 *
 * Types: default, linear, dynamic (NTK), llama3, yarn, longrope, proportional, as Hugging Face transformers
 * computes them (modeling_rope_utils.py, version 5): inverse frequencies, angles and factors are rounded to
 * fp32 where transformers rounds them. Cosines are computed in each step for its rows, once for all layers,
 * so no table has the size of the context length.
 */
#ifndef GALLOP_OPS_ROPE_H
#define GALLOP_OPS_ROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct batch;

/* The pairs of dims that RoPE rotates: (i, i + half) as in Llama, or (2i, 2i + 1) as in GPT-J. */
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

/* The parameters from a model's configuration, with defaults for missing keys. */
struct rope_params {
    enum rope_type type;
    /* Number of dims of a head that RoPE covers; even. */
    size_t dim;
    double theta;
    double factor;
    /* original_max_position_embeddings; for dynamic: max_position_embeddings. */
    double original;
    /* Type llama3: low_freq_factor and high_freq_factor. */
    double low_freq, high_freq;
    /* Type yarn: numbers of rotations over the original context, the bounds of the ramp. */
    double beta_fast, beta_slow;
    /* Multiplies cosines and sines; < 0: computed by the formula of the type. */
    double attention_factor;
    /* Type yarn: mscale and mscale_all_dim; 0: not given. */
    double mscale, mscale_all;
    /* Type yarn: rounds the bounds of the ramp to whole dims. */
    bool truncate;
    /* Type proportional: the number of dims that rotate; the other dims do not. */
    size_t n_rotated;
    /* Type longrope: max_position_embeddings, used if factor is not given. */
    double max_pos;
    /* Type longrope: factors of the wavelengths, [dim / 2] each; borrowed during rope_open() only. */
    const double *short_factor, *long_factor;
};

struct rope {
    enum rope_type type;
    size_t dim, half;
    double theta, factor, original;
    float attention_factor;
    /* Inverse frequencies, [half]. */
    float *inv;
    /* Type longrope: inverse frequencies with the long factors, [half]; otherwise NULL. */
    float *inv_long;
};

/* Computes the inverse frequencies for the parameters P. */
int rope_open(struct rope *r, const struct rope_params *p, struct err *e);

/* R may be zeroed. */
void rope_close(struct rope *r);

/* Computes the cosines and sines of the rows [begin, end) of B into COS and SIN, [T, half]. */
void rope_fill(const struct rope *r, const struct batch *b, size_t begin, size_t end, float *cos, float *sin);

/* Computes the cosines and sines that rotate the rows [begin, end) of B from their positions back to position
 * AT, without an attention factor. Rows at positions up to AT are skipped. Not for types whose frequencies
 * depend on the length (dynamic NTK). */
void rope_back(const struct rope *r, const struct batch *b, size_t begin, size_t end, size_t at, float *cos,
               float *sin);

/* Returns the maximum length of a sequence for which longrope uses its short factors; when a sequence grows
 * longer, its rows must be computed again. Returns 0 for all other types. */
size_t rope_switch_length(const struct rope *r);

/* Returns true if the frequencies of R depend on the length of a sequence: types dynamic and longrope. */
bool rope_by_length(const struct rope *r);

/* Returns a number that identifies the frequencies of the ropes R [n] for a sequence of N_TOTAL tokens, of which the
 * first N_PROMPT are its prompt. Only sequences with equal numbers may share cached rows. */
uint64_t rope_regime(const struct rope *r, size_t n, size_t n_prompt, size_t n_total);

/* Returns true if a sequence that had LAST_TOTAL tokens and now has TOTAL must be computed again, because the
 * ropes R [n] use other frequencies at this length. */
bool rope_is_stale(const struct rope *r, size_t n, size_t last_total, size_t total);

#endif
