/* bind.c - reads configs, binds tensors by name and checks their shapes. */
#include "model/bind.h"
#include "base/err.h"
#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "model/calibration.h"
#include "model/model.h"
#include "ops/op.h"
#include "tensor/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "tensor/quant.h"

/* ---- failures ---- */

bool bind_failed(const struct model *m)
{
    return m->rc != 0;
}

void bind_refuse(struct model *m, int code, const char *fmt, ...)
{
    va_list ap;

    if (m->rc)
        return;
    va_start(ap, fmt);
    m->rc = err_vat(m->e, code, config_path(m->config), fmt, ap);
    va_end(ap);
}

static void out_of_memory(struct model *m, const char *what)
{
    if (!m->rc)
        m->rc = err_nomem(m->e, what);
}

void *bind_array(struct model *m, size_t n, size_t size, const char *what)
{
    void *p = m->rc ? NULL : arena_zalloc(&m->arena, n, size);

    if (!p)
        out_of_memory(m, what);
    return p;
}

const char *bind_name(struct model *m, const char *fmt, ...)
{
    char text[256], *name;
    va_list ap;
    int n;

    if (m->rc)
        return NULL;
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ASSERT(n >= 0 && (size_t)n < sizeof(text));
    if (!(name = arena_strndup(&m->arena, text, (size_t)n)))
        out_of_memory(m, "a tensor name");
    return name;
}

/* ---- config.json ---- */

size_t bind_int(struct model *m, const char *key, size_t def, size_t lo, size_t hi)
{
    int64_t v = (int64_t)def;

    if (!m->rc)
        m->rc = config_int(m->config, key, (int64_t)def, (int64_t)lo, (int64_t)hi, &v, m->e);
    return m->rc ? def : (size_t)v;
}

double bind_float(struct model *m, const char *key, double def, double lo, double hi)
{
    double v = def;

    if (!m->rc)
        m->rc = config_float(m->config, key, def, lo, hi, &v, m->e);
    return m->rc ? def : v;
}

bool bind_bool(struct model *m, const char *key, bool def)
{
    bool v = def;

    if (!m->rc)
        m->rc = config_bool(m->config, key, def, &v, m->e);
    return m->rc ? def : v;
}

const int64_t *bind_ints(struct model *m, const char *key, size_t *n)
{
    size_t L = m->info.n_layers;
    int64_t *v = bind_array(m, L, sizeof(*v), "the layers");

    *n = 0;
    if (!m->rc)
        m->rc = config_ints_or_int(m->config, key, v, L, n, m->e);
    return v;
}

enum kern_act bind_act(struct model *m, const char *key, const char *def)
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

    if (m->rc || (m->rc = config_str(m->config, key, def, &name, m->e)) != 0)
        return KERN_SILU;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].act;
    bind_refuse(m, ERR_UNSUPPORTED, "%s \"%s\" is not a known activation", key, name);
    return KERN_SILU;
}

void bind_text_config(struct model *m)
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
    bind_direction(m);
}

void bind_direction(struct model *m)
{
    bool causal = true, null = config_given(m->config, "is_causal") && !config_has(m->config, "is_causal");

    if (m->rc || null)
        m->bidirectional |= null;
    else if ((m->rc = config_bool(m->config, "is_causal", true, &causal, m->e)) == 0)
        m->bidirectional |= !causal;
}

void bind_heads(struct model *m, size_t def_heads, size_t def_kv, size_t def_dim)
{
    struct model_info *i = &m->info;

    i->n_heads = bind_int(m, "num_attention_heads", def_heads, 1, 4096);
    /* null means as many KV heads as heads, not the default of the architecture */
    if (config_given(m->config, "num_key_value_heads"))
        def_kv = 0;
    i->n_kv = bind_int(m, "num_key_value_heads", def_kv ? def_kv : i->n_heads, 1, 4096);
    i->head_dim = bind_int(m, "head_dim", def_dim, 0, 512);
    if (i->n_heads % i->n_kv != 0)
        bind_refuse(m, ERR_INPUT, "%zu attention heads are not divisible by %zu key/value heads", i->n_heads,
                    i->n_kv);
    if (i->head_dim == 0 && i->hidden % i->n_heads != 0)
        bind_refuse(m, ERR_INPUT, "hidden_size %zu is not divisible by %zu heads and head_dim is not given",
                    i->hidden, i->n_heads);
    if (i->head_dim == 0)
        i->head_dim = i->hidden / i->n_heads;
    if (i->head_dim > 512)
        bind_refuse(m, ERR_UNSUPPORTED, "the head size is %zu, expected at most 512", i->head_dim);
}

void bind_layer_types(struct model *m, enum bind_layer_kind *kind, enum bind_layer_kind refused)
{
    static const char *const names[] = {"full_attention", "sliding_attention", "chunked_attention"};
    size_t L = m->info.n_layers, n = 0;
    const char **name = bind_array(m, L, sizeof(*name), "layer_types");

    if (!m->rc)
        m->rc = config_strs(m->config, "layer_types", name, L, &n, m->e);
    if (n != 0 && n != L)
        bind_refuse(m, ERR_INPUT, "layer_types has %zu entries for %zu layers", n, L);
    for (size_t l = 0; l < n && !m->rc; l++) {
        int k = 0;

        while (k < BIND_NONE && strcmp(names[k], name[l]) != 0)
            k++;
        if (k == BIND_NONE)
            bind_refuse(m, ERR_UNSUPPORTED,
                        "layer_types[%zu] is \"%s\", expected full_attention, sliding_attention or "
                        "chunked_attention",
                        l, name[l]);
        kind[l] = (enum bind_layer_kind)k;
    }
    for (size_t l = 0; l < n && !m->rc; l++)
        if (kind[l] == refused)
            bind_refuse(m, ERR_UNSUPPORTED,
                        "layer_types has \"%s\", which this architecture does not support", names[refused]);
}

size_t bind_window(struct model *m, size_t def)
{
    return bind_int(m, "sliding_window", config_given(m->config, "sliding_window") ? 0 : def, 1, 1 << 30);
}

/* ---- tensors ---- */

void bind_record(struct model *m, const struct view *v, const char *use, const struct linear *l, size_t n)
{
    if (m->rc)
        return;
    if (!mem_grow((void **)&m->tensor, &m->cap_tensors, m->n_tensors + 1, sizeof(*m->tensor), MEM_MODEL)) {
        out_of_memory(m, "the list of tensors");
        return;
    }
    m->tensor[m->n_tensors++] = (struct model_tensor){.view = v, .use = use, .linear = l, .n_linears = n};
    if (strcmp(use, "scales") != 0) /* a U8 holds two 4-bit elements */
        m->n_params += view_elements(v) * (v->dtype == DT_U8 ? 2 : 1);
}

const struct view *bind_tensor(struct model *m, const char *name, const struct bind_shape *shape,
                               const char *use)
{
    struct view want = {.n_dims = shape->n_dims};
    char found[96], expected[96];
    const struct view *v;
    bool fits;

    if (m->rc)
        return NULL;
    v = weights_get(m->weights, name);
    memcpy(want.shape, shape->size, sizeof(shape->size));
    view_shape_text(&want, expected, sizeof(expected));
    if (!v) {
        m->rc = err_set(m->e, ERR_INPUT, "%s: tensor %s is missing (expected: %s %s)",
                        weights_path(m->weights), name, use, expected);
        return NULL;
    }
    fits = v->n_dims == want.n_dims;
    for (int d = 0; d < want.n_dims; d++)
        fits = fits && v->shape[d] == want.shape[d];
    if (!fits)
        m->rc = err_set(m->e, ERR_INPUT, "%s: tensor %s has the shape %s, config.json asks for %s", v->file,
                        name, view_shape_text(v, found, sizeof(found)), expected);
    else if (shape->bytes ? v->dtype != DT_U8 : !dtype_is_weight(v->dtype))
        m->rc = err_set(m->e, ERR_UNSUPPORTED, "%s: tensor %s is stored as %s, expected %s", v->file, name,
                        dtype_name(v->dtype), shape->bytes ? "U8" : "F32, F16 or BF16");
    return m->rc ? NULL : v;
}

/* Returns the weight NAME, which must have the shape [ROWS, COLS], or [ROWS] if COLS is 0. */
static const struct view *weight(struct model *m, const char *name, size_t rows, size_t cols, const char *use)
{
    const struct bind_shape shape = {.n_dims = cols ? 2 : 1, .size = {rows, cols}};

    return bind_tensor(m, name, &shape, use);
}

static void add_todo(struct model *m, const struct model_todo *t)
{
    if (m->rc)
        return;
    if (!mem_grow((void **)&m->todo, &m->cap_todo, m->n_todo + 1, sizeof(*m->todo), MEM_MODEL))
        out_of_memory(m, "the list of weights");
    else
        m->todo[m->n_todo++] = *t;
}

static void *keep(struct model *m, const void *p, size_t bytes, const char *what)
{
    void *copy = m->rc ? NULL : arena_alloc(&m->todo_arena, bytes);

    if (copy)
        memcpy(copy, p, bytes);
    else
        out_of_memory(m, what);
    return copy;
}

const struct view *bind_keep(struct model *m, const struct view *v)
{
    return keep(m, v, sizeof(*v), v->name);
}

enum dtype bind_dtype(const struct model *m, enum op_kind kind)
{
    enum quant q = m->opt.quant.of[kind];

    return q == QUANT_AS_STORED || q == QUANT_NONE || q == QUANT_MXFP4 ? m->opt.dtype : DT_I8;
}

/* Returns whether all parts of D are stored as quantized integers, at least one of them with less than 8 bits. */
static bool is_stored_small(const struct linear_desc *d)
{
    unsigned least = 8;

    for (size_t p = 0; p < d->n_parts; p++) {
        const enum dtype t = d->part[p]->dtype;
        const unsigned bits = dtype_is_grouped(t) && t != DT_MXFP4 ? quant_format_of(t)->bits : 0;

        if (bits == 0)
            return false;
        least = bits < least ? bits : least;
    }
    return least < 8;
}

/* Sets the quantization of D to the option for its kind, unless D must compute in fp32. Weights that are
 * stored with less than 8 bits are not rounded to int4, because that would lose accuracy and save nothing. */
static void set_quant(struct model *m, struct linear_desc *d)
{
    enum quant q = m->opt.quant.of[d->kind];

    if (d->exact)
        return;
    if ((q == QUANT_INT4 || q == QUANT_INT4_128) && is_stored_small(d)) {
        q = QUANT_AS_STORED;
        d->dtype = DT_BF16;
    }
    d->as_stored = q == QUANT_AS_STORED;
    d->to_mxfp4 = q == QUANT_MXFP4;
    if (d->dtype == DT_I8)
        d->group = q == QUANT_INT4 ? 32 : q == QUANT_INT4_128 ? 128 : 0;
    d->fixed = d->dtype == DT_I8 && q == QUANT_INT8_STATIC;
    if (m->checkpoint->pack)
        return;
    if (d->group && m->opt.scales && !m->opt.scales->linears)
        m->rc = calibration_gptq(m->opt.scales, d->name, d->part[0]->shape[1], &d->gptq, m->e);
    if (!d->fixed)
        return;
    m->rc = m->opt.scales
                ? calibration_get(m->opt.scales, d->name, d->part[0]->shape[1], &d->largest, m->e)
                : err_about(m->e, ERR_INPUT, "scales",
                            "quant int8-static needs a file written by gallop calibrate, but none is given");
}

void bind_pack(struct model *m, struct linear *l, const struct linear_desc *d, const char *backend)
{
    struct linear_desc *copy = keep(m, d, sizeof(*d), d->name);

    if (m->rc)
        return;
    set_quant(m, copy);
    if (m->rc)
        return;
    if (!mem_grow((void **)&m->linear, &m->cap_linears, m->n_linears + 1, sizeof(*m->linear), MEM_MODEL)) {
        out_of_memory(m, "the list of linears");
        return;
    }
    m->linear[m->n_linears++] = l;
    if ((m->rc = linear_open(l, copy, backend, m->e)) != 0)
        return;
    m->has_stored_groups |= l->part_panels[0] != 0;
    if (l->k > m->info.linear_k)
        m->info.linear_k = l->k;
    if (__builtin_add_overflow(m->packed_bytes, l->packed_bytes, &m->packed_bytes))
        m->rc = err_set(m->e, ERR_NOMEM, "%s: the packed weights are larger than the address space", d->name);
    add_todo(m, &(struct model_todo){.linear = l, .desc = copy});
}

void bind_loaded(struct model *m, size_t n)
{
    add_todo(m, &(struct model_todo){.layers = n});
}

float *bind_vector(struct model *m, const char *name, size_t n, float times, const char *use)
{
    float *out = bind_array(m, n, sizeof(*out), name ? name : use);
    const struct view *v = weight(m, name, n, 0, use);

    add_todo(m, &(struct model_todo){.vector = v, .out = out, .times = times});
    bind_record(m, v, use, NULL, 0);
    return out;
}

void bind_embed(struct model *m, struct op_embed *w, const char *at, const char *module, size_t rows,
                size_t cols)
{
    const char *name = bind_name(m, "%s%s.weight", at, module);
    const struct view *v = weight(m, name, rows, cols, "embedding");

    if (m->rc)
        return;
    *w = (struct op_embed){.table = *v};
    if (__builtin_add_overflow(m->table_bytes, view_span_bytes(v), &m->table_bytes))
        m->rc = err_set(m->e, ERR_NOMEM, "%s%s: the embedding tables are larger than the address space", at,
                        module);
    add_todo(m, &(struct model_todo){.embed = w, .look = true});
    bind_record(m, v, "embedding", NULL, 1);
}

/* Binds PART ("weight" or "bias") of a norm, N numbers. */
static const struct view *norm_part(struct model *m, const char *at, const char *module, const char *part,
                                    size_t n)
{
    const struct view *v = weight(m, bind_name(m, "%s%s.%s", at, module, part), n, 0, "norm");

    bind_record(m, v, "norm", NULL, 1);
    return v;
}

void bind_norm(struct model *m, struct op_norm *w, const char *at, const char *module, size_t n, double eps,
               unsigned how)
{
    const struct view *v = norm_part(m, at, module, "weight", n), *vb = NULL;

    *w = (struct op_norm){
        .name = bind_name(m, "%s%s", at, module), .n = n, .eps = (float)eps, .layer = how & BIND_LAYER_NORM};
    if (how & BIND_BIAS)
        vb = norm_part(m, at, module, "bias", n);
    if (m->rc)
        return;
    w->w = mem_zalloc(n, sizeof(float), MEM_MODEL);
    w->b = vb ? mem_zalloc(n, sizeof(float), MEM_MODEL) : NULL;
    if (!w->w || (vb && !w->b)) {
        bind_norm_close(w);
        out_of_memory(m, module);
    }
    add_todo(m,
             &(struct model_todo){.vector = v, .out = w->w, .times = 1, .add = how & BIND_PLUS_ONE ? 1 : 0});
    if (vb)
        add_todo(m, &(struct model_todo){.vector = vb, .out = w->b, .times = 1});
}

void bind_norm_close(struct op_norm *w)
{
    mem_free(w->w);
    mem_free(w->b);
    *w = (struct op_norm){0};
}

/* Binds part P of a linear: its weight as [n, k], and its bias if it has one. */
static void linear_part(struct model *m, struct linear *w, const char *at, const struct bind_linear *d,
                        size_t p, struct linear_desc *desc)
{
    const char *module = d->part[p].module;
    bool transposed = d->how & BIND_TRANSPOSED;
    size_t n = d->part[p].n;
    const struct view *v = weight(m, bind_name(m, "%s%s.weight", at, module), transposed ? d->k : n,
                                  transposed ? n : d->k, "linear");

    if (!p || strcmp(module, d->part[p - 1].module) != 0)
        bind_record(m, v, "linear", w, 1);
    if (transposed && v) {
        struct view t = view_transposed(v);

        v = bind_keep(m, &t);
    }
    desc->part[p] = v;
    if (d->how & BIND_BIAS) {
        desc->bias[p] = weight(m, bind_name(m, "%s%s.bias", at, module), n, 0, "bias");
        bind_record(m, desc->bias[p], "bias", w, 1);
    }
}

void bind_linear(struct model *m, struct linear *w, const char *at, const struct bind_linear *d)
{
    struct linear_desc desc = {.name = bind_name(m, "%s%s", at, d->name ? d->name : d->part[0].module),
                               .kind = d->kind,
                               .paired = d->how & BIND_PAIRED,
                               .dtype = d->how & BIND_FP32 ? DT_F32 : bind_dtype(m, d->kind),
                               .exact = d->how & BIND_FP32,
                               .is_expert = d->how & BIND_EXPERT,
                               .kern = m->opt.kern};
    const char *backend = m->opt.backend[d->kind];

    /* the chosen backend applies only to linears of this kind that do not need fp32 */
    if (d->how & BIND_FP32 && backend && strcmp(backend, "native") != 0)
        backend = NULL;
    for (; desc.n_parts < LINEAR_MAX_PARTS && d->part[desc.n_parts].module; desc.n_parts++)
        linear_part(m, w, at, d, desc.n_parts, &desc);
    bind_pack(m, w, &desc, backend);
}

/* Lets EMBED read its rows from the packed HEAD instead of a copied table. */
static void read_from_head(struct model *m, struct op_embed *embed, const struct linear *head)
{
    for (size_t i = 0; i < m->n_todo; i++)
        if (m->todo[i].embed == embed)
            m->todo[i].embed = NULL;
    m->table_bytes -= view_span_bytes(&embed->table);
    embed->table.data = NULL;
    embed->head = head;
}

/* Returns whether A and B, which have the same shape, hold the same numbers. */
static bool same_numbers(const struct view *a, const struct view *b)
{
    enum { N = 256 };
    float x[N], y[N];
    bool same = true;

    if (a->dtype == b->dtype && view_is_contiguous(a) && view_is_contiguous(b))
        return memcmp(a->data, b->data, view_bytes(a)) == 0;
    for (size_t r = 0; r < a->shape[0] && same; r++)
        for (size_t i = 0; i < a->shape[1] && same; i += N) {
            size_t n = a->shape[1] - i < N ? a->shape[1] - i : N;

            view_part_f32(a, r, i, n, x);
            view_part_f32(b, r, i, n, y);
            same = memcmp(x, y, n * sizeof(*x)) == 0;
        }
    return same;
}

/* Returns whether the tensor NAME of the head is missing or equals the embedding's table. A different tensor
 * has precedence over tie_word_embeddings, as in transformers. A packed checkpoint has NAME only if it
 * differs. */
static bool is_tied(struct model *m, const char *name, const struct op_embed *embed)
{
    const struct view *v = weights_has(m->weights, name) ? weights_get(m->weights, name) : NULL;

    if (!v || v == weights_get(m->weights, embed->table.name))
        return true;
    if (m->checkpoint->pack)
        return false;
    if (v->n_dims != 2 || v->shape[0] != embed->table.shape[0] || v->shape[1] != embed->table.shape[1] ||
        !dtype_is_weight(v->dtype))
        return false; /* binding NAME will fail with an error message */
    if (same_numbers(v, &embed->table))
        return true;
    log_warn("%s: tie_word_embeddings is true, but %s differs from %s: the head of the file is used", v->file,
             name, embed->table.name);
    return false;
}

/* Marks the model as headless, because the tensor NAME is missing. */
static void note_missing_head(struct model *m, const char *name)
{
    m->info.headless = true;
    snprintf(
        m->headless, sizeof(m->headless),
        "%.300s: tensor %s is missing, and tie_word_embeddings is false: this model cannot generate text, "
        "its embeddings can be served (gallop serve, /v1/embeddings)",
        weights_path(m->weights), name);
}

void bind_head(struct model *m, struct linear *w, const char *module, struct op_embed *embed, bool tied,
               unsigned how)
{
    struct linear_desc desc = {.name = module,
                               .kind = OP_LM_HEAD,
                               .n_parts = 1,
                               .dtype = bind_dtype(m, OP_LM_HEAD),
                               .kern = m->opt.kern};
    const struct bind_linear d = {.part = {{module, m->info.vocab}}, .k = embed->table.shape[1], .how = how};
    const char *name = bind_name(m, "%s.weight", module);

    if (m->rc)
        return;
    tied = tied && is_tied(m, name, embed);
    if (!tied && !weights_has(m->weights, name)) {
        note_missing_head(m, name);
        return;
    }
    if (!tied) {
        linear_part(m, w, "", &d, 0, &desc);
    } else {
        weights_skip(m->weights, name); /* a copy of the embedding that the file may have is not read */
        desc.part[0] = bind_keep(m, &embed->table);
        for (size_t i = 0; i < m->n_todo; i++)
            if (m->todo[i].embed == embed)
                m->todo[i].look = false; /* packing the head checks the numbers */
    }
    if (m->rc)
        return;
    bind_pack(m, w, &desc, m->opt.backend[OP_LM_HEAD]);
    if (!m->rc && tied && linear_is_exact(w, &desc))
        read_from_head(m, embed, w);
}
