/* linear.c - opens, packs and runs linears: chooses a backend and divides the work among threads. */
#include "ops/linear.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/cpu.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "kern/gemm.h"
#include "kern/kern.h"
#include "ops/linear_backend.h"
#include "tensor/view.h"

#define LINEAR_BACKEND(symbol) extern const struct linear_backend symbol;
#define LINEAR_LACKING(name, library, package)
#include "ops/backends.def"
#undef LINEAR_BACKEND
#undef LINEAR_LACKING

static const struct linear_backend *const backends[] = {
#define LINEAR_BACKEND(symbol) &symbol,
#define LINEAR_LACKING(name, library, package)
#include "ops/backends.def"
#undef LINEAR_BACKEND
#undef LINEAR_LACKING
};
enum { N_BACKENDS = sizeof(backends) / sizeof(backends[0]) };

/* The backends that this build lacks; an entry of NULL ends the list. */
static const struct {
    const char *name, *lacks;
} lacking[] = {
#define LINEAR_BACKEND(symbol)
#define LINEAR_LACKING(name, library, package) {name, library ", which the package " package " adds"},
#include "ops/backends.def"
#undef LINEAR_BACKEND
#undef LINEAR_LACKING
    {NULL, NULL}};

const char *linear_kind_name(enum op_kind k)
{
    static const char *const name[OP_N_KINDS] = {
        "norm", "qkv_projection", "rope", "attention", "out_projection", "mlp", "lm_head"};
    return name[k];
}

const struct linear_backend *linear_backend_at(int i)
{
    return i < N_BACKENDS ? backends[i] : NULL;
}

const char *linear_backend_lacks(const char *name)
{
    for (size_t i = 0; lacking[i].name; i++)
        if (strcmp(lacking[i].name, name) == 0)
            return lacking[i].lacks;
    return NULL;
}

bool linear_backend_known(const char *name)
{
    for (int i = 0; i < N_BACKENDS; i++)
        if (strcmp(backends[i]->name, name) == 0)
            return true;
    return false;
}

bool linear_backend_serves(const char *name, enum op_kind k)
{
    for (int i = 0; i < N_BACKENDS; i++)
        if (strcmp(backends[i]->name, name) == 0 && backends[i]->run_mlp)
            return k == OP_MLP;
    return true;
}

bool linear_is_loose(const struct linear *l)
{
    return (l->backend->flags & LINEAR_LOOSE) && l->dtype != DT_I8;
}

static int choose_backend(struct linear *l, const struct linear_desc *d, const char *wish, struct err *e)
{
    const char *why_not = "no backend of this name is built in";

    l->why = wish ? "chosen by the user" : "first that accepts";
    for (int i = 0; i < N_BACKENDS; i++) {
        if (wish && strcmp(wish, backends[i]->name) != 0)
            continue;
        if (backends[i]->accepts(d, &why_not)) {
            l->backend = backends[i];
            return 0;
        }
    }
    return err_set(e, ERR_UNSUPPORTED, "%s: backend %s does not accept this %s linear: %s", d->name,
                   wish ? wish : "(any)", linear_kind_name(d->kind), why_not);
}

/* Fails because tensor V holds X, which is not finite in the type T of the arithmetic. */
static int refuse_number(const struct view *v, float x, enum dtype t, struct err *e)
{
    return err_set(e, ERR_INPUT, "%s: tensor %s holds %g%s, expected finite numbers", v->file, v->name,
                   (double)x, isfinite(x) && t == DT_BF16 ? ", which is infinite in bf16" : "");
}

int linear_read_bias(struct linear *l, const struct linear_desc *d, struct err *e)
{
    size_t columns = linear_columns(l), p;
    bool any = false;

    for (p = 0; p < d->n_parts; p++)
        any |= d->bias[p] != NULL;
    if (!any || l->bias)
        return 0;
    l->bias = mem_zalloc(columns, sizeof(float), MEM_MODEL);
    if (!l->bias)
        return err_nomem(e, d->name);
    for (size_t c = 0; c < columns; c++) {
        size_t i = linear_column(d, c, &p);

        if (p == d->n_parts || !d->bias[p])
            continue;
        view_part_f32(d->bias[p], 0, i, 1, &l->bias[c]);
        if (!isfinite(l->bias[c]))
            return refuse_number(d->bias[p], l->bias[c], DT_F32, e);
    }
    return 0;
}

struct pack_job {
    struct linear *l;
    const struct linear_desc *d;
    const struct pool *pool;
    atomic_bool refused;
};

/* Stored bytes that all threads together pack before their pages are given back to the operating system. */
static const size_t pieces_bytes = (size_t)32 << 20;

static size_t piece_columns(const struct linear_desc *d, int n_threads)
{
    size_t row = 1, n;

    for (size_t p = 0; p < d->n_parts; p++) {
        size_t bytes = d->part[p]->shape[1] / dtype_group(d->part[p]->dtype) * dtype_bytes(d->part[p]->dtype);

        row = bytes > row ? bytes : row;
    }
    n = pieces_bytes / (size_t)n_threads / row / KERN_NR * KERN_NR;
    return n ? n : KERN_NR;
}

/* Returns the mapped pages from which the columns [begin, end) were packed to the operating system, if their rows are
 * contiguous. So a matrix is never in memory twice. */
static void give_back(const struct linear_desc *d, size_t begin, size_t end)
{
    size_t first[LINEAR_MAX_PARTS], stop[LINEAR_MAX_PARTS] = {0}, p;

    for (size_t c = begin; c < end; c++) {
        size_t i = linear_column(d, c, &p);

        if (p == d->n_parts)
            continue;
        first[p] = stop[p] && first[p] < i ? first[p] : i;
        stop[p] = stop[p] > i ? stop[p] : i + 1;
    }
    for (p = 0; p < d->n_parts; p++) {
        const struct view *v = d->part[p];
        const char *from;

        if (!stop[p] || v->stride[1] != 1 || v->zipped)
            continue;
        from = view_at(v, first[p]).data;
        map_file_drop(from, (size_t)((const char *)view_at(v, stop[p] - 1).data - from));
    }
}

static void pack_share(void *ctx, int thread, int n_threads)
{
    struct pack_job *j = ctx;
    size_t begin, end, step = piece_columns(j->d, n_threads);
    void *scratch = linear_scratch(j->l, j->pool, thread);

    pool_share(linear_columns(j->l), KERN_NR, thread, n_threads, &begin, &end);
    for (size_t at = begin; at < end; at += step) {
        size_t stop = end - at < step ? end : at + step;

        if (!j->l->backend->pack(j->l, j->d, at, stop, scratch))
            atomic_store(&j->refused, true);
        give_back(j->d, at, stop);
    }
}

/* Fails with an error that names the first number of D that is not finite in the type of the arithmetic. */
static int find_number(const struct linear *l, const struct linear_desc *d, struct err *e)
{
    enum { N = 32 };
    float x[N];

    for (size_t i = 0, p; i < linear_columns(l); i++)
        for (size_t k = 0; k < l->k; k += N) {
            size_t n = l->k - k < N ? l->k - k : N;

            linear_column(d, i, &p);
            linear_elements(d, i, k, n, x);
            for (size_t c = 0; c < n; c++)
                if (!isfinite(l->dtype == DT_BF16 ? dtype_bf16_to_f32(dtype_f32_to_bf16(x[c])) : x[c]))
                    return refuse_number(d->scale[p] ? d->scale[p] : d->part[p], x[c], l->dtype, e);
        }
    return err_set(e, ERR_INPUT, "%s: the weight holds a number that is not finite", d->name);
}

int linear_open(struct linear *l, const struct linear_desc *d, const char *backend, struct err *e)
{
    size_t most; /* no packed form needs more than 8 bytes for each element of whole panels */
    int rc;

    *l = (struct linear){.name = d->name,
                         .kind = d->kind,
                         .n = linear_joined_rows(d),
                         .k = d->part[0]->shape[1],
                         .paired = d->paired,
                         .dtype = d->dtype,
                         .kern = d->kern};
    ASSERT(d->kern, "%s has no kernels", d->name);
    ASSERT(!d->paired || l->n % 2 == 0, "%s", d->name);
    for (size_t p = 0; p < d->n_parts; p++)
        ASSERT(d->part[p]->n_dims == 2 && d->part[p]->shape[1] == l->k, "%s", d->name);
    if (l->n > SIZE_MAX / 2 || __builtin_mul_overflow(l->n + KERN_NR, l->k + 1, &most) || most > SIZE_MAX / 8)
        return err_set(e, ERR_NOMEM, "%s: %zu x %zu elements are more than memory can hold", d->name, l->n,
                       l->k);
    if ((rc = choose_backend(l, d, backend && strcmp(backend, "auto") != 0 ? backend : NULL, e)) != 0)
        return rc;
    l->packed_bytes = l->backend->open(l, d);
    if (l->backend->flags & LINEAR_NATIVE)
        l->kern = kern_table(CPU_REF);
    return 0;
}

int linear_pack(struct linear *l, const struct linear_desc *d, struct pool *pool, struct err *e)
{
    struct pack_job job = {.l = l, .d = d, .pool = pool};
    int rc;

    l->packed = map_region_new(l->packed_bytes);
    if (!l->packed)
        rc = err_set(e, ERR_NOMEM, "out of memory: the packed weight of %s needs %zu bytes", d->name,
                     l->packed_bytes);
    else if ((rc = linear_read_bias(l, d, e)) == 0 && l->backend->scratch_bytes)
        rc = pool_reserve(pool, l->backend->scratch_bytes(l), e);
    if (rc == 0) {
        pool_run(pool, pack_share, &job);
        for (size_t p = 0; p < d->n_parts; p++) /* drops the pages that give_back() kept */
            map_file_drop(d->part[p]->data, view_span_bytes(d->part[p]));
        rc = atomic_load(&job.refused) ? find_number(l, d, e) : 0;
    }
    if (rc)
        linear_close(l);
    return rc;
}

int linear_map(struct linear *l, const struct linear_desc *d, const void *packed, struct pool *pool,
               struct err *e)
{
    int rc = linear_read_bias(l, d, e);

    if (rc == 0 && l->backend->scratch_bytes)
        rc = pool_reserve(pool, l->backend->scratch_bytes(l), e);
    l->packed = (void *)(uintptr_t)packed; /* it is only read */
    l->mapped = true;
    if (rc)
        linear_close(l);
    return rc;
}

void linear_close(struct linear *l)
{
    if (!l->mapped)
        map_region_free(l->packed, l->packed_bytes);
    mem_free(l->bias);
    *l = (struct linear){0};
}

bool linear_is_exact(const struct linear *l, const struct linear_desc *d)
{
    bool exact = l->backend->row != NULL && l->dtype != DT_I8;

    for (size_t p = 0; p < d->n_parts; p++) /* every weight dtype is exact in fp32, and bf16 in bf16 */
        exact &= !d->scale[p] && (l->dtype == DT_F32 || d->part[p]->dtype == DT_BF16);
    return exact;
}

bool linear_has_rows(const struct linear *l)
{
    return l->backend->row && (l->dtype == DT_F32 || l->dtype == DT_BF16);
}

size_t linear_column_of_row(const struct linear *l, size_t i)
{
    const size_t half = KERN_PAIRS;
    bool is_up = l->paired && i >= l->n / 2;
    size_t j = is_up ? i - l->n / 2 : i;

    return l->paired ? j / half * KERN_NR + (is_up ? half : 0) + j % half : i;
}

void linear_row(const struct linear *l, size_t i, float *out)
{
    ASSERT(i < l->n && linear_has_rows(l), "row %zu of %s", i, l->name);
    l->backend->row(l, linear_column_of_row(l, i), out);
}

float linear_bias(const struct linear *l, size_t i)
{
    ASSERT(i < l->n && l->bias, "element %zu of the bias of %s", i, l->name);
    return l->bias[linear_column_of_row(l, i)];
}

size_t linear_in_bytes(size_t k)
{
    return kern_in_bytes(k);
}

void linear_put(const struct linear *l, const struct pool *pool, int thread, void *in, const float *x,
                size_t row, size_t m)
{
    l->backend->put(l, in, x, row, m, linear_scratch(l, pool, thread));
}

struct put_job {
    const struct linear *l;
    const struct pool *pool;
    void *in;
    const float *x;
    size_t m;
};

static void put_share(void *ctx, int thread, int n_threads)
{
    const struct put_job *j = ctx;
    void *scratch = linear_scratch(j->l, j->pool, thread);
    size_t begin, end;

    pool_share(j->m, 1, thread, n_threads, &begin, &end);
    for (size_t t = begin; t < end; t++)
        j->l->backend->put(j->l, j->in, j->x + t * j->l->k, t, j->m, scratch);
}

void linear_put_all(const struct linear *l, struct pool *pool, void *in, const float *x, size_t m)
{
    struct put_job job = {l, pool, in, x, m};

    if (m == 1)
        put_share(&job, 0, 1); /* for one row, waking the pool costs more than the work */
    else if (m)
        pool_run(pool, put_share, &job);
}

static void run_panels(const struct linear *l, const struct pool *pool, int thread, const void *in,
                       const struct linear_end *end, size_t m, size_t p0, size_t p1)
{
    l->backend->run(l, in, end, m, p0, p1, linear_scratch(l, pool, thread));
}

void linear_run_panels(const struct linear *l, const struct pool *pool, int thread, const void *in, float *y,
                       size_t ldy, size_t m, size_t p0, size_t p1)
{
    run_panels(l, pool, thread, in, &(struct linear_end){.y = y, .ldy = ldy}, m, p0, p1);
}

void linear_run_panels_into(const struct linear *l, const struct pool *pool, int thread, const void *in,
                            void *next_in, enum kern_act act, size_t m, size_t p0, size_t p1)
{
    const struct linear_end end = {.next = next_in, .activated = true, .act = act};

    run_panels(l, pool, thread, in, &end, m, p0, p1);
}

void linear_run_panels_act(const struct linear *l, const struct pool *pool, int thread, const void *in,
                           float *y, size_t ldy, enum kern_act act, size_t m, size_t p0, size_t p1)
{
    const struct linear_end end = {.y = y, .ldy = ldy, .activated = true, .act = act};

    run_panels(l, pool, thread, in, &end, m, p0, p1);
}

/* Returns the number of parts into which M rows are cut: enough that the rows of a thread stay in its cache,
 * and more if that divides the work among the threads more evenly by over 5 %. */
static size_t parts_of(const struct linear *l, size_t m, size_t panels, size_t threads)
{
    size_t most = l->backend->most ? l->backend->most(l) : SIZE_MAX, parts = 1 + (m - 1) / most, best = parts;

    for (; l->backend->most && parts * KERN_PART <= m; parts++)
        if ((panels * parts + threads - 1) / threads * best * 20 <
            (panels * best + threads - 1) / threads * parts * 19)
            best = parts;
    return best;
}

/* A run of M rows of L, divided into tasks. A task is one panel for one part of the rows. Tasks are ordered by range
 * of panels, within a range by part, and within a part by panel. There are as many ranges as threads for each part, so
 * that a thread computes one part with panels that the same thread or its neighbours packed. */
struct run {
    const struct linear *l;
    const struct pool *pool;
    const void *in;
    struct linear_end end;
    size_t m, parts, panels;
    int ranges;
};

/* Computes the tasks [AT, STOP) of the struct run CTX; a pool_range_fn. */
static void run_range(void *ctx, int thread, size_t at, size_t stop, size_t ahead)
{
    const struct run *j = ctx;
    struct linear_end end = j->end;
    size_t p = 0, p_end = 0,
           first = 0; /* [p, p_end): the panels of a range; first: the range's first task for a part */

    end.parts = j->parts;
    for (int range = 0; range < j->ranges && at < stop; range++) {
        pool_share(j->panels, 1, range, j->ranges, &p, &p_end);
        for (end.part = 0; end.part < j->parts && at < stop; end.part++, first += p_end - p) {
            size_t last = first + p_end - p, n;

            if (at >= last)
                continue;
            n = (stop < last ? stop : last) - at;
            end.ahead = p + (ahead < last ? ahead : last) - first;
            run_panels(j->l, j->pool, thread, j->in, &end, j->m, p + at - first, p + at - first + n);
            at += n;
        }
    }
}

static void run_all(const struct linear *l, struct pool *pool, const void *in, const struct linear_end *end,
                    size_t m)
{
    struct run j = {.l = l, .pool = pool, .in = in, .end = *end, .m = m};
    size_t threads = (size_t)pool_threads(pool);

    if (m == 0)
        return;
    j.panels = (linear_columns(l) + KERN_NR - 1) / KERN_NR;
    j.parts = parts_of(l, m, j.panels, threads);
    j.ranges = (int)((threads + j.parts - 1) / j.parts);
    pool_run_ranges(pool, j.parts * j.panels, run_range, &j);
}

void linear_run(const struct linear *l, struct pool *pool, const void *in, float *y, size_t ldy, size_t m)
{
    run_all(l, pool, in, &(struct linear_end){.y = y, .ldy = ldy}, m);
}

bool linear_leads_into(const struct linear *l, const struct linear *next)
{
    bool own_input = (l->backend->flags | next->backend->flags) & LINEAR_OWN_INPUT;
    bool same_form = l->backend == next->backend || !own_input;

    return same_form && l->kern == next->kern && l->dtype == next->dtype && next->dtype != DT_I8 &&
           !next->padded;
}

void linear_run_into(const struct linear *l, struct pool *pool, const void *in, const struct linear *next,
                     void *next_in, enum kern_act act, size_t m)
{
    const struct linear_end end = {.next = next_in, .activated = true, .act = act};

    ASSERT(linear_leads_into(l, next) && next->k == l->n / (l->paired ? 2 : 1), "%s, %s", l->name,
           next->name);
    run_all(l, pool, in, &end, m);
}

void linear_run_act(const struct linear *l, struct pool *pool, const void *in, float *y, size_t ldy,
                    enum kern_act act, size_t m)
{
    run_all(l, pool, in, &(struct linear_end){.y = y, .ldy = ldy, .activated = true, .act = act}, m);
}

void linear_run_mlp(const struct linear_mlp *w, struct pool *pool)
{
    const struct linear_backend *b = w->up->backend;

    ASSERT(linear_leads_into(w->up, w->down), "%s, %s", w->up->name, w->down->name);
    if (b->run_mlp && b == w->down->backend) {
        b->run_mlp(w, pool);
        return;
    }
    linear_run_into(w->up, pool, w->in, w->down, w->middle, w->act, w->m);
    linear_run(w->down, pool, w->middle, w->y, w->down->n, w->m);
}
