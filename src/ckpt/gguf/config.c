/* config.c - writes the config.json of a GGUF file. Each architecture has a function, which writes the keys
 * that the model's file in src/model reads.
 *
 * Some numbers are not in GGUF but built into llama.cpp (Gemma 3's window pattern and local rope theta,
 * GPT-OSS's swiglu_limit). They are also the defaults of Hugging Face's classes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"

/* ---- architectures ---- */

static const struct gguf_arch table[] = {
    {GGUF_ARCH_LLAMA, "llama", false, "LlamaForCausalLM", "llama"},
    {GGUF_ARCH_MIXTRAL, "llama", true, "MixtralForCausalLM", "mixtral"},
    {GGUF_ARCH_QWEN2, "qwen2", false, "Qwen2ForCausalLM", "qwen2"},
    {GGUF_ARCH_QWEN3, "qwen3", false, "Qwen3ForCausalLM", "qwen3"},
    {GGUF_ARCH_QWEN3MOE, "qwen3moe", true, "Qwen3MoeForCausalLM", "qwen3_moe"},
    {GGUF_ARCH_PHI3, "phi3", false, "Phi3ForCausalLM", "phi3"},
    {GGUF_ARCH_GEMMA3, "gemma3", false, "Gemma3ForCausalLM", "gemma3_text"},
    {GGUF_ARCH_GPT2, "gpt2", false, "GPT2LMHeadModel", "gpt2"},
    {GGUF_ARCH_GPT_OSS, "gpt-oss", true, "GptOssForCausalLM", "gpt_oss"},
};

enum { N_ARCHS = sizeof(table) / sizeof(*table), MAX_EXPERTS = 4096 };

int gguf_arch_int(const struct gguf_arch *a, struct gguf_set *s, const char *key, int64_t def, int64_t lo,
                  int64_t hi, int64_t *v, struct err *e)
{
    char full[96];

    snprintf(full, sizeof(full), "%s.%s", a->name, key);
    return gguf_int(&s->part[0], full, def, lo, hi, v, e);
}

/* Fails for a file that is an adapter or the vision part of a model. */
static int check_type(struct gguf *g, struct err *e)
{
    struct json_str type;
    int rc = gguf_text(g, "general.type", &type, e);

    if (rc || !type.s || json_str_is(&type, "model"))
        return rc;
    return err_set(e, ERR_UNSUPPORTED, "%s: general.type is %.*s, expected model", g->path,
                   type.n < 60 ? (int)type.n : 60, type.s);
}

static int unknown(const struct gguf *g, const struct json_str *name, struct err *e)
{
    char known[200] = "";

    for (int i = 0; i < N_ARCHS; i++)
        if (i == 0 || strcmp(table[i].name, table[i - 1].name) != 0)
            snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "",
                     table[i].name);
    return err_set(e, ERR_UNSUPPORTED, "%s: general.architecture %.*s is not supported (known: %s)", g->path,
                   name->n < 60 ? (int)name->n : 60, name->s, known);
}

int gguf_arch_of(const struct gguf_arch **a, struct gguf_set *s, struct err *e)
{
    struct gguf *g = &s->part[0];
    struct json_str name;
    int64_t experts;
    int rc;

    *a = NULL;
    if ((rc = gguf_text(g, "general.architecture", &name, e)) != 0 || (rc = check_type(g, e)) != 0)
        return rc;
    if (!name.s)
        return err_set(e, ERR_INPUT, "%s: general.architecture is missing", g->path);
    for (int i = 0; i < N_ARCHS; i++) {
        if (!json_str_is(&name, table[i].name))
            continue;
        *a = &table[i];
        if ((rc = gguf_arch_int(*a, s, "expert_count", 0, 0, MAX_EXPERTS, &experts, e)) != 0)
            return rc;
        if ((experts > 0) == table[i].experts)
            return 0;
    }
    if (!*a)
        return unknown(g, &name, e);
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: %s.expert_count is %" PRId64 ", which does not fit this architecture", g->path,
                   (*a)->name, experts);
}

/* ---- reading and writing ---- */

struct maker {
    struct gguf_set *s;
    const struct gguf_arch *a;
    struct buf *out; /* the JSON text so far */
    struct err *e;
    int rc; /* the first error */
};

static const char *full(const struct maker *m, const char *key, char *out, size_t size)
{
    snprintf(out, size, "%s.%s", m->a->name, key);
    return out;
}

static void fail(struct maker *m, int code, const char *fmt, ...)
{
    va_list ap;

    if (m->rc)
        return;
    va_start(ap, fmt);
    m->rc = err_vat(m->e, code, m->s->part[0].path, fmt, ap);
    va_end(ap);
}

static int64_t read_int(struct maker *m, const char *key, int64_t def, int64_t lo, int64_t hi)
{
    int64_t v = 0;

    if (m->rc == 0)
        m->rc = gguf_arch_int(m->a, m->s, key, def, lo, hi, &v, m->e);
    return m->rc ? 0 : v;
}

static int64_t need_int(struct maker *m, const char *key, int64_t hi)
{
    int64_t v = read_int(m, key, 0, 1, hi);

    if (v == 0)
        fail(m, ERR_INPUT, "%s.%s is missing", m->a->name, key);
    return v;
}

static double read_float(struct maker *m, const char *key, double def)
{
    char name[96];
    double v = 0;

    if (m->rc == 0)
        m->rc = gguf_float(&m->s->part[0], full(m, key, name, sizeof(name)), def, &v, m->e);
    return m->rc ? 0 : v;
}

static bool has_key(struct maker *m, const char *key)
{
    char name[96];

    return gguf_get(&m->s->part[0], full(m, key, name, sizeof(name))) != NULL;
}

static struct json_str read_text_key(struct maker *m, const char *key)
{
    struct json_str v = {.s = NULL};
    char name[96];

    if (m->rc == 0)
        m->rc = gguf_text(&m->s->part[0], full(m, key, name, sizeof(name)), &v, m->e);
    return v;
}

/* Writes KEY, whose value the caller writes next. False after an error. */
static bool put_key(struct maker *m, const char *key)
{
    if (m->rc == 0)
        buf_json_key(m->out, key);
    return m->rc == 0;
}

static void put_int(struct maker *m, const char *key, int64_t v)
{
    if (put_key(m, key))
        buf_json_int(m->out, v);
}

static void put_float(struct maker *m, const char *key, double v)
{
    if (!isfinite(v))
        fail(m, ERR_INPUT, "%s would become %g, expected a finite number", key, v);
    if (put_key(m, key))
        buf_json_real(m->out, v);
}

static void put_bool(struct maker *m, const char *key, bool v)
{
    if (put_key(m, key))
        buf_json_bool(m->out, v);
}

static void put_str(struct maker *m, const char *key, const char *v)
{
    if (put_key(m, key))
        buf_json_str(m->out, v, strlen(v));
}

static void put_floats(struct maker *m, const char *key, const float *v, int64_t n)
{
    if (!put_key(m, key))
        return;
    buf_json_begin(m->out, '[');
    for (int64_t i = 0; i < n; i++)
        buf_json_real(m->out, (double)v[i]);
    buf_json_end(m->out, ']');
}

/* ---- rotary embedding ---- */

enum { MAX_HALF = 256 };

/* Reads the HALF factors of the tensor NAME into OUT. False: the tensor is missing or wrong. */
static bool read_factors(struct maker *m, const char *name, int64_t half, float *out)
{
    const struct gguf_tensor *t = m->rc ? NULL : gguf_set_tensor(m->s, name);
    char shape[96];

    if (!t)
        return false;
    if (half > MAX_HALF || t->view.n_dims != 1 || t->view.shape[0] != (size_t)half ||
        t->view.dtype != DT_F32) {
        fail(m, ERR_INPUT, "tensor %s has the shape %s and type %s, expected %lld factors in F32", name,
             view_shape_text(&t->view, shape, sizeof(shape)), dtype_name(t->view.dtype), (long long)half);
        return false;
    }
    view_row_f32(&t->view, 0, out);
    for (int64_t i = 0; i < half; i++)
        if (!(out[i] > 0) || !isfinite(out[i])) {
            fail(m, ERR_INPUT, "factor %lld of tensor %s is %g, expected a number above 0", (long long)i,
                 name, (double)out[i]);
            return false;
        }
    return true;
}

/* Begins the object rope_scaling with rope_type NAME. end_scaling() ends it. */
static void begin_scaling(struct maker *m, const char *name)
{
    if (!put_key(m, "rope_scaling"))
        return;
    buf_json_begin(m->out, '{');
    put_str(m, "rope_type", name);
}

static void end_scaling(struct maker *m)
{
    if (m->rc == 0)
        buf_json_end(m->out, '}');
}

/* Returns the divisor of frequency I for rope type llama3 with low_freq_factor 1, high_freq_factor 4 and
 * original context length ORIGINAL. */
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

/* Returns the original context length, a power of two, with which rope type llama3 gives F. 0: no length does. */
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

static void put_freqs(struct maker *m, const float *f, int64_t half, double theta, int64_t context)
{
    int64_t original = llama3_length(f, half, theta);

    begin_scaling(m, original ? "llama3" : "longrope");
    if (original) {
        put_float(m, "factor", (double)f[half - 1]);
        put_float(m, "low_freq_factor", 1);
        put_float(m, "high_freq_factor", 4);
        put_int(m, "original_max_position_embeddings", original);
    } else {
        put_floats(m, "short_factor", f, half);
        put_floats(m, "long_factor", f, half);
        put_float(m, "attention_factor", 1);
        put_int(m, "original_max_position_embeddings", context);
    }
    end_scaling(m);
}

static void put_longrope(struct maker *m, const float *small, const float *large, int64_t half)
{
    int64_t original = need_int(m, "rope.scaling.original_context_length", 1 << 24);
    double attention = read_float(m, "rope.scaling.attn_factor", -1);

    begin_scaling(m, "longrope");
    put_floats(m, "short_factor", small, half);
    put_floats(m, "long_factor", large, half);
    if (attention > 0)
        put_float(m, "attention_factor", attention);
    end_scaling(m);
    put_int(m, "original_max_position_embeddings", original);
}

static void put_yarn(struct maker *m, int64_t context)
{
    double factor = read_float(m, "rope.scaling.factor", 0);
    int64_t original = read_int(m, "rope.scaling.original_context_length", context, 1, 1 << 24);
    double more = read_float(m, "rope.scaling.attn_factor", 1);
    double fast = read_float(m, "rope.scaling.yarn_beta_fast", 32);
    double slow = read_float(m, "rope.scaling.yarn_beta_slow", 1);

    if (!(factor > 0))
        fail(m, ERR_INPUT, "%s.rope.scaling.type is yarn, which needs a rope.scaling.factor above 0",
             m->a->name);
    begin_scaling(m, "yarn");
    put_float(m, "factor", factor);
    put_float(m, "beta_fast", fast);
    put_float(m, "beta_slow", slow);
    if (more != 1)
        put_float(m, "attention_factor", more * (0.1 * log(factor) + 1));
    if (m->a->id == GGUF_ARCH_GPT_OSS)
        put_bool(m, "truncate", false);
    put_int(m, "original_max_position_embeddings", original);
    end_scaling(m);
}

static void put_linear(struct maker *m, double factor)
{

    if (m->rc || factor == 1)
        return;
    if (!(factor > 0))
        fail(m, ERR_INPUT, "%s.rope.scaling.factor is %g, expected a number above 0", m->a->name, factor);
    begin_scaling(m, "linear");
    put_float(m, "factor", factor);
    end_scaling(m);
}

static void put_scaling(struct maker *m, int64_t context)
{
    struct json_str type = read_text_key(m, "rope.scaling.type");

    if (m->rc)
        return;
    if (json_str_is(&type, "yarn"))
        put_yarn(m, context);
    else if (json_str_is(&type, "linear"))
        put_linear(m, read_float(m, "rope.scaling.factor", 1));
    else if (!type.s)
        put_linear(m, read_float(m, "rope.scale_linear", 1));
    else if (!json_str_is(&type, "none"))
        fail(m, ERR_UNSUPPORTED, "%s.rope.scaling.type %.*s is not supported", m->a->name,
             type.n < 60 ? (int)type.n : 60, type.s);
}

/* Writes partial_rotary_factor so that its product with HEAD_DIM is DIM when it is rounded down. */
static void put_partial(struct maker *m, int64_t head_dim, int64_t dim)
{
    double ratio = (double)dim / (double)head_dim;

    if (m->rc || dim == head_dim)
        return;
    if (m->a->id != GGUF_ARCH_PHI3)
        fail(m, ERR_UNSUPPORTED,
             "%s.rope.dimension_count is %lld, expected %lld, the head size of this "
             "architecture",
             m->a->name, (long long)dim, (long long)head_dim);
    if ((int64_t)((double)head_dim * ratio) < dim)
        ratio = nextafter(ratio, 2);
    put_float(m, "partial_rotary_factor", ratio);
}

static void put_rope(struct maker *m, int64_t head_dim, int64_t context)
{
    int64_t dim = read_int(m, "rope.dimension_count", head_dim, 2, head_dim);
    double theta = read_float(m, "rope.freq_base", 10000);
    float freqs[MAX_HALF], small[MAX_HALF], large[MAX_HALF];
    bool has_small, has_large;

    put_float(m, "rope_theta", theta);
    put_partial(m, head_dim, dim);
    has_small = read_factors(m, "rope_factors_short.weight", dim / 2, small);
    has_large = read_factors(m, "rope_factors_long.weight", dim / 2, large);
    if (has_small && has_large) {
        read_text_key(m, "rope.scaling.type");
        put_longrope(m, small, large, dim / 2);
    } else if (has_small || has_large) {
        fail(
            m, ERR_INPUT,
            "only one of the tensors rope_factors_short.weight and rope_factors_long.weight exists, expected both");
    } else if (read_factors(m, "rope_freqs.weight", dim / 2, freqs)) {
        put_freqs(m, freqs, dim / 2, theta, context);
    } else {
        put_scaling(m, context);
    }
}

/* ---- one function for each architecture ---- */

enum { MAX_LAYERS = 4096, MAX_HEADS = 4096 };

/* Keys of architectures that have no effect in Gallop. */
static const char *const bookkeeping[] = {
    "vocab_size",
    "tensor_data_layout",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length", /* read if the scaling is used */
    "pooling_type",
    "use_parallel_residual"};

struct sizes {
    int64_t layers, context, hidden, inner, heads, kv_heads, head_dim;
};

static bool has_tensor(const struct maker *m, const char *name)
{
    return gguf_set_tensor(m->s, name) != NULL;
}

static struct sizes read_sizes(struct maker *m)
{
    struct sizes z = {.layers = need_int(m, "block_count", MAX_LAYERS),
                      .context = need_int(m, "context_length", 1 << 24),
                      .hidden = need_int(m, "embedding_length", 1 << 20),
                      .heads = need_int(m, "attention.head_count", MAX_HEADS)};
    int64_t value;

    z.inner = read_int(m, "feed_forward_length", 0, 1, 1 << 22);
    z.kv_heads = read_int(m, "attention.head_count_kv", z.heads, 1, MAX_HEADS);
    z.head_dim = read_int(m, "attention.key_length", m->rc ? 0 : z.hidden / z.heads, 1, 1 << 16);
    value = read_int(m, "attention.value_length", z.head_dim, 1, 1 << 16);
    if (value != z.head_dim)
        fail(m, ERR_UNSUPPORTED,
             "%s.attention.value_length is %" PRId64 ", expected %" PRId64 ", the key_length", m->a->name,
             value, z.head_dim);
    return z;
}

/* Writes the number of rows of the embedding as vocab_size, because no key reliably has this number. */
static void put_vocab(struct maker *m)
{
    const struct gguf_tensor *t = gguf_set_tensor(m->s, "token_embd.weight");

    if (!t || t->view.n_dims != 2)
        fail(m, ERR_INPUT, "tensor token_embd.weight is missing or does not have two dimensions");
    else
        put_int(m, "vocab_size", (int64_t)t->view.shape[0]);
}

static struct sizes put_common(struct maker *m)
{
    struct sizes z = read_sizes(m);

    put_int(m, "num_hidden_layers", z.layers);
    put_int(m, "max_position_embeddings", z.context);
    put_int(m, "hidden_size", z.hidden);
    if (z.inner && m->a->id != GGUF_ARCH_GPT_OSS) /* gpt_oss() writes it from another key */
        put_int(m, "intermediate_size", z.inner);
    put_int(m, "num_attention_heads", z.heads);
    put_int(m, "num_key_value_heads", z.kv_heads);
    put_int(m, "head_dim", z.head_dim);
    put_float(m, "rms_norm_eps", read_float(m, "attention.layer_norm_rms_epsilon", 1e-6));
    put_bool(m, "tie_word_embeddings", !has_tensor(m, "output.weight"));
    put_vocab(m);
    put_rope(m, z.head_dim, z.context);
    return z;
}

static void put_experts(struct maker *m, const char *key)
{
    put_int(m, key, need_int(m, "expert_count", 4096));
    put_int(m, "num_experts_per_tok", need_int(m, "expert_used_count", 4096));
}

static void llama(struct maker *m)
{
    put_common(m);
    if (m->a->experts) {
        put_experts(m, "num_local_experts");
        return;
    }
    put_bool(m, "attention_bias", has_tensor(m, "blk.0.attn_q.bias"));
    put_bool(m, "mlp_bias", has_tensor(m, "blk.0.ffn_gate.bias"));
}

/* Writes the indices of the layers without experts. */
static void put_dense_layers(struct maker *m, int64_t layers)
{
    char name[64];

    if (!put_key(m, "mlp_only_layers"))
        return;
    buf_json_begin(m->out, '[');
    for (int64_t i = 0; i < layers; i++) {
        snprintf(name, sizeof(name), "blk.%" PRId64 ".ffn_gate_inp.weight", i);
        if (!has_tensor(m, name))
            buf_json_int(m->out, i);
    }
    buf_json_end(m->out, ']');
}

static void qwen3moe(struct maker *m)
{
    struct sizes z = put_common(m);

    put_experts(m, "num_experts");
    put_int(m, "moe_intermediate_size", need_int(m, "expert_feed_forward_length", 1 << 22));
    put_bool(m, "norm_topk_prob", true);
    put_int(m, "decoder_sparse_step", 1);
    put_dense_layers(m, z.layers);
}

static void phi3(struct maker *m)
{
    int64_t window;

    put_common(m);
    window = read_int(m, "attention.sliding_window", 0, 0, 1 << 24);
    if (window)
        put_int(m, "sliding_window", window);
}

static void gemma3(struct maker *m)
{
    struct sizes z = put_common(m);
    int64_t window = need_int(m, "attention.sliding_window", 1 << 24);
    /* only the 27B model scales queries by hidden / heads instead of the head size */
    bool largest = z.layers == 62 && z.heads > 0;

    put_int(m, "sliding_window", window);
    put_int(m, "sliding_window_pattern", read_int(m, "attention.sliding_window_pattern", 6, 1, 1024));
    put_float(m, "rope_local_base_freq", read_float(m, "rope.freq_base_swa", 10000));
    put_int(m, "query_pre_attn_scalar", largest ? z.hidden / z.heads : z.head_dim);
    put_str(m, "hidden_activation", "gelu_pytorch_tanh");
    if (has_key(m, "final_logit_softcapping"))
        put_float(m, "final_logit_softcapping", read_float(m, "final_logit_softcapping", 0));
}

static void gpt2(struct maker *m)
{
    struct sizes z = read_sizes(m);

    put_int(m, "n_layer", z.layers);
    put_int(m, "n_positions", z.context);
    put_int(m, "n_embd", z.hidden);
    if (z.inner)
        put_int(m, "n_inner", z.inner);
    put_int(m, "n_head", z.heads);
    put_float(m, "layer_norm_epsilon", read_float(m, "attention.layer_norm_epsilon", 1e-5));
    put_bool(m, "tie_word_embeddings", !has_tensor(m, "output.weight"));
    put_vocab(m);
    if (z.kv_heads != z.heads)
        fail(m, ERR_UNSUPPORTED, "gpt2.attention.head_count_kv is %" PRId64 ", expected head_count %" PRId64,
             z.kv_heads, z.heads);
}

static void gpt_oss(struct maker *m)
{
    put_common(m);
    put_experts(m, "num_local_experts");
    put_int(m, "intermediate_size", need_int(m, "expert_feed_forward_length", 1 << 22));
    put_int(m, "sliding_window", need_int(m, "attention.sliding_window", 1 << 24));
    put_bool(m, "attention_bias", has_tensor(m, "blk.0.attn_q.bias"));
    put_float(m, "swiglu_limit", 7);
}

/* Writes is_causal for architectures whose layers have no windows in llama.cpp. */
static void put_direction(struct maker *m)
{
    bool plain = m->a->id == GGUF_ARCH_LLAMA || m->a->id == GGUF_ARCH_QWEN2 || m->a->id == GGUF_ARCH_QWEN3;
    bool causal = true;
    char name[96];

    if (plain && m->rc == 0)
        m->rc =
            gguf_bool(&m->s->part[0], full(m, "attention.causal", name, sizeof(name)), true, &causal, m->e);
    if (!causal)
        put_bool(m, "is_causal", false);
}

static void write_config(struct maker *m)
{
    buf_json_key(m->out, "architectures");
    buf_json_begin(m->out, '[');
    buf_json_str(m->out, m->a->class_name, strlen(m->a->class_name));
    buf_json_end(m->out, ']');
    put_str(m, "model_type", m->a->model_type);
    put_direction(m);
    switch (m->a->id) {
    case GGUF_ARCH_LLAMA:
    case GGUF_ARCH_MIXTRAL: llama(m); break;
    case GGUF_ARCH_QWEN2:
    case GGUF_ARCH_QWEN3: put_common(m); break;
    case GGUF_ARCH_QWEN3MOE: qwen3moe(m); break;
    case GGUF_ARCH_PHI3: phi3(m); break;
    case GGUF_ARCH_GEMMA3: gemma3(m); break;
    case GGUF_ARCH_GPT2: gpt2(m); break;
    case GGUF_ARCH_GPT_OSS: gpt_oss(m); break;
    }
}

/* Returns whether the entry KV, whose key ends in REST, has a value that does not change the computation. */
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

/* Fails if an unread key of the architecture is not neutral, because it may change the computation. */
static void judge(struct maker *m)
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
        fail(m, ERR_UNSUPPORTED, "unknown keys that may change what this architecture computes: %s", unknown);
}

int gguf_config(struct buf *out, struct gguf_set *s, const struct gguf_arch *a, struct err *e)
{
    struct maker m = {.s = s, .a = a, .out = out, .e = e};

    buf_json_begin(out, '{');
    write_config(&m);
    buf_json_end(out, '}');
    if (m.rc == 0)
        judge(&m);
    return m.rc == 0 && out->oom ? err_nomem(e, "a config") : m.rc;
}

int gguf_pooling(struct buf *out, struct gguf_set *s, struct err *e)
{
    enum { NONE, MEAN, CLS, LAST, RANK };
    static const char *const names[] = {"none", "mean", "cls", "last", "rank"};
    const struct gguf_arch *arch;
    int64_t type;
    int rc;

    if ((rc = gguf_arch_of(&arch, s, e)) != 0 ||
        (rc = gguf_arch_int(arch, s, "pooling_type", LAST, NONE, RANK, &type, e)) != 0)
        return rc;
    if (type == CLS || type == RANK)
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: pooling_type %s is not supported, expected mean or last (pooling last or mean decides "
            "instead)",
            s->part[0].path, names[type]);
    buf_fmt(out, "{\"pooling_mode\":\"%s\"}", type == MEAN ? "mean" : "lasttoken");
    return out->oom ? err_nomem(e, s->part[0].path) : 0;
}
