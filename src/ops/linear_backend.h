/* linear_backend.h - the interface of a backend of linears, and functions that backends share: columns of panels,
 * elements of W, gemm arguments, epilogues.
 *
 * backends.def lists the backends, best first. Only the files linear*.c and the code that shows or measures backends
 * need this header.
 */
#ifndef GALLOP_OPS_LINEAR_BACKEND_H
#define GALLOP_OPS_LINEAR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "kern/gemm.h"
#include "ops/linear.h"

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

/* Bits of linear_backend.flags. */
enum {
    /* The backend computes with the portable kernels on every machine. */
    LINEAR_NATIVE = 1,
    /* Sums of floats may have different bits with a different number of rows. */
    LINEAR_LOOSE = 2,
    /* put() writes a form that other backends cannot read. */
    LINEAR_OWN_INPUT = 4
};

/* Layouts that several files pack or read (linear_backend.layout). */
#define LINEAR_LAYOUT_PANELS "panels of 32, int8 turned by signs"
#define LINEAR_LAYOUT_INT4   "int4 panels of 32, turned by signs"

/* A backend of linears: a name and functions. */
struct linear_backend {
    const char *name;
    /* The name of the layout of the packed weights, the same on all machines. A new layout has a new name. */
    const char *layout;
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

/* Returns backend I of this build, best first, or NULL after the last backend. */
const struct linear_backend *linear_backend_at(int i);

/* Returns true if this build has a backend NAME. */
bool linear_backend_known(const char *name);

/* Returns false if backend NAME serves MLPs only and K is another kind. */
bool linear_backend_serves(const char *name, enum op_kind k);

/* Returns the library that this build lacks for backend NAME, as text for a sentence: "LIBXSMM, which the
 * package libxsmm-dev adds". Returns NULL if the build has the backend, or if no backend has this NAME. */
const char *linear_backend_lacks(const char *name);

/* Computes an MLP whose linears are packed as in backend "gallop", in fp32 or bf16, SPLIT columns of the
 * intermediate at a time. SPLIT is a multiple of KERN_PIECE. */
void linear_run_splits(const struct linear_mlp *w, struct pool *pool, size_t split);

/* Returns the scratch of THREAD for L's backend, or NULL if the backend needs no scratch. */
void *linear_scratch(const struct linear *l, const struct pool *pool, int thread);

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
