/* bind_rope.c - reads the parameters of RoPE from config.json, in the old and the new style of transformers.
 *
 * As in transformers 5, the parameters are in rope_parameters (new style), or in rope_scaling and rope_theta
 * (old style). The type is in rope_type or type. original_max_position_embeddings at the top level of the
 * config has precedence over the same key inside the object.
 */
#include <string.h>

#include "ckpt/config.h"
#include "model/bind.h"
#include "model/model.h"
#include "ops/rope.h"

static const struct {
    const char *name;
    enum rope_type type;
} types[] = {{"default", ROPE_DEFAULT},
             {"linear", ROPE_LINEAR},
             {"dynamic", ROPE_DYNAMIC},
             {"llama3", ROPE_LLAMA3},
             {"yarn", ROPE_YARN},
             {"longrope", ROPE_LONGROPE},
             {"proportional", ROPE_PROPORTIONAL}};

/* Reads the number KEY of the object C. */
static double number(struct model *m, struct config *c, const char *key, double def, double lo, double hi)
{
    double v = def;

    if (!m->rc)
        m->rc = config_float(c, key, def, lo, hi, &v, m->e);
    return m->rc ? def : v;
}

static enum rope_type read_type(struct model *m, struct config *c, const struct bind_rope *d)
{
    const char *name, *old;

    if (m->rc || (m->rc = config_str(c, "type", "default", &old, m->e)) != 0 ||
        (m->rc = config_str(c, "rope_type", old, &name, m->e)) != 0)
        return ROPE_DEFAULT;
    if (d->phi && (strcmp(name, "su") == 0 || strcmp(name, "yarn") == 0))
        name = "longrope";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    bind_refuse(m, ERR_UNSUPPORTED, "rope type \"%s\" is not known", name);
    return ROPE_DEFAULT;
}

/* Reads the scaling factor and the original context length. */
static void read_lengths(struct model *m, struct config *c, struct rope_params *p)
{
    double inside, top;

    p->factor = number(m, c, "factor", 0, 1e-6, 1e6);
    inside = number(m, c, "original_max_position_embeddings", p->max_pos, 1, 1e9);
    top = bind_float(m, "original_max_position_embeddings", 0, 1, 1e9);
    p->original = p->type == ROPE_DYNAMIC ? p->max_pos : top > 0 ? top : inside;
    if (p->factor > 0)
        return;
    if (p->type == ROPE_PROPORTIONAL)
        p->factor = 1;
    if (p->type == ROPE_LINEAR || p->type == ROPE_DYNAMIC || p->type == ROPE_LLAMA3)
        bind_refuse(m, ERR_INPUT, "the rope's type needs a factor, but factor is missing");
    if (p->type == ROPE_YARN)
        p->factor = p->max_pos / p->original;
}

static void read_llama3(struct model *m, struct config *c, struct rope_params *p)
{
    p->low_freq = number(m, c, "low_freq_factor", 0, 1e-6, 1e6);
    p->high_freq = number(m, c, "high_freq_factor", 0, 1e-6, 1e6);
    if (p->low_freq == 0 || p->high_freq < p->low_freq)
        bind_refuse(m, ERR_INPUT, "rope type llama3 needs low_freq_factor <= high_freq_factor");
}

static void read_yarn(struct model *m, struct config *c, struct rope_params *p)
{
    p->beta_fast = number(m, c, "beta_fast", 32, 0, 1e6);
    p->beta_slow = number(m, c, "beta_slow", 1, 0, 1e6);
    p->mscale = number(m, c, "mscale", 0, 0, 1e6);
    p->mscale_all = number(m, c, "mscale_all_dim", 0, 0, 1e6);
    if (!m->rc)
        m->rc = config_bool(c, "truncate", true, &p->truncate, m->e);
    if (p->beta_fast == 0)
        p->beta_fast = 32;
    if (p->beta_slow == 0)
        p->beta_slow = 1;
}

/* Reads longrope's factors for short and for long sequences, one per pair of dims. */
static void read_longrope(struct model *m, struct config *c, struct rope_params *p, size_t head_dim)
{
    size_t half = p->dim / 2, n_short = 0, n_long = 0;
    double *room = bind_array(m, head_dim + 2, sizeof(double), "rotary factors");

    if (m->rc || (m->rc = config_floats(c, "short_factor", room, half + 1, &n_short, m->e)) != 0 ||
        (m->rc = config_floats(c, "long_factor", room + half + 1, half + 1, &n_long, m->e)) != 0)
        return;
    if (n_short != half || n_long != half)
        bind_refuse(m, ERR_INPUT, "longrope needs %zu short and %zu long factors, found %zu and %zu", half,
                    half, n_short, n_long);
    p->short_factor = room;
    p->long_factor = room + half + 1;
}

/* Sets the context length for rope types that extend it beyond max_position_embeddings, by the same rule as
 * vLLM, so that the whole context is usable without an option. */
static void stretch_context(struct model_info *i, const struct rope_params *p)
{
    double from = p->type == ROPE_YARN ? p->original : p->max_pos;
    bool stretches = p->type == ROPE_LINEAR || p->type == ROPE_DYNAMIC || p->type == ROPE_YARN;

    if (stretches && from * p->factor > p->max_pos && from * p->factor <= 1 << 24)
        i->max_len = (size_t)(from * p->factor);
}

/* Returns the object with the parameters of the rope, or NULL if the config has none. */
static struct config *find_object(struct model *m, const struct bind_rope *d)
{
    struct config *now = config_sub(m->config, "rope_parameters"), *old = NULL;

    if (now && d->sub)
        now = config_sub(now, d->sub);
    if (!d->unscaled)
        old = config_sub(m->config, "rope_scaling");
    return now ? now : old;
}

/* Returns the number of dims of a head that RoPE rotates. */
static size_t read_dims(struct model *m, struct config *c, const struct bind_rope *d, size_t head_dim)
{
    size_t dim = head_dim;

    if (d->partial) {
        double part = bind_float(m, "partial_rotary_factor", 1, 1e-3, 1);

        if (c)
            part = number(m, c, "partial_rotary_factor", part, 1e-3, 1);
        dim = (size_t)((double)head_dim * part);
    }
    if (dim % 2 != 0 || dim < 2)
        bind_refuse(m, ERR_INPUT,
                    "RoPE would rotate %zu of %zu dims of a head, expected an even number from 2 on", dim,
                    head_dim);
    return dim;
}

/* Reads the parameters of the object C into P, depending on the rope type. */
static void read_rope_object(struct model *m, struct config *c, const struct bind_rope *d, size_t head_dim,
                             struct rope_params *p)
{
    p->type = read_type(m, c, d);
    p->theta = number(m, c, "rope_theta", p->theta, 1e-3, 1e15);
    p->attention_factor = number(m, c, "attention_factor", -1, 0, 1e6);
    if (p->type != ROPE_DEFAULT)
        read_lengths(m, c, p);
    if (p->type == ROPE_LLAMA3)
        read_llama3(m, c, p);
    if (p->type == ROPE_YARN)
        read_yarn(m, c, p);
    if (p->type == ROPE_PROPORTIONAL) /* rounded down to an even number of dims */
        p->n_rotated = 2 * (size_t)(number(m, c, "partial_rotary_factor", 1, 0, 1) * (double)p->dim / 2);
    if (p->type == ROPE_LONGROPE)
        read_longrope(m, c, p, head_dim);
}

void bind_rope(struct model *m, const struct bind_rope *d)
{
    struct rope_params p = {.type = ROPE_DEFAULT, .attention_factor = -1, .max_pos = (double)m->info.max_len};
    size_t head_dim = d->head_dim ? d->head_dim : m->info.head_dim;
    struct config *c;

    if (m->rc)
        return;
    c = find_object(m, d);
    p.theta = bind_float(m, d->theta_key ? d->theta_key : "rope_theta", d->theta, 1e-3, 1e15);
    p.dim = read_dims(m, c, d, head_dim);
    if (c)
        read_rope_object(m, c, d, head_dim, &p);
    if (p.type == ROPE_DYNAMIC && p.dim < 4)
        bind_refuse(m, ERR_UNSUPPORTED, "dynamic rope needs a head of at least 4 dims");
    if (!d->fixed_length)
        stretch_context(&m->info, &p);
    bind_rope_of(m, &p);
}

void bind_rope_of(struct model *m, const struct rope_params *p)
{
    if (!m->rc && (m->rc = rope_open(&m->info.rope[m->info.n_ropes], p, m->e)) == 0)
        m->info.n_ropes++;
}
