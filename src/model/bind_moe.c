/* bind_moe.c - binds mixtures of experts in all layouts that checkpoints use.
 *
 * Experts that are stored apart are ordinary linears. Stacked experts are one tensor for all experts of a
 * layer. Each expert is bound as a view of that tensor, and gate and up as views of the expert's rows (every
 * second row, if they are interleaved). The packed form is therefore the same for all layouts.
 */
#include <string.h>

#include "base/mem.h"
#include "ckpt/weights.h"
#include "model/bind.h"
#include "model/model.h"
#include "tensor/view.h"

void bind_moe_close(struct moe *w)
{
    if (!w)
        return;
    linear_close(&w->router);
    for (size_t x = 0; w->expert && x < w->n_experts; x++) {
        linear_close(&w->expert[x].up);
        linear_close(&w->expert[x].down);
    }
    mem_free(w->expert);
    mem_free(w);
}

void bind_moe_sizes(struct model *m, struct bind_moe *d, const char *const keys[2], const char *top_key)
{
    for (int i = 1; i >= 0; i--)
        if (keys[i])
            d->n_experts = bind_int(m, keys[i], d->n_experts, 1, MOE_MAX_EXPERTS);
    d->top_k = bind_int(m, top_key, d->top_k, 1, MOE_MAX_TOP_K);
    if (d->top_k > d->n_experts)
        bind_refuse(m, ERR_INPUT, "%s is %zu, but there are %zu experts", top_key, d->top_k, d->n_experts);
}

static void open_apart(struct model *m, struct moe *w, const char *at, const struct bind_moe *d)
{
    size_t E = m->info.hidden, I = d->inner;
    unsigned how = BIND_EXPERT | (d->bias ? BIND_BIAS : 0);

    for (size_t x = 0; x < d->n_experts && !m->rc; x++) {
        const char *own = bind_name(m, "%s%s.%zu.", at, d->module, x);
        struct bind_linear up = {.name = "gate_up_proj",
                                 .kind = OP_MLP,
                                 .part = {{d->gate, I}, {d->up, I}},
                                 .k = E,
                                 .how = how | (d->like.limit > 0 ? 0 : BIND_PAIRED)};
        struct bind_linear down = {.kind = OP_MLP, .part = {{d->down, E}}, .k = I, .how = how};

        bind_linear(m, &w->expert[x].up, own, &up);
        bind_linear(m, &w->expert[x].down, own, &down);
    }
}

/* A stacked matrix [experts, n, k]. */
struct stack {
    /* The module ("...experts"), the matrix ("gate_up_proj"), and NAME, both joined by a dot. */
    const char *at, *part;
    const char *name;
    const struct view *weight, *bias;
    /* The scales of MXFP4; otherwise NULL. */
    const struct view *scales;
    size_t n, k;
};

/* Binds the tensors of S: NAME, or NAME_blocks and NAME_scales, and NAME_bias if D has biases. */
static void find_stack(struct model *m, const struct bind_moe *d, struct stack *s)
{
    size_t X = d->n_experts, n = s->n, k = s->k;
    struct bind_shape plain = {.n_dims = 3, .size = {X, n, k}}, bias = {.n_dims = 2, .size = {X, n}};
    struct bind_shape blocks = {.n_dims = 4, .size = {X, n, k / 32, 16}, .bytes = true};
    struct bind_shape scales = {.n_dims = 3, .size = {X, n, k / 32}, .bytes = true};
    const char *packed = bind_name(m, "%s_blocks", s->name);

    if (d->bias)
        s->bias = bind_tensor(m, bind_name(m, "%s_bias", s->name), &bias, "bias");
    if (m->rc)
        return;
    if (!weights_has(m->weights, packed)) {
        if (d->stored == BIND_EXPERTS_TRANSPOSED) {
            plain.size[1] = k;
            plain.size[2] = n;
        }
        s->weight = bind_tensor(m, s->name, &plain, "linear");
        return;
    }
    if (k % 32 != 0)
        m->rc = err_set(m->e, ERR_INPUT, "%s: tensor %s has rows of %zu elements, expected a multiple of 32",
                        weights_path(m->weights), packed, k);
    s->weight = bind_tensor(m, packed, &blocks, "linear");
    s->scales = bind_tensor(m, bind_name(m, "%s_scales", s->name), &scales, "scales");
    if (!m->rc && (!view_is_contiguous(s->weight) || !view_is_contiguous(s->scales)))
        m->rc =
            err_set(m->e, ERR_UNSUPPORTED, "%s: tensor %s is not stored row by row", s->weight->file, packed);
}

/* Returns N rows FIRST, FIRST + STEP, ... of expert X as [N, k]. */
static struct view rows_of(const struct bind_moe *d, const struct stack *s, size_t x, size_t first,
                           size_t step, size_t n)
{
    struct view v = view_at(s->weight, x);

    if (!s->scales && d->stored == BIND_EXPERTS_TRANSPOSED)
        v = view_transposed(&v);
    v = view_slice(&v, first, step, n);
    if (s->scales) { /* a byte holds two elements */
        v.dtype = DT_MXFP4;
        v.n_dims = 2;
        v.shape[1] = s->k;
        v.stride[0] *= 2;
        v.stride[1] = 1;
    }
    return v;
}

/* Returns rows FIRST, FIRST + STEP, ... of expert X in the biases or scales V; NULL if V is NULL. */
static const struct view *slice_of(struct model *m, const struct view *v, size_t x, size_t first, size_t step,
                                   size_t n)
{
    struct view own;

    if (!v)
        return NULL;
    own = view_at(v, x);
    own = view_slice(&own, first, step, n);
    return bind_keep(m, &own);
}

/* Binds expert X of S as W. N_PARTS is 2 for gate and up, otherwise 1. */
static void open_one(struct model *m, struct linear *w, const struct bind_moe *d, const struct stack *s,
                     size_t x, size_t n_parts)
{
    struct linear_desc desc = {.name = bind_name(m, "%s.%zu.%s", s->at, x, s->part),
                               .kind = OP_MLP,
                               .n_parts = n_parts,
                               .paired = n_parts == 2 && !(d->like.limit > 0),
                               .dtype = s->scales ? m->opt.dtype
                                                  : bind_dtype(m, OP_MLP), /* MXFP4 is never requantized */
                               .is_expert = true,
                               .kern = m->opt.kern};
    size_t n = s->n / n_parts, step = n_parts == 2 && d->interleaved ? 2 : 1;

    for (size_t p = 0; p < n_parts; p++) {
        size_t first = step == 2 ? p : p * n;
        struct view v = rows_of(d, s, x, first, step, n);

        desc.part[p] = bind_keep(m, &v);
        desc.scale[p] = slice_of(m, s->scales, x, first, step, n);
        desc.bias[p] = slice_of(m, s->bias, x, first, step, n);
    }
    bind_pack(m, w, &desc, m->opt.backend[OP_MLP]);
}

static void record_stack(struct model *m, const struct stack *s, const struct linear *l, size_t n)
{
    bind_record(m, s->weight, "linear", l, n);
    if (s->scales)
        bind_record(m, s->scales, "scales", l, n);
    if (s->bias)
        bind_record(m, s->bias, "bias", l, n);
}

/* Returns D, adapted to the names that the layer AT uses. transformers 5 saves experts under names that all
 * models share, and may stack the experts. */
static struct bind_moe as_found(struct model *m, const char *at, const struct bind_moe *d)
{
    const char *router = bind_name(m, "%smlp.gate.weight", at);
    const char *stack = bind_name(m, "%smlp.experts.gate_up_proj", at);
    struct bind_moe own = *d;

    if (d->stored != BIND_EXPERTS_APART || m->rc)
        return own;
    if (weights_has(m->weights, router)) {
        own.router = "mlp.gate";
        own.module = "mlp.experts";
    }
    if (weights_has(m->weights, stack)) {
        own.module = "mlp.experts";
        own.stored = BIND_EXPERTS_STACKED;
    }
    return own;
}

static void open_stacked(struct model *m, struct moe *w, const char *at, const struct bind_moe *d)
{
    size_t E = m->info.hidden, X = d->n_experts;
    const char *own = bind_name(m, "%s%s", at, d->module);
    struct stack up = {.at = own, .part = "gate_up_proj", .n = 2 * d->inner, .k = E};
    struct stack down = {.at = own, .part = "down_proj", .n = E, .k = d->inner};

    up.name = bind_name(m, "%s.%s", own, up.part);
    down.name = bind_name(m, "%s.%s", own, down.part);
    find_stack(m, d, &up);
    find_stack(m, d, &down);
    for (size_t x = 0; x < X && !m->rc; x++) {
        open_one(m, &w->expert[x].up, d, &up, x, 2);
        open_one(m, &w->expert[x].down, d, &down, x, 1);
    }
    record_stack(m, &up, &w->expert[0].up, X);
    record_stack(m, &down, &w->expert[0].down, X);
}

void bind_moe(struct model *m, struct moe **out, const char *at, const struct bind_moe *d)
{
    const struct bind_moe own = as_found(m, at, d);
    struct bind_linear router = {.kind = OP_MLP,
                                 .part = {{own.router, d->n_experts}},
                                 .k = m->info.hidden,
                                 .how = (d->bias ? BIND_BIAS : 0) | BIND_FP32};
    struct model_info *i = &m->info;
    struct moe *w = *out = m->rc ? NULL : mem_zalloc(1, sizeof(*w), MEM_MODEL);

    if (w) {
        *w = d->like;
        w->n_experts = d->n_experts;
        w->top_k = d->top_k;
        w->inner = d->inner;
        w->expert = mem_zalloc(d->n_experts, sizeof(*w->expert), MEM_MODEL);
    }
    if (!m->rc && (!w || !w->expert))
        m->rc = err_nomem(m->e, "a mixture of experts");
    if (m->rc)
        return;
    i->n_experts = d->n_experts > i->n_experts ? d->n_experts : i->n_experts;
    i->top_k = d->top_k > i->top_k ? d->top_k : i->top_k;
    i->expert_inner = d->inner > i->expert_inner ? d->inner : i->expert_inner;
    bind_linear(m, &w->router, at, &router);
    (own.stored == BIND_EXPERTS_APART ? open_apart : open_stacked)(m, w, at, &own);
}
