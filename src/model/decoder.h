/* decoder.h - what the decoders with Llama's names have in common: config keys, tensors, opening and closing.
 *
 * Llama, Mistral, Qwen, Phi-3, Gemma and the mixtures name their tensors alike and differ in fields of struct
 * decoder_config. A model's file fills these, opens its layers with the functions below and writes its own
 * forward. Offered, never imposed.
 */
#ifndef GALLOP_MODEL_DECODER_H
#define GALLOP_MODEL_DECODER_H

#include "model/block.h"

/* A whole model: m->impl of the families that use this. */
struct decoder {
    struct embed embed;
    struct norm norm;
    struct linear head;
    struct block_layer *layer; /* [L] */
    void *more;                /* the architecture's own */
};

/* The class's defaults for keys that a config may leave out; then what the config says. */
struct decoder_config {
    int64_t hidden, inner, layers, heads, kv_heads, head_dim, vocab,
        max_len; /* kv_heads 0: as heads; head_dim 0: by division */
    double eps;
    const char *act_key, *act_name;
    bool tied, mlp_bias;
    bool qkv_bias, out_bias;
    /* not keys of the config */
    bool out_wide;   /* o_proj's input is not rounded to bf16, for the sake of the routers behind it */
    float norm_add;  /* added to every norm weight (Gemma 3 stores w - 1) */
    bool qk_norm;    /* self_attn.q_norm, k_norm */
    size_t *window;  /* [L], 0: the layer sees all; or NULL */
    int64_t sliding; /* window of every layer, 0: none */
    bool fused;      /* qkv_proj and gate_up_proj are one tensor each */
    enum kern_act act;
};

/* Reads the keys all have: hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
 * num_key_value_heads, head_dim, vocab_size, max_position_embeddings, rms_norm_eps, tie_word_embeddings and
 * the activation, into model_info and C. Biases, rope and windows are the model's own. */
int decoder_read(struct model *m, struct decoder_config *c, struct err *e);

/* m->impl with embedding, L zeroed layers, OPEN_LAYER(m, w, "model.layers.L", l, c) for each, final norm,
 * head. The prefix is found: "model.", "", "language_model.model." or "model.language_model.". */
typedef int decoder_open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                               const struct decoder_config *c, struct err *e);
int decoder_open(struct model *m, const struct decoder_config *c, decoder_open_layer *open_layer,
                 struct err *e);
void decoder_close(struct model *m);

/* Layers "STEM.L", each by OPEN_LAYER. Part of decoder_open(), for models whose ends have other names. */
int decoder_open_layers(struct model *m, struct decoder *w, const char *stem, const struct decoder_config *c,
                        decoder_open_layer *open_layer, struct err *e);

/* Llama's layer, with the window of C. */
decoder_open_layer decoder_layer;

/* Embedding, the architecture's layer L times, final norm and head. */
void decoder_forward(const struct model *m, const struct sink *o, const struct batch *b, struct work *s);

/* The embedding is multiplied by the root of the hidden size, rounded to the computing type (Gemma). */
void decoder_scale_embedding(struct model *m);

/* input_layernorm, self_attn.{q,k,v,o}_proj, q_norm, k_norm and w->attn with the model's sizes, rope 0, no
 * window. */
int decoder_attention(struct model *m, struct block_layer *w, const char *at, const struct decoder_config *c,
                      struct err *e);

/* NORM in front (a name behind AT) and mlp.{gate,up,down}_proj of INNER. */
int decoder_mlp(struct model *m, struct block_layer *w, const char *at, const char *norm, size_t inner,
                const struct decoder_config *c, struct err *e);

/* use_sliding_window, sliding_window, max_window_layers, layer_types as Qwen reads them: WINDOW[L], 0 where a
 * layer sees all. From the model's arena. */
int decoder_windows(struct model *m, size_t **window, struct err *e);

#endif
