/* gemma3.c - Gemma 3: the text model (Gemma3ForCausalLM), and the text part of the multimodal model
 * (Gemma3ForConditionalGeneration).
 *
 * The model uses Llama's layer (llama_layer) with norms before and after attention and MLP, which multiply by
 * 1 + w, and with norms of q and k. Embeddings are multiplied by sqrt(hidden size), and scores by 1 /
 * sqrt(query_pre_attn_scalar). Local layers see a window and have a rope with another theta. Reference:
 * transformers, models/gemma3/modeling_gemma3.py.
 */
#include <math.h>

#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "model/decoder.h"
#include "model/model.h"

/* Returns the windows of the layers. layer_types names the local layers; by default all but every sixth are
 * local. A window in both directions lies half before and half after the row. */
static const size_t *read_windows(struct model *m, bool two_sided)
{
    size_t L = m->info.n_layers, rows = bind_window(m, 4096) / (two_sided ? 2 : 1), pattern;
    enum bind_layer_kind *kind = bind_array(m, L, sizeof(*kind), "layer_types");

    pattern = bind_int(m, "sliding_window_pattern", 6, 1, 1 << 20);
    for (size_t l = 0; l < L && !bind_failed(m); l++)
        kind[l] = (l + 1) % pattern ? BIND_SLIDING : BIND_FULL;
    return decoder_windows(m, rows, kind, BIND_NONE);
}

void gemma3_open(struct model *m)
{
    static const struct decoder_sizes sizes = {2304, 9216, 26, 8, 4, 256, 262208, 131072, 1e-6};
    struct decoder_config c = {.act_key = "hidden_activation",
                               .act_name = "gelu_pytorch_tanh",
                               .tied = true,
                               .qk_norm = true,
                               .post_norms = true,
                               .local_rope = true,
                               .norm_how = BIND_PLUS_ONE};
    struct bind_rope global = {.theta = 1000000, .sub = "full_attention", .fixed_length = true};
    struct bind_rope local = {.theta = 10000,
                              .theta_key = "rope_local_base_freq",
                              .sub = "sliding_attention",
                              .unscaled = true,
                              .fixed_length = true};
    bool two_sided;

    bind_text_config(m);
    two_sided = bind_bool(m, "use_bidirectional_attention", false);
    if (two_sided && m->bidirectional)
        bind_refuse(m, ERR_UNSUPPORTED,
                    "use_bidirectional_attention is true and is_causal false, expected only one of them");
    m->bidirectional |= two_sided;
    decoder_read(m, &c, &sizes);
    c.window = read_windows(m, two_sided);
    c.qkv_bias = c.out_bias = bind_bool(m, "attention_bias", false);
    m->info.logit_softcap = (float)bind_float(m, "final_logit_softcapping", 0, 0, 1e6);
    bind_rope(m, &global);
    bind_rope(m, &local);
    c.scale = 1 / sqrt(bind_float(m, "query_pre_attn_scalar", 256, 1e-6, 1e6));
    c.softcap = bind_float(m, "attn_logit_softcapping", 0, 0, 1e6);
    config_ignore(m->config, "_sliding_window_pattern"); /* configs with this key also have layer_types */
    weights_skip(m->weights, "*vision_tower.*");
    weights_skip(m->weights, "*multi_modal_projector.*");
    decoder_open(m, &c, decoder_open_layer, llama_layer);
    decoder_scale_embedding(m);
}
