/* block_moe.c - binds mixtures of experts, however their tensors are stored.
 *
 * Experts that lie apart are linears like any other. Stacked ones are one tensor for all experts of a layer:
 * each expert is a view into it, gate and up are views of its rows (every second one where they are
 * interleaved), so that the packed form is the same for all and the ops know one order only.
 */
#include "model/block_moe.h"

#include <string.h>

#include "base/mem.h"

void block_moe_close(struct moe *w)
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

int block_moe_norm(struct model *m, struct norm *w, const char *module, double eps, struct err *e)
{
    int rc = block_norm(m, w, module, m->info.hidden, eps, false, false, 0, e);

    w->wide = true;
    return rc;
}

int block_moe_sizes(struct model *m, struct block_moe_sizes *s, const char *const keys[2],
                    const char *top_key, struct err *e)
{
    int rc;

    for (int i = 1; i >= 0; i--)
        if (keys[i] &&
            (rc = config_int(m->config, keys[i], s->n_experts, 1, MOE_MAX_EXPERTS, &s->n_experts, e)) != 0)
            return rc;
    if ((rc = config_int(m->config, top_key, s->top_k, 1, MOE_MAX_TOP_K, &s->top_k, e)) != 0)
        return rc;
    if (s->top_k > s->n_experts)
        return err_set(e, ERR_INPUT, "%s: %s is %lld, but there are %lld experts", config_path(m->config),
                       top_key, (long long)s->top_k, (long long)s->n_experts);
    return 0;
}

static int open_apart(struct model *m, struct moe *w, const struct block_moe *d, struct err *e)
{
    size_t E = m->info.hidden;
    int rc;

    for (size_t x = 0; x < d->n_experts; x++) {
        const char *down = block_name(m, "%s.%zu.%s", d->module, x, d->down);
        struct block_linear up = {.name = block_name(m, "%s.%zu.gate_up_proj", d->module, x),
                                  .kind = OP_MLP,
                                  .part = {{block_name(m, "%s.%zu.%s", d->module, x, d->gate), d->inner},
                                           {block_name(m, "%s.%zu.%s", d->module, x, d->up), d->inner}},
                                  .n_parts = 2,
                                  .k = E,
                                  .bias = d->bias};
        struct block_linear back = {
            .name = down, .kind = OP_MLP, .part = {{down, E}}, .n_parts = 1, .k = d->inner, .bias = d->bias};

        if ((rc = block_linear(m, &w->expert[x].up, &up, e)) != 0 ||
            (rc = block_linear(m, &w->expert[x].down, &back, e)) != 0)
            return rc;
    }
    return 0;
}

/* One stacked matrix [experts, n, k]. */
struct stack {
    const char *name;
    const struct view *weight, *bias;
    const struct view *scales; /* of MXFP4, else NULL */
    size_t n, k;
};

/* Finds and proves the tensors NAME (or NAME_blocks, NAME_scales) and NAME_bias. */
static int find_stack(struct model *m, const struct block_moe *d, struct stack *s, struct err *e)
{
    size_t X = d->n_experts, n = s->n, k = s->k;
    struct block_shape plain = {.n_dims = 3, .size = {X, n, k}}, bias = {.n_dims = 2, .size = {X, n}};
    struct block_shape blocks = {.n_dims = 4, .size = {X, n, k / 32, 16}, .bytes = true};
    struct block_shape scales = {.n_dims = 3, .size = {X, n, k / 32}, .bytes = true};
    const char *packed = block_name(m, "%s_blocks", s->name);
    int rc;

    if (!s->name || !packed)
        return err_nomem(e, "a tensor name");
    if (d->bias &&
        (rc = block_tensor_of(m, block_name(m, "%s_bias", s->name), &bias, "bias", &s->bias, e)) != 0)
        return rc;
    if (!weights_has(m->weights, packed)) {
        if (d->stored == BLOCK_EXPERTS_TURNED) {
            plain.size[1] = k;
            plain.size[2] = n;
        }
        return block_tensor_of(m, s->name, &plain, "linear", &s->weight, e);
    }
    if (k % 32 != 0)
        return err_set(e, ERR_INPUT, "%s: %s: rows of %zu elements are not whole blocks of 32",
                       weights_path(m->weights), packed, k);
    if ((rc = block_tensor_of(m, packed, &blocks, "linear", &s->weight, e)) != 0 ||
        (rc = block_tensor_of(m, block_name(m, "%s_scales", s->name), &scales, "scales", &s->scales, e)) != 0)
        return rc;
    if (!view_is_contiguous(s->weight) || !view_is_contiguous(s->scales))
        return err_set(e, ERR_UNSUPPORTED, "%s: %s is not stored row by row", s->weight->file, packed);
    return 0;
}

/* Rows FIRST, FIRST + STEP, ... of expert X: [n, k]. */
static struct view rows_of(const struct block_moe *d, const struct stack *s, size_t x, size_t first,
                           size_t step, size_t n)
{
    struct view v = view_at(s->weight, x);

    if (!s->scales && d->stored == BLOCK_EXPERTS_TURNED)
        v = view_transposed(&v);
    v = view_slice(&v, first, step, n);
    if (s->scales) { /* bytes of two elements each */
        v.dtype = DT_MXFP4;
        v.n_dims = 2;
        v.shape[1] = s->k;
        v.stride[0] *= 2;
        v.stride[1] = 1;
    }
    return v;
}

/* Binds expert X of S to W. N_PARTS 2: gate and up. */
static int open_one(struct model *m, struct linear *w, const struct block_moe *d, const struct stack *s,
                    size_t x, size_t n_parts, struct err *e)
{
    struct linear_desc desc = {
        .name = s->name, .kind = OP_MLP, .n_parts = n_parts, .dtype = m->opt.dtype, .kern = m->opt.kern};
    size_t n = s->n / n_parts, step = n_parts == 2 && d->interleaved ? 2 : 1;
    bool kept = true;

    for (size_t p = 0; p < n_parts; p++) {
        size_t first = step == 2 ? p : p * n;

        struct view v = rows_of(d, s, x, first, step, n);

        kept = (desc.part[p] = block_keep(m, &v)) != NULL && kept;
        if (s->scales) {
            v = view_at(s->scales, x);
            v = view_slice(&v, first, step, n);
            kept = (desc.scale[p] = block_keep(m, &v)) != NULL && kept;
        }
        if (s->bias) {
            v = view_at(s->bias, x);
            v = view_slice(&v, first, step, n);
            kept = (desc.bias[p] = block_keep(m, &v)) != NULL && kept;
        }
    }
    return kept ? block_pack(m, w, &desc, m->opt.backend[OP_MLP], e) : err_nomem(e, s->name);
}

static int record_stack(struct model *m, const struct stack *s, const struct linear *l, size_t n,
                        struct err *e)
{
    int rc = block_record(m, s->weight, "linear", l, n, e);

    if (rc == 0 && s->scales)
        rc = block_record(m, s->scales, "scales", l, n, e);
    if (rc == 0 && s->bias)
        rc = block_record(m, s->bias, "bias", l, n, e);
    return rc;
}

static int open_stacked(struct model *m, struct moe *w, const struct block_moe *d, struct err *e)
{
    struct stack up = {
        .name = block_name(m, "%s.gate_up_proj", d->module), .n = 2 * d->inner, .k = m->info.hidden};
    struct stack down = {
        .name = block_name(m, "%s.down_proj", d->module), .n = m->info.hidden, .k = d->inner};
    int rc;

    if ((rc = find_stack(m, d, &up, e)) != 0 || (rc = find_stack(m, d, &down, e)) != 0)
        return rc;
    for (size_t x = 0; x < d->n_experts; x++)
        if ((rc = open_one(m, &w->expert[x].up, d, &up, x, 2, e)) != 0 ||
            (rc = open_one(m, &w->expert[x].down, d, &down, x, 1, e)) != 0)
            return rc;
    if ((rc = record_stack(m, &up, &w->expert[0].up, d->n_experts, e)) != 0)
        return rc;
    return record_stack(m, &down, &w->expert[0].down, d->n_experts, e);
}

int block_moe(struct model *m, struct moe **out, const struct block_moe *d, struct err *e)
{
    struct block_linear router = {.name = d->router,
                                  .kind = OP_MLP,
                                  .part = {{d->router, d->n_experts}},
                                  .n_parts = 1,
                                  .k = m->info.hidden,
                                  .bias = d->bias,
                                  .fp32 = true};
    struct model_info *i = &m->info;
    struct moe *w = *out = mem_zalloc(1, sizeof(*w), MEM_MODEL);
    int rc;

    if (!w)
        return err_nomem(e, "a mixture of experts");
    w->name = d->module;
    w->n_experts = d->n_experts;
    w->top_k = d->top_k;
    w->inner = d->inner;
    w->expert = mem_zalloc(d->n_experts, sizeof(*w->expert), MEM_MODEL);
    if (!w->expert || !d->module)
        return err_nomem(e, "the experts");
    i->n_experts = d->n_experts > i->n_experts ? d->n_experts : i->n_experts;
    i->top_k = d->top_k > i->top_k ? d->top_k : i->top_k;
    i->expert_inner = d->inner > i->expert_inner ? d->inner : i->expert_inner;
    if ((rc = block_linear(m, &w->router, &router, e)) != 0)
        return rc;
    return d->stored == BLOCK_EXPERTS_APART ? open_apart(m, w, d, e) : open_stacked(m, w, d, e);
}
