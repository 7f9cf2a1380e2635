/* llama.c - Llama's layer, and the classes that use it: Llama 1 to 3.3, Mistral, Qwen 2 to 3, Phi-3 and 4,
 * and the mixtures of experts Mixtral and Qwen 3 MoE.
 *
 * The layer has RMSNorm before attention and MLP, grouped key/value heads, RoPE on pairs (i, i + D/2), and a
 * SiLU-gated MLP. q, k and v are joined into one matrix, gate and up into another. The layer branches on
 * optional parts: norms of the heads of q and k (Qwen 3, Gemma), norms after attention and MLP (Gemma),
 * experts instead of the MLP. GPT-2 and OPT also use this layer, with LayerNorm and without rope. References:
 * transformers, models/{llama,mistral,qwen2,qwen3,phi3,mixtral,qwen3_moe}/modeling_*.py.
 */
#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "model/decoder.h"
#include "model/model.h"
#include "ops/batch.h"

/* Computes one decoder layer. x is the fp32 residual stream; r is the MLP output of the previous layer, which
 * is added to x first (layer 0: none). */
void llama_layer(const struct decoder_layer *w, size_t l, const struct op_sink *o, struct model_work *s,
                 const struct batch *b)
{
    const float *last = l ? s->r : NULL;
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, last, NULL, T);
    o->norm(o, s->h, s->x, last, &w->norm_attn, T); /* x += r; h = norm(x)                 [T, E] */
    o->linear(o, s->qkv, &w->qkv, s->h, T);         /* one packed matrix         [T, (H + 2 K) D] */
    if (w->attn.q_norm)
        o->heads(o, s->qkv, &w->attn, T); /* norms each head of q and k */
    o->rope(o, s->qkv, &w->attn, T);      /* rotates q and k in place */
    /* stores k and v, attends to the cache [T, H D] */
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T); /* [T, E] */
    if (w->post_attn.n)
        o->norm(o, s->r, s->r, NULL, &w->post_attn, T); /* r = norm(r) */
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);      /* x += r; h = norm(x) */
    if (w->moe)
        o->moe(o, s->r, w->moe, s->h, NULL, T); /* weighted sum of the chosen experts */
    else
        o->mlp(o, s->r, &w->mlp, s->h, T); /* down(act(gate) * up) */
    if (w->post_mlp.n)
        o->norm(o, s->r, s->r, NULL, &w->post_mlp, T);
}

void llama_open(struct model *m)
{
    static const struct decoder_sizes sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048, 1e-6};
    struct decoder_config c = {0};

    decoder_read(m, &c, &sizes);
    c.qkv_bias = c.out_bias = bind_bool(m, "attention_bias", false);
    c.mlp_bias = bind_bool(m, "mlp_bias", false);
    bind_rope(m, &(struct bind_rope){.theta = 10000});
    /* a training key, which does not change results in Hugging Face */
    config_ignore(m->config, "pretraining_tp");
    weights_skip(m->weights, "*rotary_emb.inv_freq");
    decoder_open(m, &c, decoder_open_layer, llama_layer);
}

/* Mistral: every layer sees a window of sliding_window keys, or all keys if sliding_window is null. */
void llama_open_mistral(struct model *m)
{
    static const struct decoder_sizes sizes = {4096, 14336, 32, 32, 8, 0, 32000, 131072, 1e-6};
    struct decoder_config c = {0};

    decoder_read(m, &c, &sizes);
    c.window = decoder_same_window(m, bind_window(m, 4096));
    bind_rope(m, &(struct bind_rope){.theta = 10000});
    decoder_open(m, &c, decoder_open_layer, llama_layer);
}

/* Qwen 2: q, k and v have biases, and some layers have a sliding window if use_sliding_window is true. */
void llama_open_qwen2(struct model *m)
{
    static const struct decoder_sizes sizes = {4096, 22016, 32, 32, 32, 0, 151936, 32768, 1e-6};
    struct decoder_config c = {.qkv_bias = true};

    decoder_read(m, &c, &sizes);
    c.window = decoder_qwen_windows(m);
    bind_rope(m, &(struct bind_rope){.theta = 10000});
    decoder_open(m, &c, decoder_open_layer, llama_layer);
}

/* Qwen 3: each head of q and k is normed (RMSNorm) before rope; windows are as in Qwen 2. */
void llama_open_qwen3(struct model *m)
{
    static const struct decoder_sizes sizes = {4096, 22016, 32, 32, 32, 128, 151936, 32768, 1e-6};
    struct decoder_config c = {.qk_norm = true};

    decoder_read(m, &c, &sizes);
    c.window = decoder_qwen_windows(m);
    c.qkv_bias = c.out_bias = bind_bool(m, "attention_bias", false);
    bind_rope(m, &(struct bind_rope){.theta = 10000});
    decoder_open(m, &c, decoder_open_layer, llama_layer);
}

/* Phi-3: q, k, v are stored as one tensor, gate and up as another. Rope rotates partial_rotary_factor of each
 * head; its types su and yarn are older names of longrope. */
void llama_open_phi3(struct model *m)
{
    static const struct decoder_sizes sizes = {3072, 8192, 32, 32, 0, 0, 32064, 4096, 1e-5};
    struct decoder_config c = {.fused = true};

    decoder_read(m, &c, &sizes);
    c.window = decoder_same_window(m, bind_window(m, 0));
    bind_rope(m, &(struct bind_rope){.theta = 10000, .partial = true, .phi = true});
    /* only longrope uses the key, and has read it already */
    config_ignore(m->config, "original_max_position_embeddings");
    decoder_open(m, &c, decoder_open_layer, llama_layer);
}

/* Mixtral: Mistral's layer with experts. The router takes the softmax over all logits and normalizes the
 * chosen weights to a sum of 1. Either all layers have a window or none. */
void llama_open_mixtral(struct model *m)
{
    static const struct decoder_sizes sizes = {4096, 14336, 32, 32, 8, 0, 32000, 131072, 1e-5};
    static const char *const experts[2] = {"num_local_experts", "num_experts"};
    struct decoder_config c = {.moe = {.module = "block_sparse_moe.experts",
                                       .router = "block_sparse_moe.gate",
                                       .stored = BIND_EXPERTS_APART,
                                       .gate = "w1",
                                       .up = "w3",
                                       .down = "w2",
                                       .n_experts = 8,
                                       .top_k = 2,
                                       .like = {.gate = MOE_SOFTMAX_ALL, .renorm = true}}};

    decoder_read(m, &c, &sizes);
    c.window = decoder_same_window(m, bind_window(m, 0));
    bind_moe_sizes(m, &c.moe, experts, "num_experts_per_tok");
    c.moe.inner = m->info.inner;
    c.moe.like.act = c.act;
    bind_rope(m, &(struct bind_rope){.theta = 1000000});
    decoder_open(m, &c, decoder_open_layer, llama_layer);
}

/* Returns which layers of Qwen 3 MoE have experts: layer l if l + 1 is a multiple of decoder_sparse_step, and
 * l is not in mlp_only_layers. */
static const bool *read_experts(struct model *m)
{
    size_t L = m->info.n_layers, step = bind_int(m, "decoder_sparse_step", 1, 1, 1 << 20), n;
    const int64_t *dense = bind_ints(m, "mlp_only_layers", &n);
    bool *experts = bind_array(m, L, sizeof(*experts), "the layers");

    for (size_t l = 0; l < L && experts; l++)
        experts[l] = (l + 1) % step == 0;
    for (size_t i = 0; i < n && experts; i++)
        if (dense[i] >= 0 && (size_t)dense[i] < L)
            experts[dense[i]] = false;
    return experts;
}

/* Qwen 3 MoE: Qwen 3's layer with experts in some layers. The router takes the softmax over all logits, and
 * normalizes the chosen weights to a sum of 1 if norm_topk_prob is true. All layers have a window, or
 * none. */
void llama_open_qwen3_moe(struct model *m)
{
    static const struct decoder_sizes sizes = {2048, 6144, 24, 32, 4, 0, 151936, 32768, 1e-6};
    static const char *const experts[2] = {"num_experts", "num_local_experts"};
    struct decoder_config c = {.qk_norm = true,
                               .moe = {.module = "mlp.experts",
                                       .router = "mlp.gate",
                                       .stored = BIND_EXPERTS_APART,
                                       .gate = "gate_proj",
                                       .up = "up_proj",
                                       .down = "down_proj",
                                       .n_experts = 128,
                                       .top_k = 8,
                                       .like = {.gate = MOE_SOFTMAX_ALL}}};
    bool windows;
    size_t rows;

    decoder_read(m, &c, &sizes);
    bind_moe_sizes(m, &c.moe, experts, "num_experts_per_tok");
    c.moe.inner = bind_int(m, "moe_intermediate_size", 768, 1, 1 << 22);
    c.moe.like.renorm = bind_bool(m, "norm_topk_prob", false);
    c.moe.like.act = c.act;
    c.qkv_bias = c.out_bias = bind_bool(m, "attention_bias", false);
    windows = bind_bool(m, "use_sliding_window", false);
    rows = bind_window(m, 4096);
    c.window = decoder_same_window(m, windows ? rows : 0);
    config_ignore(m->config, "max_window_layers");
    c.experts = read_experts(m);
    bind_rope(m, &(struct bind_rope){.theta = 10000});
    decoder_open(m, &c, decoder_open_layer, llama_layer);
}
