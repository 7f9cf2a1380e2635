/* model.h - an opened model: its sizes, its packed weights, and the forward pass of its architecture.
 *
 * An architecture is a function in one of the files llama.c, gpt.c, ... and one line in archs.def.
 * model_open() reads config.json, finds the architecture, lets it bind and check its tensors, and reports
 * unused tensors. After it all sizes are known, and no weight has been read. model_pack() reads and packs the
 * weights, copies the embedding tables, and closes the files. After that a model is const. Several steps may
 * run at once if each has its own struct model_work.
 */
#ifndef GALLOP_MODEL_MODEL_H
#define GALLOP_MODEL_MODEL_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/quant.h"
#include "ops/rope.h"

struct batch;
struct calibration;
struct checkpoint;
struct op_embed;
struct op_sink;

enum { MODEL_MAX_ROPES = 2, MODEL_MAX_LAYERS = 4096, MODEL_END_BYTES = 64 };

struct model_info {
    /* The sizes of the model; where layers differ, the largest. */
    size_t n_layers, hidden, n_heads, n_kv, head_dim, inner, vocab, max_len;
    /* [L] The head size of each layer. NULL: all layers have head_dim. */
    const size_t *dim;
    /* Number of last layers that use keys and values of earlier layers and store none. */
    size_t n_shared;
    /* [L] Number of keys that a row sees, its own included; 0: all. NULL: all layers see all keys. */
    const size_t *window;
    /* [L] Number of first rows that stay visible beside the window (engine/kv_sparse.h). NULL: none. */
    const size_t *sink;
    /* Chunk size of layers with chunked attention, in which a row sees only its own chunk; WINDOW has the
     * same size. 0: no layer has chunks. */
    size_t chunk;
    struct rope rope[MODEL_MAX_ROPES];
    size_t n_ropes;
    /* Positions are learned, so that no sequence may exceed max_len. */
    bool fixed_positions;
    /* Softcap of the logits; 0: none. */
    float logit_softcap;
    /* The model has no head: it computes hidden states and no logits. */
    bool headless;
    /* The largest K (number of inputs) of all linears. */
    size_t linear_k;
    /* The largest sizes of all mixtures of experts; 0: the model has none. */
    size_t n_experts, top_k, expert_inner;
    /* Floats per token of model_work.extra, which the architecture needs. */
    size_t extra;
};

/* A tensor of the checkpoint and its use, as `gallop inspect` lists it. */
struct model_tensor {
    /* The tensor. Its data is NULL after model_pack(). */
    const struct view *view;
    /* "embedding", "norm", "linear", ... */
    const char *use;
    /* The linear into which the tensor was packed, or NULL. */
    const struct linear *linear;
    /* The first and the last bytes of a contiguous tensor. */
    unsigned char end[2][MODEL_END_BYTES];
    /* Hash of all bytes; computed if model_options.all_bytes is set. */
    uint64_t sum;
    /* Number of linears of the same size into which stacked experts are packed; LINEAR is the first. */
    size_t n_linears;
};

/* A copy of an embedding table in its stored form. Steps read it, unless they read the rows from the head. */
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
    /* Binds the tensors (bind.h) and sets impl, forward, tail and close of the model. */
    void (*open)(struct model *m);
};

#define MODEL_ARCH(class_name, model_type, open) void open(struct model *m);
#include "model/archs.def"
#undef MODEL_ARCH

/* A task of model_pack(), in the order of binding. One of LINEAR, EMBED, VECTOR and LAYERS is set. */
struct model_todo {
    /* A linear to pack, as DESC describes. */
    struct linear *linear;
    const struct linear_desc *desc;
    /* An embedding whose table is copied. LOOK: its numbers are checked to be finite. */
    struct op_embed *embed;
    bool look;
    /* A vector whose numbers x are written to OUT as fp32, as x * TIMES + ADD. */
    const struct view *vector;
    float *out, times, add;
    /* The number of loaded layers to report. */
    size_t layers;
};

struct model_options {
    /* The type of the arithmetic: DT_F32 or DT_BF16. */
    enum dtype dtype;
    /* The quantization of the linears. */
    struct quant_map quant;
    /* File of `gallop calibrate` for int8-static and int4, ignored if the checkpoint is packed. NULL:
     * none. */
    const struct calibration *scales;
    /* DTYPE is only a default: a packed checkpoint keeps the type for which it was packed. */
    bool dtype_open;
    /* The kernels of the linears. */
    const struct kern *kern;
    /* The backend of each kind of operator. NULL or "auto": the first backend that accepts the operator. */
    const char *backend[OP_N_KINDS];
    /* Symbolic links in the folder may lead out of it. */
    bool allow_links;
    /* model_identity() covers all bytes of the weights, for which model_pack() reads them a second time. */
    bool all_bytes;
    /* model_pack() leaves linears where they are (stream.h), and keeps the files open. */
    bool streams;
    /* An open checkpoint, borrowed; model_pack() closes its files. NULL: the model opens its own. */
    struct checkpoint *checkpoint;
    /* The packed checkpoint that model_pack() writes. NULL: none is written. */
    struct pack_writer *save;
    /* Called with the number of layers that are packed so far and of all layers; may be NULL. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *progress_ctx;
};

struct model {
    const struct model_arch *arch;
    struct model_info info;
    struct model_options opt;
    /* The text model's object in config.json, and the whole file. */
    struct config *config;
    struct config *config_file;
    /* The checkpoint: OWN if the model opened it, otherwise borrowed. */
    struct checkpoint *own, *checkpoint;
    struct weights *weights;
    /* Matrices of WEIGHTS that a Hugging Face folder stores as quantized integers; NULL: none. */
    struct quantised *quantised;
    /* The threads that pack and read weights. Borrowed. */
    struct pool *pool;
    /* Memory of names and small arrays, freed with the model. */
    struct arena arena;
    struct model_tensor *tensor;
    size_t n_tensors, cap_tensors;
    struct model_table *table;
    size_t n_tables, cap_tables;
    /* The tasks of model_pack() and their memory, freed after it. */
    struct model_todo *todo;
    size_t n_todo, cap_todo;
    struct arena todo_arena;
    size_t n_params, packed_bytes, table_bytes;
    /* All linears, in the order of binding. */
    struct linear **linear;
    size_t n_linears, cap_linears;
    /* The reason why the model has no logits, if info.headless is set. */
    char headless[600];
    /* Attention goes in both directions. Then a step computes whole sequences, and the model is headless. */
    bool bidirectional;
    /* Some linear computes with quantized integers in their stored form. */
    bool has_stored_groups;
    /* The quantization of the linears: "gguf", a name of quant_read(), or a JSON object of names by kind. */
    char quant[QUANT_TEXT_MAX];
    /* Hash of the calibration file with which the weights are or were quantized; 0: none. */
    uint64_t calibration;
    /* While the model is opened: the code of the first failure, and where its message goes. */
    int rc;
    struct err *e;
    /* Data and functions of the architecture. */
    void *impl;
    void (*forward)(const struct model *m, const struct op_sink *o, const struct batch *b,
                    struct model_work *s);
    void (*tail)(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s);
    void (*close)(struct model *m);
};

/* Opens the model in the folder DIR, or the checkpoint of OPT. POOL is borrowed; model_pack() runs on it. */
int model_open(struct model *m, const char *dir, const struct model_options *opt, struct pool *pool,
               struct err *e);

/* Reads the weights: packs the linears on the pool's threads, or maps them from a packed checkpoint.
 * ERR_INPUT, among others: a tensor holds an infinity or NaN. */
int model_pack(struct model *m, struct err *e);

/* Returns whether model_pack() leaves the linear of T in the files (model_options.streams). */
bool model_streams(const struct model *m, const struct model_todo *t);

/* Returns the gemm kernel that the MLP's linears use. */
enum kern_fn model_gemm(const struct model *m);

/* Closes M, which may be zeroed. */
void model_close(struct model *m);

/* Returns ERR_INPUT if LEN exceeds the number of learned positions. */
int model_check_length(const struct model *m, size_t len, struct err *e);

/* The buffers of a forward pass, for steps of max_tokens rows, of which max_wanted give logits. */
struct model_work {
    /* [T, E] The residual stream, and the output of attention or MLP, to be added to it next. */
    float *x, *r;
    /* [T, E] A second output, for models that compute attention and MLP, or MLP and experts, side by side. */
    float *r2;
    /* [T, E] The normed rows. */
    float *h;
    /* [T, model_info.extra] */
    float *extra;
    /* [T, (H + 2 K) D] Queries, keys and values. */
    float *qkv;
    /* [T, H D] The output of attention before its linear. */
    float *a;
    /* [wanted, E] The wanted rows of X, R and H. */
    float *xw, *rw;
    float *hw;
    void *region;
    size_t region_bytes;
};

int model_work_open(struct model_work *s, const struct model *m, size_t max_tokens, size_t max_wanted,
                    struct err *e);
void model_work_close(struct model_work *s);

/* Computes all layers for B. The residual stream of its rows stays in S until the next call. */
void model_layers(const struct model *m, const struct op_sink *o, const struct batch *b,
                  struct model_work *s);

/* Computes the final norm of the rows b->wanted [b->n_wanted] of the last model_layers() into s->hw
 * [n_wanted, E], and their logits into b->logits [n_wanted, V] unless b->hidden_only is set. It may be called
 * again for other rows. */
void model_tail(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s);

/* Calls model_layers() and model_tail(). */
void model_forward(const struct model *m, const struct op_sink *o, const struct batch *b,
                   struct model_work *s);

/* Returns a hash that identifies the model in data that outlives the process, such as KV blocks in a store.
 *
 * The hash covers the architecture, its sizes, windows, sinks and ropes; the bytes of config.json, or of the
 * JSON made from a GGUF file's metadata; the name, dtype, shape and first and last bytes of every tensor (all
 * bytes with model_options.all_bytes); and the calibration file. It does not cover the type of the
 * arithmetic, the KV cache and the threads. */
uint64_t model_identity(const struct model *m);

/* Returns whether archs.def has a row for CLASS_NAME ("LlamaForCausalLM"). */
bool model_arch_known(const char *class_name);

/* Writes the class names of archs.def to OUT, separated by commas, for messages. Returns OUT. */
const char *model_arch_names(char *out, size_t size);

#endif
