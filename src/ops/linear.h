/* linear.h - y = x W^T + b, with the weight packed once for the backend that computes it.
 *
 * linear_open() goes through backends.def and takes the first backend that accepts the linear, or the backend
 * that the user named, and records why. All sizes are then known, and no weight has been read. linear_pack()
 * packs the weight on the threads that will read it; after that a linear is const. Parts that are joined
 * along N (q, k and v; gate and up) become one matrix. A linear may apply the activation of an MLP and write
 * its result in the form that the next linear reads, so that no array of plain floats is between the two.
 */
#ifndef GALLOP_OPS_LINEAR_H
#define GALLOP_OPS_LINEAR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "kern/vector.h"
#include "tensor/dtype.h"

struct err;
struct kern;
struct linear_backend;
struct pool;
struct view;

enum { LINEAR_MAX_PARTS = 4 };

/* The kinds of operators for which a user can choose a backend (--op-config). */
enum op_kind { OP_NORM, OP_QKV, OP_ROPE, OP_ATTENTION, OP_OUT, OP_MLP, OP_LM_HEAD, OP_N_KINDS };

/* Returns the name that AMD PACE gives kind K: "norm", "qkv_projection", ... */
const char *linear_kind_name(enum op_kind k);

/* The description of a linear, from which linear_open() opens it. */
struct linear_desc {
    /* The name of the Hugging Face module, for `inspect` and errors; borrowed for as long as the linear. */
    const char *name;
    enum op_kind kind;
    /* The parts of W, [n_i, k] each, with any strides and a dtype of dtype_is_weight(). */
    const struct view *part[LINEAR_MAX_PARTS];
    /* The bias of each part, [n_i], or NULL. */
    const struct view *bias[LINEAR_MAX_PARTS];
    /* For parts of DT_MXFP4 that are stored as 16 bytes of nibbles for each group, as in GPT-OSS: their
     * scales, U8 [n_i, k / 32]. NULL: the scales are stored in the groups. */
    const struct view *scale[LINEAR_MAX_PARTS];
    size_t n_parts;
    /* The first half of all rows is gate, the second half up; packed in pairs of columns (KERN_GLU). */
    bool paired;
    /* The type of the arithmetic: DT_F32, DT_BF16, or DT_I8 (W8A8). With DT_I8, weights are 8-bit integers
     * with one scale per column, inputs are 8-bit integers with one scale per row, and their sums are
     * exact. */
    enum dtype dtype;
    /* With DT_I8: the size of quantization groups of 4-bit weights along K; 0: 8-bit weights. */
    size_t group;
    /* With DT_I8 and group 0: all input rows have one scale, which maps LARGEST, found by calibration, to
     * 127. If FIXED is false or LARGEST is 0, the scale of each row maps its largest element to 127. */
    bool fixed;
    float largest;
    /* With a group: GPTQ's factors for rows of K (gptq.h). NULL: no errors are carried. */
    const float *gptq;
    /* With DT_F32 or DT_BF16: weights are rounded to MXFP4, in groups of 32 along K. */
    bool to_mxfp4;
    /* The linear is an expert of a mixture. */
    bool is_expert;
    /* The linear is a router: its weights are not quantized, and it computes in fp32. */
    bool exact;
    /* With DT_BF16: weights that are stored as quantized integers (GGUF) stay integers. */
    bool as_stored;
    /* The kernels that the linear will use. */
    const struct kern *kern;
};

struct linear;

/* Statistics of inputs, for calibration: a histogram of the largest elements of rotated rows. There are
 * LINEAR_SEEN_BINS bins, LINEAR_SEEN_OCTAVE for each power of two; bin LINEAR_SEEN_ONE ends at 1. */
enum { LINEAR_SEEN_BINS = 512, LINEAR_SEEN_OCTAVE = 8, LINEAR_SEEN_ONE = 256 };
struct linear_seen {
    _Atomic uint32_t rows[LINEAR_SEEN_BINS];
    /* The first MOST rotated rows, [most, k], of which N have been counted. NULL: no rows are kept. */
    float *kept;
    size_t most;
    atomic_size_t n;
};

/* Returns the bin of a row whose largest element is LARGEST. */
size_t linear_seen_bin(float largest);

/* Returns the upper limit of the largest elements in BIN. */
float linear_seen_largest(size_t bin);

/* The arguments of an MLP: y = down(act(up x)), or, if UP is paired, y = down(act(gate x) * (up x)).
 * linear_leads_into(up, down) must hold. */
struct linear_mlp {
    const struct linear *up, *down;
    enum kern_act act;
    /* The M rows of x in the form that UP reads, written by linear_put(). */
    const void *in;
    /* Buffer for the intermediate, [m * linear_in_bytes(down->k)]; overwritten. */
    void *middle;
    /* The result, [m, down->n]. */
    float *y;
    size_t m;
};

/* A linear that linear_open() has opened. */
struct linear {
    const char *name;
    enum op_kind kind;
    const struct linear_backend *backend;
    /* Why the backend was chosen: "first that accepts" or "chosen by the user". */
    const char *why;
    size_t n, k;
    bool paired;
    /* The type of the arithmetic; DT_I8 also for weights that keep their stored integers. */
    enum dtype dtype;
    /* Backends "blocks" and "mxfp4_int8": the format of each part and the number of its panels. The panels of
     * a part follow those of the part before. */
    enum dtype stored[LINEAR_MAX_PARTS];
    size_t part_panels[LINEAR_MAX_PARTS];
    /* The size of quantization groups, as in struct linear_desc. */
    size_t group;
    /* True if all input rows have one scale; linear_desc.largest is then stored after the panels. */
    bool fixed;
    /* Statistics in which linear_put() counts the rows of the input; borrowed. NULL: rows are not counted. */
    struct linear_seen *seen;
    /* The backend reads zeros after the K elements of a row; linear_put() writes them. */
    bool padded;
    /* The kernels that the linear uses; borrowed. */
    const struct kern *kern;
    /* The packed weight, [packed_bytes]: an own region, or, if MAPPED, borrowed from a packed checkpoint. */
    void *packed;
    bool mapped;
    size_t packed_bytes;
    /* The bias, [linear_columns()], or NULL. */
    float *bias;
};

/* Returns true if the bits of a row may depend on the number of rows that are computed with it. */
bool linear_is_loose(const struct linear *l);

/* Returns the number of columns in the panels: n; if paired, n rounded up to whole panels of 16 + 16. */
size_t linear_columns(const struct linear *l);

/* Opens L with the backend of this name, or, if BACKEND is NULL or "auto", with the first backend that
 * accepts D. Reads no weight and allocates no memory for it. Fails with ERR_UNSUPPORTED if none accepts D. */
int linear_open(struct linear *l, const struct linear_desc *d, const char *backend, struct err *e);

/* Packs the weights of D, with which L was opened, on the threads of POOL. Fails with ERR_INPUT, naming the
 * tensor, if a weight is an infinity or NaN: its product with 0 would be NaN and reach masked rows. */
int linear_pack(struct linear *l, const struct linear_desc *d, struct pool *pool, struct err *e);

/* Uses PACKED [packed_bytes], aligned to 64, instead of packing D: bytes that linear_pack() made before, for
 * the same sizes, type and layout (linear_backend.layout). PACKED must outlive L. */
int linear_map(struct linear *l, const struct linear_desc *d, const void *packed, struct pool *pool,
               struct err *e);

/* Reads the bias of D, with which L was opened, into L, unless it was read before. linear_pack() does so
 * itself. */
int linear_read_bias(struct linear *l, const struct linear_desc *d, struct err *e);

/* Frees the memory that L owns. L may be zeroed. */
void linear_close(struct linear *l);

/* Returns true if linear_row() returns exactly the weights of D, with which L was opened, because packing
 * rounded none of them. A tied embedding then reads its rows from L. */
bool linear_is_exact(const struct linear *l, const struct linear_desc *d);

/* Returns true if linear_row() can read the packed weights back; they may have been rounded. */
bool linear_has_rows(const struct linear *l);

/* Writes row I of the joined matrix to OUT [k], as it is packed. linear_has_rows() must hold. */
void linear_row(const struct linear *l, size_t i, float *out);

/* Returns element I of the bias, which L must have. */
float linear_bias(const struct linear *l, size_t i);

/* Returns the bytes of an input row of K elements in the form of any backend. Buffers are aligned to 64. */
size_t linear_in_bytes(size_t k);

/* Writes X [k], row ROW of the M rows that will be computed, to IN, rounded to l->dtype. Rows may be written
 * in any order. Called by THREAD in a job of POOL. */
void linear_put(const struct linear *l, const struct pool *pool, int thread, void *in, const float *x,
                size_t row, size_t m);

/* Writes all rows of X [m, k] to IN, on all threads of POOL. */
void linear_put_all(const struct linear *l, struct pool *pool, void *in, const float *x, size_t m);

/* Computes y[m, n] = x[m, k] W^T + bias in fp32, on all threads of POOL. IN holds x, written by linear_put().
 * POOL is the pool that packed L, or has as much scratch. */
void linear_run(const struct linear *l, struct pool *pool, const void *in, float *y, size_t ldy, size_t m);

/* Computes act(y), or act(gate) * up of a paired linear, and writes it to NEXT_IN as the input of NEXT, whose
 * k is n, or n / 2. linear_leads_into(l, next) must hold. */
void linear_run_into(const struct linear *l, struct pool *pool, const void *in, const struct linear *next,
                     void *next_in, enum kern_act act, size_t m);

/* Returns true if linear_run_into() can write the input of NEXT. It cannot if NEXT scales a row by its
 * largest element, because the scale is known only when the row is complete. */
bool linear_leads_into(const struct linear *l, const struct linear *next);

/* Computes act(y), or act(gate) * up of a paired linear, into Y [m, n or n / 2]. */
void linear_run_act(const struct linear *l, struct pool *pool, const void *in, float *y, size_t ldy,
                    enum kern_act act, size_t m);

/* Computes an MLP on all threads of POOL. */
void linear_run_mlp(const struct linear_mlp *w, struct pool *pool);

/* Computes the panels [p0, p1) of KERN_NR columns as linear_run() does, for callers that distribute the
 * panels of several linears among threads. Called by THREAD in a job of POOL. */
void linear_run_panels(const struct linear *l, const struct pool *pool, int thread, const void *in, float *y,
                       size_t ldy, size_t m, size_t p0, size_t p1);

/* Compute the panels [p0, p1) as linear_run_into() and linear_run_act() do. */
void linear_run_panels_into(const struct linear *l, const struct pool *pool, int thread, const void *in,
                            void *next_in, enum kern_act act, size_t m, size_t p0, size_t p1);
void linear_run_panels_act(const struct linear *l, const struct pool *pool, int thread, const void *in,
                           float *y, size_t ldy, enum kern_act act, size_t m, size_t p0, size_t p1);

#endif
