/* trace.c - records the operators of a step in a preallocated buffer and sums them up between steps, so that
 * tracing hardly slows a step down. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app/print.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/llm.h"
#include "kern/roof.h"
#include "lab/bench/cost.h"
#include "lab/bench/trace.h"
#include "ops/batch.h"

/* Callback of the timed sink: appends OP to the operators of the step. */
static void record(void *ctx, const struct timed_op *op)
{
    struct bench_trace *t = ctx;

    ASSERT(t->n_ops < t->cap, "%zu operators in a step", t->n_ops);
    t->op[t->n_ops++] = *op;
}

/* Callback of the timed sink: counts the operators of a step. */
static void count(void *ctx, const struct timed_op *op)
{
    (void)op;
    ++*(size_t *)ctx;
}

int bench_trace_open(struct bench_trace *t, struct llm *m, struct err *e)
{
    static const struct batch_seq seq = {.n = 1};
    const struct batch b = {.n_tokens = 1, .n_seqs = 1, .n_wanted = 1, .seq = &seq};
    struct timed counter;

    *t = (struct bench_trace){.timed = &m->timed};
    timed_open(&counter, NULL, m->kv_dtype, NULL, NULL);
    counter.each = count;
    counter.each_ctx = &t->cap;
    model_forward(&m->model, &counter.sink, &b, &m->work);
    t->op = mem_zalloc(t->cap, sizeof(*t->op), MEM_APP);
    if (!t->op)
        return err_nomem(e, "the operators of a step");
    m->timed.each = record;
    m->timed.each_ctx = t;
    return 0;
}

void bench_trace_close(struct bench_trace *t)
{
    if (t->timed)
        t->timed->each = NULL;
    mem_free(t->op);
    *t = (struct bench_trace){0};
}

void bench_trace_name(const char *name, bool is_module, char *out, size_t size)
{
    const char *from = name;
    size_t n;

    for (const char *p = from, *dot; (dot = strchr(p, '.')) != NULL; p = dot + 1) {
        size_t digits = strspn(p, "0123456789");

        if (digits && p + digits == dot)
            from = dot + 1;
    }
    n = strlen(from);
    if (is_module && strrchr(from, '.'))
        n = (size_t)(strrchr(from, '.') - from);
    snprintf(out, size, "%.*s", (int)n, from);
}

/* Returns the row of OP in S, and adds it if it is missing. If S is full, returns the last row, which then
 * counts several operators. */
static struct bench_trace_row *row_of(struct bench_trace_sum *s, const struct timed_op *op)
{
    struct bench_trace_row row = {.kind = op->kind};

    bench_trace_name(op->name, op->is_module, row.name, sizeof(row.name));
    for (size_t i = 0; i < s->n_rows; i++)
        if (s->row[i].kind == row.kind && strcmp(s->row[i].name, row.name) == 0)
            return &s->row[i];
    if (s->n_rows < BENCH_TRACE_ROWS)
        s->row[s->n_rows++] = row;
    return &s->row[s->n_rows - 1];
}

void bench_trace_step(struct bench_trace *t, double seconds, const struct roof *roof,
                      struct bench_trace_sum *s)
{
    for (size_t i = 0; i < t->n_ops; i++) {
        struct bench_trace_row *row = row_of(s, &t->op[i]);

        row->calls++;
        row->seconds += t->op[i].seconds;
        bench_cost_add_op(&row->cost, roof, &t->op[i]);
    }
    s->n_steps += t->n_ops > 0;
    s->seconds += t->n_ops > 0 ? seconds : 0;
    t->n_ops = 0;
}

/* ---- output ---- */

static void add_row(struct bench_trace_row *sum, const struct bench_trace_row *r)
{
    sum->calls += r->calls;
    sum->seconds += r->seconds;
    sum->cost.bytes += r->cost.bytes;
    sum->cost.flops += r->cost.flops;
    sum->cost.seconds += r->cost.seconds;
    sum->cost.memory_seconds += r->cost.memory_seconds;
}

static void print_json_row(const struct bench_trace_sum *s, const char *test, const struct bench_trace_row *r,
                           json_t *of)
{
    double steps = (double)s->n_steps, seconds = r->seconds > 0 ? r->seconds : 1e-9;
    json_t *o = json_pack("{s:s,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "test", test, "kind",
                          timed_name(r->kind), "name", r->name, "calls", (double)r->calls / steps, "seconds",
                          r->seconds / steps, "bytes", r->cost.bytes / steps, "flops", r->cost.flops / steps,
                          "gb_s", r->cost.bytes / seconds * 1e-9, "gflop_s", r->cost.flops / seconds * 1e-9,
                          "ideal_s", r->cost.seconds / steps);

    json_object_set_new(o, "roof_share",
                        r->cost.seconds > 0 ? json_real(r->cost.seconds / seconds) : json_null());
    json_object_update(o, of);
    print_json(o);
}

static void print_text_row(const struct bench_trace_sum *s, const char *indent, const char *name,
                           const struct bench_trace_row *r)
{
    double seconds = r->seconds > 0 ? r->seconds : 1e-9;

    print_fmt("  %s%-*s %8.1f %10.3f %6.1f %%", indent, 30 - (int)strlen(indent), name,
              (double)r->calls / (double)s->n_steps, r->seconds / (double)s->n_steps * 1e3,
              s->seconds > 0 ? 100 * r->seconds / s->seconds : 0);
    if (r->cost.seconds > 0)
        print_fmt(" %8.1f %9.1f %6.1f %% of %s\n", r->cost.bytes / seconds * 1e-9,
                  r->cost.flops / seconds * 1e-9, 100 * r->cost.seconds / seconds,
                  2 * r->cost.memory_seconds > r->cost.seconds ? "memory" : "arithmetic");
    else
        print_fmt(" %8s %9s\n", "-", "-");
}

/* Prints the operators of KIND and their sum, and adds the sum to ALL. */
static void print_kind(const struct bench_trace_sum *s, int kind, json_t *of, struct bench_trace_row *all)
{
    struct bench_trace_row sum = {.kind = kind};
    size_t n = 0;

    for (size_t i = 0; i < s->n_rows; i++)
        if (s->row[i].kind == kind) {
            add_row(&sum, &s->row[i]);
            n++;
        }
    if (n == 0)
        return;
    add_row(all, &sum);
    if (of)
        print_json_row(s, "kind", &sum, of);
    else
        print_text_row(s, "", timed_name(kind), &sum);
    for (size_t i = 0; i < s->n_rows; i++)
        if (s->row[i].kind == kind && of)
            print_json_row(s, "operator", &s->row[i], of);
        else if (s->row[i].kind == kind && n > 1)
            print_text_row(s, "  ", s->row[i].name, &s->row[i]);
}

static void print_step(const struct bench_trace_sum *s, json_t *of, const struct bench_trace_row *all)
{
    double steps = (double)s->n_steps, lost = s->seconds - all->seconds;

    if (of) {
        json_t *o = json_pack("{s:s,s:I,s:f,s:f,s:f,s:f,s:f}", "test", "step", "steps",
                              (json_int_t)s->n_steps, "seconds", s->seconds / steps, "operators_s",
                              all->seconds / steps, "between_s", lost / steps, "ideal_s",
                              all->cost.seconds / steps, "roof_share", all->cost.seconds / s->seconds);

        json_object_update(o, of);
        print_json(o);
        return;
    }
    print_fmt("  a step of %zu: %.3f ms, operators %.3f, between them %.3f (%.1f %%); ideal %.3f (%.1f %%)\n",
              s->n_steps, s->seconds / steps * 1e3, all->seconds / steps * 1e3, lost / steps * 1e3,
              100 * lost / s->seconds, all->cost.seconds / steps * 1e3, 100 * all->cost.seconds / s->seconds);
}

void bench_trace_print(const struct bench_trace_sum *s, json_t *of)
{
    struct bench_trace_row all = {0};

    if (s->n_steps) {
        if (!of)
            print_fmt("  %-30s %8s %10s %8s %8s %9s  %s\n", "operator, of a step", "calls", "ms", "of step",
                      "GB/s", "GFLOP/s", "of its ideal");
        for (int kind = 0; kind < TIMED_N_KINDS; kind++)
            print_kind(s, kind, of, &all);
        print_step(s, of, &all);
    }
    json_decref(of);
}
