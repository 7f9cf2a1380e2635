/* names.c - the table of tensor names, and the views of the tensors.
 *
 * A GGUF name is STEM.weight or blk.N.STEM.weight; the table maps STEM to Hugging Face's name. Rows of an architecture
 * have precedence over rows with ALL. The names and layouts follow llama.cpp's convert_hf_to_gguf.py.
 */
#include "base/arena.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"
#include "ckpt/tensor_file.h"

#include <stdio.h>
#include <string.h>

enum what {
    PLAIN,
    DROPPED,  /* not a weight: part of the config, or a constant */
    ZIPPED_Q, /* the rows of each head alternate between its first and second half */
    ZIPPED_K,
    TRANSPOSED, /* Hugging Face stores the transpose */
    LESS_ONE,   /* Hugging Face stores the value - 1 */
    /* [E, ...]: split into one tensor for each expert; the expert's number replaces %zu in the name */
    EXPERTS,
    BARE, /* Hugging Face's name has no ".weight" */
};

enum { ALL = -1 };

struct row {
    int arch; /* enum gguf_arch_id or ALL */
    const char *stem, *hf;
    enum what what;
};

/* clang-format off */
static const struct row top[] = {
    {GGUF_ARCH_GPT2, "token_embd", "transformer.wte", PLAIN},
    {GGUF_ARCH_GPT2, "position_embd", "transformer.wpe", PLAIN},
    {GGUF_ARCH_GPT2, "output_norm", "transformer.ln_f", PLAIN},
    {GGUF_ARCH_GEMMA3, "output_norm", "model.norm", LESS_ONE},
    {ALL, "token_embd", "model.embed_tokens", PLAIN},
    {ALL, "output_norm", "model.norm", PLAIN},
    {ALL, "output", "lm_head", PLAIN},
    {ALL, "rope_freqs", NULL, DROPPED},
    {ALL, "rope_factors_long", NULL, DROPPED},
    {ALL, "rope_factors_short", NULL, DROPPED},
};

static const struct row layer[] = {
    {GGUF_ARCH_LLAMA, "attn_q", "self_attn.q_proj", ZIPPED_Q},
    {GGUF_ARCH_LLAMA, "attn_k", "self_attn.k_proj", ZIPPED_K},
    {GGUF_ARCH_MIXTRAL, "attn_q", "self_attn.q_proj", ZIPPED_Q},
    {GGUF_ARCH_MIXTRAL, "attn_k", "self_attn.k_proj", ZIPPED_K},
    {GGUF_ARCH_MIXTRAL, "ffn_gate_inp", "block_sparse_moe.gate", PLAIN},
    {GGUF_ARCH_MIXTRAL, "ffn_gate_exps", "block_sparse_moe.experts.%zu.w1", EXPERTS},
    {GGUF_ARCH_MIXTRAL, "ffn_down_exps", "block_sparse_moe.experts.%zu.w2", EXPERTS},
    {GGUF_ARCH_MIXTRAL, "ffn_up_exps", "block_sparse_moe.experts.%zu.w3", EXPERTS},
    {GGUF_ARCH_PHI3, "attn_qkv", "self_attn.qkv_proj", PLAIN},
    {GGUF_ARCH_PHI3, "ffn_up", "mlp.gate_up_proj", PLAIN},
    {GGUF_ARCH_GEMMA3, "attn_norm", "input_layernorm", LESS_ONE},
    {GGUF_ARCH_GEMMA3, "attn_q_norm", "self_attn.q_norm", LESS_ONE},
    {GGUF_ARCH_GEMMA3, "attn_k_norm", "self_attn.k_norm", LESS_ONE},
    {GGUF_ARCH_GEMMA3, "post_attention_norm", "post_attention_layernorm", LESS_ONE},
    {GGUF_ARCH_GEMMA3, "ffn_norm", "pre_feedforward_layernorm", LESS_ONE},
    {GGUF_ARCH_GEMMA3, "post_ffw_norm", "post_feedforward_layernorm", LESS_ONE},
    {GGUF_ARCH_GPT2, "attn_norm", "ln_1", PLAIN},
    {GGUF_ARCH_GPT2, "attn_qkv", "attn.c_attn", TRANSPOSED},
    {GGUF_ARCH_GPT2, "attn_output", "attn.c_proj", TRANSPOSED},
    {GGUF_ARCH_GPT2, "ffn_norm", "ln_2", PLAIN},
    {GGUF_ARCH_GPT2, "ffn_up", "mlp.c_fc", TRANSPOSED},
    {GGUF_ARCH_GPT2, "ffn_down", "mlp.c_proj", TRANSPOSED},
    {GGUF_ARCH_GPT_OSS, "post_attention_norm", "post_attention_layernorm", PLAIN},
    {GGUF_ARCH_GPT_OSS, "attn_sinks", "self_attn.sinks", BARE},
    {GGUF_ARCH_GPT_OSS, "ffn_gate_inp", "mlp.router", PLAIN},
    {ALL, "attn_norm", "input_layernorm", PLAIN},
    {ALL, "attn_q", "self_attn.q_proj", PLAIN},
    {ALL, "attn_k", "self_attn.k_proj", PLAIN},
    {ALL, "attn_v", "self_attn.v_proj", PLAIN},
    {ALL, "attn_output", "self_attn.o_proj", PLAIN},
    {ALL, "attn_q_norm", "self_attn.q_norm", PLAIN},
    {ALL, "attn_k_norm", "self_attn.k_norm", PLAIN},
    {ALL, "attn_rot_embd", NULL, DROPPED},
    {ALL, "ffn_norm", "post_attention_layernorm", PLAIN},
    {ALL, "ffn_gate", "mlp.gate_proj", PLAIN},
    {ALL, "ffn_up", "mlp.up_proj", PLAIN},
    {ALL, "ffn_down", "mlp.down_proj", PLAIN},
    {ALL, "ffn_gate_inp", "mlp.gate", PLAIN},
    {ALL, "ffn_gate_exps", "mlp.experts.%zu.gate_proj", EXPERTS},
    {ALL, "ffn_up_exps", "mlp.experts.%zu.up_proj", EXPERTS},
    {ALL, "ffn_down_exps", "mlp.experts.%zu.down_proj", EXPERTS},
};
/* clang-format on */

struct filler {
    struct gguf_set *s;
    const struct gguf_arch *a;
    struct tensor_file *f; /* the file that is being filled */
    int64_t heads, kv_heads, experts;
    struct err *e;
};

/* The parts of a GGUF name. */
struct parts {
    const char *stem, *suffix; /* suffix: ".weight", ".bias" or "" */
    size_t n_stem;
    long layer; /* -1: the tensor belongs to no layer */
};

static bool ends_in(const struct json_str *s, const char *end)
{
    size_t n = strlen(end);

    return s->n > n && memcmp(s->s + s->n - n, end, n) == 0;
}

static struct parts cut(const struct json_str *name)
{
    struct parts p = {.stem = name->s, .suffix = "", .n_stem = name->n, .layer = -1};
    size_t at = 4;
    long n = 0;

    if (ends_in(name, ".weight"))
        p.suffix = ".weight";
    else if (ends_in(name, ".bias"))
        p.suffix = ".bias";
    p.n_stem -= strlen(p.suffix);
    if (p.n_stem < 6 || memcmp(p.stem, "blk.", 4) != 0)
        return p;
    while (at < p.n_stem && at < 9 && p.stem[at] >= '0' && p.stem[at] <= '9')
        n = 10 * n + (p.stem[at++] - '0');
    if (at == 4 || at + 1 >= p.n_stem || p.stem[at] != '.')
        return p;
    p.stem += at + 1;
    p.n_stem -= at + 1;
    p.layer = n;
    return p;
}

static const struct row *find_row(const struct parts *p, enum gguf_arch_id arch)
{
    const struct row *rows = p->layer < 0 ? top : layer;
    size_t n = p->layer < 0 ? sizeof(top) / sizeof(*top) : sizeof(layer) / sizeof(*layer);

    for (size_t i = 0; i < n; i++)
        if ((rows[i].arch == ALL || rows[i].arch == (int)arch) && strlen(rows[i].stem) == p->n_stem &&
            memcmp(rows[i].stem, p->stem, p->n_stem) == 0)
            return &rows[i];
    return NULL;
}

/* Adds V under the name [model.layers.N.]HF[.weight]. EXPERT replaces %zu in HF, if HF has it. */
static int add_view(struct filler *x, const struct parts *p, const struct row *r, size_t expert,
                    struct view v)
{
    const char *layers = x->a->id == GGUF_ARCH_GPT2 ? "transformer.h" : "model.layers";
    const char *number = strstr(r->hf, "%zu");
    size_t head = number ? (size_t)(number - r->hf) : strlen(r->hf);
    char name[160];
    int n = 0;

    if (p->layer >= 0)
        n = snprintf(name, sizeof(name), "%s.%ld.", layers, p->layer);
    n += snprintf(name + n, sizeof(name) - (size_t)n, "%.*s", (int)head, r->hf);
    if (number)
        n += snprintf(name + n, sizeof(name) - (size_t)n, "%zu%s", expert, number + 3);
    n += snprintf(name + n, sizeof(name) - (size_t)n, "%s", r->what == BARE ? "" : p->suffix);
    ASSERT((size_t)n < sizeof(name));
    return tensor_file_add(x->f, name, (size_t)n, v, x->e);
}

static int wrong(const struct filler *x, const struct gguf_tensor *t, const char *expected)
{
    char shape[96];

    return err_set(x->e, ERR_INPUT, "%s: tensor %.*s has the shape %s, expected %s", x->f->path,
                   t->name.n < 100 ? (int)t->name.n : 100, t->name.s,
                   view_shape_text(&t->view, shape, sizeof(shape)), expected);
}

static int add_zipped(struct filler *x, const struct parts *p, const struct row *r,
                      const struct gguf_tensor *t)
{
    size_t heads = (size_t)(r->what == ZIPPED_Q ? x->heads : x->kv_heads);
    struct view v = t->view;

    if (v.n_dims > 2 || v.shape[0] == 0 || v.shape[0] % (2 * heads) != 0)
        return wrong(x, t, "as many rows as heads of an even size have");
    v.zipped = v.shape[0] / heads;
    return add_view(x, p, r, 0, v);
}

static int add_less_one(struct filler *x, const struct parts *p, const struct row *r,
                        const struct gguf_tensor *t)
{
    struct view v = t->view;
    float *w;

    if (v.n_dims != 1)
        return wrong(x, t, "one dimension");
    if (!dtype_is_weight(v.dtype))
        return add_view(x, p, r, 0, v); /* the model's bind_norm() will fail */
    w = arena_zalloc(&x->f->arena, v.shape[0], sizeof(*w));
    if (!w)
        return err_nomem(x->e, x->f->path);
    view_row_f32(&v, 0, w);
    for (size_t i = 0; i < v.shape[0]; i++)
        w[i] -= 1;
    v.data = w;
    v.dtype = DT_F32;
    return add_view(x, p, r, 0, v);
}

static int add_experts(struct filler *x, const struct parts *p, const struct row *r,
                       const struct gguf_tensor *t)
{
    struct view all = t->view, one = all;
    int rc = 0;

    if (all.n_dims < 2 || all.n_dims > 3 || all.shape[0] != (size_t)x->experts || view_elements(&all) == 0)
        return wrong(x, t, "one matrix or bias for each of expert_count experts");
    one.n_dims--;
    memmove(one.shape, one.shape + 1, (size_t)one.n_dims * sizeof(*one.shape));
    if (one.shape[one.n_dims - 1] % dtype_group(one.dtype) != 0)
        return wrong(x, t, "rows of whole quantization groups");
    view_set_contiguous(&one);
    for (size_t i = 0; i < all.shape[0] && rc == 0; i++) {
        one.data = (const char *)all.data + i * view_bytes(&one);
        rc = add_view(x, p, r, i, one);
    }
    return rc;
}

static int add_tensor(struct filler *x, const struct gguf_tensor *t)
{
    struct parts p = cut(&t->name);
    const struct row *r = find_row(&p, x->a->id);
    struct view v = t->view;

    if (!r)
        return tensor_file_add(x->f, t->name.s, t->name.n, v, x->e);
    switch (r->what) {
    case DROPPED: return 0;
    case ZIPPED_Q:
    case ZIPPED_K: return add_zipped(x, &p, r, t);
    case LESS_ONE: return add_less_one(x, &p, r, t);
    case EXPERTS: return add_experts(x, &p, r, t);
    case TRANSPOSED:
        if (v.n_dims == 2)
            v = view_transposed(&v);
        break;
    case PLAIN:
    case BARE: break;
    }
    return add_view(x, &p, r, 0, v);
}

int gguf_names_fill(struct gguf_set *s, const struct gguf_arch *a, struct err *e)
{
    struct filler x = {.s = s, .a = a, .e = e};
    int rc;

    if ((rc = gguf_arch_int(a, s, "attention.head_count", 1, 1, 4096, &x.heads, e)) != 0 ||
        (rc = gguf_arch_int(a, s, "attention.head_count_kv", x.heads, 1, 4096, &x.kv_heads, e)) != 0 ||
        (rc = gguf_arch_int(a, s, "expert_count", 0, 0, 4096, &x.experts, e)) != 0)
        return rc;
    for (size_t i = 0; i < s->n && rc == 0; i++) {
        x.f = &s->file[i];
        for (size_t t = 0; t < s->part[i].n_tensors && rc == 0; t++)
            rc = add_tensor(&x, &s->part[i].tensor[t]);
        if (rc == 0)
            rc = tensor_file_seal(x.f, e);
    }
    return rc;
}
