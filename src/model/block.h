/* block.h - what architecture files use to bind tensors and read configs. Offered, never imposed.
 *
 * Every bind function proves presence and shape, names tensor, file, found and expected on failure, and
 * records what it did for `inspect`. NAME formats end without ".weight"; weight and bias are looked up behind
 * them.
 */
#ifndef GALLOP_MODEL_BLOCK_H
#define GALLOP_MODEL_BLOCK_H

#include "model/model.h"

/* A formatted name with the life of the model; NULL: out of memory (the bind functions then report it). */
const char *block_name(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The tensor NAME with this shape; of a weight's dtype, or U8 where BYTES. */
struct block_shape {
    int n_dims;
    size_t size[4];
    bool bytes;
};
int block_tensor_of(struct model *m, const char *name, const struct block_shape *shape, const char *use,
                    const struct view **v, struct err *e);

/* The weight NAME with the shape [rows, cols] (cols 0: one dimension). */
int block_tensor(struct model *m, const char *name, size_t rows, size_t cols, const char *use,
                 const struct view **v, struct err *e);
/* Notes for `inspect` that V became N linears like L (NULL: none). */
int block_record(struct model *m, const struct view *v, const char *use, const struct linear *l, size_t n,
                 struct err *e);

/* What model_pack() will do: read each x of V into OUT as x TIMES + ADD, pack L as D says (D is copied, its
 * views must live until then: block_keep()), tell of N layers loaded. */
int block_vector(struct model *m, const struct view *v, float *out, float times, float add, struct err *e);
int block_pack(struct model *m, struct linear *l, const struct linear_desc *d, const char *backend,
               struct err *e);
int block_loaded(struct model *m, size_t n, struct err *e);

/* A copy of V that lives until the model is packed, or NULL: out of memory. */
const struct view *block_keep(struct model *m, const struct view *v);

int block_embed(struct model *m, struct embed *w, const char *module, size_t rows, size_t cols,
                struct err *e);

/* Norm of N elements; BIAS: a bias is bound too. ADD is added to every weight (Gemma stores w - 1). */
int block_norm(struct model *m, struct norm *w, const char *module, size_t n, double eps, bool layer,
               bool bias, float add, struct err *e);
void block_norm_close(struct norm *w);

/* A linear of up to four modules joined along their outputs. The same name pointer twice in a row is one
 * module used twice. */
struct block_part {
    const char *module;
    size_t n;
};
struct block_linear {
    const char *name; /* of the joined matrix, for dumps */
    enum op_kind kind;
    struct block_part part[LINEAR_MAX_PARTS];
    size_t n_parts, k;
    bool bias;
    bool transposed; /* stored [k, n] (GPT-2's Conv1D) */
    bool fp32;       /* computed in fp32 whatever the model is (routers) */
    bool wide;       /* its input is not rounded to bf16 (ops/linear.h): scores feel that rounding most */
};
int block_linear(struct model *m, struct linear *w, const struct block_linear *d, struct err *e);

/* The head: the embedding when TIED, else MODULE, else an error that names what is missing. BIAS: MODULE has
 * one. */
int block_head(struct model *m, struct linear *w, const char *module, const struct embed *embed, bool tied,
               bool bias, struct err *e);

/* A layer of a decoder, for models that have this shape. What a model does not have stays zero. */
struct block_layer {
    struct norm norm_attn, norm_mlp;   /* in front of attention and MLP */
    struct norm after_attn, after_mlp; /* behind them (Gemma) */
    struct norm q_norm, k_norm;
    struct linear qkv, out;
    struct attn attn;
    struct mlp mlp;
    struct moe *moe; /* instead of the MLP, or beside it */
};
void block_layers_close(struct block_layer *layer, size_t n); /* and frees the array; NULL is fine */

/* Multimodal files keep the text model's keys in text_config: m->config becomes that object, and what the
 * file says of the other towers is not judged. Does nothing where there is no text_config. */
void block_text_config(struct model *m);

/* layer_types: KIND[l] by name of each layer, or KIND unchanged and *given false where the key is missing. */
enum block_kind { BLOCK_FULL, BLOCK_SLIDING, BLOCK_CHUNKED };
int block_layer_types(struct model *m, enum block_kind *kind, bool *given, struct err *e);

/* The end of a forward: of the wanted rows x + r (r may be NULL), normed, and their logits. */
void block_tail(const struct model *m, const struct sink *o, const struct batch *b, struct work *s,
                const struct norm *norm, const struct linear *head);

/* sliding_window: null means none (0); DEF where the key is missing. */
int block_window(struct model *m, int64_t def, int64_t *rows, struct err *e);

/* An activation by its config name. */
int block_act(struct model *m, const char *key, const char *def, enum kern_act *act, struct err *e);

/* Rope of config.json: rope_parameters (new) or rope_theta and rope_scaling (old), defaults as the classes of
 * transformers have them. */
struct block_rope {
    size_t head_dim;       /* of the model */
    double theta;          /* the class's default */
    const char *theta_key; /* of the old style; NULL: "rope_theta" */
    const char
        *sub;      /* rope_parameters holds an object for each layer type, this is ours; NULL: it does not */
    bool unscaled; /* the old style's rope_scaling is for another rope of the model */
    bool partial;  /* partial_rotary_factor is understood */
    bool fixed_length; /* a factor says nothing about the context's length (Gemma) */
    bool phi;          /* the types su and yarn mean longrope */
};
int block_rope(struct model *m, const struct block_rope *d, struct rope *r, struct err *e);

/* Fills info.n_heads, n_kv, head_dim from the config and these defaults of the class (DEF_KV 0: as many as
 * heads; DEF_DIM 0: hidden / heads); checks divisibility. */
int block_heads(struct model *m, int64_t def_heads, int64_t def_kv, int64_t def_dim, struct err *e);

#endif
