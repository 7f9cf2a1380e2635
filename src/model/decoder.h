/* decoder.h - what decoders have in common: config keys, tensors under Llama's names, opening, forward,
 * closing.
 *
 * Llama, Mistral, Qwen, Phi-3, Gemma and the mixtures name their tensors alike and differ in fields of struct
 * decoder_config. A model's file fills these from the config and says which layer it computes. Offered, never
 * imposed. Failures are kept in the model (bind.h).
 */
#ifndef GALLOP_MODEL_DECODER_H
#define GALLOP_MODEL_DECODER_H

#include "model/bind.h"

/* What a layer of a decoder is made of. What a model does not have stays zero. */
struct decoder_layer {
    struct norm norm_attn, norm_mlp; /* in front of attention and MLP */
    struct norm post_attn, post_mlp; /* behind them (Gemma) */
    struct norm q_norm, k_norm;
    struct linear qkv, out;
    struct attn attn;
    struct mlp mlp;
    struct moe *moe; /* instead of the MLP, or beside it */
};

/* Computes layer L. */
typedef void decoder_layer_fn(const struct decoder_layer *w, size_t l, const struct sink *o, struct work *s,
                              const struct batch *b);

decoder_layer_fn llama_layer; /* of llama.c: what most families compute */

/* A whole model: m->impl of the families that use this. */
struct decoder {
    struct embed embed,
        positions; /* positions: learned ones, added to the embedding; zeroed: there are none */
    struct norm norm;
    struct linear head;
    struct decoder_layer *layer; /* [L] */
    decoder_layer_fn *layer_forward;
    void *more; /* the architecture's own */
};

/* Defaults of a class of transformers, for keys that a config may leave out. */
struct decoder_sizes {
    size_t hidden, inner, layers, heads;
    size_t kv_heads; /* 0: as many as heads */
    size_t head_dim; /* 0: hidden / heads */
    size_t vocab, max_len;
    double eps;
};

struct decoder_config {
    /* Set before decoder_read(): the class's key of the activation and its default (NULL: hidden_act, silu),
     * and whether the head is the embedding. */
    const char *act_key, *act_name;
    bool tied;
    /* Set by decoder_read(). */
    double eps;
    enum kern_act act;
    /* Set by the model's file. */
    bool qkv_bias, out_bias, mlp_bias;
    bool fused;           /* qkv_proj and gate_up_proj are one tensor each */
    bool qk_norm;         /* self_attn.q_norm, k_norm */
    bool sinks;           /* self_attn.sinks: a logit a head */
    bool post_norms;      /* a norm behind each block too (Gemma) */
    bool local_rope;      /* layers with a window rotate by the model's second rope */
    unsigned norm_how;    /* flags of bind_norm() that all norms have */
    double scale;         /* of scores; 0: 1 / root of the head size */
    double softcap;       /* of scores; 0: none */
    const size_t *window; /* [L], 0: the layer sees all; or NULL */
    struct bind_moe moe;  /* n_experts 0: there are none */
    const bool *experts;  /* [L] which layers have them; NULL: all */
    const void *own;      /* what only the model's file knows */
};

/* Reads the keys all have: hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
 * num_key_value_heads, head_dim, vocab_size, max_position_embeddings, rms_norm_eps, tie_word_embeddings and
 * the activation, into model_info and C. Biases, rope and windows are the model's own. */
void decoder_read(struct model *m, struct decoder_config *c, const struct decoder_sizes *of_class);

/* Windows for struct decoder_config: ROWS in every layer; ROWS in the sliding layers by layer_types, or where
 * the key is missing by KIND [L], of which REFUSED is an error; and as Qwen reads them from
 * use_sliding_window, sliding_window, max_window_layers and layer_types. */
const size_t *decoder_same_window(struct model *m, size_t rows);
const size_t *decoder_windows(struct model *m, size_t rows, enum bind_layer_kind *kind,
                              enum bind_layer_kind refused);
const size_t *decoder_qwen_windows(struct model *m);

/* m->impl with L zeroed layers and nothing else, and the model's forward and close. NULL: failed. */
struct decoder *decoder_new(struct model *m, decoder_layer_fn *forward);

/* m->impl (a new one, unless it is there) with embedding, layers that OPEN_LAYER opens at "model.layers.L.",
 * final norm and head. The prefix is found: "model.", "", "language_model.model." or
 * "model.language_model.". */
typedef void decoder_open_fn(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                             const struct decoder_config *c);
void decoder_open(struct model *m, const struct decoder_config *c, decoder_open_fn *open_layer,
                  decoder_layer_fn *forward);

/* The layers alone, at AT "L.": for models whose ends have other names. */
void decoder_open_layers(struct model *m, const char *at, const struct decoder_config *c,
                         decoder_open_fn *open_layer);

/* A layer under Llama's names, with all that C says. Its parts: attention with the norm in front, and
 * MODULE's gate, up and down projection. */
decoder_open_fn decoder_open_layer, decoder_open_attention;
void decoder_open_mlp(struct model *m, struct mlp *w, const char *at, const char *module, size_t inner,
                      const struct decoder_config *c);

/* w->attn of a model whose heads all are alike, without rope, window or norms. */
struct attn decoder_attn(const struct model *m);

void decoder_close(struct model *m);

/* Of the wanted rows x + r (r may be NULL), normed, and their logits: the end of a forward. */
void decoder_tail(const struct model *m, const struct sink *o, const struct batch *b, struct work *s);

/* The embedding is multiplied by the root of the hidden size, rounded to the computing type (Gemma). */
void decoder_scale_embedding(struct model *m);

#endif
