/* block_rope.c - block_rope(): the rotary part of config.json, in its old and its new style.
 *
 * Follows transformers 5: rope_parameters, or rope_scaling with rope_theta beside it; the type stands in
 * rope_type or type; original_max_position_embeddings at the top level wins over the one inside.
 */
#include <string.h>

#include "model/block.h"

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

static int read_type(struct model *m, struct config *c, const struct block_rope *d, enum rope_type *type,
                     struct err *e)
{
    const char *name, *old;
    int rc;

    if ((rc = config_str(c, "type", "default", &old, e)) != 0 ||
        (rc = config_str(c, "rope_type", old, &name, e)) != 0)
        return rc;
    if (d->phi && (strcmp(name, "su") == 0 || strcmp(name, "yarn") == 0))
        name = "longrope";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, name) == 0) {
            *type = types[i].type;
            return 0;
        }
    return err_set(e, ERR_UNSUPPORTED, "%s: rope type \"%s\" is not known", config_path(m->config), name);
}

/* factor, and the length the type counts from. */
static int read_lengths(struct model *m, struct config *c, struct rope_params *p, struct err *e)
{
    double inside, top;
    int rc;

    p->max_pos = (double)m->info.max_len;
    if ((rc = config_float(c, "factor", 0, 1e-6, 1e6, &p->factor, e)) != 0 ||
        (rc = config_float(c, "original_max_position_embeddings", p->max_pos, 1, 1e9, &inside, e)) != 0 ||
        (rc = config_float(m->config, "original_max_position_embeddings", 0, 1, 1e9, &top, e)) != 0)
        return rc;
    p->original = p->type == ROPE_DYNAMIC ? p->max_pos : top > 0 ? top : inside;
    if (p->factor > 0)
        return 0;
    if (p->type == ROPE_PROPORTIONAL)
        p->factor = 1;
    if (p->type == ROPE_LINEAR || p->type == ROPE_DYNAMIC || p->type == ROPE_LLAMA3)
        return err_set(e, ERR_INPUT, "%s: this rope type needs a factor", config_path(m->config));
    if (p->type == ROPE_YARN)
        p->factor = p->max_pos / p->original;
    return 0;
}

static int read_bands(struct model *m, struct config *c, struct rope_params *p, struct err *e)
{
    int rc;

    if (p->type == ROPE_LLAMA3) {
        if ((rc = config_float(c, "low_freq_factor", 0, 1e-6, 1e6, &p->low_freq, e)) != 0 ||
            (rc = config_float(c, "high_freq_factor", 0, 1e-6, 1e6, &p->high_freq, e)) != 0)
            return rc;
        if (p->low_freq == 0 || p->high_freq < p->low_freq)
            return err_set(e, ERR_INPUT, "%s: rope type llama3 needs low_freq_factor <= high_freq_factor",
                           config_path(m->config));
    }
    if (p->type != ROPE_YARN)
        return 0;
    if ((rc = config_float(c, "beta_fast", 32, 0, 1e6, &p->beta_fast, e)) != 0 ||
        (rc = config_float(c, "beta_slow", 1, 0, 1e6, &p->beta_slow, e)) != 0 ||
        (rc = config_float(c, "mscale", 0, 0, 1e6, &p->mscale, e)) != 0 ||
        (rc = config_float(c, "mscale_all_dim", 0, 0, 1e6, &p->mscale_all, e)) != 0 ||
        (rc = config_bool(c, "truncate", true, &p->truncate, e)) != 0)
        return rc;
    if (p->beta_fast == 0)
        p->beta_fast = 32;
    if (p->beta_slow == 0)
        p->beta_slow = 1;
    return 0;
}

/* Of a proportional rope: how many dims turn, an even number. */
static int read_turned(struct config *c, struct rope_params *p, struct err *e)
{
    double part;
    int rc;

    if (p->type != ROPE_PROPORTIONAL)
        return 0;
    if ((rc = config_float(c, "partial_rotary_factor", 1, 0, 1, &part, e)) == 0)
        p->turned = 2 * (size_t)(part * (double)p->dim / 2);
    return rc;
}

static int read_factors(struct model *m, struct config *c, struct rope_params *p, double *room, struct err *e)
{
    size_t half = p->dim / 2, n_short, n_long;
    int rc;

    if (p->type != ROPE_LONGROPE)
        return 0;
    if ((rc = config_floats(c, "short_factor", room, half + 1, &n_short, e)) != 0 ||
        (rc = config_floats(c, "long_factor", room + half + 1, half + 1, &n_long, e)) != 0)
        return rc;
    if (n_short != half || n_long != half)
        return err_set(e, ERR_INPUT, "%s: longrope needs %zu short and %zu long factors, found %zu and %zu",
                       config_path(m->config), half, half, n_short, n_long);
    p->short_factor = room;
    p->long_factor = room + half + 1;
    return 0;
}

/* Types that stretch the context beyond max_position_embeddings: as vLLM derives it, so that a stretched
 * model can be used to its end without a flag. */
static void stretch_context(struct model_info *i, const struct rope_params *p)
{
    double from = p->type == ROPE_YARN ? p->original : p->max_pos;
    bool stretches = p->type == ROPE_LINEAR || p->type == ROPE_DYNAMIC || p->type == ROPE_YARN;

    if (stretches && from * p->factor > p->max_pos && from * p->factor <= 1 << 24)
        i->max_len = (size_t)(from * p->factor);
}

/* The object that holds the type, or NULL, and theta. */
static int find_object(struct model *m, const struct block_rope *d, struct config **c, double *theta,
                       struct err *e)
{
    struct config *now = config_sub(m->config, "rope_parameters"), *old = NULL;

    if (now && d->sub)
        now = config_sub(now, d->sub);
    if (!d->unscaled)
        old = config_sub(m->config, "rope_scaling");
    *c = now ? now : old;
    return config_float(m->config, d->theta_key ? d->theta_key : "rope_theta", d->theta, 1e-3, 1e15, theta,
                        e);
}

/* How many dims turn. */
static int read_dims(struct model *m, struct config *c, const struct block_rope *d, size_t *dim,
                     struct err *e)
{
    double top = 1, part;
    int rc;

    *dim = d->head_dim;
    if (d->partial) {
        if ((rc = config_float(m->config, "partial_rotary_factor", 1, 1e-3, 1, &top, e)) != 0)
            return rc;
        part = top;
        if (c && (rc = config_float(c, "partial_rotary_factor", top, 1e-3, 1, &part, e)) != 0)
            return rc;
        *dim = (size_t)((double)d->head_dim * part);
    }
    if (*dim % 2 != 0 || *dim < 2)
        return err_set(e, ERR_INPUT,
                       "%s: %zu dims of a head of %zu would turn: rotary positions turn dims in pairs",
                       config_path(m->config), *dim, d->head_dim);
    return 0;
}

int block_rope(struct model *m, const struct block_rope *d, struct rope *r, struct err *e)
{
    struct rope_params p = {.type = ROPE_DEFAULT, .attention_factor = -1};
    double *room = arena_zalloc(&m->arena, d->head_dim + 2, sizeof(double)), theta;
    struct config *c;
    int rc;

    if (!room)
        return err_nomem(e, "rotary factors");
    if ((rc = find_object(m, d, &c, &theta, e)) != 0 || (rc = read_dims(m, c, d, &p.dim, e)) != 0)
        return rc;
    p.theta = theta;
    if (c && ((rc = read_type(m, c, d, &p.type, e)) != 0 ||
              (rc = config_float(c, "rope_theta", theta, 1e-3, 1e15, &p.theta, e)) != 0 ||
              (rc = config_float(c, "attention_factor", -1, 0, 1e6, &p.attention_factor, e)) != 0 ||
              (p.type != ROPE_DEFAULT && (rc = read_lengths(m, c, &p, e)) != 0) ||
              (rc = read_bands(m, c, &p, e)) != 0 || (rc = read_turned(c, &p, e)) != 0 ||
              (rc = read_factors(m, c, &p, room, e)) != 0))
        return rc;
    if (p.type == ROPE_DYNAMIC && p.dim < 4)
        return err_set(e, ERR_UNSUPPORTED, "%s: dynamic rope needs a head of at least 4 dims",
                       config_path(m->config));
    if (!d->fixed_length)
        stretch_context(&m->info, &p);
    return rope_open(r, &p, e);
}
