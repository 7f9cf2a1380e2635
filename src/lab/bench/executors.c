/* executors.c - measures steps of the executors "eager" and "planned" alternately (executors.h). */
#include "lab/bench/executors.h"

#include <jansson.h>

#include "app/print.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/stat.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"

enum { EAGER, PLANNED, KINDS, BLOCK = 8, WARM = 2, MOST_PAIRS = 10000, LEAST_PAIRS = 2 };

struct executors {
    const struct bench_executors *o;
    struct llm *m;
    struct planned *planned;
    int32_t *id; /* [rows] */
    struct executor_rows *rows;
    /* The seconds of all steps of a kind, and the quotients of pairs of blocks, of the current measurement. */
    double *second[KINDS], *quotient;
    size_t n_pairs;
    double meetings; /* of a layer */
    struct err *e;
};

static int reserve_rows(struct executors *b, size_t context, size_t batch)
{
    for (size_t s = 0; s < batch; s++) {
        int rc = kv_reserve(&b->m->kv, s, context + b->o->rows);

        if (rc)
            return err_set(b->e, rc, "the KV cache has no room for %zu sequences of %zu tokens", batch,
                           context + b->o->rows);
        b->rows[s] = (struct executor_rows){.slot = s,
                                            .id = b->id,
                                            .n = b->o->rows,
                                            .pos = context,
                                            .n_prompt = context,
                                            .n_total = context + b->o->rows,
                                            .n_wanted = b->o->rows};
    }
    return 0;
}

/* Computes a block of steps with the executor KIND. Returns the median of those that count. */
static double block(struct executors *b, size_t batch, int kind)
{
    double *second = b->second[kind] + b->n_pairs * (BLOCK - WARM), own[BLOCK - WARM];
    uint64_t before = planned_meetings(b->planned), tail = 0;

    b->m->planned = kind == PLANNED ? b->planned : NULL;
    for (size_t i = 0; i < BLOCK; i++) {
        double begin = clock_seconds(), end;

        llm_layers(b->m, &b->m->model, &b->m->work, b->rows, batch);
        tail -= planned_meetings(b->planned);
        llm_tail(b->m, &b->m->model, &b->m->work, 0, batch * b->o->rows);
        tail += planned_meetings(b->planned);
        end = clock_seconds();
        if (i >= WARM)
            own[i - WARM] = second[i - WARM] = end - begin;
    }
    if (kind == PLANNED)
        b->meetings = (double)(planned_meetings(b->planned) - before - tail) / BLOCK /
                      (double)b->m->model.info.n_layers;
    b->m->planned = b->planned;
    return stat_median(own, BLOCK - WARM);
}

static void print_row(struct executors *b, size_t context, size_t batch)
{
    double n = (double)b->m->model.info.n_layers, median[KINDS], layer[KINDS], quotient;
    size_t steps = b->n_pairs * (BLOCK - WARM);

    for (int k = 0; k < KINDS; k++) {
        median[k] = stat_median(b->second[k], steps);
        layer[k] = stat_percentile(b->second[k], steps, 10) / n * 1e6;
    }
    quotient = stat_median(b->quotient, b->n_pairs);
    if (b->o->json)
        print_json(json_pack(
            "{s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:i,s:s}", "test", "executors", "context",
            (json_int_t)context, "batch", (json_int_t)batch, "rows", (json_int_t)b->o->rows, "eager_step_s",
            median[EAGER], "planned_step_s", median[PLANNED], "ratio", quotient, "eager_layer_us",
            layer[EAGER], "planned_layer_us", layer[PLANNED], "meetings_a_layer", b->meetings, "pairs",
            (json_int_t)b->n_pairs, "threads", pool_threads(b->m->pool), "quant", b->m->model.quant));
    else
        print_fmt("%7zu %6zu %5zu %10.1f us %10.1f us %7.3f x %10.2f us %10.2f us %9.2f\n", context, batch,
                  b->o->rows, median[EAGER] * 1e6, median[PLANNED] * 1e6, quotient, layer[EAGER],
                  layer[PLANNED], b->meetings);
}

static int measure(struct executors *b, size_t context, size_t batch)
{
    double begin = clock_seconds();
    int rc = reserve_rows(b, context, batch);

    if (rc)
        return rc;
    for (b->n_pairs = 0;
         b->n_pairs < MOST_PAIRS && (b->n_pairs < LEAST_PAIRS || clock_seconds() - begin < b->o->seconds);
         b->n_pairs++) {
        int first = b->n_pairs % 2 ? PLANNED : EAGER;
        double median[KINDS];

        median[first] = block(b, batch, first);
        median[!first] = block(b, batch, !first);
        b->quotient[b->n_pairs] = median[EAGER] / median[PLANNED];
    }
    for (size_t s = 0; s < batch; s++)
        kv_truncate(&b->m->kv, s, 0);
    print_row(b, context, batch);
    return print_flush(b->e);
}

static int measure_all(struct executors *b)
{
    int rc = 0;

    b->planned = b->m->planned;
    planned_insist(b->planned);
    if (!b->o->json)
        print_fmt("%7s %6s %5s %13s %13s %9s %13s %13s %9s\n", "context", "batch", "rows", "eager", "planned",
                  "ratio", "eager layer", "planned", "meetings");
    for (size_t c = 0; c < b->o->n_contexts && rc == 0; c++)
        for (size_t i = 0; i < b->o->n_batches && rc == 0; i++)
            rc = measure(b, b->o->context[c], b->o->batch[i]);
    return rc;
}

static size_t most_of(const size_t *list, size_t n)
{
    size_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = list[i] > most ? list[i] : most;
    return most;
}

/* Sets the sizes of the engine. */
static int size_engine(const struct bench_executors *o, struct gallop_options *of, struct err *e)
{
    size_t batch = most_of(o->batch, o->n_batches), longest = most_of(o->context, o->n_contexts) + o->rows;

    if (o->n_contexts == 0 || batch == 0)
        return err_set(e, ERR_USAGE, "--context and --batch exclude every measurement");
    if (of->max_model_len && of->max_model_len <= (int64_t)longest)
        return err_set(e, ERR_USAGE,
                       "--max-model-len: found %lld, expected more than %zu, which the steps need",
                       (long long)of->max_model_len, longest);
    of->executor = "planned";
    of->max_num_seqs = (int64_t)batch;
    of->max_batched_tokens = (int64_t)(batch * o->rows);
    of->max_logits = (int64_t)(batch * o->rows);
    of->max_model_len = of->max_model_len ? of->max_model_len : (int64_t)longest + 1;
    of->kv_cache_tokens = (int64_t)(batch * (longest + KV_MAX_BLOCK));
    return 0;
}

int bench_executors(const struct bench_executors *o, struct load *l, struct err *e)
{
    struct executors b = {.o = o, .e = e};
    size_t batch = most_of(o->batch, o->n_batches);
    struct gallop *g = NULL;
    int rc = load_prepare(l, e);

    if (rc == 0 && (rc = size_engine(o, &l->o, e)) == 0) {
        b.id = mem_zalloc(o->rows, sizeof(*b.id), MEM_APP);
        b.rows = mem_zalloc(batch, sizeof(*b.rows), MEM_APP);
        b.quotient = mem_zalloc(MOST_PAIRS, sizeof(*b.quotient), MEM_APP);
        b.second[EAGER] = mem_zalloc(MOST_PAIRS, KINDS * (BLOCK - WARM) * sizeof(double), MEM_APP);
        rc = b.id && b.rows && b.quotient && b.second[EAGER] ? load_engine(l, NULL, &g, e)
                                                             : err_nomem(e, "the benchmark");
    }
    if (rc == 0) {
        b.second[PLANNED] = b.second[EAGER] + MOST_PAIRS * (BLOCK - WARM);
        b.m = engine_llm(g);
        rc = measure_all(&b);
    }
    gallop_close(g);
    mem_free(b.second[EAGER]);
    mem_free(b.quotient);
    mem_free(b.rows);
    mem_free(b.id);
    return rc;
}
