/* bind.h - reads configs and binds tensors for the files of architectures. Use is optional.
 *
 * Every function checks what it takes: presence, type, range, shape. The first failure is kept in the model:
 * a code and a sentence with file, tensor or key, the value found and the value expected. After it these
 * functions do nothing, and those that return a value return the default, zero or NULL. So an architecture is
 * opened without a check at each call: it asks bind_failed() before it uses an array that bind_array()
 * returned, and model_open() asks at the end.
 *
 * AT is the prefix of a tensor's name, with its dot ("model.layers.0."), or "". Names of modules end without
 * ".weight"; weight and bias are looked up below them.
 */
#ifndef GALLOP_MODEL_BIND_H
#define GALLOP_MODEL_BIND_H

#include "model/model.h"
#include "ops/moe.h"

bool bind_failed(const struct model *m);

/* Fails with this sentence, after the path of config.json. */
void bind_refuse(struct model *m, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Returns a zeroed array that lives as long as the model. WHAT names it in the sentence of a failure. */
void *bind_array(struct model *m, size_t n, size_t size, const char *what);

/* Returns a formatted name that lives as long as the model. */
const char *bind_name(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- config.json ---- */

/* The getters of config.h for the text model's object. */
size_t bind_int(struct model *m, const char *key, size_t def, size_t lo, size_t hi);
double bind_float(struct model *m, const char *key, double def, double lo, double hi);
bool bind_bool(struct model *m, const char *key, bool def);

/* Reads an integer or an array, with at most as many integers as there are layers, and sets *N to the
 * number. */
const int64_t *bind_ints(struct model *m, const char *key, size_t *n);

/* Reads the name of an activation. */
enum kern_act bind_act(struct model *m, const char *key, const char *def);

/* Sets m->config to text_config, in which multimodal configs keep the keys of the text model, and ignores the
 * keys of the other towers. Does nothing without text_config. */
void bind_text_config(struct model *m);

/* Reads is_causal, for every model: false and null mean attention in both directions, as in transformers. */
void bind_direction(struct model *m);

/* Sets info.n_heads, n_kv and head_dim from the config and the defaults of the class (DEF_KV 0: as many as
 * heads; DEF_DIM 0: hidden / heads), and checks divisibility. */
void bind_heads(struct model *m, size_t def_heads, size_t def_kv, size_t def_dim);

/* Sets KIND[l] by layer_types; a missing key leaves it unchanged. The kind REFUSED is an error, for a model
 * that does not support it. */
enum bind_layer_kind { BIND_FULL, BIND_SLIDING, BIND_CHUNKED, BIND_NONE };
void bind_layer_types(struct model *m, enum bind_layer_kind *kind, enum bind_layer_kind refused);

/* Reads sliding_window: null means none (0), a missing key DEF. */
size_t bind_window(struct model *m, size_t def);

/* How a config describes a rope. */
struct bind_rope {
    /* 0: the model's. */
    size_t head_dim;
    /* The default of the class. */
    double theta;
    /* The key of theta in the old style; NULL: "rope_theta". */
    const char *theta_key;
    /* The key of this rope, if rope_parameters holds an object for each type of layers; otherwise NULL. */
    const char *sub;
    /* The old style's rope_scaling belongs to another rope of the model. */
    bool unscaled;
    /* partial_rotary_factor is supported. */
    bool partial;
    /* A factor does not extend the context length (Gemma). */
    bool fixed_length;
    /* The types su and yarn mean longrope. */
    bool phi;
};

/* Opens the model's next rope by config.json: rope_parameters (new style) or rope_theta and rope_scaling (old
 * style), with the defaults of the classes of transformers. */
void bind_rope(struct model *m, const struct bind_rope *d);

/* Opens the model's next rope with these parameters. */
void bind_rope_of(struct model *m, const struct rope_params *p);

/* ---- tensors ---- */

/* Flags that say how a module is stored or computed. */
enum {
    BIND_BIAS = 1,
    /* A linear is stored [k, n] (GPT-2's Conv1D). */
    BIND_TRANSPOSED = 2,
    /* A linear computes in fp32 in every model (routers). */
    BIND_FP32 = 4,
    /* The norm is LayerNorm, not RMSNorm. */
    BIND_LAYER_NORM = 8,
    /* A norm's weights are stored less 1 (Gemma 3). */
    BIND_PLUS_ONE = 16,
    /* A linear is gate and up of an MLP, joined. */
    BIND_PAIRED = 32,
    /* A linear belongs to an expert of a mixture. */
    BIND_EXPERT = 64
};

/* A shape. BYTES: the dtype is U8; otherwise it is one of a weight. */
struct bind_shape {
    int n_dims;
    size_t size[4];
    bool bytes;
};

/* Returns the tensor NAME, which must have this shape. USE is its role ("linear"), for messages. */
const struct view *bind_tensor(struct model *m, const char *name, const struct bind_shape *shape,
                               const char *use);

/* Records for `inspect` that V became N linears of the size of L (NULL: none). */
void bind_record(struct model *m, const struct view *v, const char *use, const struct linear *l, size_t n);

/* Returns a copy of V that lives until the model is packed. */
const struct view *bind_keep(struct model *m, const struct view *v);

/* Returns the type of the arithmetic for linears of this kind that do not need fp32. */
enum dtype bind_dtype(const struct model *m, enum op_kind kind);

/* Opens L as D says and lets model_pack() pack it. D is copied; its views must live until then
 * (bind_keep()). */
void bind_pack(struct model *m, struct linear *l, const struct linear_desc *d, const char *backend);

/* Lets model_pack() report N loaded layers at this point. */
void bind_loaded(struct model *m, size_t n);

/* Returns the vector NAME of N numbers, which model_pack() fills and multiplies by TIMES. It lives as long as
 * the model. */
float *bind_vector(struct model *m, const char *name, size_t n, float times, const char *use);

/* Binds an embedding of ROWS x COLS. */
void bind_embed(struct model *m, struct op_embed *w, const char *at, const char *module, size_t rows,
                size_t cols);

/* Binds a norm of N elements; HOW: flags above. */
void bind_norm(struct model *m, struct op_norm *w, const char *at, const char *module, size_t n, double eps,
               unsigned how);
void bind_norm_close(struct op_norm *w);

/* A linear of up to four modules that are joined along their outputs; the list ends with a module of NULL.
 * The same name twice in a row is one module that is used twice. */
struct bind_linear {
    /* Of the joined matrix; NULL: that of the first module. */
    const char *name;
    enum op_kind kind;
    struct {
        const char *module;
        size_t n;
    } part[LINEAR_MAX_PARTS];
    size_t k;
    unsigned how;
};
void bind_linear(struct model *m, struct linear *w, const char *at, const struct bind_linear *d);

/* Binds the head. If TIED, it is the embedding, unless the file has a different matrix of that name, which is
 * used with a warning; otherwise it is MODULE. A model without either has no head (model_info.headless).
 * EMBED, which is bound before, reads its rows from a tied head that is exact (linear_is_exact()). */
void bind_head(struct model *m, struct linear *w, const char *module, struct op_embed *embed, bool tied,
               unsigned how);

/* ---- mixtures of experts ---- */

/* How a checkpoint stores experts. */
enum bind_experts {
    /* MODULE.N.{gate,up,down}.weight, each [out, in]. */
    BIND_EXPERTS_APART,
    /* MODULE.gate_up_proj and MODULE.down_proj, [experts, out, in]; or as MXFP4 in *_blocks [experts, out,
     * in / 32, 16] and *_scales [experts, out, in / 32]. */
    BIND_EXPERTS_STACKED,
    /* The same as [experts, in, out]; MXFP4 as above. */
    BIND_EXPERTS_TRANSPOSED
};

struct bind_moe {
    /* Modules of the experts and of the router. */
    const char *module;
    const char *router;
    enum bind_experts stored;
    /* Names of an expert's matrices with BIND_EXPERTS_APART. */
    const char *gate, *up, *down;
    /* Stacked rows are gate 0, up 0, gate 1, ... */
    bool interleaved;
    /* Experts and router have biases. */
    bool bias;
    size_t n_experts, top_k, inner;
    /* The members after the sizes: gating, scaling, activation. */
    struct moe like;
};

/* Opens router and experts in *OUT and records the largest sizes in m->info. After a failure *OUT is NULL or
 * partly open; bind_moe_close() accepts both. */
void bind_moe(struct model *m, struct moe **out, const char *at, const struct bind_moe *d);

/* Closes and frees W; NULL is allowed. */
void bind_moe_close(struct moe *w);

/* Reads D's n_experts under KEYS (the first has precedence; the second may be NULL) and top_k under TOP_KEY.
 * D holds the defaults of the class before. */
void bind_moe_sizes(struct model *m, struct bind_moe *d, const char *const keys[2], const char *top_key);

#endif
