/* block.c - binds tensors by name and proves their shapes. */
#include "model/block.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/block_moe.h"

const char *block_name(struct model *m, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ASSERT(n >= 0 && (size_t)n < sizeof(text));
    return arena_strndup(&m->arena, text, (size_t)n);
}

int block_record(struct model *m, const struct view *v, const char *use, const struct linear *l, size_t n,
                 struct err *e)
{
    if (!mem_grow((void **)&m->tensor, &m->cap_tensors, m->n_tensors + 1, sizeof(*m->tensor), MEM_MODEL))
        return err_nomem(e, "the list of tensors");
    m->tensor[m->n_tensors++] = (struct model_tensor){.view = v, .use = use, .linear = l, .n_linears = n};
    if (strcmp(use, "scales") != 0)
        m->n_params +=
            view_elements(v) * (v->dtype == DT_U8 ? 2 : 1); /* two elements of four bits in a byte */
    return 0;
}

static int record(struct model *m, const struct view *v, const char *use, const struct linear *l,
                  struct err *e)
{
    return block_record(m, v, use, l, 1, e);
}

int block_tensor_of(struct model *m, const char *name, const struct block_shape *shape, const char *use,
                    const struct view **v, struct err *e)
{
    struct view want = {.n_dims = shape->n_dims};
    char found[96], expected[96];
    bool fits;

    if (!name)
        return err_nomem(e, "a tensor name");
    *v = weights_get(m->weights, name);
    memcpy(want.shape, shape->size, sizeof(shape->size));
    if (!*v)
        return err_set(e, ERR_INPUT, "%s: tensor %s is missing (%s %s expected)", weights_path(m->weights),
                       name, use, view_shape_text(&want, expected, sizeof(expected)));
    fits = (*v)->n_dims == want.n_dims;
    for (int d = 0; d < want.n_dims; d++)
        fits = fits && (*v)->shape[d] == want.shape[d];
    if (!fits)
        return err_set(e, ERR_INPUT, "%s: tensor %s has the shape %s, config.json asks for %s", (*v)->file,
                       name, view_shape_text(*v, found, sizeof(found)),
                       view_shape_text(&want, expected, sizeof(expected)));
    if (shape->bytes ? (*v)->dtype != DT_U8 : !dtype_is_weight((*v)->dtype))
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor %s is stored as %s, expected %s", (*v)->file, name,
                       dtype_name((*v)->dtype), shape->bytes ? "U8" : "F32, F16 or BF16");
    return 0;
}

int block_tensor(struct model *m, const char *name, size_t rows, size_t cols, const char *use,
                 const struct view **v, struct err *e)
{
    const struct block_shape shape = {.n_dims = cols ? 2 : 1, .size = {rows, cols}};

    return block_tensor_of(m, name, &shape, use, v, e);
}

static int add_todo(struct model *m, const struct model_todo *t, struct err *e)
{
    if (!mem_grow((void **)&m->todo, &m->cap_todo, m->n_todo + 1, sizeof(*m->todo), MEM_MODEL))
        return err_nomem(e, "the list of weights");
    m->todo[m->n_todo++] = *t;
    return 0;
}

const struct view *block_keep(struct model *m, const struct view *v)
{
    struct view *copy = arena_alloc(&m->todo_arena, sizeof(*copy));

    if (copy)
        *copy = *v;
    return copy;
}

int block_vector(struct model *m, const struct view *v, float *out, float times, float add, struct err *e)
{
    return add_todo(m, &(struct model_todo){.vector = v, .out = out, .times = times, .add = add}, e);
}

int block_loaded(struct model *m, size_t n, struct err *e)
{
    return add_todo(m, &(struct model_todo){.layers = n}, e);
}

int block_pack(struct model *m, struct linear *l, const struct linear_desc *d, const char *backend,
               struct err *e)
{
    struct linear_desc *copy = arena_alloc(&m->todo_arena, sizeof(*copy));
    int rc;

    if (!copy)
        return err_nomem(e, d->name);
    *copy = *d;
    if ((rc = linear_open(l, d, backend, e)) != 0)
        return rc;
    if (__builtin_add_overflow(m->packed_bytes, l->packed_bytes, &m->packed_bytes))
        return err_set(e, ERR_NOMEM, "%s: the weights are more than memory can hold", d->name);
    return add_todo(m, &(struct model_todo){.linear = l, .desc = copy}, e);
}

int block_embed(struct model *m, struct embed *w, const char *module, size_t rows, size_t cols, struct err *e)
{
    const struct view *v;
    int rc;

    if (!module)
        return err_nomem(e, "a tensor name");
    if ((rc = block_tensor(m, block_name(m, "%s.weight", module), rows, cols, "embedding", &v, e)) != 0)
        return rc;
    *w = (struct embed){.name = module, .table = *v};
    if (__builtin_add_overflow(m->table_bytes, view_span_bytes(v), &m->table_bytes))
        return err_set(e, ERR_NOMEM, "%s: the tables are more than memory can hold", module);
    if ((rc = add_todo(m, &(struct model_todo){.embed = w, .look = true}, e)) != 0)
        return rc;
    return record(m, v, "embedding", NULL, e);
}

int block_norm(struct model *m, struct norm *w, const char *module, size_t n, double eps, bool layer,
               bool bias, float add, struct err *e)
{
    const struct view *v, *vb = NULL;
    int rc;

    if (!module)
        return err_nomem(e, "a tensor name");
    *w = (struct norm){.name = module, .n = n, .eps = (float)eps, .layer = layer};
    if ((rc = block_tensor(m, block_name(m, "%s.weight", module), n, 0, "norm", &v, e)) != 0 ||
        (rc = record(m, v, "norm", NULL, e)) != 0)
        return rc;
    if (bias && ((rc = block_tensor(m, block_name(m, "%s.bias", module), n, 0, "norm", &vb, e)) != 0 ||
                 (rc = record(m, vb, "norm", NULL, e)) != 0))
        return rc;
    w->w = mem_zalloc(n, sizeof(float), MEM_MODEL);
    w->b = bias ? mem_zalloc(n, sizeof(float), MEM_MODEL) : NULL;
    if (!w->w || (bias && !w->b)) {
        block_norm_close(w);
        return err_nomem(e, module);
    }
    if ((rc = block_vector(m, v, w->w, 1, add, e)) != 0)
        return rc;
    return bias ? block_vector(m, vb, w->b, 1, 0, e) : 0;
}

void block_norm_close(struct norm *w)
{
    mem_free(w->w);
    mem_free(w->b);
    *w = (struct norm){0};
}

int block_linear(struct model *m, struct linear *w, const struct block_linear *d, struct err *e)
{
    struct linear_desc desc = {.name = d->name,
                               .kind = d->kind,
                               .n_parts = d->n_parts,
                               .dtype = m->opt.dtype,
                               .wide = d->wide,
                               .kern = m->opt.kern};
    const char *backend = m->opt.backend[d->kind];
    int rc;

    if (!d->name)
        return err_nomem(e, "a tensor name");
    for (size_t p = 0; p < d->n_parts; p++) {
        const char *module = d->part[p].module;
        size_t n = d->part[p].n;

        if (!module)
            return err_nomem(e, "a tensor name");
        if ((rc = block_tensor(m, block_name(m, "%s.weight", module), d->transposed ? d->k : n,
                               d->transposed ? n : d->k, "linear", &desc.part[p], e)) != 0 ||
            (!(p && module == d->part[p - 1].module) && (rc = record(m, desc.part[p], "linear", w, e)) != 0))
            return rc;
        if (d->transposed) {
            struct view turned = view_transposed(desc.part[p]);

            if (!(desc.part[p] = block_keep(m, &turned)))
                return err_nomem(e, d->name);
        }
        if (d->bias &&
            ((rc = block_tensor(m, block_name(m, "%s.bias", module), n, 0, "bias", &desc.bias[p], e)) != 0 ||
             (rc = record(m, desc.bias[p], "bias", w, e)) != 0))
            return rc;
    }
    if (d->fp32) {
        desc.dtype = DT_F32;
        /* what else the user chose is meant for the matrices beside it */
        backend = backend && strcmp(backend, "native") == 0 ? backend : NULL;
    }
    if ((rc = block_pack(m, w, &desc, backend, e)) != 0)
        return rc;
    if (d->wide && w->k > m->info.wide_k)
        m->info.wide_k = w->k;
    if (d->wide && w->n > m->info.wide_n)
        m->info.wide_n = w->n;
    return 0;
}

int block_head(struct model *m, struct linear *w, const char *module, const struct embed *embed, bool tied,
               bool bias, struct err *e)
{
    struct linear_desc desc = {
        .name = module, .kind = OP_LM_HEAD, .n_parts = 1, .dtype = m->opt.dtype, .kern = m->opt.kern};
    const struct view *v = &embed->table;
    const char *name = block_name(m, "%s.weight", module);
    int rc;

    if (!name)
        return err_nomem(e, "a tensor name");
    if (!tied) {
        if ((rc = block_tensor(m, name, m->info.vocab, embed->table.shape[1], "linear", &v, e)) != 0 ||
            (rc = record(m, v, "linear", w, e)) != 0)
            return rc;
        if (bias && ((rc = block_tensor(m, block_name(m, "%s.bias", module), m->info.vocab, 0, "bias",
                                        &desc.bias[0], e)) != 0 ||
                     (rc = record(m, desc.bias[0], "bias", w, e)) != 0))
            return rc;
    } else {
        weights_skip(m->weights, name); /* a stored copy of the embedding */
        for (size_t i = 0; i < m->n_todo; i++)
            if (m->todo[i].embed == embed)
                m->todo[i].look = false; /* it is looked through as it is packed */
    }
    desc.part[0] = v;
    return block_pack(m, w, &desc, m->opt.backend[OP_LM_HEAD], e);
}

void block_layers_close(struct block_layer *layer, size_t n)
{
    for (size_t l = 0; layer && l < n; l++) {
        block_norm_close(&layer[l].norm_attn);
        block_norm_close(&layer[l].norm_mlp);
        block_norm_close(&layer[l].after_attn);
        block_norm_close(&layer[l].after_mlp);
        block_norm_close(&layer[l].q_norm);
        block_norm_close(&layer[l].k_norm);
        block_moe_close(layer[l].moe);
        linear_close(&layer[l].qkv);
        linear_close(&layer[l].out);
        linear_close(&layer[l].mlp.up);
        linear_close(&layer[l].mlp.down);
    }
    mem_free(layer);
}

void block_tail(const struct model *m, const struct sink *o, const struct batch *b, struct work *s,
                const struct norm *norm, const struct linear *head)
{
    size_t E = m->info.hidden, n = b->n_wanted;

    if (n == 0)
        return;
    o->rows(o, s->xw, s->x, b->wanted, E, n);
    if (s->r)
        o->rows(o, s->rw, s->r, b->wanted, E, n);
    o->norm(o, s->hw, s->xw, s->r ? s->rw : NULL, norm, n); /* x += r; h = norm(x)            [wanted, E] */
    o->tap(o, m->info.n_layers, NULL, NULL, s->hw, n);
    o->logits(o, b->logits, head, s->hw, n); /*                                [wanted, V] */
    if (m->info.logit_softcap > 0)
        o->softcap(o, b->logits, m->info.logit_softcap, m->info.vocab, n);
}

void block_text_config(struct model *m)
{
    static const char *const others[] = {
        "vision_config",       "audio_config",       "image_token_index",   "mm_tokens_per_image",
        "boi_token_index",     "eoi_token_index",    "audio_config",        "vision_soft_tokens_per_image",
        "tie_word_embeddings", "audio_ms_per_token", "vision_feature_layer"};
    struct config *text = config_sub(m->config_file, "text_config");

    if (!text)
        return;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        config_ignore(m->config_file, others[i]);
    m->config = text;
}

int block_layer_types(struct model *m, enum block_kind *kind, bool *given, struct err *e)
{
    static const char *const names[] = {"full_attention", "sliding_attention", "chunked_attention"};
    size_t L = m->info.n_layers, n;
    const char **name = arena_zalloc(&m->arena, L, sizeof(*name));
    int rc;

    *given = false;
    if (!name)
        return err_nomem(e, "layer_types");
    if ((rc = config_strs(m->config, "layer_types", name, L, &n, e)) != 0 || n == 0)
        return rc;
    if (n != L)
        return err_set(e, ERR_INPUT, "%s: layer_types has %zu entries for %zu layers", config_path(m->config),
                       n, L);
    for (size_t l = 0; l < L; l++) {
        int k = 0;

        while (k < 3 && strcmp(names[k], name[l]) != 0)
            k++;
        if (k == 3)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: layer_types has \"%s\", known are full_attention, "
                           "sliding_attention and chunked_attention",
                           config_path(m->config), name[l]);
        kind[l] = (enum block_kind)k;
    }
    *given = true;
    return 0;
}

int block_window(struct model *m, int64_t def, int64_t *rows, struct err *e)
{
    return config_int(m->config, "sliding_window", config_given(m->config, "sliding_window") ? 0 : def, 1,
                      1 << 30, rows, e);
}

int block_act(struct model *m, const char *key, const char *def, enum kern_act *act, struct err *e)
{
    static const struct {
        const char *name;
        enum kern_act act;
    } known[] = {{"silu", KERN_SILU},
                 {"swish", KERN_SILU},
                 {"gelu", KERN_GELU_ERF},
                 {"gelu_new", KERN_GELU_TANH},
                 {"gelu_fast", KERN_GELU_TANH},
                 {"gelu_pytorch_tanh", KERN_GELU_TANH},
                 {"quick_gelu", KERN_GELU_QUICK},
                 {"relu", KERN_RELU}};
    const char *name;
    int rc = config_str(m->config, key, def, &name, e);

    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0) {
            *act = known[i].act;
            return 0;
        }
    return err_set(e, ERR_UNSUPPORTED, "%s: %s \"%s\" is not a known activation", config_path(m->config), key,
                   name);
}

int block_heads(struct model *m, int64_t def_heads, int64_t def_kv, int64_t def_dim, struct err *e)
{
    struct model_info *i = &m->info;
    const char *path = config_path(m->config);
    int64_t heads, kv, dim;
    int rc;

    if ((rc = config_int(m->config, "num_attention_heads", def_heads, 1, 4096, &heads, e)) != 0 ||
        (rc = config_int(m->config, "num_key_value_heads", def_kv ? def_kv : heads, 1, 4096, &kv, e)) != 0 ||
        (rc = config_int(m->config, "head_dim", def_dim, 0, 512, &dim, e)) != 0)
        return rc;
    if (heads % kv != 0)
        return err_set(e, ERR_INPUT, "%s: %lld attention heads are not divisible by %lld key/value heads",
                       path, (long long)heads, (long long)kv);
    if (dim == 0 && i->hidden % (size_t)heads != 0)
        return err_set(e, ERR_INPUT,
                       "%s: hidden_size %zu is not divisible by %lld heads and head_dim is not given", path,
                       i->hidden, (long long)heads);
    i->n_heads = (size_t)heads;
    i->n_kv = (size_t)kv;
    i->head_dim = dim ? (size_t)dim : i->hidden / (size_t)heads;
    if (i->head_dim > 512)
        return err_set(e, ERR_UNSUPPORTED, "%s: a head of %zu dims is larger than 512", path, i->head_dim);
    return 0;
}
