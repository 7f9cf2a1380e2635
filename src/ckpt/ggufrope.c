/* ggufrope.c - the rotary keys and factor tensors of GGUF as rope_theta and rope_scaling.
 *
 * GGUF has no rope type llama3: its converter writes the factor by which each frequency is divided
 * (rope_freqs). Where these are the factors of the usual settings, that type comes back; any others become a
 * longrope whose two lists are the same, which divides by them too.
 */
#include <math.h>
#include <string.h>

#include "ckpt/ggufmake.h"

enum { MAX_HALF = 256 };

/* The factors in tensor NAME: true and HALF of them in out[], or false where it is not there. */
static bool read_factors(struct ggufmake *m, const char *name, int64_t half, float *out)
{
    const struct gguf_tensor *t = m->rc ? NULL : ggufset_tensor(m->s, name);
    char shape[96];

    if (!t)
        return false;
    if (half > MAX_HALF || t->view.n_dims != 1 || t->view.shape[0] != (size_t)half ||
        t->view.dtype != DT_F32) {
        ggufmake_fail(
            m, ERR_INPUT, "tensor %s has the shape %s and type %s, expected are %lld factors in F32", name,
            view_shape_text(&t->view, shape, sizeof(shape)), dtype_name(t->view.dtype), (long long)half);
        return false;
    }
    view_row_f32(&t->view, 0, out);
    for (int64_t i = 0; i < half; i++)
        if (!(out[i] > 0) || !isfinite(out[i])) {
            ggufmake_fail(m, ERR_INPUT, "factor %lld of tensor %s is %g, expected is a number above 0",
                          (long long)i, name, (double)out[i]);
            return false;
        }
    return true;
}

static json_t *list(const float *v, int64_t n)
{
    json_t *l = json_array();

    for (int64_t i = 0; l && i < n; i++)
        if (json_array_append_new(l, json_real((double)v[i])) != 0) {
            json_decref(l);
            l = NULL;
        }
    return l;
}

/* The object rope_scaling of type NAME, already in the config; NULL after an error. */
static struct ggufmake scaling(struct ggufmake *m, const char *name)
{
    struct ggufmake in = *m;

    in.o = m->rc ? NULL : json_object();
    ggufmake_put(m, "rope_scaling", in.o);
    in.rc = m->rc;
    ggufmake_put_str(&in, "rope_type", name);
    return in;
}

/* What the type llama3 divides frequency I by: factor, low 1, high 4, length ORIGINAL. */
static double llama3_factor(double theta, int64_t i, int64_t head_dim, double factor, double original)
{
    double length = 2 * M_PI * pow(theta, 2.0 * (double)i / (double)head_dim), smooth;

    if (length < original / 4)
        return 1;
    if (length > original)
        return factor;
    smooth = (original / length - 1) / 3;
    return 1 / ((1 - smooth) / factor + smooth);
}

/* The original length with which the type llama3 gives F; 0: none of the usual ones does. */
static int64_t llama3_length(const float *f, int64_t half, double theta)
{
    double factor = (double)f[half - 1];

    for (int64_t original = 64; original <= 1 << 20; original *= 2) {
        int64_t i = 0;

        while (i < half &&
               fabs(llama3_factor(theta, i, 2 * half, factor, (double)original) / (double)f[i] - 1) < 1e-5)
            i++;
        if (i == half)
            return original;
    }
    return 0;
}

static void put_freqs(struct ggufmake *m, const float *f, int64_t half, double theta, int64_t context)
{
    int64_t original = llama3_length(f, half, theta);
    struct ggufmake in = scaling(m, original ? "llama3" : "longrope");

    if (original) {
        ggufmake_put_float(&in, "factor", (double)f[half - 1]);
        ggufmake_put_float(&in, "low_freq_factor", 1);
        ggufmake_put_float(&in, "high_freq_factor", 4);
        ggufmake_put_int(&in, "original_max_position_embeddings", original);
    } else {
        ggufmake_put(&in, "short_factor", list(f, half));
        ggufmake_put(&in, "long_factor", list(f, half));
        ggufmake_put_float(&in, "attention_factor", 1);
        ggufmake_put_int(&in, "original_max_position_embeddings", context);
    }
    m->rc = in.rc;
}

static void put_longrope(struct ggufmake *m, const float *small, const float *large, int64_t half)
{
    int64_t original = ggufmake_need(m, "rope.scaling.original_context_length", 1 << 24);
    double attention = ggufmake_float(m, "rope.scaling.attn_factor", -1);
    struct ggufmake in = scaling(m, "longrope");

    ggufmake_put(&in, "short_factor", list(small, half));
    ggufmake_put(&in, "long_factor", list(large, half));
    if (attention > 0)
        ggufmake_put_float(&in, "attention_factor", attention);
    m->rc = in.rc;
    ggufmake_put_int(m, "original_max_position_embeddings", original);
}

static void put_yarn(struct ggufmake *m, int64_t context)
{
    double factor = ggufmake_float(m, "rope.scaling.factor", 0);
    int64_t original = ggufmake_int(m, "rope.scaling.original_context_length", context, 1, 1 << 24);
    double more = ggufmake_float(m, "rope.scaling.attn_factor", 1);
    double fast = ggufmake_float(m, "rope.scaling.yarn_beta_fast", 32);
    double slow = ggufmake_float(m, "rope.scaling.yarn_beta_slow", 1);
    struct ggufmake in;

    if (!(factor > 0))
        ggufmake_fail(m, ERR_INPUT, "%s.rope.scaling.type is yarn, which needs a rope.scaling.factor above 0",
                      m->a->name);
    in = scaling(m, "yarn");
    ggufmake_put_float(&in, "factor", factor);
    ggufmake_put_float(&in, "beta_fast", fast);
    ggufmake_put_float(&in, "beta_slow", slow);
    if (more != 1)
        ggufmake_put_float(&in, "attention_factor", more * (0.1 * log(factor) + 1));
    if (m->a->id == GGUFARCH_GPT_OSS)
        ggufmake_put_bool(&in, "truncate", false);
    ggufmake_put_int(&in, "original_max_position_embeddings", original);
    m->rc = in.rc;
}

static void put_linear(struct ggufmake *m, double factor)
{
    struct ggufmake in;

    if (m->rc || factor == 1)
        return;
    if (!(factor > 0))
        ggufmake_fail(m, ERR_INPUT, "%s.rope.scaling.factor is %g, expected is a number above 0", m->a->name,
                      factor);
    in = scaling(m, "linear");
    ggufmake_put_float(&in, "factor", factor);
    m->rc = in.rc;
}

static void put_scaling(struct ggufmake *m, int64_t context)
{
    struct jp_str type = ggufmake_text(m, "rope.scaling.type");

    if (m->rc)
        return;
    if (jp_is(&type, "yarn"))
        put_yarn(m, context);
    else if (jp_is(&type, "linear"))
        put_linear(m, ggufmake_float(m, "rope.scaling.factor", 1));
    else if (!type.s)
        put_linear(m, ggufmake_float(m, "rope.scale_linear", 1));
    else if (!jp_is(&type, "none"))
        ggufmake_fail(m, ERR_UNSUPPORTED, "%s.rope.scaling.type %.*s is not supported", m->a->name,
                      type.n < 60 ? (int)type.n : 60, type.s);
}

/* A part of the head turns: the ratio whose product with HEAD_DIM is DIM also when it is cut off. */
static void put_partial(struct ggufmake *m, int64_t head_dim, int64_t dim)
{
    double ratio = (double)dim / (double)head_dim;

    if (m->rc || dim == head_dim)
        return;
    if (m->a->id != GGUFARCH_PHI3)
        ggufmake_fail(m, ERR_UNSUPPORTED,
                      "%s.rope.dimension_count is %lld of %lld dims of a head, which this "
                      "architecture does not do",
                      m->a->name, (long long)dim, (long long)head_dim);
    if ((int64_t)((double)head_dim * ratio) < dim)
        ratio = nextafter(ratio, 2);
    ggufmake_put_float(m, "partial_rotary_factor", ratio);
}

void ggufrope_put(struct ggufmake *m, int64_t head_dim, int64_t context)
{
    int64_t dim = ggufmake_int(m, "rope.dimension_count", head_dim, 2, head_dim);
    double theta = ggufmake_float(m, "rope.freq_base", 10000);
    float freqs[MAX_HALF], small[MAX_HALF], large[MAX_HALF];
    bool has_small, has_large;

    ggufmake_put_float(m, "rope_theta", theta);
    put_partial(m, head_dim, dim);
    has_small = read_factors(m, "rope_factors_short.weight", dim / 2, small);
    has_large = read_factors(m, "rope_factors_long.weight", dim / 2, large);
    if (has_small && has_large) {
        ggufmake_text(m, "rope.scaling.type");
        put_longrope(m, small, large, dim / 2);
    } else if (has_small || has_large) {
        ggufmake_fail(m, ERR_INPUT,
                      "of the tensors rope_factors_short.weight and rope_factors_long.weight one is missing");
    } else if (read_factors(m, "rope_freqs.weight", dim / 2, freqs)) {
        put_freqs(m, freqs, dim / 2, theta, context);
    } else {
        put_scaling(m, context);
    }
}
