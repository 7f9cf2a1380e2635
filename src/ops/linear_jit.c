/* linear_jit.c - backend "jit": the matmul of oneDNN 2, which is loaded when a linear needs it.
 *
 * Weights are stored in units of 64 columns, two panels. bf16: [unit][k / 2][64][2], K padded with zeros to a
 * multiple of 32. int8: [unit][k / 4][64][4], K padded to a multiple of 64; all units are followed by
 * [columns] int32, -128 times the sum of the weights, and [columns] float, their scales. Rows of the input
 * are bf16 [m][K], or bytes [m][K], which are the integers of backend "gallop" plus 128, followed by [m]
 * float, their scales. A call multiplies 128, 64, ... or 1 rows with a unit; primitives for these numbers of
 * rows are created when a linear is opened and kept for the process. A range of panels that begins or ends
 * within a unit computes the whole unit.
 *
 * oneDNN starts threads by OpenMP; here each thread of the pool calls it, set to one thread. oneDNN works in
 * scratch of the pool, but its execute() allocates the arguments: six small allocations in each call. Sums of
 * integers are exact and become floats by the formula of the kernels, so int8 has the bits of the class "int8
 * sum". The order of bf16 sums may depend on the number of rows, and so may their bits.
 */
#include <dlfcn.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "kern/gemm.h"
#include "kern/kern.h"
#include "kern/quant.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "ops/rotate.h"
#include "tensor/view.h"

enum {
    UNIT = 2 * KERN_NR,
    MOST_ROWS = 128,
    /* Number of primitives, one for each row count of a call: 1, 2, 4, ..., 128. */
    N_ROWS = 8,
    MOST_SETS = 64
};

/* ---- the library ---- */

#define FUNCTIONS(X)                           \
    X(dnnl_engine_create)                      \
    X(dnnl_stream_create)                      \
    X(dnnl_stream_destroy)                     \
    X(dnnl_memory_create)                      \
    X(dnnl_memory_destroy)                     \
    X(dnnl_memory_set_data_handle_v2)          \
    X(dnnl_memory_desc_init_by_tag)            \
    X(dnnl_memory_desc_get_size)               \
    X(dnnl_matmul_desc_init)                   \
    X(dnnl_primitive_attr_create)              \
    X(dnnl_primitive_attr_destroy)             \
    X(dnnl_primitive_attr_set_scratchpad_mode) \
    X(dnnl_primitive_desc_create)              \
    X(dnnl_primitive_desc_destroy)             \
    X(dnnl_primitive_desc_query)               \
    X(dnnl_primitive_desc_query_md)            \
    X(dnnl_primitive_create)                   \
    X(dnnl_primitive_execute)

#define FIELD(f) __typeof__(f) *f;
static struct {
    FUNCTIONS(FIELD)
    int (*omp_get_max_threads)(void);
    void (*omp_set_num_threads)(int n);
    dnnl_engine_t engine;
} api;
#undef FIELD

/* The primitives for rows of K elements of TYPE. */
struct set {
    enum dtype type;
    /* K, rounded up as in packed_k(). */
    size_t k;
    dnnl_primitive_t matmul[N_ROWS];
    dnnl_memory_desc_t rows[N_ROWS], sums[N_ROWS], pad[N_ROWS], weights;
    /* The bytes of the largest scratchpad. */
    size_t pad_bytes;
};

static struct set sets[MOST_SETS];
/* Number of complete sets. */
static atomic_size_t n_sets;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Sets *TO, a pointer to a function, to function NAME of LIB. */
static bool find_symbol(void *lib, const char *name, void *to)
{
    void *f = dlsym(lib, name);

    memcpy(to, &f, sizeof(f));
    return f != NULL;
}

/* Loads oneDNN. The caller holds the lock. Returns NULL, or the reason of a failure. */
static const char *load_library(void)
{
    bool good = true;
    void *lib;

    if (api.engine)
        return NULL;
    lib = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL); /* never closed: its kernels are in use */
    if (!lib)
        return "oneDNN (libdnnl.so.2) cannot be loaded; the package libdnnl2 installs it";
#define FIND(f) good = good && find_symbol(lib, #f, &api.f);
    FUNCTIONS(FIND)
    FIND(omp_get_max_threads)
    FIND(omp_set_num_threads)
#undef FIND
    if (!good)
        return "this libdnnl.so.2 is not oneDNN 2 with OpenMP";
    if (api.dnnl_engine_create(&api.engine, dnnl_cpu, 0) != dnnl_success)
        return "oneDNN has no engine for this machine";
    return NULL;
}

/* ---- primitives ---- */

/* Returns K rounded up to a multiple of 32 (bf16) or 64 (int8), which the packed weights need. */
static size_t packed_k(size_t k, enum dtype t)
{
    size_t multiple = t == DT_I8 ? 64 : 32;

    return (k + multiple - 1) / multiple * multiple;
}

static bool describe(dnnl_memory_desc_t *md, size_t rows, size_t columns, dnnl_data_type_t type,
                     dnnl_format_tag_t tag)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};

    return api.dnnl_memory_desc_init_by_tag(md, 2, dims, type, tag) == dnnl_success;
}

/* Creates the primitive for 1 << I rows. Returns false if oneDNN has only its reference implementation. */
static bool make_matmul(struct set *s, size_t i, const_dnnl_primitive_attr_t attributes)
{
    bool integers = s->type == DT_I8;
    dnnl_matmul_desc_t what;
    dnnl_primitive_desc_t pd;
    const char *name = "";
    size_t bytes;
    bool good;

    if (!describe(&s->rows[i], (size_t)1 << i, s->k, integers ? dnnl_u8 : dnnl_bf16, dnnl_ab) ||
        !describe(&s->weights, s->k, UNIT, integers ? dnnl_s8 : dnnl_bf16,
                  integers ? dnnl_BA16a64b4a : dnnl_BA16a64b2a) ||
        !describe(&s->sums[i], (size_t)1 << i, UNIT, integers ? dnnl_s32 : dnnl_f32, dnnl_ab) ||
        api.dnnl_matmul_desc_init(&what, &s->rows[i], &s->weights, NULL, &s->sums[i]) != dnnl_success ||
        api.dnnl_primitive_desc_create(&pd, &what, attributes, api.engine, NULL) != dnnl_success)
        return false;
    api.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    s->pad[i] = *api.dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    bytes = api.dnnl_memory_desc_get_size(&s->pad[i]);
    s->pad_bytes = bytes > s->pad_bytes ? bytes : s->pad_bytes;
    good = strncmp(name, "brg:", 4) == 0 && api.dnnl_primitive_create(&s->matmul[i], pd) == dnnl_success;
    api.dnnl_primitive_desc_destroy(pd);
    return good;
}

static bool make_set(struct set *s)
{
    dnnl_primitive_attr_t attributes;
    int threads = api.omp_get_max_threads();
    bool good;

    if (api.dnnl_primitive_attr_create(&attributes) != dnnl_success)
        return false;
    api.omp_set_num_threads(1); /* applies to this thread: primitives that it creates now use one thread */
    good = api.dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user) == dnnl_success;
    for (size_t i = 0; i < N_ROWS && good; i++)
        good = make_matmul(s, i, attributes);
    api.omp_set_num_threads(threads);
    api.dnnl_primitive_attr_destroy(attributes);
    return good;
}

static const struct set *find_set(size_t k, enum dtype t)
{
    size_t n = atomic_load(&n_sets);

    for (size_t i = 0; i < n; i++)
        if (sets[i].type == t && sets[i].k == packed_k(k, t))
            return &sets[i];
    return NULL;
}

/* Creates the primitives for K and T. Returns NULL, or the reason of a failure. */
static const char *prepare(size_t k, enum dtype t)
{
    const char *why_not;
    size_t n;

    pthread_mutex_lock(&lock);
    n = atomic_load(&n_sets);
    if ((why_not = load_library()) == NULL && !find_set(k, t)) {
        if (n == MOST_SETS) {
            why_not = "the backend supports at most 64 different input sizes (K) in a process";
        } else {
            sets[n] = (struct set){.type = t, .k = packed_k(k, t)};
            if (make_set(&sets[n]))
                atomic_store(&n_sets, n + 1);
            else
                why_not = "oneDNN has no kernels of this dtype for this machine";
        }
    }
    pthread_mutex_unlock(&lock);
    return why_not;
}

static bool jit_accepts(const struct linear_desc *d, const char **why_not)
{
    size_t k = d->part[0]->shape[1];

    *why_not =
        "the backend computes in bf16 and int8 only, in int8 with at most 65536 elements in an input row and "
        "one scale for each row";
    if (d->to_mxfp4 ||
        (d->dtype != DT_BF16 && (d->dtype != DT_I8 || d->group || d->fixed || k > KERN_I8_MOST_K)))
        return false;
    *why_not = prepare(k, d->dtype);
    return *why_not == NULL;
}

/* ---- weights ---- */

static size_t units_of(const struct linear *l)
{
    return (linear_columns(l) + UNIT - 1) / UNIT;
}

static size_t unit_bytes(const struct linear *l)
{
    return packed_k(l->k, l->dtype) * UNIT * dtype_bytes(l->dtype);
}

/* Returns the corrections of the int8 columns, [columns]; the scales of the columns follow them in memory. */
static int32_t *corrections(const struct linear *l)
{
    return (int32_t *)(void *)((char *)l->packed + units_of(l) * unit_bytes(l));
}

static float *scales(const struct linear *l)
{
    return (float *)(void *)(corrections(l) + units_of(l) * UNIT);
}

static size_t jit_open(struct linear *l, const struct linear_desc *d)
{
    size_t tail = l->dtype == DT_I8 ? UNIT * (sizeof(int32_t) + sizeof(float)) : 0;

    (void)d;
    return units_of(l) * (unit_bytes(l) + tail);
}

/* Packs a column in int8. Scratch W: k floats, then k integers. Returns false if a weight is not finite. */
static bool pack_i8(const struct linear *l, const struct linear_desc *d, size_t column, float *w)
{
    int8_t *unit = (int8_t *)l->packed + column / UNIT * unit_bytes(l), *q = (int8_t *)(w + l->k);
    float *scale = &scales(l)[column];
    int32_t sum = 0;
    bool finite;

    linear_elements(d, column, 0, l->k, w);
    finite = dtype_all_finite(w, l->k, DT_F32);
    rotate(l->kern, w, w, l->k);
    l->kern->to_i8(q, scale, w, l->k);
    for (size_t k = 0; k < l->k; k++) {
        unit[k / 4 * 4 * UNIT + column % UNIT * 4 + k % 4] = q[k];
        sum += q[k];
    }
    corrections(l)[column] = -128 * sum;
    return finite && isfinite(*scale);
}

/* Columns (LINE) and elements of K (KB) that are packed at a time, so that whole cache lines are written. */
enum { LINE = 16, KB = 64 };

/* Packs the columns [begin, end) of one unit, at most LINE. Returns false if a weight is not finite. */
static bool pack_bf16(const struct linear *l, const struct linear_desc *d, size_t begin, size_t end)
{
    uint16_t *unit = (uint16_t *)(void *)((char *)l->packed + begin / UNIT * unit_bytes(l));
    uint16_t rounded[LINE][KB];
    float w[KB];
    bool finite = true;

    for (size_t k = 0; k < l->k; k += KB) {
        size_t n = l->k - k < KB ? l->k - k : KB;

        for (size_t c = begin; c < end; c++) {
            linear_elements(d, c, k, n, w);
            l->kern->to_bf16(rounded[c - begin], w, n);
            finite &= dtype_all_finite(rounded[c - begin], n, DT_BF16);
        }
        for (size_t i = 0; i < n; i++)
            for (size_t c = begin; c < end; c++)
                unit[((k + i) / 2 * UNIT + c % UNIT) * 2 + i % 2] = rounded[c - begin][i];
    }
    return finite;
}

/* Packs the columns [begin, end). The padding of units is already zero, because new memory is zeroed. */
static bool jit_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end, void *scratch)
{
    bool finite = true;

    for (size_t c = begin; c < end && l->dtype == DT_I8; c++)
        finite &= pack_i8(l, d, c, scratch);
    for (size_t c = begin; c < end && l->dtype == DT_BF16; c += LINE)
        finite &= pack_bf16(l, d, c, end - c < LINE ? end : c + LINE);
    return finite;
}

/* ---- rows ---- */

/* Writes X [n] from element AT of row ROW on, and pads the end of the row with zeros. */
static void jit_put_part(const struct linear *l, void *in, const float *x, size_t at, size_t n, size_t row,
                         size_t m, size_t k)
{
    size_t whole = packed_k(k, DT_BF16);
    uint16_t *to = (uint16_t *)in + row * whole + at;

    (void)m;
    l->kern->to_bf16(to, x, n);
    if (at + n == k)
        memset(to + n, 0, (whole - k) * sizeof(*to));
}

static void put_i8(const struct linear *l, void *in, const float *x, size_t row, size_t m, float *rotated)
{
    size_t whole = packed_k(l->k, DT_I8);
    uint8_t *to = (uint8_t *)in + row * whole;
    float scale;

    rotate(l->kern, rotated, x, l->k);
    l->kern->to_i8((int8_t *)to, &scale, rotated, l->k);
    if (!dtype_all_finite(rotated, l->k, DT_F32))
        scale = NAN;
    for (size_t i = 0; i < l->k; i++)
        to[i] ^= 0x80;
    memset(to + l->k, 0, whole - l->k);
    memcpy((char *)in + m * whole + row * sizeof(scale), &scale, sizeof(scale));
}

static void jit_put(const struct linear *l, void *in, const float *x, size_t row, size_t m, void *scratch)
{
    if (l->dtype == DT_I8)
        put_i8(l, in, x, row, m, scratch);
    else
        jit_put_part(l, in, x, 0, l->k, row, m, l->k);
}

/* ---- running ---- */

/* Returns the bytes of scratch. run() needs the sums and oneDNN's scratchpad; pack() and put() of int8 need
 * a row in floats and in integers. */
static size_t jit_scratch_bytes(const struct linear *l)
{
    size_t run = MOST_ROWS * UNIT * sizeof(float) + find_set(l->k, l->dtype)->pad_bytes,
           row = l->dtype == DT_I8 ? l->k * (sizeof(float) + sizeof(int8_t)) : 0;

    return row > run ? row : run;
}

/* The arguments of a call of oneDNN. A dnnl_memory_t is an address and a shape. */
struct call {
    dnnl_stream_t stream;
    dnnl_memory_t rows, weights, sums, pad;
    const struct set *set;
    /* Index of the primitive, which computes 1 << kernel rows. */
    size_t kernel;
    float *to;
};

static void must(dnnl_status_t s, const struct linear *l)
{
    ASSERT(s == dnnl_success, "%s: oneDNN returned status %d", l->name, (int)s);
}

static void begin_call(const struct linear *l, struct call *c, const void *rows, void *scratch)
{
    const struct set *s = c->set;
    char *pad = (char *)scratch + MOST_ROWS * UNIT * sizeof(float);

    c->to = scratch;
    must(api.dnnl_memory_create(&c->rows, &s->rows[c->kernel], api.engine, (void *)(uintptr_t)rows), l);
    must(api.dnnl_memory_create(&c->weights, &s->weights, api.engine, l->packed), l);
    must(api.dnnl_memory_create(&c->sums, &s->sums[c->kernel], api.engine, scratch), l);
    must(api.dnnl_memory_create(&c->pad, &s->pad[c->kernel], api.engine, pad), l);
}

static void end_call(const struct call *c)
{
    api.dnnl_memory_destroy(c->rows);
    api.dnnl_memory_destroy(c->weights);
    api.dnnl_memory_destroy(c->sums);
    api.dnnl_memory_destroy(c->pad);
}

static void multiply(const struct linear *l, const struct call *c, size_t unit)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, c->rows},
                                    {DNNL_ARG_WEIGHTS, c->weights},
                                    {DNNL_ARG_DST, c->sums},
                                    {DNNL_ARG_SCRATCHPAD, c->pad}};

    must(api.dnnl_memory_set_data_handle_v2(c->weights, (char *)l->packed + unit * unit_bytes(l), c->stream),
         l);
    must(api.dnnl_primitive_execute(c->set->matmul[c->kernel], c->stream, 4, args), l);
}

/* Converts sums of integers to floats, in place. */
static void scale_sums(const struct linear *l, float *sums, const void *in, size_t unit, size_t row,
                       size_t rows, size_t m)
{
    const char *row_scale = (const char *)in + m * packed_k(l->k, DT_I8);
    const int32_t *correction = corrections(l) + unit * UNIT;
    const float *scale = scales(l) + unit * UNIT;

    for (size_t r = 0; r < rows; r++) {
        float x, *y = sums + r * UNIT;
        int32_t sum;

        memcpy(&x, row_scale + (row + r) * sizeof(x), sizeof(x));
        for (size_t c = 0; c < UNIT; c++) {
            memcpy(&sum, &y[c], sizeof(sum));
            y[c] = (float)(sum + correction[c]) * (x * scale[c]);
        }
    }
}

/* Computes the panels [p0, p1) of one unit for the 1 << c->kernel rows from ROW on. */
static void run_rows(const struct linear *l, struct call *c, const void *in, const struct linear_end *end,
                     size_t row, size_t m, size_t p0, size_t p1)
{
    size_t rows = (size_t)1 << c->kernel, unit = p0 / 2;

    multiply(l, c, unit);
    if (l->dtype == DT_I8)
        scale_sums(l, c->to, in, unit, row, rows, m);
    for (size_t p = p0; p < p1; p++)
        linear_end_panel(l, end, &(struct linear_sums){c->to + p % 2 * KERN_NR, UNIT, p, row, rows, m},
                         jit_put_part);
}

static void jit_run(const struct linear *l, const void *in, const struct linear_end *end, size_t m, size_t p0,
                    size_t p1, void *scratch)
{
    size_t row_bytes = packed_k(l->k, l->dtype) * dtype_bytes(l->dtype);
    struct call c = {.set = find_set(l->k, l->dtype)};
    int threads = api.omp_get_max_threads();

    api.omp_set_num_threads(1); /* applies to this thread; its caller may use OpenMP as well */
    must(api.dnnl_stream_create(&c.stream, api.engine, dnnl_stream_default_flags), l);
    for (size_t p = p0, next; p < p1; p = next) { /* a unit stays in cache for all rows */
        next = (p / 2 + 1) * 2 < p1 ? (p / 2 + 1) * 2 : p1;
        for (size_t row = 0; row < m; row += (size_t)1 << c.kernel) {
            c.kernel = N_ROWS - 1;
            while ((size_t)1 << c.kernel > m - row)
                c.kernel--;
            begin_call(l, &c, (const char *)in + row * row_bytes, scratch);
            run_rows(l, &c, in, end, row, m, p, next);
            end_call(&c);
        }
    }
    api.dnnl_stream_destroy(c.stream);
    api.omp_set_num_threads(threads);
}

const struct linear_backend linear_jit = {.name = "jit",
                                          .layout = "units of 64, int8 turned by signs",
                                          .accepts = jit_accepts,
                                          .open = jit_open,
                                          .pack = jit_pack,
                                          .put = jit_put,
                                          .run = jit_run,
                                          .scratch_bytes = jit_scratch_bytes,
                                          .flags = LINEAR_OWN_INPUT | LINEAR_LOOSE};
