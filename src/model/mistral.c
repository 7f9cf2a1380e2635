/* mistral.c - Mistral (MistralForCausalLM).
 *
 * Llama's layer; every layer sees a window of sliding_window keys, or all of them where the config says null.
 * Reference: transformers, models/mistral/modeling_mistral.py.
 */
#include "model/decoder.h"
#include "model/llama.h"

static int mistral_open(struct model *m, struct err *e)
{
    struct decoder_config c = {.hidden = 4096,
                               .inner = 14336,
                               .layers = 32,
                               .heads = 32,
                               .kv_heads = 8,
                               .vocab = 32000,
                               .max_len = 131072,
                               .eps = 1e-6};
    int rc;

    if ((rc = decoder_read(m, &c, e)) != 0 || (rc = block_window(m, 4096, &c.sliding, e)) != 0 ||
        (rc = block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 10000},
                         &m->info.rope[0], e)) != 0)
        return rc;
    m->info.n_ropes = 1;
    return decoder_open(m, &c, decoder_layer, e);
}

const struct model_arch mistral_arch = {.class_name = "MistralForCausalLM",
                                        .model_type = "mistral",
                                        .open = mistral_open,
                                        .forward = decoder_forward,
                                        .layer = llama_layer,
                                        .close = decoder_close};
