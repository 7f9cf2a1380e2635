/* model.h - an opened model: its sizes, its packed weights, and the forward of its architecture.
 *
 * An architecture is a function of a file (llama.c, gpt.c, ...) and one line in archs.def. model_open() reads
 * config.json, names the architecture, lets it bind its tensors (everything is proved there) and reports what
 * was left over. All sizes are known then, and no weight was read: model_pack() does that, copies what steps
 * read as it is stored, and lets go of the files. Afterwards a model is const and may be used by one step at
 * a time per work area.
 */
#ifndef GALLOP_MODEL_MODEL_H
#define GALLOP_MODEL_MODEL_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/threads/pool.h"
#include "ckpt/checkpoint.h"
#include "model/calibration.h"
#include "model/quant.h"
#include "ops/op.h"

enum { MODEL_MAX_ROPES = 2, MODEL_MAX_LAYERS = 4096, MODEL_END_BYTES = 64 };

struct model_info {
    size_t n_layers, hidden, n_heads, n_kv, head_dim, inner, vocab, max_len; /* largest of the layers */
    const size_t *dim; /* [L] of a head; NULL: all have head_dim */
    size_t n_shared;   /* the last layers, which use keys and values of earlier ones and store none */
    /* [L] keys in front of a row that a layer can see, with its own, 0: all; NULL: all see all */
    const size_t *window;
    const size_t *sink; /* [L] and the first ones of a sequence (engine/kv_sparse.h); NULL: none */
    size_t chunk; /* of layers that see the chunk a row lies in: such a window is one; 0: there are none */
    struct rope rope[MODEL_MAX_ROPES];
    size_t n_ropes;
    bool fixed_positions;                  /* learned positions: max_len cannot be passed */
    float logit_softcap;                   /* of the logits, 0: none */
    bool headless;                         /* there are no logits: hidden states alone */
    size_t linear_k;                       /* largest input of the linears */
    size_t n_experts, top_k, expert_inner; /* largest of the mixtures of experts; 0: there is none */
    size_t extra;                          /* floats a token of the architecture's own use (struct work) */
};

/* One line of `gallop inspect`: a tensor and what became of it. */
struct model_tensor {
    const struct view *view;               /* without data once the model is open */
    const char *use;                       /* "embedding", "norm", "linear", ... */
    const struct linear *linear;           /* where it was packed, or NULL */
    unsigned char end[2][MODEL_END_BYTES]; /* its first and its last bytes, where it is contiguous */
    uint64_t sum;                          /* of all its bytes, if asked for */
    size_t n_linears; /* stacked experts: into so many of the same size, LINEAR is the first */
};

/* Bytes of a tensor that a step reads as they are stored: an embedding that is not the head's. */
struct model_table {
    void *p; /* region */
    size_t bytes;
};

struct model;
struct work;

/* A row of archs.def. */
struct model_arch {
    const char *class_name; /* architectures[0] of config.json */
    const char *model_type;
    void (*open)(struct model *m); /* as bind.h says; sets impl, forward and close */
};

#define MODEL_ARCH(class_name, model_type, open) void open(struct model *m);
#include "model/archs.def"
#undef MODEL_ARCH

/* What model_pack() does, in the order of binding: one of these. */
struct model_todo {
    struct linear *linear; /* is packed */
    const struct linear_desc *desc;
    struct embed *embed;       /* its table is copied, for files are let go of, */
    bool look;                 /* and looked through */
    const struct view *vector; /* goes to OUT as fp32, each number x as x TIMES + ADD */
    float *out, times, add;
    size_t layers; /* so many are loaded now */
};

struct model_options {
    enum dtype dtype;                 /* DT_F32 or DT_BF16 */
    struct quant_map quant;           /* of linears; as stored where fp32 is asked for: none */
    const struct calibration *scales; /* of QUANT_INT8_STATIC, but for a packed checkpoint; NULL: none */
    bool dtype_open;                  /* of a packed checkpoint, what it was packed for counts instead */
    const struct kern *kern;          /* what the linears will run on */
    const char *backend[OP_N_KINDS];  /* NULL or "auto": automatic */
    bool allow_links;                 /* of the folder may lead out of it */
    bool all_bytes; /* model_identity() goes by all bytes of the weights, for which they are read once more */
    /* open, and outlives the model, which lets go of its files; NULL: the model opens one of its own */
    struct checkpoint *checkpoint;
    struct pack_writer *save; /* model_pack() writes a packed checkpoint there; NULL: nowhere */
    void (*progress)(void *ctx, size_t done, size_t total); /* layers packed so far; may be NULL */
    void *progress_ctx;
};

struct model {
    const struct model_arch *arch;
    struct model_info info;
    struct model_options opt;
    struct config *config;              /* the text model's object of config.json */
    struct config *config_file;         /* the whole file */
    struct checkpoint own, *checkpoint; /* the latter may be another's */
    struct weights *weights;
    struct quantised *quantised; /* matrices of WEIGHTS that a folder has as integers; NULL: it has none */
    struct pool *pool;           /* borrowed */
    struct arena arena;          /* names and small arrays, for the model's life */
    struct model_tensor *tensor;
    size_t n_tensors, cap_tensors;
    struct model_table *table;
    size_t n_tables, cap_tables;
    struct model_todo *todo; /* until it is done */
    size_t n_todo, cap_todo;
    struct arena todo_arena;
    size_t n_params, packed_bytes, table_bytes;
    struct linear **linear; /* all of them, in the order of binding */
    size_t n_linears, cap_linears;
    char headless[600];     /* why there is no head, where info.headless */
    bool bidirectional;     /* rows of a sequence see each other: it is computed whole, and is headless */
    bool has_stored_groups; /* linears compute with weights as they are stored in blocks */
    /* what the linears' weights are: "none", "gguf", a name of --quant, or the JSON object of several */
    char quant[QUANT_TEXT_MAX];
    /* Sum of the calibration file that the weights were quantized with, here or when they were packed; 0:
     * none. */
    uint64_t calibration;
    /* while it is opened: the first failure, and where its sentence goes */
    int rc;
    struct err *e;
    /* the architecture's */
    void *impl;
    void (*forward)(const struct model *m, const struct sink *o, const struct batch *b, struct work *s);
    void (*tail)(const struct model *m, const struct sink *o, const struct batch *b, struct work *s);
    void (*close)(struct model *m);
};

int model_open(struct model *m, const char *dir, const struct model_options *opt, struct pool *pool,
               struct err *e);

/* Reads the weights: packs the linears on the pool, or takes them as they were packed. ERR_INPUT names a
 * tensor that holds an infinity or NaN. */
int model_pack(struct model *m, struct err *e);

/* The kernel that most of them run with. */
enum kern_fn model_gemm(const struct model *m);

void model_close(struct model *m); /* a zeroed one is fine */

/* Sequences of LEN positions can be computed: not with more than there are learned positions. */
int model_check_length(const struct model *m, size_t len, struct err *e);

/* Buffers that a forward needs between its ops, for steps of up to max_tokens rows of which max_wanted give
 * logits. */
struct work {
    float *x, *r;   /* [T, E] residual stream; what the last block adds to it */
    float *r2;      /* [T, E] for models whose blocks run side by side */
    float *h;       /* [T, E] */
    float *extra;   /* [T, model_info.extra] */
    float *qkv;     /* [T, (H + 2 K) D] */
    float *a;       /* [T, H D] */
    float *xw, *rw; /* [wanted, E] */
    float *hw;      /* [wanted, E] */
    void *region;
    size_t region_bytes;
};

int model_work_open(struct work *s, const struct model *m, size_t max_tokens, size_t max_wanted,
                    struct err *e);
void model_work_close(struct work *s);

/* Runs all layers over B, which leaves the residual stream of its rows in S until the next run. */
void model_layers(const struct model *m, const struct sink *o, const struct batch *b, struct work *s);

/* The last norm of the rows b->wanted [b->n_wanted] of the last model_layers(), into s->hw [n_wanted, E], and
 * their logits into b->logits [n_wanted, V], unless b->hidden_only. May be called several times, for other
 * rows. */
void model_tail(const struct model *m, const struct sink *o, const struct batch *b, struct work *s);

/* Both of them. */
void model_forward(const struct model *m, const struct sink *o, const struct batch *b, struct work *s);

/* A number that tells one model from another, for what outlives a process: blocks of a KV store. From the
 * architecture, its sizes, windows, sinks and rotation tables, the bytes of config.json (of GGUF: what stands
 * for it), since any number there may count, and of every tensor the name, type, shape and its first and last
 * bytes, or all (model_options.all_bytes), and of the calibration file (--scales). The same checkpoint always
 * has the same; the computing type, the cache and the threads do not count. */
uint64_t model_identity(const struct model *m);

/* archs.def has a row for CLASS_NAME ("LlamaForCausalLM"). */
bool model_arch_known(const char *class_name);

/* The names that archs.def knows, for messages: "LlamaForCausalLM, ..." into OUT. */
const char *model_arch_names(char *out, size_t size);

#endif
