/* ref_attn.c - one chunk of attention, row by row and token by token; joining and finishing chunks.
 *
 * Only the tokens that a row sees are read: scores, their maximum, the 16-lane sum of exp(s - max), then the
 * weighted values in ascending order of tokens. A faster kernel may also compute masked tokens, with weight
 * +0: the final "+ 0" makes zeros positive, so that both give the same bits. The layouts of tiles are in
 * attention.h.
 */
#include "kern/ref/ref.h"

#include <math.h>

#include "kern/kmath.h"
#include "tensor/dtype.h"

enum type { F32, BF16, I8 }; /* types of keys and values */

static float dot_f32(const float *q, const float *tile, size_t token, size_t dp)
{
    float s = 0;

    for (size_t d = 0; d < dp; d++)
        s = fmaf(q[d], tile[d * KERN_TILE + token], s);
    return s;
}

static float dot_bf16(const float *q, const uint16_t *tile, size_t token, size_t dp)
{
    float s = 0;

    for (size_t d = 0; d < dp; d++)
        s = fmaf(q[d], dtype_bf16_to_f32(tile[(d / 2 * KERN_TILE + token) * 2 + d % 2]), s);
    return s;
}

static float dot_i8(const float *q, const int8_t *tile, size_t token, size_t dp)
{
    float s = 0;

    for (size_t d = 0; d < dp; d++)
        s = fmaf(q[d], (float)tile[(d / 4 * KERN_TILE + token) * 4 + d % 4], s);
    return s;
}

/* Returns the scale of a token. The scales of a tile follow its bytes. */
static float scale_i8(const void *tile, size_t token, size_t dp)
{
    return ((const float *)(const void *)((const int8_t *)tile + KERN_TILE * dp))[token];
}

static float dot(const struct kern_attn *a, const float *q, size_t j, enum type type)
{
    const void *tile = a->k_tile[j / KERN_TILE];
    size_t token = j % KERN_TILE;

    switch (type) {
    case BF16: return dot_bf16(q, tile, token, a->dp);
    case I8: return dot_i8(q, tile, token, a->dp) * scale_i8(tile, token, a->dp);
    default: return dot_f32(q, tile, token, a->dp);
    }
}

/* Returns the number that multiplies the values of token J: its weight P, rounded to bf16 or scaled for
 * int8. */
static float weight(const struct kern_attn *a, float p, size_t j, enum type type)
{
    switch (type) {
    case BF16: return dtype_bf16_to_f32(dtype_f32_to_bf16(p));
    case I8: return p * scale_i8(a->v_tile[j / KERN_TILE], j % KERN_TILE, a->dp);
    default: return p;
    }
}

static float value(const struct kern_attn *a, size_t j, size_t d, enum type type)
{
    const void *tile = a->v_tile[j / KERN_TILE];
    size_t t = j % KERN_TILE;

    switch (type) {
    case BF16: return dtype_bf16_to_f32(((const uint16_t *)tile)[(t / 2 * a->dp + d) * 2 + t % 2]);
    case I8: return (float)((const int8_t *)tile)[(t / 4 * a->dp + d) * 4 + t % 4];
    default: return ((const float *)tile)[t * a->dp + d];
    }
}

/* Replaces the dot products p[lo, hi) by weights. Returns the maximum score and sets *SUM to their sum. */
static float weigh(const struct kern_attn *a, float *p, size_t lo, size_t hi, float *sum)
{
    float lane[REF_LANES] = {0}, most = -INFINITY, by = a->scale, twos;

    if (a->softcap > 0 || !(by > 0)) {
        for (size_t j = lo; j < hi; j++) {
            p[j] = a->scale * p[j];
            if (a->softcap > 0)
                p[j] = a->softcap * kmath_tanh(p[j] / a->softcap);
        }
        by = 1;
    }
    for (size_t j = lo; j < hi; j++)
        most = p[j] > most ? p[j] : most;
    twos = by * KMATH_LOG2E;
    for (size_t j = lo; j < hi; j++) {
        p[j] = kmath_exp2(twos * p[j] - twos * most);
        lane[j % KERN_TILE] += p[j];
    }
    *sum = ref_fold(lane);
    return by * most + 0.0f;
}

static void attend_row(const struct kern_attn *a, size_t r, enum type type)
{
    size_t lo = (size_t)a->lo[r], hi = a->hi[r] > a->lo[r] ? (size_t)a->hi[r] : lo;
    float *p = a->scratch, *out = a->out + r * a->dp;

    for (size_t j = lo; j < hi; j++)
        p[j] = dot(a, (const float *)a->q + r * a->dp, j, type);
    a->max[r] = weigh(a, p, lo, hi, &a->sum[r]);
    for (size_t j = lo; j < hi; j++)
        p[j] = weight(a, p[j], j, type);
    for (size_t d = 0; d < a->dp; d++) {
        float acc = 0;

        for (size_t j = lo; j < hi; j++)
            acc = fmaf(p[j], value(a, j, d, type), acc);
        out[d] = acc + 0.0f;
    }
}

void ref_attn_f32(const struct kern_attn *a)
{
    for (size_t r = 0; r < a->m; r++)
        attend_row(a, r, F32);
}

void ref_attn_bf16(const struct kern_attn *a)
{
    for (size_t r = 0; r < a->m; r++)
        attend_row(a, r, BF16);
}

void ref_attn_i8(const struct kern_attn *a)
{
    for (size_t r = 0; r < a->m; r++)
        attend_row(a, r, I8);
}

void ref_attn_fold(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t d)
{
    float a, b;

    if (!kmath_fold(m, l, o, m2, l2, o2, d, &a, &b))
        return;
    for (size_t i = 0; i < d; i++)
        o[i] = fmaf(o[i], a, o2[i] * b);
}

void ref_attn_finish(float *out, const float *o, float l, size_t d)
{
    float inv = 1.0f / l;

    for (size_t i = 0; i < d; i++)
        out[i] = l == 0 ? 0.0f : o[i] * inv;
}
