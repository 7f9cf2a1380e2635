/* linear_tpp.c - backend "tpp": the batch-reduce gemm (BRGEMM) of LIBXSMM, which generates kernels on
 * request.
 *
 * Weights are the panels of backend "gallop": 32 columns, K ascending, a layout that LIBXSMM calls VNNI. Rows
 * of the input are cut into chunks of 64 along K, [chunk][m][64]; the last chunk may be narrower. A kernel
 * multiplies up to 64 rows of all chunks with a panel and adds the products to sums in the thread's scratch.
 * Kernels depend on the type, the width of a chunk and the number of rows; all are created when a linear is
 * opened and kept for the process.
 *
 * Every sum has one accumulator and adds K ascending (bf16: in ascending pairs) from zero, for any number of rows: the
 * bits are the same for any m, range of panels and number of threads. In bf16 they are those of the class "bf16 dot",
 * and this holds for kernels with VDPBF16PS only: for processors with AVX-512 and without VDPBF16PS, LIBXSMM generates
 * kernels whose bits depend on the number of rows, so bf16 is refused there. Georganas et al., Tensor Processing
 * Primitives (2021).
 */
#include <libxsmm.h>
#include <pthread.h>
#include <string.h>

#include "kern/gemm.h"
#include "kern/kern.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "tensor/view.h"

enum {
    /* Elements of a chunk along K. */
    CHUNK = 64,
    /* Maximum rows of a call. */
    MOST_ROWS = 64
};

/* A kernel computes 1 to 16, 32 or 64 rows. */
enum { FEW_ROWS = 16, N_ROWS = FEW_ROWS + 2 };

static size_t rows_of(size_t kernel)
{
    return kernel < FEW_ROWS ? kernel + 1 : kernel == FEW_ROWS ? 2 * FEW_ROWS : MOST_ROWS;
}

/* Returns the index of the kernel with the most rows, but at most M. */
static size_t kernel_for(size_t m)
{
    return m >= MOST_ROWS ? FEW_ROWS + 1 : m >= 2 * FEW_ROWS ? FEW_ROWS : (m < FEW_ROWS ? m : FEW_ROWS) - 1;
}

typedef libxsmm_bsmmfunction_reducebatch_addr bf16_kernel;
typedef libxsmm_smmfunction_reducebatch_addr f32_kernel;

/* Kernels by type (0: bf16, 1: fp32) and width of a chunk. Written under the lock before their first use. */
static struct {
    bool made;
    bf16_kernel bf16[N_ROWS];
    f32_kernel f32[N_ROWS];
} kernels[2][CHUNK + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Creates the kernels for chunks of this width. Returns false if LIBXSMM cannot generate them. */
static bool make_kernels(bool f32, int width)
{
    const int columns = KERN_NR, flags = f32 ? LIBXSMM_GEMM_FLAG_NONE : LIBXSMM_GEMM_FLAG_VNNI_A,
              prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    const float one = 1;
    bool good = true;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < N_ROWS && good && !kernels[f32][width].made; i++) {
        int n = (int)rows_of(i);

        if (f32)
            kernels[f32][width].f32[i] = libxsmm_smmdispatch_reducebatch_addr(
                columns, n, width, &columns, &width, &columns, &one, &one, &flags, &prefetch);
        else
            kernels[f32][width].bf16[i] = libxsmm_bsmmdispatch_reducebatch_addr(
                columns, n, width, &columns, &width, &columns, &one, &one, &flags, &prefetch);
        good = kernels[f32][width].f32[i] || kernels[f32][width].bf16[i];
    }
    kernels[f32][width].made = good;
    pthread_mutex_unlock(&lock);
    return good;
}

/* Returns K, padded to pairs in bf16. */
static size_t packed_k(size_t k, enum dtype t)
{
    return t == DT_F32 ? k : (k + 1) / 2 * 2;
}

static bool tpp_accepts(const struct linear_desc *d, const char **why_not)
{
    size_t k = packed_k(d->part[0]->shape[1], d->dtype);
    int target = libxsmm_get_target_archid();

    *why_not = "the backend computes in fp32 and bf16 only";
    if ((d->dtype != DT_F32 && d->dtype != DT_BF16) || d->to_mxfp4)
        return false;
    *why_not =
        "the bits of LIBXSMM's bf16 kernels for this machine, which lacks AVX512-BF16, depend on the number of rows";
    if (d->dtype == DT_BF16 && target >= LIBXSMM_X86_AVX512 && target < LIBXSMM_X86_AVX512_CPX)
        return false;
    *why_not = "LIBXSMM generates no kernels of this dtype for this machine";
    return (k < CHUNK || make_kernels(d->dtype == DT_F32, CHUNK)) &&
           (k % CHUNK == 0 || make_kernels(d->dtype == DT_F32, (int)(k % CHUNK)));
}

/* Returns the address, in the input IN, of element AT of row ROW of M rows of K elements. */
static char *in_place(void *in, size_t at, size_t row, size_t m, size_t k, enum dtype t)
{
    size_t first = at / CHUNK * CHUNK, left = packed_k(k, t) - first, width = left < CHUNK ? left : CHUNK;

    return (char *)in + (first * m + row * width + at - first) * dtype_bytes(t);
}

/* Writes X [n] from element AT of row ROW on, within one chunk; pads an odd bf16 row with a zero. */
static void tpp_put_part(const struct linear *l, void *in, const float *x, size_t at, size_t n, size_t row,
                         size_t m, size_t k)
{
    char *to = in_place(in, at, row, m, k, l->dtype);

    if (l->dtype == DT_F32) {
        memcpy(to, x, n * sizeof(*x));
        return;
    }
    l->kern->to_bf16((uint16_t *)(void *)to, x, n);
    if (at + n == k && k % 2)
        memset(to + n * sizeof(uint16_t), 0, sizeof(uint16_t));
}

static void tpp_put(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch)
{
    (void)scratch;
    for (size_t at = 0; at < l->k; at += CHUNK)
        tpp_put_part(l, in, x + at, at, l->k - at < CHUNK ? l->k - at : CHUNK, row, m, l->k);
}

/* The scratch of a thread: sums, and the addresses of the chunks of the weights and of the rows. */
struct work {
    float *sums; /* the sums, [MOST_ROWS][32] */
    const void **weights, **rows;
};

static size_t tpp_scratch_bytes(const struct linear *l)
{
    return MOST_ROWS * KERN_NR * sizeof(float) + 2 * (l->k / CHUNK + 1) * sizeof(void *);
}

static struct work work_at(void *scratch, size_t k)
{
    struct work w = {.sums = scratch};

    w.weights = (const void **)(w.sums + MOST_ROWS * KERN_NR);
    w.rows = w.weights + k / CHUNK + 1;
    return w;
}

static void call_kernel(enum dtype t, size_t width, size_t kernel, const void **weights, const void **rows,
                        float *sums, unsigned long long n)
{
    if (t == DT_F32)
        kernels[1][width].f32[kernel]((const float **)weights, (const float **)rows, sums, &n);
    else
        kernels[0][width].bf16[kernel]((const libxsmm_bfloat16 **)weights, (const libxsmm_bfloat16 **)rows,
                                       sums, &n);
}

/* Computes the sums of PANEL for rows_of(KERNEL) rows from row ROW on. */
static void sum_panel(const struct linear *l, const struct work *w, const void *in, const char *panel,
                      size_t kernel, size_t row, size_t m)
{
    size_t k = packed_k(l->k, l->dtype), whole = k / CHUNK, es = dtype_bytes(l->dtype);

    memset(w->sums, 0, rows_of(kernel) * KERN_NR * sizeof(float));
    for (size_t c = 0; c * CHUNK < k; c++) {
        w->weights[c] = panel + c * CHUNK * KERN_NR * es;
        w->rows[c] = in_place((void *)(uintptr_t)in, c * CHUNK, row, m, l->k, l->dtype);
    }
    if (whole)
        call_kernel(l->dtype, CHUNK, kernel, w->weights, w->rows, w->sums, whole);
    if (k % CHUNK)
        call_kernel(l->dtype, k % CHUNK, kernel, w->weights + whole, w->rows + whole, w->sums, 1);
}

static void tpp_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m, size_t p0,
                    size_t p1, void *scratch)
{
    const struct work w = work_at(scratch, l->k);
    size_t panel_bytes = linear_panel_bytes(KERN_NR, l->k, l->dtype);

    for (size_t p = p0; p < p1; p++)
        for (size_t row = 0, kernel; row < m; row += rows_of(kernel)) {
            kernel = kernel_for(m - row);
            sum_panel(l, &w, in, (const char *)l->packed + p * panel_bytes, kernel, row, m);
            linear_end_panel(l, end, &(struct linear_sums){w.sums, KERN_NR, p, row, rows_of(kernel), m},
                             tpp_put_part);
        }
}

const struct linear_backend linear_tpp = {.name = "tpp",
                                          .layout = LINEAR_LAYOUT_PANELS,
                                          .accepts = tpp_accepts,
                                          .open = linear_panels_open,
                                          .pack = linear_panels_pack,
                                          .put = tpp_put,
                                          .run = tpp_run,
                                          .scratch_bytes = tpp_scratch_bytes,
                                          .row = linear_panels_row,
                                          .flags = LINEAR_OWN_INPUT};
