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

#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/kern.h"
#include "tensor/view.h"

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
    const float *feedback;
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

/* The epilogue of a linear: where its results are written, and the activation that is applied to them. */
struct linear_end {
    /* The results [m, n], with rows LDY floats apart. NULL: the results are written to NEXT. */
    float *y;
    size_t ldy;
    /* The input of the next linear, whose backend reads the same form, [m * linear_in_bytes(n)]. */
    void *next;
    /* True if the result is act(y), [m, n], or for a paired linear act(gate) * up, [m, n / 2]. */
    bool activated;
    enum kern_act act;
    /* The part of the rows to compute (struct kern_gemm); 0, 0: all rows. Set by linear.c. */
    size_t part, parts;
    /* The end of the panels that this thread will compute next (struct kern_gemm). Set by linear.c. */
    size_t ahead;
};

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

/* Bits of linear_backend.flags. */
enum {
    /* The backend computes with the portable kernels on every machine. */
    LINEAR_NATIVE = 1,
    /* Sums of floats may have different bits with a different number of rows. */
    LINEAR_LOOSE = 2,
    /* put() writes a form that other backends cannot read. */
    LINEAR_OWN_INPUT = 4
};

/* Layouts that several files pack or read (linear_backend.form). */
#define LINEAR_FORM_PANELS "panels of 32, int8 turned by signs"
#define LINEAR_FORM_INT4   "int4 panels of 32, turned by signs"

/* A backend of linears: a name and functions. */
struct linear_backend {
    const char *name;
    /* The name of the layout of the packed weights, the same on all machines. A new layout has a new name. */
    const char *form;
    /* Returns true if the backend can compute D; otherwise sets *WHY_NOT to the reason, for the user. */
    bool (*accepts)(const struct linear_desc *d, const char **why_not);
    /* Sets the members of L that depend on D; the caller has set n, k and dtype. Returns the bytes of the packed
     * weight. */
    size_t (*open)(struct linear *l, const struct linear_desc *d);
    /* Packs the columns [begin, end) of the panels. BEGIN and END are multiples of 32, except for the last
     * end; linear_column() returns their rows of W. Returns false if a packed weight would not be finite. */
    bool (*pack)(struct linear *l, const struct linear_desc *d, size_t begin, size_t end, void *scratch);
    /* Writes X [k], row ROW of M rows, to IN [m * linear_in_bytes(k)] in the form that run() reads. */
    void (*put)(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch);
    /* Computes the panels [p0, p1) for M rows. */
    void (*run)(const struct linear *l, const void *in, const struct linear_end *end, size_t m, size_t p0,
                size_t p1, void *scratch);
    /* Returns the best number of rows for a call of run() (kern_gemm_most()). NULL: all rows. */
    size_t (*most)(const struct linear *l);
    /* Returns the bytes of scratch, aligned to 64, that pack(), put() and run() need. NULL: none. */
    size_t (*scratch_bytes)(const struct linear *l);
    /* Writes row I of the packed W to OUT [k]. NULL: rows cannot be read back. */
    void (*row)(const struct linear *l, size_t i, float *out);
    /* Computes an MLP whose linears both have this backend. A backend with this function serves OP_MLP only.
     * NULL: the linears run one after the other. */
    void (*run_mlp)(const struct linear_mlp *w, struct pool *pool);
    /* LINEAR_NATIVE, ... or 0. */
    unsigned flags;
};

/* The functions of backend "gallop" (linear_panels.c), for other backends with the same panels. */
size_t linear_panels_open(struct linear *l, const struct linear_desc *d);
bool linear_panels_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end,
                        void *scratch);
void linear_panels_put(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch);
size_t linear_panels_scratch(const struct linear *l);
void linear_panels_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                       size_t p0, size_t p1, void *scratch);
void linear_panels_row(const struct linear *l, size_t i, float *out);

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
 * the same sizes, type and layout (linear_backend.form). PACKED must outlive L. */
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

/* Returns the scratch of THREAD for L's backend, or NULL if the backend needs no scratch. */
void *linear_scratch(const struct linear *l, const struct pool *pool, int thread);

/* Computes an MLP on all threads of POOL. */
void linear_run_mlp(const struct linear_mlp *w, struct pool *pool);

/* Computes an MLP whose linears are packed as in backend "gallop", in fp32 or bf16, SPLIT columns of the
 * intermediate at a time. SPLIT is a multiple of KERN_PIECE. */
void linear_run_splits(const struct linear_mlp *w, struct pool *pool, size_t split);

/* Computes the panels [p0, p1) of KERN_NR columns as linear_run() does, for callers that distribute the
 * panels of several linears among threads. Called by THREAD in a job of POOL. */
void linear_run_panels(const struct linear *l, const struct pool *pool, int thread, const void *in, float *y,
                       size_t ldy, size_t m, size_t p0, size_t p1);

/* Compute the panels [p0, p1) as linear_run_into() and linear_run_act() do. */
void linear_run_panels_into(const struct linear *l, const struct pool *pool, int thread, const void *in,
                            void *next_in, enum kern_act act, size_t m, size_t p0, size_t p1);
void linear_run_panels_act(const struct linear *l, const struct pool *pool, int thread, const void *in,
                           float *y, size_t ldy, enum kern_act act, size_t m, size_t p0, size_t p1);

/* Returns backend I of this build, best first, or NULL after the last backend. */
const struct linear_backend *linear_backend_at(int i);

/* Returns true if this build has a backend NAME. */
bool linear_backend_known(const char *name);

/* Returns false if backend NAME serves MLPs only and K is another kind. */
bool linear_backend_serves(const char *name, enum op_kind k);

/* Returns the library that this build lacks for backend NAME, as text for a sentence: "LIBXSMM, which the
 * package libxsmm-dev adds". Returns NULL if the build has the backend, or if no backend has this NAME. */
const char *linear_backend_lacks(const char *name);

/* Returns the row of W that COLUMN of the panels holds, as an index into part *P of D. Sets *P to n_parts if
 * the column is padding, which holds zeros. */
size_t linear_column(const struct linear_desc *d, size_t column, size_t *p);

/* Returns the column of the panels of L that holds row I of the joined matrix: the inverse of linear_column(). */
size_t linear_column_of_row(const struct linear *l, size_t i);

/* Returns the number of rows of all parts of D together. */
size_t linear_joined_rows(const struct linear_desc *d);

/* Writes the elements [k0, k0 + n) of COLUMN of the panels to OUT as fp32. */
void linear_elements(const struct linear_desc *d, size_t column, size_t k0, size_t n, float *out);

/* Returns the arguments of a gemm kernel for M rows and all panels of L. SUMS is the kernel's scratch. */
struct kern_gemm linear_gemm(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                             void *sums);

/* Writes X [n], the elements [at, at + n) of row ROW of M rows of K elements, in the form that put() of L's
 * backend writes. N is 32 or 16, and AT a multiple of N, except at the end of the row. */
typedef void linear_put_part(const struct linear *l, void *in, const float *x, size_t at, size_t n,
                             size_t row, size_t m, size_t k);

/* The sums of panel number PANEL for the rows [row, row + rows) of M rows. */
struct linear_sums {
    /* The sums, [rows, 32], with rows LD floats apart; overwritten. */
    float *sums;
    size_t ld, panel, row, rows, m;
};

/* Computes the epilogue END for the sums of a panel, for backends whose kernels return fp32 sums: adds the
 * bias, applies the activation and writes the results. */
void linear_end_panel(const struct linear *l, const struct linear_end *end, const struct linear_sums *s,
                      linear_put_part *put_part);

/* Returns the bytes of N columns in panels of 32 columns, K ascending, as the gemm kernels read them. */
size_t linear_panel_bytes(size_t n, size_t k, enum dtype t);

#endif
