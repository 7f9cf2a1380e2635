/* phi3.c - Phi-3, 3.5, 4 and 4-mini (Phi3ForCausalLM).
 *
 * Llama's layer with q, k, v and gate, up each stored as one tensor; rope turns a part of each head where
 * partial_rotary_factor says so, and its types su and yarn are older names of longrope.
 * Reference: transformers, models/phi3/modeling_phi3.py.
 */
#include "model/decoder.h"
#include "model/llama.h"

static int phi3_open(struct model *m, struct err *e)
{
    struct decoder_config c = {.hidden = 3072,
                               .inner = 8192,
                               .layers = 32,
                               .heads = 32,
                               .vocab = 32064,
                               .max_len = 4096,
                               .eps = 1e-5,
                               .fused = true};
    int rc;

    if ((rc = decoder_read(m, &c, e)) != 0 || (rc = block_window(m, 0, &c.sliding, e)) != 0)
        return rc;
    struct block_rope rope = {.head_dim = m->info.head_dim, .theta = 10000, .partial = true, .phi = true};

    if ((rc = block_rope(m, &rope, &m->info.rope[0], e)) != 0)
        return rc;
    m->info.n_ropes = 1;
    config_ignore(m->config,
                  "original_max_position_embeddings"); /* longrope alone uses it, and has read it */
    return decoder_open(m, &c, decoder_layer, e);
}

const struct model_arch phi3_arch = {.class_name = "Phi3ForCausalLM",
                                     .model_type = "phi3",
                                     .open = phi3_open,
                                     .forward = decoder_forward,
                                     .layer = llama_layer,
                                     .close = decoder_close};
