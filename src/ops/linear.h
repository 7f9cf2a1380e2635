/* linear.h - y = x W^T + b, with the weight packed once for the backend that will run it.
 *
 * linear_open() walks backends.def, takes the first backend that accepts (or the one the user named, or
 * fails) and records why; what it will take is known then, and no weight was read. linear_pack() packs the
 * weight on the threads that will read it. After that a linear is const.
 * Parts joined along N (q, k, v; gate, up) become one matrix. One linear may end in the activation between it
 * and the next, and put the result where the next one reads it: no array stands between the two of an MLP.
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

/* The kinds a user can choose a backend for (--op-config), as PACE names them. */
enum op_kind { OP_NORM, OP_QKV, OP_ROPE, OP_ATTENTION, OP_OUT, OP_MLP, OP_LM_HEAD, OP_N_KINDS };
const char *linear_kind_name(enum op_kind k); /* "norm", "qkv_projection", ... */

struct linear_desc {
    const char *name; /* Hugging Face module name, for inspect and dumps; borrowed for ever */
    enum op_kind kind;
    const struct view *part[LINEAR_MAX_PARTS]; /* [n_i, k] each, any strides and weight dtype */
    const struct view *bias[LINEAR_MAX_PARTS]; /* [n_i] or NULL */
    /* [n_i, k / 32] U8: the part (DT_MXFP4) is 16 bytes of nibbles a block and its scales lie here, as in
     * GPT-OSS; NULL: they are in the blocks */
    const struct view *scale[LINEAR_MAX_PARTS];
    size_t n_parts;
    /* the first half of all rows is gate, the other is up: they are packed in pairs (kern.h, KERN_GLU) */
    bool paired;
    /* computing type: DT_F32, DT_BF16, or DT_I8: weights are 8-bit integers with a scale a column, rows of
     * the input become such with a scale a row, and sums of products are exact (W8A8) */
    enum dtype dtype;
    size_t group; /* of DT_I8: weights are 4-bit integers, so many of K with a multiple and an offset; 0: 8 */
    bool fixed;   /* of DT_I8 and no group: 127 stands for LARGEST in all rows of the input, found before */
    float largest; /* 0: in each row for its own largest element, as without */
    const float
        *feedback;  /* of a GROUP: what rounding goes by (gptq.h), of rows of K; NULL: each weight alone */
    bool to_mxfp4;  /* weights become MXFP4, in blocks of 32 of K that have a scale, if DTYPE is not DT_I8 */
    bool is_expert; /* of a mixture */
    bool exact;     /* a router: nothing of the kind is done to its weights, which are computed in fp32 */
    bool as_stored; /* weights that are stored as integers in blocks stay so, if DTYPE is bf16 */
    const struct kern *kern; /* what it will run on */
};

struct linear;

/* Rotated rows of an input of 8 bits by their largest element: in bins of an eighth of a power of two. */
enum { LINEAR_SEEN_BINS = 512, LINEAR_SEEN_OCTAVE = 8, LINEAR_SEEN_ONE = 256 };
struct linear_seen {
    _Atomic uint32_t rows[LINEAR_SEEN_BINS];
    float *kept; /* [most, k] the first MOST rotated rows since N was 0; NULL: none are kept */
    size_t most;
    atomic_size_t n;
};
size_t linear_seen_bin(float largest);
float linear_seen_largest(size_t bin); /* of the rows of a bin, at most */

/* What becomes of x W^T + b. */
struct linear_end {
    float *y; /* [m, n], rows LDY floats apart; or, where it is NULL, */
    size_t ldy;
    void *next;     /* [m * linear_in_bytes(k)]: the input of another linear of the same form */
    bool activated; /* it is act(y), or act(gate) * up where this one is paired: n or n / 2 columns */
    enum kern_act act;
    size_t part, parts; /* of the rows, as kern.h has it; 0, 0: all. Set within */
    size_t ahead; /* the panel up to which run() will be called next by this thread (kern.h); set within */
};

/* An MLP: act(up), or act(gate) * up where UP is paired, through DOWN, into which UP leads. */
struct linear_mlp {
    const struct linear *up, *down;
    enum kern_act act;
    const void *in; /* of UP: M rows, put there */
    void *middle;   /* [m * linear_in_bytes(down->k)]: what lies there is lost */
    float *y;       /* [m, down->n] */
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
    const char *form; /* of the packed bytes, the same on every machine; another name where it changes */
    bool (*accepts)(const struct linear_desc *d, const char **why_not);
    /* Sets what depends on D, whose sizes L has; the bytes that it will be packed to. */
    size_t (*open)(struct linear *l, const struct linear_desc *d);
    /* Packs the columns [begin, end) of panels, multiples of 32 but for the last: the rows of W that
     * linear_column() says. False: one of the weights is an infinity or NaN, or becomes one. */
    bool (*pack)(struct linear *l, const struct linear_desc *d, size_t begin, size_t end, void *scratch);
    /* X [k], row ROW of M, to the form that run() reads, in IN [m * linear_in_bytes(k)]. */
    void (*put)(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch);
    void (*run)(const struct linear *l, const void *in, const struct linear_end *end, size_t m, size_t p0,
                size_t p1, void *scratch);
    /* Of how many rows run() is best called at once (kern_gemm_most()). NULL: it computes all rows only. */
    size_t (*most)(const struct linear *l);
    /* Bytes that pack(), put() and run() work in, aligned to 64, of each thread; NULL: none. */
    size_t (*scratch_bytes)(const struct linear *l);
    /* Row I of W, as it was packed, to OUT [k]; NULL: rows cannot be read back. */
    void (*row)(const struct linear *l, size_t i, float *out);
    /* All of an MLP whose linears both have this backend, which then serves OP_MLP only; NULL: they run one
     * after the other. */
    void (*run_mlp)(const struct linear_mlp *w, struct pool *pool);
    unsigned flags; /* LINEAR_NATIVE, ... */
};

/* Of backend "gallop", on whose panels others build (linear_panels.c). */
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
    const char *why; /* "first that accepts" or "chosen by the user" */
    size_t n, k;
    bool paired;
    enum dtype dtype; /* that it computes in: DT_I8 also with weights in blocks */
    /* of backends "blocks" and "mxfp4_int8": the format of each part, and its panels, one part behind the
     * other */
    enum dtype stored[LINEAR_MAX_PARTS];
    size_t part_panels[LINEAR_MAX_PARTS];
    size_t group;             /* linear_desc.group */
    bool fixed;               /* linear_desc.fixed; the number lies behind the panels */
    struct linear_seen *seen; /* rows are counted there; NULL: they are not */
    bool padded;              /* it reads zeros behind a row's K, which linear_put() writes */
    const struct kern *kern;  /* that it computes with; borrowed for ever */
    void *packed;             /* region of packed_bytes, */
    bool mapped;              /* or borrowed from a file that was packed before */
    size_t packed_bytes;
    float *bias; /* [linear_columns()] or NULL */
};

/* True if the bits of a row may depend on how many rows run with it. */
bool linear_is_loose(const struct linear *l);

/* Columns of its panels: n, or of a paired one whole panels of 16 + 16. */
size_t linear_columns(const struct linear *l);

/* BACKEND NULL or "auto": the first that accepts. Reads no weight and takes no memory for them. */
int linear_open(struct linear *l, const struct linear_desc *d, const char *backend, struct err *e);

/* Packs what D says, as it was opened with; POOL packs and touches. ERR_INPUT names a tensor that holds an
 * infinity or NaN: times a weight of zero it would reach rows that may not see it. */
int linear_pack(struct linear *l, const struct linear_desc *d, struct pool *pool, struct err *e);

/* Instead, PACKED [packed_bytes], aligned to 64, is what it was packed to: of the same sizes, type and form.
 * It outlives L. */
int linear_map(struct linear *l, const struct linear_desc *d, const void *packed, struct pool *pool,
               struct err *e);
void linear_close(struct linear *l); /* a zeroed one is fine */

/* True if linear_row() gives the very numbers of D, which L was opened with: none was rounded as it was
 * packed. Then a table of the same numbers, a tied embedding, needs no memory of its own. */
bool linear_is_exact(const struct linear *l, const struct linear_desc *d);

/* Row I of the joined matrix, packed, to OUT [k]. For linears that are exact. */
void linear_row(const struct linear *l, size_t i, float *out);

/* Bytes that the input of a linear takes for a row of K elements, in the form that its backend reads; a
 * buffer of them is aligned to 64. */
size_t linear_in_bytes(size_t k);

/* X [k], row ROW of the M rows that will run, to its place in IN, rounded as l->dtype wants it. Rows in any
 * order, by THREAD of a job of POOL. */
void linear_put(const struct linear *l, const struct pool *pool, int thread, void *in, const float *x,
                size_t row, size_t m);

/* All rows of X [m, k] on all threads of POOL. */
void linear_put_all(const struct linear *l, struct pool *pool, void *in, const float *x, size_t m);

/* y[m, n] = x[m, k] W^T + bias, on all threads of POOL (the one it was packed with, or one with as much
 * scratch). IN holds x; y fp32. */
void linear_run(const struct linear *l, struct pool *pool, const void *in, float *y, size_t ldy, size_t m);

/* The same, and act() of it, or act(gate) * up of a paired one, is put into NEXT_IN as the input of NEXT: k
 * of it are n, or n / 2, and they run on the same kernels. */
void linear_run_into(const struct linear *l, struct pool *pool, const void *in, const struct linear *next,
                     void *next_in, enum kern_act act, size_t m);

/* True where linear_run_into() can put its results into the input of NEXT: rows that are rounded by their own
 * largest element come whole. */
bool linear_leads_into(const struct linear *l, const struct linear *next);

/* The same to Y [m, n or n / 2] instead. */
void linear_run_act(const struct linear *l, struct pool *pool, const void *in, float *y, size_t ldy,
                    enum kern_act act, size_t m);

/* The scratch of THREAD that L's backend works in, or NULL where it wants none. */
void *linear_scratch(const struct linear *l, const struct pool *pool, int thread);

/* All of an MLP on all threads of POOL. */
void linear_run_mlp(const struct linear_mlp *w, struct pool *pool);

/* The same in splits of SPLIT columns of the intermediate, a multiple of KERN_NR, one after the other, of
 * linears in the panels of gallop in fp32 or bf16. */
void linear_run_splits(const struct linear_mlp *w, struct pool *pool, size_t split);

/* The panels [p0, p1) of KERN_NR columns of linear_run(), by THREAD of a job of POOL: for callers that deal
 * panels of several linears themselves. */
void linear_run_panels(const struct linear *l, const struct pool *pool, int thread, const void *in, float *y,
                       size_t ldy, size_t m, size_t p0, size_t p1);

/* And those of linear_run_into() and linear_run_act(). */
void linear_run_panels_into(const struct linear *l, const struct pool *pool, int thread, const void *in,
                            void *next_in, enum kern_act act, size_t m, size_t p0, size_t p1);
void linear_run_panels_act(const struct linear *l, const struct pool *pool, int thread, const void *in,
                           float *y, size_t ldy, enum kern_act act, size_t m, size_t p0, size_t p1);

/* Backend I of this build, best first; NULL: there are no more. */
const struct linear_backend *linear_backend_at(int i);

/* True when NAME is a backend of this build. */
bool linear_backend_known(const char *name);

/* False where NAME is a backend that serves MLPs only, and K is another kind. */
bool linear_backend_serves(const char *name, enum op_kind k);

/* Where NAME is a backend that this build lacks, a sentence without its end: "LIBXSMM, which the package
 * libxsmm-dev adds". NULL: it is none. */
const char *linear_backend_lacks(const char *name);

/* For backends' pack(): the row of part *P of D that COLUMN of the panels holds; *P is n_parts where it holds
 * zeros. */
size_t linear_column(const struct linear_desc *d, size_t column, size_t *p);

/* The rows of all parts of D together. */
size_t linear_joined_rows(const struct linear_desc *d);

/* And elements [k0, k0 + n) of it as fp32. */
void linear_elements(const struct linear_desc *d, size_t column, size_t k0, size_t n, float *out);

/* What run() asks of the gemm kernels for M rows, with all panels of L in their format. For backends that
 * call them. */
struct kern_gemm linear_gemm(const struct linear *l, const void *in, const struct linear_end *end, size_t m,
                             void *sums);

/* X [n], elements [at, at + n) of row ROW of M rows of K, to the form that put() of L's backend has. N is 32
 * or 16 and AT a multiple of it, but for the end of the row. */
typedef void linear_put_part(const struct linear *l, void *in, const float *x, size_t at, size_t n,
                             size_t row, size_t m, size_t k);

/* The sums of a PANEL for the rows [row, row + rows) of M. */
struct linear_sums {
    float *sums; /* [rows, 32], rows LD apart; written to */
    size_t ld, panel, row, rows, m;
};

/* For backends whose kernels end in fp32 sums: takes those of a panel to where END says. */
void linear_end_panel(const struct linear *l, const struct linear_end *end, const struct linear_sums *s,
                      linear_put_part *put_part);

/* Of N columns in panels as the gemm kernels of kern.h read them: panels of 32 columns, K ascending. */
size_t linear_panel_bytes(size_t n, size_t k, enum dtype t);

#endif
