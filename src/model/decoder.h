/* decoder.h - code that decoder models share: config keys, tensors under Llama's names, opening, forward
 * pass, closing.
 *
 * Llama, Mistral, Qwen, Phi-3, Gemma and the mixtures of experts use the same names of tensors and differ in
 * members of struct decoder_config. The file of an architecture fills in this struct from the config and
 * passes the function that computes a layer. An architecture need not use this file. The first failure is
 * kept in the model (bind.h).
 */
#ifndef GALLOP_MODEL_DECODER_H
#define GALLOP_MODEL_DECODER_H

#include <stdbool.h>
#include <stddef.h>

#include "kern/vector.h"
#include "model/bind.h"
#include "ops/linear.h"
#include "ops/op.h"

struct batch;
struct model_work;
struct op_sink;

/* The parts of a decoder layer. Parts that a model lacks are zeroed. */
struct decoder_layer {
    /* The norms before attention and before the MLP. */
    struct op_norm norm_attn, norm_mlp;
    /* The norms after attention and after the MLP (Gemma). */
    struct op_norm post_attn, post_mlp;
    struct op_norm q_norm, k_norm;
    struct linear qkv, out;
    struct op_attn attn;
    struct op_mlp mlp;
    /* A mixture of experts instead of the MLP or beside it; NULL: none. */
    struct moe *moe;
};

/* Computes layer L. */
typedef void decoder_layer_fn(const struct decoder_layer *w, size_t l, const struct op_sink *o,
                              struct model_work *s, const struct batch *b);

/* The layer function of most families (llama.c). */
decoder_layer_fn llama_layer;

/* The weights of a whole model: m->impl of the architectures that use this file. */
struct decoder {
    struct op_embed embed;
    /* Learned positions, which are added to the embedding. Zeroed: none. */
    struct op_embed positions;
    struct op_norm norm;
    struct linear head;
    /* The layers, [L]. */
    struct decoder_layer *layer;
    decoder_layer_fn *layer_forward;
    /* Data of the architecture. */
    void *more;
};

/* The defaults of a transformers class for config keys that may be missing. */
struct decoder_sizes {
    size_t hidden, inner, layers, heads;
    /* 0: the same number as heads. */
    size_t kv_heads;
    /* 0: hidden / heads. */
    size_t head_dim;
    size_t vocab, max_len;
    double eps;
};

struct decoder_config {
    /* Set before decoder_read(): the config key of the activation and its default (NULL: hidden_act, silu),
     * and the default of tie_word_embeddings. */
    const char *act_key, *act_name;
    bool tied;
    /* Set by decoder_read(). */
    double eps;
    enum kern_act act;
    /* Set by the architecture, like all members below: which linears have biases. */
    bool qkv_bias, out_bias, mlp_bias;
    /* q, k and v are stored as one tensor qkv_proj, gate and up as gate_up_proj. */
    bool fused;
    /* q and k have norms: self_attn.q_norm and k_norm. */
    bool qk_norm;
    /* Attention has a sink logit for each head: self_attn.sinks. */
    bool sinks;
    /* Attention and MLP are also followed by a norm (Gemma). */
    bool post_norms;
    /* Layers with a window use the model's second rope. */
    bool local_rope;
    /* Flags of bind_norm() for all norms. */
    unsigned norm_how;
    /* Factor of the attention scores; 0: 1 / sqrt(head size). */
    double scale;
    /* Softcap of the attention scores; 0: none. */
    double softcap;
    /* [L] The window of each layer, 0: all rows. NULL: all layers see all rows. */
    const size_t *window;
    /* The mixtures of experts; n_experts 0: none. */
    struct bind_moe moe;
    /* [L] Whether a layer has experts. NULL: all layers have them. */
    const bool *experts;
    /* Further data for the functions of the architecture. */
    const void *own;
};

/* Reads the keys that all architectures of this kind have into model_info and C: hidden_size,
 * intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, vocab_size,
 * max_position_embeddings, rms_norm_eps, tie_word_embeddings and the activation. The architecture reads
 * biases, rope and windows. */
void decoder_read(struct model *m, struct decoder_config *c, const struct decoder_sizes *of_class);

/* Returns an array for decoder_config.window with ROWS for every layer. */
const size_t *decoder_same_window(struct model *m, size_t rows);

/* Returns an array for decoder_config.window: ROWS for sliding layers, 0 for others. layer_types gives the
 * kinds of the layers and overwrites the defaults KIND [L]. The kind REFUSED is an error. */
const size_t *decoder_windows(struct model *m, size_t rows, enum bind_layer_kind *kind,
                              enum bind_layer_kind refused);

/* Returns an array for decoder_config.window from Qwen's keys use_sliding_window, sliding_window,
 * max_window_layers and layer_types. */
const size_t *decoder_qwen_windows(struct model *m);

/* Allocates m->impl with zeroed layers, and sets the model's forward, tail and close. NULL: failure. */
struct decoder *decoder_new(struct model *m, decoder_layer_fn *forward);

/* Opens the embedding, the layers, the final norm and the head of m->impl, which is allocated if it is NULL.
 * OPEN_LAYER opens layer L under the name AT, such as "model.layers.0.". The prefix before "layers" is found
 * in the checkpoint: "model.", "", "language_model.model." or "model.language_model.". */
typedef void decoder_open_fn(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                             const struct decoder_config *c);
void decoder_open(struct model *m, const struct decoder_config *c, decoder_open_fn *open_layer,
                  decoder_layer_fn *forward);

/* Opens only the layers, under the names "AT0.", "AT1.", ... The caller opens embedding and head. */
void decoder_open_layers(struct model *m, const char *at, const struct decoder_config *c,
                         decoder_open_fn *open_layer);

/* decoder_open_layer opens a whole layer, decoder_open_attention only its attention and the norm before it.
 * The tensors have Llama's names, and C says which tensors the layer has. */
decoder_open_fn decoder_open_layer, decoder_open_attention;

/* Opens the gate, up and down linears of the module AT + MODULE, with INNER intermediate columns. */
void decoder_open_mlp(struct model *m, struct op_mlp *w, const char *at, const char *module, size_t inner,
                      const struct decoder_config *c);

/* Returns a description of attention with the heads of m->info, without rope, window and norms. */
struct op_attn decoder_attn(const struct model *m);

void decoder_close(struct model *m);

/* Ends a forward pass: computes final norm and logits of x + r for the wanted rows. s->r may be NULL. */
void decoder_tail(const struct model *m, const struct op_sink *o, const struct batch *b,
                  struct model_work *s);

/* Multiplies the embedding by sqrt(hidden size), rounded to the type of the arithmetic (Gemma). */
void decoder_scale_embedding(struct model *m);

#endif
