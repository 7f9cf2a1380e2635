/* rope.c - computes the inverse frequencies of each type of RoPE, and the cosines and sines of rows.
 *
 * Formulas: RoPE (Su et al. 2021), linear scaling and dynamic NTK (as in transformers), Llama 3.1's smoothed
 * bands, YaRN (Peng et al. 2023), LongRoPE (Ding et al. 2024).
 */
#include "ops/rope.h"

#include <math.h>

#include "base/mem.h"
#include "ops/batch.h"

static void plain(float *inv, size_t half, size_t dim, double theta)
{
    /* transformers: 1.0 / (base ** (arange(0, dim, 2).float() / dim)), all in fp32 */
    for (size_t i = 0; i < half; i++)
        inv[i] = 1.0f / (float)pow(theta, (double)((float)(2 * i) / (float)dim));
}

static void llama3(float *inv, size_t half, const struct rope_params *p)
{
    double low_wave = p->original / p->low_freq, high_wave = p->original / p->high_freq;

    for (size_t i = 0; i < half; i++) {
        float wave = (float)(2.0 * M_PI) / inv[i];
        float smooth;

        if (wave < (float)high_wave)
            continue;
        if (wave > (float)low_wave) {
            inv[i] = inv[i] / (float)p->factor;
            continue;
        }
        smooth = ((float)p->original / wave - (float)p->low_freq) / (float)(p->high_freq - p->low_freq);
        inv[i] = (1 - smooth) * inv[i] / (float)p->factor + smooth * inv[i];
    }
}

/* Returns the dim, as a real number, whose wave makes N_ROT rotations over the original context length. */
static double correction_dim(const struct rope_params *p, double n_rot)
{
    return (double)p->dim * log(p->original / (n_rot * 2 * M_PI)) / (2 * log(p->theta));
}

static void yarn(float *inv, size_t half, const struct rope_params *p)
{
    double low = correction_dim(p, p->beta_fast), high = correction_dim(p, p->beta_slow);

    if (p->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)p->dim - 1);
    if (low == high)
        high += 0.001;
    for (size_t i = 0; i < half; i++) {
        float pos_freq = (float)pow(p->theta, (double)((float)(2 * i) / (float)p->dim));
        float extra = 1.0f / pos_freq, inter = 1.0f / ((float)p->factor * pos_freq);
        float ramp = ((float)i - (float)low) / (float)(high - low), keep;

        keep = 1 - fminf(fmaxf(ramp, 0), 1);
        inv[i] = inter * (1 - keep) + extra * keep;
    }
}

static double yarn_mscale(double scale, double mscale)
{
    return scale <= 1 ? 1.0 : 0.1 * mscale * log(scale) + 1.0;
}

static double attention_factor(const struct rope_params *p)
{
    double f;

    if (p->attention_factor >= 0 && (p->type == ROPE_YARN || p->type == ROPE_LONGROPE))
        return p->attention_factor;
    if (p->type == ROPE_YARN) {
        if (p->mscale != 0 && p->mscale_all != 0)
            return yarn_mscale(p->factor, p->mscale) / yarn_mscale(p->factor, p->mscale_all);
        return yarn_mscale(p->factor, 1);
    }
    if (p->type == ROPE_LONGROPE) {
        f = p->factor > 0 ? p->factor : p->max_pos / p->original;
        return f <= 1 ? 1.0 : sqrt(1 + log(f) / log(p->original));
    }
    return 1.0;
}

static void longrope(float *inv, const double *by, const struct rope_params *p, size_t half)
{
    for (size_t i = 0; i < half; i++)
        inv[i] = 1.0f / ((float)by[i] * (float)pow(p->theta, (double)((float)(2 * i) / (float)p->dim)));
}

/* Sets the inverse frequencies of type "proportional": divides the frequencies of the first n_rotated / 2 pairs by the
 * factor, and sets the others to 0. */
static void proportional(float *inv, const struct rope_params *p, size_t half)
{
    for (size_t i = 0; i < half; i++)
        inv[i] = i < p->n_rotated / 2 ? inv[i] / (float)p->factor : 0;
}

int rope_open(struct rope *r, const struct rope_params *p, struct err *e)
{
    *r = (struct rope){.type = p->type,
                       .dim = p->dim,
                       .half = p->dim / 2,
                       .theta = p->theta,
                       .factor = p->factor,
                       .original = p->original,
                       .attention_factor = 1.0f};
    if (p->type == ROPE_NONE)
        return 0;
    r->inv = mem_zalloc(r->half, sizeof(float), MEM_MODEL);
    r->inv_long = p->type == ROPE_LONGROPE ? mem_zalloc(r->half, sizeof(float), MEM_MODEL) : NULL;
    if (!r->inv || (p->type == ROPE_LONGROPE && !r->inv_long)) {
        rope_close(r);
        return err_nomem(e, "rotary frequencies");
    }
    r->attention_factor = (float)attention_factor(p);
    plain(r->inv, r->half, p->dim, p->theta);
    if (p->type == ROPE_LINEAR)
        for (size_t i = 0; i < r->half; i++)
            r->inv[i] /= (float)p->factor;
    if (p->type == ROPE_PROPORTIONAL)
        proportional(r->inv, p, r->half);
    if (p->type == ROPE_LLAMA3)
        llama3(r->inv, r->half, p);
    if (p->type == ROPE_YARN)
        yarn(r->inv, r->half, p);
    if (p->type == ROPE_LONGROPE) {
        longrope(r->inv, p->short_factor, p, r->half);
        longrope(r->inv_long, p->long_factor, p, r->half);
    }
    return 0;
}

void rope_close(struct rope *r)
{
    mem_free(r->inv);
    mem_free(r->inv_long);
    *r = (struct rope){0};
}

size_t rope_switch_length(const struct rope *r)
{
    return r->type == ROPE_LONGROPE ? (size_t)r->original : 0;
}

bool rope_by_length(const struct rope *r)
{
    return r->type == ROPE_DYNAMIC || r->type == ROPE_LONGROPE;
}

uint64_t rope_regime(const struct rope *r, size_t n, size_t n_prompt, size_t n_total)
{
    uint64_t regime = 0;

    for (size_t i = 0; i < n; i++) {
        size_t border = rope_switch_length(&r[i]);

        regime = regime * 2 + (border && n_total > border);
        if (r[i].type == ROPE_DYNAMIC && (double)n_prompt > r[i].original)
            regime = regime * 0x9e3779b97f4a7c15u + n_prompt;
    }
    return regime;
}

bool rope_is_stale(const struct rope *r, size_t n, size_t last_total, size_t total)
{
    for (size_t i = 0; i < n; i++) {
        size_t border = rope_switch_length(&r[i]);

        if (border && (last_total > border) != (total > border))
            return true;
    }
    return false;
}

/* Returns the inverse frequency of pair I by dynamic NTK, for a sequence of N tokens. */
static float dynamic_inv(const struct rope *r, size_t n, size_t i)
{
    double d = (double)r->dim, base = r->theta;

    if ((double)n > r->original)
        base *= pow(r->factor * (double)n / r->original - (r->factor - 1), d / (d - 2));
    return 1.0f / (float)pow(base, (double)((float)(2 * i) / (float)r->dim));
}

/* Returns the inverse frequencies of sequence S; for longrope they depend on its length. */
static const float *inverse(const struct rope *r, const struct batch_seq *s)
{
    return r->type == ROPE_LONGROPE && (double)s->n_total > r->original ? r->inv_long : r->inv;
}

static void fill_row(const struct rope *r, const struct batch_seq *s, size_t pos, float *cos_row,
                     float *sin_row)
{
    size_t n = pos + 1 > s->n_prompt ? pos + 1 : s->n_prompt;
    const float *inv = inverse(r, s);

    for (size_t i = 0; i < r->half; i++) {
        float freq = r->type == ROPE_DYNAMIC && (double)n > r->original ? dynamic_inv(r, n, i) : inv[i];
        double angle = (double)((float)pos * freq);

        cos_row[i] = (float)cos(angle) * r->attention_factor;
        sin_row[i] = (float)sin(angle) * r->attention_factor;
    }
}

void rope_fill(const struct rope *r, const struct batch *b, size_t begin, size_t end, float *cos_rows,
               float *sin_rows)
{
    for (size_t q = 0; q < b->n_seqs; q++) {
        const struct batch_seq *s = &b->seq[q];
        size_t from = s->first > begin ? s->first : begin;
        size_t to = s->first + s->n < end ? s->first + s->n : end;

        for (size_t t = from; t < to; t++)
            fill_row(r, s, s->pos + (t - s->first), cos_rows + t * r->half, sin_rows + t * r->half);
    }
}

void rope_back(const struct rope *r, const struct batch *b, size_t begin, size_t end, size_t at,
               float *cos_rows, float *sin_rows)
{
    for (size_t q = 0; q < b->n_seqs; q++) {
        const struct batch_seq *s = &b->seq[q];
        const float *inv = inverse(r, s);
        size_t from = s->first > begin ? s->first : begin;
        size_t to = s->first + s->n < end ? s->first + s->n : end;

        for (size_t t = from; t < to; t++) {
            size_t pos = s->pos + (t - s->first);

            for (size_t i = 0; i < r->half && pos > at; i++) { /* both angles are rounded as in fill_row() */
                double angle = (double)((float)at * inv[i]) - (double)((float)pos * inv[i]);

                cos_rows[t * r->half + i] = (float)cos(angle);
                sin_rows[t * r->half + i] = (float)sin(angle);
            }
        }
    }
}
