/* identity.c - XXH3-64 over what makes a model compute what it computes. */
#include "engine/identity.h"

#include <string.h>
#include <xxhash.h>

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    return XXH3_64bits_withSeed(p, n, h);
}

static uint64_t mix_tensor(uint64_t h, const struct model_tensor *t)
{
    const struct view *v = t->view;
    uint64_t shape[VIEW_MAX_DIMS + 2] = {(uint64_t)v->dtype, (uint64_t)v->n_dims};
    size_t bytes = view_bytes(v), n = bytes < MODEL_END_BYTES ? bytes : MODEL_END_BYTES;

    for (int d = 0; d < v->n_dims; d++)
        shape[2 + d] = v->shape[d];
    h = mix(h, v->name, strlen(v->name));
    h = mix(h, shape, sizeof(shape));
    if (!view_is_contiguous(v))
        return h;
    h = mix(h, t->end[0], n);
    return mix(h, t->end[1], n);
}

static uint64_t mix_rope(uint64_t h, const struct rope *r)
{
    uint64_t kind[2] = {(uint64_t)r->type, r->dim};
    double number[4] = {r->theta, r->factor, r->original, (double)r->attention_factor};

    h = mix(h, kind, sizeof(kind));
    h = mix(h, number, sizeof(number));
    if (r->inv)
        h = mix(h, r->inv, r->half * sizeof(float));
    if (r->inv_long)
        h = mix(h, r->inv_long, r->half * sizeof(float));
    return h;
}

uint64_t identity_of(const struct model *m)
{
    const struct model_info *i = &m->info;
    uint64_t size[] = {i->n_layers, i->hidden, i->n_heads, i->n_kv, i->head_dim, i->inner, i->vocab};
    uint64_t h = mix(0, m->arch->class_name, strlen(m->arch->class_name));

    h = mix(h, size, sizeof(size));
    for (size_t l = 0; l < i->n_layers && i->window; l++)
        h = mix(h, &i->window[l], sizeof(i->window[l]));
    for (size_t l = 0; l < i->n_layers && i->sink; l++)
        h = mix(h, &i->sink[l], sizeof(i->sink[l]));
    for (size_t r = 0; r < i->n_ropes; r++)
        h = mix_rope(h, &i->rope[r]);
    for (size_t t = 0; t < m->n_tensors; t++)
        h = mix_tensor(h, &m->tensor[t]);
    return h;
}
