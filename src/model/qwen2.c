/* qwen2.c - Qwen2 and Qwen2.5 (Qwen2ForCausalLM).
 *
 * Llama's layer with biases on q, k and v, and with sliding windows in some layers where use_sliding_window
 * says so. Reference: transformers, models/qwen2/modeling_qwen2.py.
 */
#include "model/decoder.h"
#include "model/llama.h"

static int qwen2_open(struct model *m, struct err *e)
{
    struct decoder_config c = {.hidden = 4096,
                               .inner = 22016,
                               .layers = 32,
                               .heads = 32,
                               .kv_heads = 32,
                               .vocab = 151936,
                               .max_len = 32768,
                               .eps = 1e-6,
                               .qkv_bias = true};
    int rc;

    if ((rc = decoder_read(m, &c, e)) != 0 || (rc = decoder_windows(m, &c.window, e)) != 0 ||
        (rc = block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 10000},
                         &m->info.rope[0], e)) != 0)
        return rc;
    m->info.n_ropes = 1;
    return decoder_open(m, &c, decoder_layer, e);
}

const struct model_arch qwen2_arch = {.class_name = "Qwen2ForCausalLM",
                                      .model_type = "qwen2",
                                      .open = qwen2_open,
                                      .forward = decoder_forward,
                                      .layer = llama_layer,
                                      .close = decoder_close};
