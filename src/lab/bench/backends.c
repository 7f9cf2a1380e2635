/* backends.c - times every linear backend of the build on the linears of a model, side by side.
 *
 * Linears of one kind, shape and dtype are one operator. Each backend that accepts the operator packs the
 * weights of several layers, more than the caches hold, and each call uses the next layer, so that weights
 * are read from memory as in a step. A call converts rows to the form that the backend reads, multiplies
 * them, and applies the activation if gate and up are one matrix; the result is fp32.
 *
 * In each round all backends run one after the other with the same number of rows; the roofs are measured
 * before and after the round. Results are medians over the rounds: times, shares of the roof, and quotients
 * of the time of the backend that the engine chooses ("gallop", or "blocks" for GGUF files) and that of
 * another backend. Shares of all backends refer to the ideal time of the engine's choice. Backends of whole
 * MLPs are not measured.
 */
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "app/print.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/threads/pool.h"
#include "base/threads/topo.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "kern/kern.h"
#include "kern/roof.h"
#include "lab/bench/backends.h"
#include "lab/bench/cost.h"
#include "lab/bench/trace.h"
#include "model/calibration.h"
#include "model/model.h"
#include "model/quant.h"
#include "ops/linear_backend.h"
#include "ops/timed.h"

enum { MAX_BACKENDS = 16, MAX_LINEARS = 64 };

static const size_t beyond_caches = (size_t)256 << 20;
static const double turn_seconds = 0.02; /* minimum time of a backend in a round */
static const double margin = 1.03;       /* minimum quotient of times for a backend to count as faster */

/* A backend with the linears that it packed. */
struct entrant {
    const char *name;
    struct linear linear[MAX_LINEARS];
    size_t n, at; /* number of linears, and index of the linear that the next call uses */
    bool slow;    /* the backend is measured once only, with one row */
    double second[BENCH_BACKENDS_ROWS][BENCH_BACKENDS_REPS];
    size_t n_seconds[BENCH_BACKENDS_ROWS];
};

/* An operator: linears of one kind, shape and dtype. */
struct alike {
    const struct linear *like;                   /* the first linear of this operator in the model */
    const struct linear_desc *desc[MAX_LINEARS]; /* [n] the linears that each backend packs */
    size_t n;
    struct entrant entrant[MAX_BACKENDS];
    size_t n_entrants;
    struct roof roof[BENCH_BACKENDS_REPS + 1];
};

struct bench_backends_work {
    const struct bench_backends *b;
    struct model *model;
    struct calibration scales; /* activation scales, which packing some backends requires */
    struct pool *pool;
    struct roof_meter roofs;
    struct alike op;
    char *region;
    size_t region_bytes;
    float *x, *y;      /* inputs [rows, k] and outputs [rows, n], sized for the largest linear */
    void *in;          /* inputs, converted to the format that the backend reads */
    size_t n_compared; /* number of results in which the engine's choice was compared */
    size_t n_behind;   /* number of results in which another backend is faster */
};

/* ---- operators ---- */

static bool are_alike(const struct linear *a, const struct linear *b)
{
    return a->kind == b->kind && a->n == b->n && a->k == b->k && a->paired == b->paired &&
           a->dtype == b->dtype && a->group == b->group && a->backend == b->backend &&
           memcmp(a->stored, b->stored, sizeof(a->stored)) == 0;
}

/* Returns true if entry I of the model's list is a linear, and the first of its kind, shape and dtype. */
static bool is_first(const struct model *m, size_t i)
{
    if (!m->todo[i].linear)
        return false;
    for (size_t k = 0; k < i; k++)
        if (m->todo[k].linear && are_alike(m->todo[k].linear, m->todo[i].linear))
            return false;
    return true;
}

/* Collects in *OP the linears with the kind, shape and dtype of entry I, each several times if necessary,
 * until their weights exceed the caches. */
static void gather(struct alike *op, const struct model *m, size_t i)
{
    size_t bytes = 0;

    *op = (struct alike){.like = m->todo[i].linear};
    for (size_t k = i; op->n < MAX_LINEARS && bytes < beyond_caches; k = k + 1 < m->n_todo ? k + 1 : i)
        if (m->todo[k].linear && are_alike(m->todo[k].linear, op->like)) {
            op->desc[op->n++] = m->todo[k].desc;
            bytes += op->like->packed_bytes;
        }
}

/* Opens and packs the linears with the backend NAME, and adds this backend to the entrants. A backend that
 * does not accept the linears is skipped. */
static int enter(struct bench_backends_work *w, const char *name, struct err *e)
{
    struct alike *op = &w->op;
    struct entrant *x = &op->entrant[op->n_entrants];
    struct err why_not;
    int rc = 0;

    *x = (struct entrant){.name = name};
    if ((rc = linear_open(&x->linear[0], op->desc[0], name, &why_not)) == ERR_UNSUPPORTED)
        return 0;
    op->n_entrants++;
    x->slow = rc == 0 && (x->linear[0].backend->flags & LINEAR_NATIVE);
    while (rc == 0 && x->n < (x->slow ? 1 : op->n)) {
        const struct linear_desc *d = op->desc[x->n];
        struct linear *l = &x->linear[x->n++];

        if ((rc = linear_open(l, d, name, e)) == 0)
            rc = linear_pack(l, d, w->pool, e);
    }
    return rc;
}

static int enter_all(struct bench_backends_work *w, struct err *e)
{
    const struct linear_backend *x;
    int rc = 0;

    for (int i = 0; (x = linear_backend_at(i)) != NULL && rc == 0; i++) {
        bool there = x->run_mlp; /* true: skips X, a backend of whole MLPs or one that was entered already */

        for (size_t k = 0; k < w->op.n_entrants; k++)
            there |= strcmp(w->op.entrant[k].name, x->name) == 0;
        if (!there && w->op.n_entrants < MAX_BACKENDS)
            rc = enter(w, x->name, e);
    }
    return rc;
}

static void leave(struct alike *op)
{
    for (size_t i = 0; i < op->n_entrants; i++)
        for (size_t k = 0; k < op->entrant[i].n; k++)
            linear_close(&op->entrant[i].linear[k]);
    op->n_entrants = 0;
}

/* ---- rounds ---- */

/* Calls the next linear of X with M rows. */
static void call(const struct bench_backends_work *w, struct entrant *x, size_t m)
{
    const struct linear *l = &x->linear[x->at];

    x->at = (x->at + 1) % x->n;
    linear_put_all(l, w->pool, w->in, w->x, m);
    if (l->paired)
        linear_run_act(l, w->pool, w->in, w->y, l->n / 2, KERN_SILU, m);
    else
        linear_run(l, w->pool, w->in, w->y, l->n, m);
}

/* Returns the seconds of a call, as the mean over at least turn_seconds. */
static double time_calls(const struct bench_backends_work *w, struct entrant *x, size_t m)
{
    double start = clock_seconds(), seconds;
    size_t n = 0;

    do {
        call(w, x, m);
        n++;
        seconds = clock_seconds() - start;
    } while (seconds < turn_seconds);
    return seconds / (double)n;
}

/* Returns true if X is measured in round REP with the number of rows b->rows[ROW]. The language model head is
 * not measured with prompts, since only the last row of a prompt has logits. */
static bool is_measured(const struct bench_backends_work *w, const struct entrant *x, size_t row, size_t rep)
{
    size_t m = w->b->rows[row];

    return !(x->slow && (m > 1 || rep > 0)) && !(row >= w->b->n_batches && w->op.like->kind == OP_LM_HEAD);
}

static int run_rounds(struct bench_backends_work *w, struct err *e)
{
    struct alike *op = &w->op;
    int rc = 0;

    for (size_t rep = 0; rep < w->b->reps && rc == 0; rep++) {
        roof_meter_measure(&w->roofs, w->b->roof_seconds, &op->roof[rep]);
        for (size_t r = 0; r < w->b->n_rows; r++)
            for (size_t i = 0; i < op->n_entrants; i++) {
                /* Each round starts with another backend. */
                struct entrant *x = &op->entrant[(i + rep) % op->n_entrants];

                if (is_measured(w, x, r, rep))
                    x->second[r][x->n_seconds[r]++] = time_calls(w, x, w->b->rows[r]);
            }
        rc = print_flush(e); /* fails, and ends the benchmark, if the output pipe is closed */
    }
    roof_meter_measure(&w->roofs, w->b->roof_seconds, &op->roof[w->b->reps]);
    return rc;
}

/* ---- output ---- */

/* The result of one backend with a number of rows. */
struct figure {
    double seconds, share, ideal;
    double quotient; /* the time of the engine's choice divided by `seconds` */
    struct bench_cost cost;
};

/* Computes the result of X with b->rows[R] rows. CHOSEN is the entrant that the engine chooses. */
static struct figure figure_of(const struct bench_backends_work *w, const struct entrant *x,
                               const struct entrant *chosen, size_t r)
{
    const struct alike *op = &w->op;
    double share[BENCH_BACKENDS_REPS], quotient[BENCH_BACKENDS_REPS], second[BENCH_BACKENDS_REPS];
    const struct linear *l = op->like;
    const struct timed_op need = {.part = {{.bytes = (double)l->packed_bytes,
                                            .flops = 2 * (double)(l->n * l->k * w->b->rows[r]),
                                            .dtype = l->dtype}},
                                  .n_parts = 1};
    struct figure f = {0};
    size_t n = x->n_seconds[r];

    for (size_t i = 0; i < n; i++) {
        struct roof roof = roof_between(&op->roof[i], &op->roof[i + 1]);

        f.cost = (struct bench_cost){0};
        bench_cost_add_op(&f.cost, &roof, &need);
        second[i] = x->second[r][i];
        share[i] = f.cost.seconds / second[i];
        quotient[i] = chosen->second[r][i] / second[i];
    }
    f.seconds = stat_median(second, n);
    f.share = stat_median(share, n);
    f.quotient = stat_median(quotient, n);
    f.ideal = f.share * f.seconds;
    return f;
}

static void print_row_json(const struct bench_backends_work *w, const struct entrant *x, size_t rows,
                           const struct figure *f, const char *behind)
{
    const struct linear *l = &x->linear[0];
    char name[BENCH_NAME_MAX];
    json_t *o;

    bench_trace_name(w->op.like->name, false, name, sizeof(name));
    o = json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:s,s:s,s:s,s:i,s:f,s:f,s:f,s:f,s:f,s:s}", "test", "backend",
                  "kind", linear_kind_name(l->kind), "name", name, "n", (json_int_t)l->n, "k",
                  (json_int_t)l->k, "rows", (json_int_t)rows, "backend", x->name, "dtype",
                  dtype_name(l->dtype), "quant", w->model->quant, "threads", pool_threads(w->pool), "seconds",
                  f->seconds, "gb_s", f->cost.bytes / f->seconds * 1e-9, "gflop_s",
                  f->cost.flops / f->seconds * 1e-9, "ideal_s", f->ideal, "roof_share", f->share, "bound",
                  f->cost.memory_seconds > 0 ? "memory" : "arithmetic");
    json_object_set_new(o, "over_auto", json_real(f->quotient));
    json_object_set_new(o, "behind", behind ? json_string(behind) : json_null());
    print_json(o);
}

static void print_row_text(const struct bench_backends_work *w, const struct entrant *x, size_t rows,
                           const struct figure *f, const char *behind, double by)
{
    const struct linear *l = &x->linear[0];
    char name[BENCH_NAME_MAX];

    bench_trace_name(w->op.like->name, false, name, sizeof(name));
    print_fmt("%-24s %7zu x %-6zu %5zu  %-8s %-5s %11.1f %7.1f %9.1f %6.1f %% of %s", name, l->n, l->k, rows,
              x->name, dtype_name(l->dtype), f->seconds * 1e6, f->cost.bytes / f->seconds * 1e-9,
              f->cost.flops / f->seconds * 1e-9, 100 * f->share,
              f->cost.memory_seconds > 0 ? "memory" : "arithmetic");
    if (behind)
        print_fmt("  %.0f %% behind %s", 100 * (by - 1), behind);
    print_text("\n");
}

/* Prints the results of all backends with b->rows[R] rows. The line of the engine's choice names the fastest
 * backend, if this is faster by at least the margin. */
static void print_rows(struct bench_backends_work *w, size_t r)
{
    const struct alike *op = &w->op;
    const struct entrant *chosen = op->entrant;
    const char *best = NULL;
    double by = margin;

    for (size_t i = 0; i < op->n_entrants; i++)
        if (strcmp(op->entrant[i].name, op->like->backend->name) == 0)
            chosen = &op->entrant[i];
    for (size_t i = 0; i < op->n_entrants; i++) {
        const struct entrant *x = &op->entrant[i];
        double quotient = x->n_seconds[r] ? figure_of(w, x, chosen, r).quotient : 0;

        if (quotient > by) {
            by = quotient;
            best = x->name;
        }
    }
    for (size_t i = 0; i < op->n_entrants; i++) {
        const struct entrant *x = &op->entrant[i];
        struct figure f;

        if (x->n_seconds[r] == 0)
            continue;
        f = figure_of(w, x, chosen, r);
        if (w->b->json)
            print_row_json(w, x, w->b->rows[r], &f, x == chosen ? best : NULL);
        else
            print_row_text(w, x, w->b->rows[r], &f, x == chosen ? best : NULL, by);
        w->n_compared += x == chosen;
        w->n_behind += x == chosen && best;
    }
}

static int bench_operator(struct bench_backends_work *w, size_t i, struct err *e)
{
    int rc;

    gather(&w->op, w->model, i);
    if ((rc = enter_all(w, e)) == 0 && (rc = run_rounds(w, e)) == 0)
        for (size_t r = 0; r < w->b->n_rows; r++)
            print_rows(w, r);
    leave(&w->op);
    return rc ? rc : print_flush(e);
}

/* ---- open ---- */

/* Returns the largest number of rows with which linears of KIND are measured. */
static size_t most_rows(const struct bench_backends *b, enum op_kind kind)
{
    size_t most = 1;

    for (size_t r = 0; r < (kind == OP_LM_HEAD ? b->n_batches : b->n_rows); r++)
        most = b->rows[r] > most ? b->rows[r] : most;
    return most;
}

/* Lays out inputs and outputs at BASE. Returns the size in bytes; BASE NULL: only computes the size. */
static size_t lay_out(struct bench_backends_work *w, char *base)
{
    size_t at = 0, x = 0, y = 0, in = 0;

    for (size_t i = 0; i < w->model->n_linears; i++) {
        const struct linear *l = w->model->linear[i];
        size_t m = most_rows(w->b, l->kind), bytes = m * linear_in_bytes(l->k);

        x = m * l->k > x ? m * l->k : x;
        y = m * l->n > y ? m * l->n : y;
        in = bytes > in ? bytes : in;
    }
    w->x = map_carve(base, &at, x * sizeof(float));
    w->y = map_carve(base, &at, y * sizeof(float));
    w->in = map_carve(base, &at, in);
    for (size_t i = 0; i < x && base; i++)
        w->x[i] = (float)(i * 7919 % 2003) / 1001 - 1;
    return at;
}

static int open_pool(struct pool **pool, int threads, struct err *e)
{
    struct topo t;
    int rc;

    if (threads == 0) {
        if ((rc = topo_open(&t, e)) != 0)
            return rc;
        threads = t.default_threads;
        topo_close(&t);
    }
    return pool_new(pool, threads, e);
}

/* Opens the model, without packing its weights. */
static int open_model(struct bench_backends_work *w, const struct gallop_options *o, struct err *e)
{
    struct model_options mo = {.allow_links = o->allow_links,
                               .dtype = o->dtype && strcmp(o->dtype, "fp32") == 0 ? DT_F32 : DT_BF16,
                               .dtype_open = !o->dtype};
    enum cpu_isa cap = cpu_best();
    int rc;

    if (o->isa)
        cpu_isa_of_name(o->isa, &cap);
    mo.kern = kern_table(cap);
    if ((rc = quant_read(&mo.quant, o->quant, e)) != 0 ||
        (o->scales && (rc = calibration_open(&w->scales, o->scales, e)) != 0))
        return rc;
    mo.scales = o->scales ? &w->scales : NULL;
    rc = model_open(w->model, o->model, &mo, w->pool, e);
    if (rc == 0 && w->model->checkpoint->pack)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s is packed for one backend; --backends needs the checkpoint from which it was packed",
                     o->model);
    return rc;
}

static void print_head(struct bench_backends_work *w)
{
    const struct model *m = w->model;
    struct roof roof;

    roof_meter_measure(&w->roofs, w->b->roof_seconds, &roof);
    bench_roof_print(&roof, pool_threads(w->pool), cpu_isa_name(kern_isa(m->opt.kern, model_gemm(m))),
                     w->b->json);
    if (w->b->json)
        return;
    print_text("native, the slow reference implementation, is measured once only, with one row\n");
    print_fmt("%-24s %16s %5s  %-8s %-5s %11s %7s %9s  %s\n", "operator", "columns x inputs", "rows",
              "backend", "type", "us", "GB/s", "GFLOP/s", "of the roof");
}

int bench_backends(const struct bench_backends *b, const struct gallop_options *o, struct err *e)
{
    struct bench_backends_work *w = mem_zalloc(1, sizeof(*w), MEM_APP);
    struct model m = {0};
    int rc;

    if (!w)
        return err_nomem(e, "the benchmark");
    w->b = b;
    w->model = &m;
    if ((rc = open_pool(&w->pool, o->threads, e)) == 0 && (rc = open_model(w, o, e)) == 0 &&
        (rc = roof_meter_open(&w->roofs, w->pool, e)) == 0) {
        w->region_bytes = lay_out(w, NULL);
        w->region = map_region_new(w->region_bytes);
        rc = w->region ? 0 : err_nomem(e, "the rows of the benchmark");
    }
    if (rc == 0) {
        lay_out(w, w->region);
        print_head(w);
        rc = print_flush(e);
    }
    for (size_t i = 0; i < m.n_todo && rc == 0; i++)
        if (is_first(&m, i))
            rc = bench_operator(w, i, e);
    if (rc == 0 && !b->json)
        print_fmt(
            "the engine's choice is more than %.0f %% slower than another backend in %zu of %zu cases\n",
            100 * (margin - 1), w->n_behind, w->n_compared);
    map_region_free(w->region, w->region_bytes);
    roof_meter_close(&w->roofs);
    model_close(&m);
    calibration_close(&w->scales);
    pool_free(w->pool);
    mem_free(w);
    return rc;
}
