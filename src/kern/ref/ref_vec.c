/* ref_vec.c - the kernels on vectors: scaling, RoPE, activations, conversions, reductions.
 *
 * Each kernel computes one element after the other. Only exp_sum and exp_dot have a defined order: a
 * 16-lane sum. Rotary embedding: Su et al. 2021, with the pairs (i, i + half) of Hugging Face or (2 i, 2 i +
 * 1) of the paper.
 */
#include "kern/ref/ref.h"

#include <math.h>
#include <string.h>

#include "kern/kmath.h"
#include "tensor/dtype.h"

void ref_add(float *x, const float *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] + r[i];
}

void ref_scale(float *x, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * a;
}

void ref_scale_add(float *y, const float *x, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void rotate(float *p1, float *p2, float c, float s)
{
    float x1 = *p1, x2 = *p2;

    *p1 = fmaf(-x2, s, x1 * c);
    *p2 = fmaf(x1, s, x2 * c);
}

void ref_rope_half(float *x, const float *cos, const float *sin, size_t half)
{
    for (size_t i = 0; i < half; i++)
        rotate(&x[i], &x[i + half], cos[i], sin[i]);
}

void ref_rope_pair(float *x, const float *cos, const float *sin, size_t half)
{
    for (size_t i = 0; i < half; i++)
        rotate(&x[2 * i], &x[2 * i + 1], cos[i], sin[i]);
}

void ref_act(float *out, const float *x, size_t n, enum kern_act f)
{
    for (size_t i = 0; i < n; i++)
        out[i] = kmath_act(x[i], f);
}

void ref_glu(float *out, const float *gate, const float *up, size_t n, enum kern_act f)
{
    for (size_t i = 0; i < n; i++)
        out[i] = kmath_act(gate[i], f) * up[i];
}

void ref_softcap(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = cap * kmath_tanh(x[i] / cap);
}

void ref_to_bf16(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = dtype_f32_to_bf16(x[i]);
}

void ref_to_i8(int8_t *out, float *scale, const float *x, size_t n)
{
    float m = 0, inv;

    for (size_t i = 0; i < n; i++)
        m = fabsf(x[i]) > m ? fabsf(x[i]) : m;
    inv = 127.0f / m;
    *scale = isinf(inv) ? 0.0f : m / 127.0f;
    for (size_t i = 0; i < n; i++) {
        float y = x[i] * inv;

        y = y < 127.0f ? y : 127.0f; /* also for NaN */
        y = y > -127.0f ? y : -127.0f;
        out[i] = isinf(inv) ? 0 : (int8_t)rintf(y);
    }
}

void ref_hadamard(float *x, size_t n)
{
    kmath_hadamard(x, n);
}

size_t ref_argmax(const float *x, size_t n)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (x[i] == x[i] && (best == n || x[i] > x[best]))
            best = i;
    return best == n ? 0 : best;
}

float ref_max(const float *x, size_t n)
{
    float max = -INFINITY;

    for (size_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max + 0.0f;
}

float ref_exp_sum(const float *x, size_t n, float max)
{
    float lane[REF_LANES] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % REF_LANES] += kmath_exp(x[i] - max);
    return ref_fold(lane);
}

float ref_exp_dot(const float *x, size_t n, float max)
{
    float lane[REF_LANES] = {0};

    for (size_t i = 0; i < n; i++) {
        float d = x[i] - max;

        d = KMATH_EXP_MIN > d ? KMATH_EXP_MIN : d;
        lane[i % REF_LANES] += kmath_exp(d) * d;
    }
    return ref_fold(lane);
}

/* With the sign bit cleared, bit patterns compare as integers like the absolute values. Adding the constant carries
 * into the sign bit for infinity and NaN only, so the OR of all sums shows whether any number is not finite. */
bool ref_pack_words(uint32_t *panel, const char *const *column, size_t n, bool bf16)
{
    const uint32_t size = bf16 ? 0x7fff7fff : 0x7fffffff, add = bf16 ? 0x00800080 : 0x00800000;
    uint32_t any = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < KERN_NR; c++) {
            uint32_t word = 0;

            if (column[c])
                memcpy(&word, column[c] + i * sizeof(word), sizeof(word));
            any |= (word & size) + add;
            panel[i * KERN_NR + c] = word;
        }
    return !(any & ~size);
}
