/* decoder.h - what decoders share: config keys, tensors under Llama's names, opening, forward, closing.
 *
 * Llama, Mistral, Qwen, Phi-3, Gemma and the mixtures of experts use the same names of tensors and differ in
 * members of struct decoder_config. A model's file fills these from the config and names the function that
 * computes a layer. Use of this file is optional. Failures are kept in the model (bind.h).
 */
#ifndef GALLOP_MODEL_DECODER_H
#define GALLOP_MODEL_DECODER_H

#include "model/bind.h"

/* The parts of a decoder layer. Parts that a model does not have are zero. */
struct decoder_layer {
    /* Before attention and before the MLP. */
    struct op_norm norm_attn, norm_mlp;
    /* After attention and after the MLP (Gemma). */
    struct op_norm post_attn, post_mlp;
    struct op_norm q_norm, k_norm;
    struct linear qkv, out;
    struct op_attn attn;
    struct op_mlp mlp;
    /* Instead of the MLP, or beside it; NULL: none. */
    struct moe *moe;
};

/* Computes layer L. */
typedef void decoder_layer_fn(const struct decoder_layer *w, size_t l, const struct op_sink *o,
                              struct model_work *s, const struct batch *b);

/* The layer of most families (llama.c). */
decoder_layer_fn llama_layer;

/* A whole model: m->impl of the families that use this file. */
struct decoder {
    struct op_embed embed;
    /* Learned positions, which are added to the embedding; zeroed: none. */
    struct op_embed positions;
    struct op_norm norm;
    struct linear head;
    /* [L] */
    struct decoder_layer *layer;
    decoder_layer_fn *layer_forward;
    /* Data of the architecture. */
    void *more;
};

/* Defaults of a class of transformers for keys that a config may omit. */
struct decoder_sizes {
    size_t hidden, inner, layers, heads;
    /* 0: as many as heads. */
    size_t kv_heads;
    /* 0: hidden / heads. */
    size_t head_dim;
    size_t vocab, max_len;
    double eps;
};

struct decoder_config {
    /* Set before decoder_read(): the class's key of the activation and its default (NULL: hidden_act, silu),
     * and whether the head is the embedding by default. */
    const char *act_key, *act_name;
    bool tied;
    /* Set by decoder_read(). */
    double eps;
    enum kern_act act;
    /* Set by the model's file, like all members below. */
    bool qkv_bias, out_bias, mlp_bias;
    /* qkv_proj and gate_up_proj are one tensor each. */
    bool fused;
    /* self_attn.q_norm and k_norm. */
    bool qk_norm;
    /* self_attn.sinks: a logit per head. */
    bool sinks;
    /* A norm after attention and after the MLP, too (Gemma). */
    bool post_norms;
    /* Layers with a window use the model's second rope. */
    bool local_rope;
    /* Flags of bind_norm() for all norms. */
    unsigned norm_how;
    /* Of scores; 0: 1 / root of the head size. */
    double scale;
    /* Of scores; 0: none. */
    double softcap;
    /* [L], 0: the layer sees all rows; or NULL. */
    const size_t *window;
    /* n_experts 0: none. */
    struct bind_moe moe;
    /* [L] which layers have experts; NULL: all. */
    const bool *experts;
    /* Data of the model's file. */
    const void *own;
};

/* Reads the keys that all have: hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
 * num_key_value_heads, head_dim, vocab_size, max_position_embeddings, rms_norm_eps, tie_word_embeddings and
 * the activation, into model_info and C. Biases, rope and windows are the model's own. */
void decoder_read(struct model *m, struct decoder_config *c, const struct decoder_sizes *of_class);

/* Returns windows for struct decoder_config: ROWS in every layer. */
const size_t *decoder_same_window(struct model *m, size_t rows);

/* Returns ROWS for the sliding layers, by layer_types or, if the key is missing, by KIND [L]. The kind
 * REFUSED is an error. */
const size_t *decoder_windows(struct model *m, size_t rows, enum bind_layer_kind *kind,
                              enum bind_layer_kind refused);

/* Returns the windows that Qwen's use_sliding_window, sliding_window, max_window_layers and layer_types
 * give. */
const size_t *decoder_qwen_windows(struct model *m);

/* Sets m->impl, with L zeroed layers, and the model's forward and close. NULL: failed. */
struct decoder *decoder_new(struct model *m, decoder_layer_fn *forward);

/* Opens m->impl, which is created unless it exists: embedding, layers, each by OPEN_LAYER at
 * "model.layers.L.", final norm and head. The prefix is that of the checkpoint: "model.", "",
 * "language_model.model." or "model.language_model.". */
typedef void decoder_open_fn(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                             const struct decoder_config *c);
void decoder_open(struct model *m, const struct decoder_config *c, decoder_open_fn *open_layer,
                  decoder_layer_fn *forward);

/* Opens the layers only, at AT "L.", for models whose embedding and head have other names. */
void decoder_open_layers(struct model *m, const char *at, const struct decoder_config *c,
                         decoder_open_fn *open_layer);

/* Open a layer under Llama's names as C describes it, and its attention with the norm before it. */
decoder_open_fn decoder_open_layer, decoder_open_attention;

/* Opens the gate, up and down linears of MODULE. */
void decoder_open_mlp(struct model *m, struct op_mlp *w, const char *at, const char *module, size_t inner,
                      const struct decoder_config *c);

/* Returns the attention of a model with the same heads in all layers, without rope, window or norms. */
struct op_attn decoder_attn(const struct model *m);

void decoder_close(struct model *m);

/* Ends a forward pass: norms x + r (r may be NULL) of the wanted rows and computes their logits. */
void decoder_tail(const struct model *m, const struct op_sink *o, const struct batch *b,
                  struct model_work *s);

/* Scales the embedding by the root of the hidden size, rounded to the type of the arithmetic (Gemma). */
void decoder_scale_embedding(struct model *m);

#endif
