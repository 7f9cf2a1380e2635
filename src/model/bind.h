/* bind.h - what architecture files use to read configs and bind tensors. Offered, never imposed.
 *
 * Every function proves what it takes: presence, type, range, shape. The first failure is kept in the model
 * (code and sentence: file, tensor or key, found, expected); from then on these functions do nothing, and
 * those that return a value return the default, zero or NULL. So an architecture is opened without a check at
 * each call: it asks bind_failed() before it goes through an array that it got here, and model_open() asks
 * at the end.
 *
 * AT is what stands in front of a tensor's name, with its dot ("model.layers.0."), or "". Names of modules
 * end without ".weight"; weight and bias are looked up behind them.
 */
#ifndef GALLOP_MODEL_BIND_H
#define GALLOP_MODEL_BIND_H

#include "model/model.h"
#include "ops/moe.h"

bool bind_failed(const struct model *m);

/* Refuses config.json with this sentence. */
void bind_refuse(struct model *m, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A zeroed array with the life of the model. WHAT is for the sentence. */
void *bind_array(struct model *m, size_t n, size_t size, const char *what);

/* A formatted name with the life of the model. */
const char *bind_name(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- config.json ---- */

/* The getters of config.h on the text model's object. */
size_t bind_int(struct model *m, const char *key, size_t def, size_t lo, size_t hi);
double bind_float(struct model *m, const char *key, double def, double lo, double hi);
bool bind_bool(struct model *m, const char *key, bool def);

/* 5 or [5, 6]: at most as many integers as there are layers; *n of them. */
const int64_t *bind_ints(struct model *m, const char *key, size_t *n);

/* An activation by its config name. */
enum kern_act bind_act(struct model *m, const char *key, const char *def);

/* Multimodal files keep the text model's keys in text_config: m->config becomes that object, and what the
 * file says of the other towers is not judged. Does nothing where there is no text_config. */
void bind_text_config(struct model *m);

/* is_causal: false and null mean attention in both directions, as in transformers. Asked of every model. */
void bind_direction(struct model *m);

/* Fills info.n_heads, n_kv, head_dim from the config and these defaults of the class (DEF_KV 0: as many as
 * heads; DEF_DIM 0: hidden / heads); checks divisibility. */
void bind_heads(struct model *m, size_t def_heads, size_t def_kv, size_t def_dim);

/* layer_types: KIND[l] by name of each layer, or unchanged where the key is missing. The kind REFUSED is an
 * error, for a model that does not know it. */
enum bind_layer_kind { BIND_FULL, BIND_SLIDING, BIND_CHUNKED, BIND_NONE };
void bind_layer_types(struct model *m, enum bind_layer_kind *kind, enum bind_layer_kind refused);

/* sliding_window: null means none (0); DEF where the key is missing. */
size_t bind_window(struct model *m, size_t def);

/* Rope of config.json: rope_parameters (new) or rope_theta and rope_scaling (old), defaults as the classes of
 * transformers have them. It becomes the model's next rope. */
struct bind_rope {
    size_t head_dim;       /* 0: the model's */
    double theta;          /* the class's default */
    const char *theta_key; /* of the old style; NULL: "rope_theta" */
    const char
        *sub;      /* rope_parameters holds an object for each layer type, this is ours; NULL: it does not */
    bool unscaled; /* the old style's rope_scaling is for another rope of the model */
    bool partial;  /* partial_rotary_factor is understood */
    bool fixed_length; /* a factor says nothing about the context's length (Gemma) */
    bool phi;          /* the types su and yarn mean longrope */
};
void bind_rope(struct model *m, const struct bind_rope *d);
void bind_rope_of(struct model *m,
                  const struct rope_params *p); /* the same for a rope whose values are known */

/* ---- tensors ---- */

/* How a module is stored or computed: flags. */
enum {
    BIND_BIAS = 1,
    BIND_TRANSPOSED = 2, /* a linear is stored [k, n] (GPT-2's Conv1D) */
    BIND_FP32 = 4,       /* a linear is computed in fp32 whatever the model is (routers) */
    BIND_LAYER_NORM = 8, /* else RMSNorm */
    BIND_PLUS_ONE = 16,  /* a norm's weights are stored less 1 (Gemma 3) */
    BIND_PAIRED = 32,    /* a linear is gate and up of an MLP, joined */
    BIND_EXPERT = 64     /* a linear is of an expert of a mixture */
};

/* The tensor NAME with this shape; of a weight's dtype, or U8 where BYTES. */
struct bind_shape {
    int n_dims;
    size_t size[4];
    bool bytes;
};
const struct view *bind_tensor(struct model *m, const char *name, const struct bind_shape *shape,
                               const char *use);

/* Notes for `inspect` that V became N linears like L (NULL: none). */
void bind_record(struct model *m, const struct view *v, const char *use, const struct linear *l, size_t n);

/* A copy of V that lives until the model is packed. */
const struct view *bind_keep(struct model *m, const struct view *v);

/* What linears compute in that do not need fp32. */
enum dtype bind_dtype(const struct model *m, enum op_kind kind);

/* model_pack() will pack L as D says (D is copied, its views must live until then: bind_keep()), or tell of
 * N layers loaded. */
void bind_pack(struct model *m, struct linear *l, const struct linear_desc *d, const char *backend);
void bind_loaded(struct model *m, size_t n);

/* The vector NAME of N numbers, each TIMES as large when the model is packed; with the life of the model. */
float *bind_vector(struct model *m, const char *name, size_t n, float times, const char *use);

void bind_embed(struct model *m, struct embed *w, const char *at, const char *module, size_t rows,
                size_t cols);

/* Norm of N elements; HOW of the flags above. */
void bind_norm(struct model *m, struct norm *w, const char *at, const char *module, size_t n, double eps,
               unsigned how);
void bind_norm_close(struct norm *w);

/* A linear of up to four modules joined along their outputs; the list ends with one without a name. The same
 * name twice in a row is one module used twice. */
struct bind_linear {
    const char *name; /* of the joined matrix; NULL: the first module's */
    enum op_kind kind;
    struct {
        const char *module;
        size_t n;
    } part[LINEAR_MAX_PARTS];
    size_t k;
    unsigned how;
};
void bind_linear(struct model *m, struct linear *w, const char *at, const struct bind_linear *d);

/* The head: the embedding when TIED, unless the file has another matrix of the name (which is warned of),
 * else MODULE; where that is missing, too, the model has none (model_info.headless). EMBED, bound before,
 * reads its rows from a tied head that is exact (linear.h). */
void bind_head(struct model *m, struct linear *w, const char *module, struct embed *embed, bool tied,
               unsigned how);

/* ---- mixtures of experts ---- */

/* How experts lie in the checkpoint. */
enum bind_experts {
    BIND_EXPERTS_APART, /* MODULE.N.{gate,up,down}.weight, each [out, in] */
    /* MODULE.gate_up_proj and MODULE.down_proj, [experts, out, in]; or as MXFP4 in *_blocks [experts, out, in
     * / 32, 16] and *_scales [experts, out, in / 32] */
    BIND_EXPERTS_STACKED,
    BIND_EXPERTS_TRANSPOSED /* the same as [experts, in, out]; MXFP4 as above */
};

struct bind_moe {
    const char *module; /* of the experts */
    const char *router; /* module of the router */
    enum bind_experts stored;
    const char *gate, *up, *down; /* names of an expert's matrices where they lie apart */
    bool interleaved;             /* stacked rows are gate 0, up 0, gate 1, ... */
    bool bias;                    /* experts and router have biases */
    size_t n_experts, top_k, inner;
    struct moe like; /* the fields behind the sizes: gating, scaling, activation */
};

/* *out: router, experts, sizes. Notes the largest sizes in m->info. On failure *out is NULL or half open:
 * bind_moe_close() takes both. */
void bind_moe(struct model *m, struct moe **out, const char *at, const struct bind_moe *d);
void bind_moe_close(struct moe *w); /* and frees it; NULL is fine */

/* n_experts and top_k as config.json says: experts of a layer under KEYS (of which the first wins; NULL: only
 * one), how many a token takes under TOP_KEY. What D says before are the class's defaults. */
void bind_moe_sizes(struct model *m, struct bind_moe *d, const char *const keys[2], const char *top_key);

#endif
