/* bind.h - reads configs and binds tensors for the files of architectures.
 *
 * Every function checks a key or tensor completely: presence, type, range, shape. The first failure is kept
 * in the model as a code and a sentence. After a failure these functions do nothing and return the default,
 * zero or NULL. Hence an architecture need not check each call. It calls bind_failed() before it uses an
 * array of bind_array(); model_open() reports the failure at the end.
 *
 * AT is the prefix of a tensor's name with its dot ("model.layers.0."), or "". MODULE is a name without
 * ".weight"; its tensors are AT + MODULE + ".weight" and ".bias".
 */
#ifndef GALLOP_MODEL_BIND_H
#define GALLOP_MODEL_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/linear.h"
#include "ops/moe.h"

struct linear_desc;
struct model;
struct op_embed;
struct op_norm;
struct rope_params;

bool bind_failed(const struct model *m);

/* Records a failure, with a sentence that begins with the path of config.json. */
void bind_refuse(struct model *m, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Returns a zeroed array that is freed with the model. WHAT names it in the sentence of a failure. */
void *bind_array(struct model *m, size_t n, size_t size, const char *what);

/* Returns a formatted name that is freed with the model. */
const char *bind_name(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- config.json ---- */

/* Read a key of the text model's object, like the getters of config.h. */
size_t bind_int(struct model *m, const char *key, size_t def, size_t lo, size_t hi);
double bind_float(struct model *m, const char *key, double def, double lo, double hi);
bool bind_bool(struct model *m, const char *key, bool def);

/* Reads an integer, or an array of at most one integer for each layer. Sets *N to the number of integers. */
const int64_t *bind_ints(struct model *m, const char *key, size_t *n);

/* Reads the name of an activation function. */
enum kern_act bind_act(struct model *m, const char *key, const char *def);

/* Sets m->config to text_config, if the config of a multimodal model has this object, and ignores the keys of
 * the vision and audio towers. */
void bind_text_config(struct model *m);

/* Reads is_causal into m->bidirectional. False and null mean bidirectional, as in transformers. */
void bind_direction(struct model *m);

/* Sets info.n_heads, n_kv and head_dim from the config and these defaults (DEF_KV 0: n_heads; DEF_DIM 0:
 * hidden / heads), and checks that they divide each other. */
void bind_heads(struct model *m, size_t def_heads, size_t def_kv, size_t def_dim);

/* Sets KIND[l] from layer_types; a missing key leaves KIND unchanged. Fails if a layer has the kind REFUSED,
 * which the model does not support. */
enum bind_layer_kind { BIND_FULL, BIND_SLIDING, BIND_CHUNKED, BIND_NONE };
void bind_layer_types(struct model *m, enum bind_layer_kind *kind, enum bind_layer_kind refused);

/* Returns sliding_window; 0 if the key is null, DEF if it is missing. */
size_t bind_window(struct model *m, size_t def);

/* How the config of an architecture describes a rope. */
struct bind_rope {
    /* Head size; 0: info.head_dim. */
    size_t head_dim;
    /* The default of theta. */
    double theta;
    /* The key of theta in a config of the old style; NULL: "rope_theta". */
    const char *theta_key;
    /* Key of this rope's object in rope_parameters, if each layer type has an object; otherwise NULL. */
    const char *sub;
    /* rope_scaling in a config of the old style does not apply to this rope. */
    bool unscaled;
    /* partial_rotary_factor is supported. */
    bool partial;
    /* The scaling factor does not extend the context length (Gemma). */
    bool fixed_length;
    /* The types su and yarn mean longrope. */
    bool phi;
};

/* Opens the model's next rope with the parameters of config.json: rope_parameters (new style), or rope_theta
 * and rope_scaling (old style). Missing keys have the defaults of transformers. */
void bind_rope(struct model *m, const struct bind_rope *d);

/* Opens the model's next rope with the parameters P. */
void bind_rope_of(struct model *m, const struct rope_params *p);

/* ---- tensors ---- */

/* Flags for how a module is stored or computed. */
enum {
    BIND_BIAS = 1,
    /* The linear is stored as [k, n] (GPT-2's Conv1D). */
    BIND_TRANSPOSED = 2,
    /* The linear computes in fp32 in every model (routers). */
    BIND_FP32 = 4,
    /* The norm is LayerNorm, not RMSNorm. */
    BIND_LAYER_NORM = 8,
    /* The norm's weights are stored minus 1 (Gemma 3). */
    BIND_PLUS_ONE = 16,
    /* The linear is the joined gate and up of an MLP. */
    BIND_PAIRED = 32,
    /* The linear belongs to an expert of a mixture. */
    BIND_EXPERT = 64
};

/* The expected shape of a tensor. BYTES: the dtype must be U8; otherwise a dtype of weights. */
struct bind_shape {
    int n_dims;
    size_t size[4];
    bool bytes;
};

/* Returns the tensor NAME, which must have the shape SHAPE. USE is its role ("linear"), for messages. */
const struct view *bind_tensor(struct model *m, const char *name, const struct bind_shape *shape,
                               const char *use);

/* Records for `gallop inspect` that V is packed into N linears, of which L is the first (NULL: none). */
void bind_record(struct model *m, const struct view *v, const char *use, const struct linear *l, size_t n);

/* Returns a copy of *V that lives until the end of model_pack(). */
const struct view *bind_keep(struct model *m, const struct view *v);

/* Returns the dtype in which linears of this kind compute: the model's, or DT_I8 if they are quantized. */
enum dtype bind_dtype(const struct model *m, enum op_kind kind);

/* Opens L as D describes, and adds its packing to the tasks of model_pack(). D is copied; its views must live
 * until model_pack() (bind_keep()). */
void bind_pack(struct model *m, struct linear *l, const struct linear_desc *d, const char *backend);

/* Adds a task to model_pack() that reports N loaded layers. */
void bind_loaded(struct model *m, size_t n);

/* Returns an array for the vector NAME of N numbers, which model_pack() fills with the numbers multiplied by
 * TIMES. It is freed with the model. */
float *bind_vector(struct model *m, const char *name, size_t n, float times, const char *use);

/* Binds an embedding [ROWS, COLS]. */
void bind_embed(struct model *m, struct op_embed *w, const char *at, const char *module, size_t rows,
                size_t cols);

/* Binds a norm of N elements. HOW has the flags BIND_*. */
void bind_norm(struct model *m, struct op_norm *w, const char *at, const char *module, size_t n, double eps,
               unsigned how);
void bind_norm_close(struct op_norm *w);

/* A linear that joins up to four modules along their outputs. The list ends with a module NULL. Two
 * neighbours of the same name are one module that is used twice. */
struct bind_linear {
    /* Name of the joined matrix; NULL: the name of the first module. */
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

/* Binds the head. If TIED, the head is the table of EMBED, which was bound before; but if the checkpoint has
 * a matrix MODULE that differs from the table, the head is MODULE, and a warning is logged. If not TIED, the
 * head is MODULE; if MODULE is missing, the model has no head (model_info.headless). EMBED reads its rows
 * from a tied head that is exact (linear_is_exact()). */
void bind_head(struct model *m, struct linear *w, const char *module, struct op_embed *embed, bool tied,
               unsigned how);

/* ---- mixtures of experts ---- */

/* How a checkpoint stores the matrices of experts. */
enum bind_experts {
    /* Apart: MODULE.N.{gate,up,down}.weight, each [out, in]. */
    BIND_EXPERTS_APART,
    /* Stacked: MODULE.gate_up_proj and MODULE.down_proj, [experts, out, in]; or MXFP4 as *_blocks [experts,
     * out, in / 32, 16] and *_scales [experts, out, in / 32]. */
    BIND_EXPERTS_STACKED,
    /* Stacked and transposed: [experts, in, out]; MXFP4 as above. */
    BIND_EXPERTS_TRANSPOSED
};

struct bind_moe {
    /* Names of the modules of the experts and of the router. */
    const char *module;
    const char *router;
    enum bind_experts stored;
    /* Names of an expert's matrices, for BIND_EXPERTS_APART. */
    const char *gate, *up, *down;
    /* Stacked rows alternate: gate 0, up 0, gate 1, up 1, ... */
    bool interleaved;
    /* Experts and router have biases. */
    bool bias;
    size_t n_experts, top_k, inner;
    /* Template of struct moe: gating, scaling and activation are copied from it. */
    struct moe like;
};

/* Opens router and experts in *OUT, and raises the maximum sizes n_experts, top_k and expert_inner in m->info
 * to its sizes. After a failure *OUT is NULL or partly open; bind_moe_close() accepts both. */
void bind_moe(struct model *m, struct moe **out, const char *at, const struct bind_moe *d);

/* Closes and frees W, which may be NULL. */
void bind_moe_close(struct moe *w);

/* Reads n_experts from one of KEYS (the first has precedence; the second may be NULL) and top_k from TOP_KEY
 * into D, which holds their defaults. */
void bind_moe_sizes(struct model *m, struct bind_moe *d, const char *const keys[2], const char *top_key);

#endif
