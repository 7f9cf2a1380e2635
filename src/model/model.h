/* model.h - an opened model: its sizes, its packed weights, and the forward pass of its architecture.
 *
 * An architecture is a function of a file (llama.c, gpt.c, ...) and one line in archs.def. model_open() reads
 * config.json, finds the architecture, lets it bind its tensors, which checks everything, and reports tensors
 * that are not used. All sizes are known then, and no weight has been read: model_pack() reads and packs the
 * weights, copies what steps read in its stored form, and closes the files. After that a model is const; each
 * work area computes one step at a time.
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
    /* The largest numbers of the layers. */
    size_t n_layers, hidden, n_heads, n_kv, head_dim, inner, vocab, max_len;
    /* [L] the head size of each layer; NULL: all have head_dim. */
    const size_t *dim;
    /* Number of last layers that use keys and values of earlier layers and store none. */
    size_t n_shared;
    /* [L] number of keys that a row of the layer sees, with its own; 0: all. NULL: all layers see all
     * keys. */
    const size_t *window;
    /* [L] number of first rows of a sequence that stay visible beside the window (engine/kv_sparse.h); NULL:
     * none. */
    const size_t *sink;
    /* Size of the chunks of layers whose rows see their own chunk only, for which WINDOW is the chunk; 0: no
     * such layers. */
    size_t chunk;
    struct rope rope[MODEL_MAX_ROPES];
    size_t n_ropes;
    /* Positions are learned: max_len is a limit. */
    bool fixed_positions;
    /* Of the logits; 0: none. */
    float logit_softcap;
    /* The model computes hidden states and no logits. */
    bool headless;
    /* The largest K of the linears. */
    size_t linear_k;
    /* The largest numbers of the mixtures of experts; 0: there are none. */
    size_t n_experts, top_k, expert_inner;
    /* Floats per token for the architecture (work.extra). */
    size_t extra;
};

/* One line of `gallop inspect`: a tensor and its use. */
struct model_tensor {
    /* Without data once the model is packed. */
    const struct view *view;
    /* "embedding", "norm", "linear", ... */
    const char *use;
    /* The linear into which the tensor was packed, or NULL. */
    const struct linear *linear;
    /* The first and the last bytes of a contiguous tensor. */
    unsigned char end[2][MODEL_END_BYTES];
    /* Sum of all bytes, with model_options.all_bytes. */
    uint64_t sum;
    /* Stacked experts are packed into this number of linears of the same size; LINEAR is the first. */
    size_t n_linears;
};

/* The copy of a tensor that steps read in its stored form: an embedding that is not the head. */
struct model_table {
    void *p;
    size_t bytes;
};

struct model;
struct model_work;

/* A row of archs.def. */
struct model_arch {
    /* architectures[0] of config.json. */
    const char *class_name;
    const char *model_type;
    /* Binds the model (bind.h) and sets impl, forward, tail and close. */
    void (*open)(struct model *m);
};

#define MODEL_ARCH(class_name, model_type, open) void open(struct model *m);
#include "model/archs.def"
#undef MODEL_ARCH

/* One step of model_pack(), in the order of binding. One of LINEAR, EMBED, VECTOR and LAYERS is set. */
struct model_todo {
    /* Is packed as DESC says. */
    struct linear *linear;
    const struct linear_desc *desc;
    /* Its table is copied, because the files are closed later; with LOOK, it must be finite. */
    struct op_embed *embed;
    bool look;
    /* Is written to OUT as fp32, each number x as x * TIMES + ADD. */
    const struct view *vector;
    float *out, times, add;
    /* The number of layers that are loaded at this point. */
    size_t layers;
};

struct model_options {
    /* DT_F32 or DT_BF16. */
    enum dtype dtype;
    /* Of linears. */
    struct quant_map quant;
    /* For QUANT_INT8_STATIC and int4, unless the checkpoint is packed; NULL: none. */
    const struct calibration *scales;
    /* DTYPE is a default: a packed checkpoint is computed in the type for which it was packed. */
    bool dtype_open;
    /* The kernels of the linears. */
    const struct kern *kern;
    /* NULL or "auto": automatic. */
    const char *backend[OP_N_KINDS];
    /* Links of the folder may lead out of it. */
    bool allow_links;
    /* model_identity() covers all bytes of the weights, which are read once more for it. */
    bool all_bytes;
    /* An open checkpoint, which outlives the model; model_pack() closes its files. NULL: the model opens its
     * own. */
    struct checkpoint *checkpoint;
    /* model_pack() writes a packed checkpoint there; NULL: none. */
    struct pack_writer *save;
    /* Is called with the number of layers packed so far; may be NULL. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *progress_ctx;
};

struct model {
    const struct model_arch *arch;
    struct model_info info;
    struct model_options opt;
    /* The text model's object of config.json, and the whole file. */
    struct config *config;
    struct config *config_file;
    /* CHECKPOINT is &OWN or borrowed. */
    struct checkpoint own, *checkpoint;
    struct weights *weights;
    /* Matrices of WEIGHTS that a folder stores as quantized integers; NULL: none. */
    struct quantised *quantised;
    /* Borrowed. */
    struct pool *pool;
    /* Names and small arrays, which live as long as the model. */
    struct arena arena;
    struct model_tensor *tensor;
    size_t n_tensors, cap_tensors;
    struct model_table *table;
    size_t n_tables, cap_tables;
    /* The steps of model_pack(); freed after it. */
    struct model_todo *todo;
    size_t n_todo, cap_todo;
    struct arena todo_arena;
    size_t n_params, packed_bytes, table_bytes;
    /* All linears, in the order of binding. */
    struct linear **linear;
    size_t n_linears, cap_linears;
    /* Why there is no head, if info.headless. */
    char headless[600];
    /* Rows of a sequence see each other: a sequence is computed in one step, and the model is headless. */
    bool bidirectional;
    /* Linears compute with quantized integers as they are stored. */
    bool has_stored_groups;
    /* The quantization of the linears: "none", "gguf", a name of enum quant, or a JSON object of several. */
    char quant[QUANT_TEXT_MAX];
    /* Sum of the calibration file with which the weights were quantized, now or when they were packed; 0:
     * none. */
    uint64_t calibration;
    /* While the model is opened: the first failure, and its sentence. */
    int rc;
    struct err *e;
    /* Of the architecture. */
    void *impl;
    void (*forward)(const struct model *m, const struct op_sink *o, const struct batch *b,
                    struct model_work *s);
    void (*tail)(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s);
    void (*close)(struct model *m);
};

/* Opens the checkpoint in the folder DIR, or that of OPT. POOL packs and is borrowed. */
int model_open(struct model *m, const char *dir, const struct model_options *opt, struct pool *pool,
               struct err *e);

/* Reads the weights: packs the linears on the pool, or maps them from a packed checkpoint. ERR_INPUT names a
 * tensor that holds an infinity or NaN. */
int model_pack(struct model *m, struct err *e);

/* Returns the kernel that most linears use. */
enum kern_fn model_gemm(const struct model *m);

/* A zeroed M is allowed. */
void model_close(struct model *m);

/* Returns an error if sequences of LEN positions are longer than the learned positions. */
int model_check_length(const struct model *m, size_t len, struct err *e);

/* Buffers between the operators of a forward pass, for steps of up to max_tokens rows of which max_wanted
 * give logits. */
struct model_work {
    /* [T, E] the residual stream, and what attention or the MLP before adds to it. */
    float *x, *r;
    /* [T, E] for models that compute attention and MLP side by side. */
    float *r2;
    /* [T, E] */
    float *h;
    /* [T, model_info.extra] */
    float *extra;
    /* [T, (H + 2 K) D] */
    float *qkv;
    /* [T, H D] */
    float *a;
    /* [wanted, E] each. */
    float *xw, *rw;
    float *hw;
    void *region;
    size_t region_bytes;
};

int model_work_open(struct model_work *s, const struct model *m, size_t max_tokens, size_t max_wanted,
                    struct err *e);
void model_work_close(struct model_work *s);

/* Computes all layers for B and leaves the residual stream of its rows in S until the next call. */
void model_layers(const struct model *m, const struct op_sink *o, const struct batch *b,
                  struct model_work *s);

/* Computes the last norm of the rows b->wanted [b->n_wanted] of the last model_layers() into s->hw [n_wanted,
 * E], and, unless b->hidden_only, their logits into b->logits [n_wanted, V]. It may be called several times,
 * for other rows. */
void model_tail(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s);

/* model_layers() and model_tail(). */
void model_forward(const struct model *m, const struct op_sink *o, const struct batch *b,
                   struct model_work *s);

/* Returns a number that identifies the model to data that outlives a process: KV blocks in a store.
 *
 * It covers the architecture, its sizes, windows, sinks and ropes; the bytes of config.json (of GGUF: of its
 * equivalent), because any number there may matter; the name, type and shape of every tensor with its first
 * and last bytes, or all (model_options.all_bytes); and the calibration file. The same checkpoint always
 * gives the same number. The type of the arithmetic, the cache and the threads are not covered. */
uint64_t model_identity(const struct model *m);

/* True if archs.def has a row for CLASS_NAME ("LlamaForCausalLM"). */
bool model_arch_known(const char *class_name);

/* Writes the names of archs.def to OUT, for messages: "LlamaForCausalLM, ...". Returns OUT. */
const char *model_arch_names(char *out, size_t size);

#endif
