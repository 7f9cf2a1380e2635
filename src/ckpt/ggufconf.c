/* ggufconf.c - one function an architecture writes what its model file reads.
 *
 * Numbers that GGUF leaves to its reader are those llama.cpp has built in (Gemma 3's pattern and local rope
 * base, GPT-OSS's limit), which are the defaults of Hugging Face's classes too.
 */
#include "ckpt/ggufconf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/ggufmake.h"

enum { MAX_LAYERS = 4096, MAX_HEADS = 4096 };

/* Keys of an architecture that change nothing here. */
static const char *const bookkeeping[] = {
    "vocab_size",
    "tensor_data_layout",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length", /* of a scaling that is not there */
    "pooling_type",
    "use_parallel_residual"};

struct sizes {
    int64_t layers, context, hidden, inner, heads, kv_heads, head_dim;
};

static bool has_tensor(const struct ggufmake *m, const char *name)
{
    return ggufset_tensor(m->s, name) != NULL;
}

static struct sizes read_sizes(struct ggufmake *m)
{
    struct sizes z = {.layers = ggufmake_need(m, "block_count", MAX_LAYERS),
                      .context = ggufmake_need(m, "context_length", 1 << 24),
                      .hidden = ggufmake_need(m, "embedding_length", 1 << 20),
                      .heads = ggufmake_need(m, "attention.head_count", MAX_HEADS)};
    int64_t value;

    z.inner = ggufmake_int(m, "feed_forward_length", 0, 1, 1 << 22);
    z.kv_heads = ggufmake_int(m, "attention.head_count_kv", z.heads, 1, MAX_HEADS);
    z.head_dim = ggufmake_int(m, "attention.key_length", m->rc ? 0 : z.hidden / z.heads, 1, 1 << 16);
    value = ggufmake_int(m, "attention.value_length", z.head_dim, 1, 1 << 16);
    if (value != z.head_dim)
        ggufmake_fail(m, ERR_UNSUPPORTED,
                      "%s.attention.value_length is %" PRId64 ", key_length is %" PRId64
                      ": they must be the same",
                      m->a->name, value, z.head_dim);
    return z;
}

/* The rows of the embedding; no key says it reliably. */
static void put_vocab(struct ggufmake *m)
{
    const struct gguf_tensor *t = ggufset_tensor(m->s, "token_embd.weight");

    if (!t || t->view.n_dims != 2)
        ggufmake_fail(m, ERR_INPUT, "tensor token_embd.weight is missing or has not two dimensions");
    else
        ggufmake_put_int(m, "vocab_size", (int64_t)t->view.shape[0]);
}

static struct sizes put_common(struct ggufmake *m)
{
    struct sizes z = read_sizes(m);

    ggufmake_put_int(m, "num_hidden_layers", z.layers);
    ggufmake_put_int(m, "max_position_embeddings", z.context);
    ggufmake_put_int(m, "hidden_size", z.hidden);
    if (z.inner)
        ggufmake_put_int(m, "intermediate_size", z.inner);
    ggufmake_put_int(m, "num_attention_heads", z.heads);
    ggufmake_put_int(m, "num_key_value_heads", z.kv_heads);
    ggufmake_put_int(m, "head_dim", z.head_dim);
    ggufmake_put_float(m, "rms_norm_eps", ggufmake_float(m, "attention.layer_norm_rms_epsilon", 1e-6));
    ggufmake_put_bool(m, "tie_word_embeddings", !has_tensor(m, "output.weight"));
    put_vocab(m);
    ggufrope_put(m, z.head_dim, z.context);
    return z;
}

static void put_experts(struct ggufmake *m, const char *key)
{
    ggufmake_put_int(m, key, ggufmake_need(m, "expert_count", 4096));
    ggufmake_put_int(m, "num_experts_per_tok", ggufmake_need(m, "expert_used_count", 4096));
}

static void llama(struct ggufmake *m)
{
    put_common(m);
    if (m->a->experts) {
        put_experts(m, "num_local_experts");
        return;
    }
    ggufmake_put_bool(m, "attention_bias", has_tensor(m, "blk.0.attn_q.bias"));
    ggufmake_put_bool(m, "mlp_bias", has_tensor(m, "blk.0.ffn_gate.bias"));
}

/* Where DENSE layers have a plain MLP: their numbers. */
static json_t *dense_layers(const struct ggufmake *m, int64_t layers)
{
    json_t *l = json_array();
    char name[64];

    for (int64_t i = 0; l && i < layers; i++) {
        snprintf(name, sizeof(name), "blk.%" PRId64 ".ffn_gate_inp.weight", i);
        if (!has_tensor(m, name) && json_array_append_new(l, json_integer(i)) != 0) {
            json_decref(l);
            l = NULL;
        }
    }
    return l;
}

static void qwen3moe(struct ggufmake *m)
{
    struct sizes z = put_common(m);

    put_experts(m, "num_experts");
    ggufmake_put_int(m, "moe_intermediate_size", ggufmake_need(m, "expert_feed_forward_length", 1 << 22));
    ggufmake_put_bool(m, "norm_topk_prob", true);
    ggufmake_put_int(m, "decoder_sparse_step", 1);
    ggufmake_put(m, "mlp_only_layers", m->rc ? NULL : dense_layers(m, z.layers));
}

static void phi3(struct ggufmake *m)
{
    int64_t window;

    put_common(m);
    window = ggufmake_int(m, "attention.sliding_window", 0, 0, 1 << 24);
    if (window)
        ggufmake_put_int(m, "sliding_window", window);
}

static void gemma3(struct ggufmake *m)
{
    struct sizes z = put_common(m);
    int64_t window = ggufmake_need(m, "attention.sliding_window", 1 << 24);
    /* the 27B model alone scales its queries by the share of a head in the hidden size */
    bool largest = z.layers == 62 && z.heads > 0;

    ggufmake_put_int(m, "sliding_window", window);
    ggufmake_put_int(m, "sliding_window_pattern",
                     ggufmake_int(m, "attention.sliding_window_pattern", 6, 1, 1024));
    ggufmake_put_float(m, "rope_local_base_freq", ggufmake_float(m, "rope.freq_base_swa", 10000));
    ggufmake_put_int(m, "query_pre_attn_scalar", largest ? z.hidden / z.heads : z.head_dim);
    ggufmake_put_str(m, "hidden_activation", "gelu_pytorch_tanh");
    if (ggufmake_has(m, "final_logit_softcapping"))
        ggufmake_put_float(m, "final_logit_softcapping", ggufmake_float(m, "final_logit_softcapping", 0));
}

static void gpt2(struct ggufmake *m)
{
    struct sizes z = read_sizes(m);

    ggufmake_put_int(m, "n_layer", z.layers);
    ggufmake_put_int(m, "n_positions", z.context);
    ggufmake_put_int(m, "n_embd", z.hidden);
    if (z.inner)
        ggufmake_put_int(m, "n_inner", z.inner);
    ggufmake_put_int(m, "n_head", z.heads);
    ggufmake_put_float(m, "layer_norm_epsilon", ggufmake_float(m, "attention.layer_norm_epsilon", 1e-5));
    ggufmake_put_bool(m, "tie_word_embeddings", !has_tensor(m, "output.weight"));
    put_vocab(m);
    if (z.kv_heads != z.heads)
        ggufmake_fail(m, ERR_UNSUPPORTED,
                      "gpt2.attention.head_count_kv is %" PRId64 ", expected is head_count %" PRId64,
                      z.kv_heads, z.heads);
}

static void gpt_oss(struct ggufmake *m)
{
    put_common(m);
    put_experts(m, "num_local_experts");
    ggufmake_put_int(m, "intermediate_size", ggufmake_need(m, "expert_feed_forward_length", 1 << 22));
    ggufmake_put_int(m, "sliding_window", ggufmake_need(m, "attention.sliding_window", 1 << 24));
    ggufmake_put_bool(m, "attention_bias", has_tensor(m, "blk.0.attn_q.bias"));
    ggufmake_put_float(m, "swiglu_limit", 7);
}

static void write_all(struct ggufmake *m)
{
    json_t *classes = json_pack("[s]", m->a->class_name);

    ggufmake_put(m, "architectures", classes);
    ggufmake_put_str(m, "model_type", m->a->model_type);
    switch (m->a->id) {
    case GGUFARCH_LLAMA:
    case GGUFARCH_MIXTRAL: llama(m); break;
    case GGUFARCH_QWEN2:
    case GGUFARCH_QWEN3: put_common(m); break;
    case GGUFARCH_QWEN3MOE: qwen3moe(m); break;
    case GGUFARCH_PHI3: phi3(m); break;
    case GGUFARCH_GEMMA3: gemma3(m); break;
    case GGUFARCH_GPT2: gpt2(m); break;
    case GGUFARCH_GPT_OSS: gpt_oss(m); break;
    }
}

/* True if the entry says what every model does. */
static bool is_neutral(const struct gguf_kv *kv, const char *rest)
{
    char text[80];

    if (kv->is_array)
        return kv->n == 0;
    gguf_kv_text(kv, text, sizeof(text));
    if (strcmp(rest, "attention.causal") == 0)
        return strcmp(text, "true") == 0;
    if (strcmp(text, "1") == 0)
        return strstr(rest, "scale") || strstr(rest, "factor");
    return strcmp(text, "0") == 0 || strcmp(text, "false") == 0;
}

/* A key of the architecture that nobody asked for may change what is computed. */
static void judge(struct ggufmake *m)
{
    const struct gguf *g = &m->s->part[0];
    size_t n = strlen(m->a->name);
    char unknown[400] = "";

    for (size_t i = 0; i < g->n_kv; i++) {
        const struct gguf_kv *kv = &g->kv[i];
        char rest[96];
        bool known = kv->asked;

        if (kv->key.n <= n + 1 || memcmp(kv->key.s, m->a->name, n) != 0 || kv->key.s[n] != '.')
            continue;
        snprintf(rest, sizeof(rest), "%.*s", (int)(kv->key.n - n - 1 < 95 ? kv->key.n - n - 1 : 95),
                 kv->key.s + n + 1);
        for (size_t b = 0; b < sizeof(bookkeeping) / sizeof(*bookkeeping); b++)
            known |= strcmp(rest, bookkeeping[b]) == 0;
        if (!known && !is_neutral(kv, rest))
            snprintf(unknown + strlen(unknown), sizeof(unknown) - strlen(unknown), "%s%s.%s",
                     *unknown ? ", " : "", m->a->name, rest);
    }
    if (*unknown)
        ggufmake_fail(m, ERR_UNSUPPORTED,
                      "not known for this architecture, and may change what it computes: %s", unknown);
}

int ggufconf_make(json_t **out, struct ggufset *s, const struct ggufarch *a, struct err *e)
{
    struct ggufmake m = {.s = s, .a = a, .o = json_object(), .e = e};

    *out = NULL;
    if (!m.o)
        return err_nomem(e, "a config");
    write_all(&m);
    if (m.rc == 0)
        judge(&m);
    if (m.rc)
        json_decref(m.o);
    else
        *out = m.o;
    return m.rc;
}
