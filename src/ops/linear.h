/* linear.h - y = x W^T + b, with the weight packed once for the backend that computes it.
 *
 * linear_open() goes through backends.def and takes the first backend that accepts the linear, or the one
 * that the user named, and records why. Sizes are known then, and no weight has been read. linear_pack()
 * packs the weight on the threads that will read it; after that a linear is const. Parts that are joined
 * along N (q, k and v; gate and up) become one matrix. A linear may apply the activation of an MLP and write
 * its result in the form that the next linear reads, so that no array stands between the two.
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

/* Returns the name of kind K, as PACE has it: "norm", "qkv_projection", ... */
const char *linear_kind_name(enum op_kind k);

/* What linear_open() is asked for. */
struct linear_desc {
    /* The name of the Hugging Face module, for `inspect` and errors; borrowed for as long as the linear. */
    const char *name;
    enum op_kind kind;
    /* [n_i, k] each, with any strides, of a weight's dtype. */
    const struct view *part[LINEAR_MAX_PARTS];
    /* [n_i] or NULL. */
    const struct view *bias[LINEAR_MAX_PARTS];
    /* [n_i, k / 32] U8: the scales of a part of DT_MXFP4 that is stored as 16 bytes of nibbles per group, as
     * in GPT-OSS. NULL: the scales are stored in the groups. */
    const struct view *scale[LINEAR_MAX_PARTS];
    size_t n_parts;
    /* The first half of all rows is gate, the second half is up; they are packed in pairs (KERN_GLU). */
    bool paired;
    /* The type of the arithmetic: DT_F32, DT_BF16, or DT_I8. With DT_I8, weights are 8-bit integers with one
     * scale per column, inputs are 8-bit integers with one scale per row, and sums of products are exact
     * (W8A8). */
    enum dtype dtype;
    /* With DT_I8: the size along K of groups of 4-bit weights, each with a scale and a zero point. 0: weights
     * have 8 bits. */
    size_t group;
    /* With DT_I8 and no group: LARGEST, found by calibration, becomes 127 in all rows of the input. LARGEST
     * 0: the largest element of each row becomes 127, as without FIXED. */
    bool fixed;
    float largest;
    /* With a group: factors of GPTQ for rows of K (gptq.h). NULL: each weight is rounded to the nearest. */
    const float *feedback;
    /* Unless DTYPE is DT_I8: weights are rounded to MXFP4, in groups of 32 along K. */
    bool to_mxfp4;
    /* The linear is an expert of a mixture. */
    bool is_expert;
    /* The linear is a router: its weights are not quantized, and it computes in fp32. */
    bool exact;
    /* If DTYPE is bf16: weights that are stored as quantized integers keep their bits. */
    bool as_stored;
    /* The kernels that the linear will use. */
    const struct kern *kern;
};

struct linear;

/* Statistics of inputs, for calibration: a histogram of the largest elements of rotated rows, with 8 bins per
 * power of two. */
enum { LINEAR_SEEN_BINS = 512, LINEAR_SEEN_OCTAVE = 8, LINEAR_SEEN_ONE = 256 };
struct linear_seen {
    _Atomic uint32_t rows[LINEAR_SEEN_BINS];
    /* [most, k] the first MOST rotated rows since N was 0. NULL: no rows are kept. */
    float *kept;
    size_t most;
    atomic_size_t n;
};

/* Returns the bin of a row whose largest element is LARGEST. */
size_t linear_seen_bin(float largest);

/* Returns the upper limit of the largest elements in BIN. */
float linear_seen_largest(size_t bin);

/* Where the results of a linear go, and what is applied to them. */
struct linear_end {
    /* [m, n], rows LDY floats apart. NULL: the results go to NEXT. */
    float *y;
    size_t ldy;
    /* [m * linear_in_bytes(k)]: the input of another linear whose backend reads the same form. */
    void *next;
    /* The result is act(y), or act(gate) * up of a paired linear: n or n / 2 columns. */
    bool activated;
    enum kern_act act;
    /* The part of the rows that is computed (struct kern_gemm); 0, 0: all. Set by linear.c. */
    size_t part, parts;
    /* The panel up to which this thread will call run() next (struct kern_gemm). Set by linear.c. */
    size_t ahead;
};

/* An MLP: act(up x), or act(gate x) * (up x) if UP is paired, through DOWN. linear_leads_into(up, down) must
 * hold. */
struct linear_mlp {
    const struct linear *up, *down;
    enum kern_act act;
    /* M rows in the form of UP, written by linear_put(). */
    const void *in;
    /* [m * linear_in_bytes(down->k)]; overwritten. */
    void *middle;
    /* [m, down->n] */
    float *y;
    size_t m;
};

/* linear_backend.flags. */
enum {
    /* The backend computes with the portable kernels on every machine. */
    LINEAR_NATIVE = 1,
    /* Sums of floats may have other bits for another number of rows. */
    LINEAR_LOOSE = 2,
    /* put() writes a form of its own, which other backends do not read. */
    LINEAR_OWN_INPUT = 4
};

struct linear_backend {
    const char *name;
    /* The name of the form of the packed bytes, the same on every machine. A change of the form needs another
     * name. */
    const char *form;
    /* True if the backend can compute D; otherwise *WHY_NOT is a reason for the user. */
    bool (*accepts)(const struct linear_desc *d, const char **why_not);
    /* Sets the members of L that depend on D; the sizes are set. Returns the bytes of the packed weight. */
    size_t (*open)(struct linear *l, const struct linear_desc *d);
    /* Packs columns [begin, end) of the panels, which are multiples of 32 except for the last;
     * linear_column() gives their rows of W. False: a weight is infinite or NaN, or becomes so. */
    bool (*pack)(struct linear *l, const struct linear_desc *d, size_t begin, size_t end, void *scratch);
    /* Writes X [k], row ROW of M, in the form that run() reads, into IN [m * linear_in_bytes(k)]. */
    void (*put)(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch);
    /* Computes panels [p0, p1) for M rows. */
    void (*run)(const struct linear *l, const void *in, const struct linear_end *end, size_t m, size_t p0,
                size_t p1, void *scratch);
    /* Returns the number of rows with which one call of run() is fastest (kern_gemm_most()). NULL: run()
     * always computes all rows. */
    size_t (*most)(const struct linear *l);
    /* Returns the bytes of scratch that pack(), put() and run() need per thread, aligned to 64. NULL:
     * none. */
    size_t (*scratch_bytes)(const struct linear *l);
    /* Writes row I of the packed W to OUT [k]. NULL: rows cannot be read back. */
    void (*row)(const struct linear *l, size_t i, float *out);
    /* Computes an MLP whose linears both have this backend, which then serves OP_MLP only. NULL: the linears
     * run one after the other. */
    void (*run_mlp)(const struct linear_mlp *w, struct pool *pool);
    /* LINEAR_NATIVE, ... */
    unsigned flags;
};

/* The functions of backend "gallop", for backends that use its panels (linear_panels.c). */
size_t linear_panels_open(struct linear *l, const struct linear_desc *d);
bool linear_panels_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end,
                        void *scratch);
void linear_panels_put(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch);
size_t linear_panels_scratch(const struct linear *l);
void linear_panels_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                       size_t p0, size_t p1, void *scratch);
void linear_panels_row(const struct linear *l, size_t i, float *out);

struct linear {
    const char *name;
    enum op_kind kind;
    const struct linear_backend *backend;
    /* "first that accepts" or "chosen by the user". */
    const char *why;
    size_t n, k;
    bool paired;
    /* The type of the arithmetic; DT_I8 also for weights that keep their stored integers. */
    enum dtype dtype;
    /* Of backends "blocks" and "mxfp4_int8": the format of each part and the number of its panels; the parts
     * are packed one after the other. */
    enum dtype stored[LINEAR_MAX_PARTS];
    size_t part_panels[LINEAR_MAX_PARTS];
    /* linear_desc.group. */
    size_t group;
    /* linear_desc.fixed; linear_desc.largest is stored after the panels. */
    bool fixed;
    /* Rows of the input are counted there. NULL: they are not counted. */
    struct linear_seen *seen;
    /* The backend reads zeros after a row's K elements, which linear_put() writes. */
    bool padded;
    /* The kernels that the linear uses; they outlive it. */
    const struct kern *kern;
    /* [packed_bytes] a region of its own, or, if MAPPED, borrowed from a packed checkpoint. */
    void *packed;
    bool mapped;
    size_t packed_bytes;
    /* [linear_columns()] or NULL. */
    float *bias;
};

/* True if the bits of a row may depend on how many rows are computed with it. */
bool linear_is_loose(const struct linear *l);

/* Returns the columns of the panels: n, or for a paired linear whole panels of 16 + 16. */
size_t linear_columns(const struct linear *l);

/* Opens L with the backend of this name; NULL or "auto": the first that accepts. Reads no weight and
 * allocates no memory for it. ERR_UNSUPPORTED: no such backend accepts D. */
int linear_open(struct linear *l, const struct linear_desc *d, const char *backend, struct err *e);

/* Packs the weights of D, with which L was opened, on the threads of POOL. ERR_INPUT names a tensor that
 * holds an infinity or NaN: multiplied by a weight of zero, it would reach rows that must not see it. */
int linear_pack(struct linear *l, const struct linear_desc *d, struct pool *pool, struct err *e);

/* Takes PACKED [packed_bytes], aligned to 64, instead of packing: bytes that were packed for the same sizes,
 * type and form. PACKED outlives L. */
int linear_map(struct linear *l, const struct linear_desc *d, const void *packed, struct pool *pool,
               struct err *e);

/* Frees what L owns; a zeroed L is allowed. */
void linear_close(struct linear *l);

/* True if linear_row() returns exactly the numbers of D, with which L was opened, because packing rounded
 * none of them. A tied embedding then needs no table of its own. */
bool linear_is_exact(const struct linear *l, const struct linear_desc *d);

/* Writes row I of the joined matrix to OUT [k]. L must be exact. */
void linear_row(const struct linear *l, size_t i, float *out);

/* Returns the bytes of a row of K elements in the form that any backend reads; buffers of such rows are
 * aligned to 64. */
size_t linear_in_bytes(size_t k);

/* Writes X [k], row ROW of the M rows that will be computed, into IN, rounded to l->dtype. Rows come in any
 * order. Called by THREAD of a job of POOL. */
void linear_put(const struct linear *l, const struct pool *pool, int thread, void *in, const float *x,
                size_t row, size_t m);

/* Writes all rows of X [m, k] into IN, on all threads of POOL. */
void linear_put_all(const struct linear *l, struct pool *pool, void *in, const float *x, size_t m);

/* Computes y[m, n] = x[m, k] W^T + bias in fp32, on all threads of POOL. IN holds x. POOL is the one that
 * packed L, or has as much scratch. */
void linear_run(const struct linear *l, struct pool *pool, const void *in, float *y, size_t ldy, size_t m);

/* Computes act(y), or act(gate) * up of a paired linear, and writes it into NEXT_IN as the input of NEXT,
 * whose k is n, or n / 2. linear_leads_into(l, next) must hold. */
void linear_run_into(const struct linear *l, struct pool *pool, const void *in, const struct linear *next,
                     void *next_in, enum kern_act act, size_t m);

/* True if linear_run_into() can write the input of NEXT. It cannot if NEXT scales a row by its largest
 * element, because then the row must be complete. */
bool linear_leads_into(const struct linear *l, const struct linear *next);

/* Computes act(y), or act(gate) * up of a paired linear, into Y [m, n or n / 2]. */
void linear_run_act(const struct linear *l, struct pool *pool, const void *in, float *y, size_t ldy,
                    enum kern_act act, size_t m);

/* Returns the scratch of THREAD for L's backend, or NULL if the backend needs none. */
void *linear_scratch(const struct linear *l, const struct pool *pool, int thread);

/* Computes an MLP on all threads of POOL. */
void linear_run_mlp(const struct linear_mlp *w, struct pool *pool);

/* Computes an MLP whose linears are packed in the panels of "gallop" in fp32 or bf16, SPLIT columns of the
 * intermediate at a time. SPLIT is a multiple of KERN_PIECE. */
void linear_run_splits(const struct linear_mlp *w, struct pool *pool, size_t split);

/* Computes panels [p0, p1) of KERN_NR columns as linear_run() does, for callers that distribute the panels of
 * several linears. Called by THREAD of a job of POOL. */
void linear_run_panels(const struct linear *l, const struct pool *pool, int thread, const void *in, float *y,
                       size_t ldy, size_t m, size_t p0, size_t p1);

/* The same for linear_run_into() and linear_run_act(). */
void linear_run_panels_into(const struct linear *l, const struct pool *pool, int thread, const void *in,
                            void *next_in, enum kern_act act, size_t m, size_t p0, size_t p1);
void linear_run_panels_act(const struct linear *l, const struct pool *pool, int thread, const void *in,
                           float *y, size_t ldy, enum kern_act act, size_t m, size_t p0, size_t p1);

/* Returns backend I of this build, best first; NULL after the last. */
const struct linear_backend *linear_backend_at(int i);

/* True if this build has a backend NAME. */
bool linear_backend_known(const char *name);

/* False if backend NAME serves MLPs only and K is another kind. */
bool linear_backend_serves(const char *name, enum op_kind k);

/* Returns what this build lacks for backend NAME, for a sentence: "LIBXSMM, which the package libxsmm-dev
 * adds". NULL: the build has the backend, or NAME is not a backend. */
const char *linear_backend_lacks(const char *name);

/* Returns the row of part *P of D that COLUMN of the panels holds. *P is n_parts if the column holds
 * zeros. */
size_t linear_column(const struct linear_desc *d, size_t column, size_t *p);

/* Returns the number of rows of all parts of D together. */
size_t linear_joined_rows(const struct linear_desc *d);

/* Writes elements [k0, k0 + n) of COLUMN to OUT as fp32. */
void linear_elements(const struct linear_desc *d, size_t column, size_t k0, size_t n, float *out);

/* Returns the arguments with which run() calls a gemm kernel for M rows, with all panels of L. SUMS is the
 * kernel's scratch. */
struct kern_gemm linear_gemm(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                             void *sums);

/* Writes X [n], elements [at, at + n) of row ROW of M rows of K, in the form that put() of L's backend
 * writes. N is 32 or 16 and AT a multiple of it, except at the end of the row. */
typedef void linear_put_part(const struct linear *l, void *in, const float *x, size_t at, size_t n,
                             size_t row, size_t m, size_t k);

/* The sums of a panel for rows [row, row + rows) of M. */
struct linear_sums {
    /* [rows, 32], rows LD apart; overwritten. */
    float *sums;
    size_t ld, panel, row, rows, m;
};

/* For backends whose kernels return fp32 sums: adds the bias, applies the activation and writes the results
 * of a panel to the destination of END. */
void linear_end_panel(const struct linear *l, const struct linear_end *end, const struct linear_sums *s,
                      linear_put_part *put_part);

/* Returns the bytes of N columns in panels of 32 columns, K ascending, as the gemm kernels read them. */
size_t linear_panel_bytes(size_t n, size_t k, enum dtype t);

#endif
