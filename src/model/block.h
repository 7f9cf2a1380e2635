/* block.h - what architecture files use to read configs and bind tensors. Offered, never imposed.
 *
 * Every function proves what it takes: presence, type, range, shape. The first failure is kept in the model
 * (code and sentence: file, tensor or key, found, expected); from then on these functions do nothing, and
 * those that return a value return the default, zero or NULL. So an architecture is opened without a check at
 * each call: it asks block_failed() before it goes through an array that it got here, and model_open() asks
 * at the end.
 *
 * AT is what stands in front of a tensor's name, with its dot ("model.layers.0."), or "". Names of modules
 * end without ".weight"; weight and bias are looked up behind them.
 */
#ifndef GALLOP_MODEL_BLOCK_H
#define GALLOP_MODEL_BLOCK_H

#include "model/model.h"
#include "ops/moe.h"

bool block_failed(const struct model *m);

/* Refuses config.json with this sentence. */
void block_refuse(struct model *m, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A zeroed array with the life of the model. WHAT is for the sentence. */
void *block_array(struct model *m, size_t n, size_t size, const char *what);

/* A formatted name with the life of the model. */
const char *block_name(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- config.json ---- */

/* The getters of config.h on the text model's object. */
size_t block_int(struct model *m, const char *key, size_t def, size_t lo, size_t hi);
double block_float(struct model *m, const char *key, double def, double lo, double hi);
bool block_bool(struct model *m, const char *key, bool def);

/* 5 or [5, 6]: at most as many integers as there are layers; *n of them. */
const int64_t *block_ints(struct model *m, const char *key, size_t *n);

/* An activation by its config name. */
enum kern_act block_act(struct model *m, const char *key, const char *def);

/* Multimodal files keep the text model's keys in text_config: m->config becomes that object, and what the
 * file says of the other towers is not judged. Does nothing where there is no text_config. */
void block_text_config(struct model *m);

/* is_causal: false and null mean attention in both directions, as in transformers. Asked of every model. */
void block_direction(struct model *m);

/* Fills info.n_heads, n_kv, head_dim from the config and these defaults of the class (DEF_KV 0: as many as
 * heads; DEF_DIM 0: hidden / heads); checks divisibility. */
void block_heads(struct model *m, size_t def_heads, size_t def_kv, size_t def_dim);

/* layer_types: KIND[l] by name of each layer, or unchanged where the key is missing. The kind REFUSED is an
 * error, for a model that does not know it. */
enum block_kind { BLOCK_FULL, BLOCK_SLIDING, BLOCK_CHUNKED, BLOCK_NONE };
void block_layer_types(struct model *m, enum block_kind *kind, enum block_kind refused);

/* sliding_window: null means none (0); DEF where the key is missing. */
size_t block_window(struct model *m, size_t def);

/* Rope of config.json: rope_parameters (new) or rope_theta and rope_scaling (old), defaults as the classes of
 * transformers have them. It becomes the model's next rope. */
struct block_rope {
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
void block_rope(struct model *m, const struct block_rope *d);
void block_rope_of(struct model *m,
                   const struct rope_params *p); /* the same for a rope whose values are known */

/* ---- tensors ---- */

/* How a module is stored or computed: flags. */
enum {
    BLOCK_BIAS = 1,
    BLOCK_TRANSPOSED = 2, /* a linear is stored [k, n] (GPT-2's Conv1D) */
    BLOCK_FP32 = 4,       /* a linear is computed in fp32 whatever the model is (routers) */
    BLOCK_LAYER_NORM = 8, /* else RMSNorm */
    BLOCK_PLUS_ONE = 16,  /* a norm's weights are stored less 1 (Gemma 3) */
    BLOCK_PAIRED = 32,    /* a linear is gate and up of an MLP, joined */
    BLOCK_EXPERT = 64     /* a linear is of an expert of a mixture */
};

/* The tensor NAME with this shape; of a weight's dtype, or U8 where BYTES. */
struct block_shape {
    int n_dims;
    size_t size[4];
    bool bytes;
};
const struct view *block_tensor(struct model *m, const char *name, const struct block_shape *shape,
                                const char *use);

/* Notes for `inspect` that V became N linears like L (NULL: none). */
void block_record(struct model *m, const struct view *v, const char *use, const struct linear *l, size_t n);

/* A copy of V that lives until the model is packed. */
const struct view *block_keep(struct model *m, const struct view *v);

/* What linears compute in that do not need fp32. */
enum dtype block_dtype(const struct model *m, enum op_kind kind);

/* model_pack() will pack L as D says (D is copied, its views must live until then: block_keep()), or tell of
 * N layers loaded. */
void block_pack(struct model *m, struct linear *l, const struct linear_desc *d, const char *backend);
void block_loaded(struct model *m, size_t n);

/* The vector NAME of N numbers, each TIMES as large when the model is packed; with the life of the model. */
float *block_vector(struct model *m, const char *name, size_t n, float times, const char *use);

void block_embed(struct model *m, struct embed *w, const char *at, const char *module, size_t rows,
                 size_t cols);

/* Norm of N elements; HOW of the flags above. */
void block_norm(struct model *m, struct norm *w, const char *at, const char *module, size_t n, double eps,
                unsigned how);
void block_norm_close(struct norm *w);

/* A linear of up to four modules joined along their outputs; the list ends with one without a name. The same
 * name twice in a row is one module used twice. */
struct block_linear {
    const char *name; /* of the joined matrix; NULL: the first module's */
    enum op_kind kind;
    struct {
        const char *module;
        size_t n;
    } part[LINEAR_MAX_PARTS];
    size_t k;
    unsigned how;
};
void block_linear(struct model *m, struct linear *w, const char *at, const struct block_linear *d);

/* The head: the embedding when TIED, unless the file has another matrix of the name (which is warned of),
 * else MODULE; where that is missing, too, the model has none (model_info.headless). EMBED, bound before,
 * reads its rows from a tied head that is exact (linear.h). */
void block_head(struct model *m, struct linear *w, const char *module, struct embed *embed, bool tied,
                unsigned how);

/* ---- mixtures of experts ---- */

/* How experts lie in the checkpoint. */
enum block_experts {
    BLOCK_EXPERTS_APART, /* MODULE.N.{gate,up,down}.weight, each [out, in] */
    /* MODULE.gate_up_proj and MODULE.down_proj, [experts, out, in]; or as MXFP4 in *_blocks [experts, out, in
     * / 32, 16] and *_scales [experts, out, in / 32] */
    BLOCK_EXPERTS_STACKED,
    BLOCK_EXPERTS_TURNED /* the same as [experts, in, out]; MXFP4 as above */
};

struct block_moe {
    const char *module; /* of the experts */
    const char *router; /* module of the router */
    enum block_experts stored;
    const char *gate, *up, *down; /* names of an expert's matrices where they lie apart */
    bool interleaved;             /* stacked rows are gate 0, up 0, gate 1, ... */
    bool bias;                    /* experts and router have biases */
    size_t n_experts, top_k, inner;
    struct moe like; /* the fields behind the sizes: gating, scaling, activation */
};

/* *out: router, experts, sizes. Notes the largest sizes in m->info. On failure *out is NULL or half open:
 * block_moe_close() takes both. */
void block_moe(struct model *m, struct moe **out, const char *at, const struct block_moe *d);
void block_moe_close(struct moe *w); /* and frees it; NULL is fine */

/* n_experts and top_k as config.json says: experts of a layer under KEYS (of which the first wins; NULL: only
 * one), how many a token takes under TOP_KEY. What D says before are the class's defaults. */
void block_moe_sizes(struct model *m, struct block_moe *d, const char *const keys[2], const char *top_key);

#endif
