/* speculate.c - measures speculative decoding with guesses of known quality (speculate.h). */
#include <jansson.h>
#include <string.h>

#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/stat.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/guess/oracle.h"
#include "engine/schedule/cost.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "kern/roof.h"
#include "kv/kv.h"
#include "lab/bench/cost.h"
#include "lab/bench/speculate.h"

#define INTO(member) OPT_INTO(struct bench_speculate_options, member)

const struct opt_row bench_speculate_options[] = {
    {"speculate", 0, PARAM_INT, "K", EVERYDAY,
     .help =
         "measure speculative decoding with K guessed tokens of each sequence instead, beside decoding without "
         "guesses, with --context, --batch and --decode; a difference between the answers is an error",
     .otherwise = "no guesses", .values = "[1,32]", INTO(guesses)},
    {"accept", 0, PARAM_REAL, "P", EVERYDAY, .help = "with --speculate, share of the guesses that are right",
     .fallback = "0.8", .values = "[0,1]", INTO(accept)},
    {"adaptive", 0, PARAM_CHOICE, NULL, EVERYDAY,
     .help = "with --speculate, whether the engine computes only the guesses that are expected to pay",
     .values = "off|on", .fallback = "on", INTO(adaptive)},
    {0}};

/* Without guesses, with the guesses that the engine chooses, and with all guesses. */
enum kind { PLAIN, CHOSEN, ALL, KINDS };

/* A sequence of the current run. */
struct answer {
    int32_t *known; /* [decode] the tokens of the first run */
    size_t n_known; /* number of them; decode after the first run */
    size_t n;       /* tokens so far */
    bool ended;
};

/* The steps of a run in which all sequences decode. */
struct timed_steps {
    double seconds;
    size_t n_steps, n_tokens, n_guessed;
};

/* What the engine has learned in the runs of one kind. */
struct learned {
    struct cost cost;
    struct guess_chances chances;
};

struct row {
    size_t context, batch;
    struct timed_steps of[KINDS][BENCH_SPECULATE_REPS];
    struct roof roof[BENCH_SPECULATE_REPS]; /* means of the roofs before and after each repetition */
};

struct speculate {
    const struct bench_speculate *o;
    struct gallop *g;
    struct step *loop;
    struct oracle oracle;
    struct learned fresh, learned[KINDS];
    struct answer *answer; /* [largest batch] */
    int32_t *tokens;       /* [largest batch, decode] the arrays of `answer` */
    int32_t *prompt;       /* [longest context] */
    struct roof_meter roofs;
    struct row *row; /* [n_contexts * n_batches] */
    size_t n_rows;
    struct err *e;
};

double bench_speculate_tokens(size_t k, double p)
{
    double sum = 1, power = 1;

    for (size_t i = 0; i < k; i++)
        sum += power *= p;
    return sum;
}

static const int32_t *known_answer(void *ctx, const struct seq *s, size_t *n)
{
    const struct answer *a = s->user;

    (void)ctx;
    *n = a->n_known;
    return a->known;
}

/* ---- a run ---- */

static int submit(struct speculate *b, const struct row *row, size_t i)
{
    size_t n_vocab = b->loop->x->caps.n_vocab;
    struct gallop_request req;
    char why[GALLOP_ERR_SIZE];
    int rc;

    gallop_request_init(&req);
    for (size_t k = 0; k < row->context; k++)
        b->prompt[k] = (int32_t)((k * 7919 + i * 104729 + 13) % n_vocab);
    req.ids = b->prompt;
    req.n_ids = row->context;
    req.sampling.max_new_tokens = (int64_t)b->o->decode;
    req.sampling.ignore_eos = 1;
    req.sampling.do_sample = 0;
    req.user = &b->answer[i];
    if ((rc = gallop_submit(b->g, &req, NULL, why)) != 0)
        return err_set(b->e, rc, "sequence %zu: %s", i, why);
    return 0;
}

/* In the first run, records TOKEN of answer A; in later runs, compares it with the recorded token. */
static int take_token(struct speculate *b, struct answer *a, int32_t token)
{
    size_t i = (size_t)(a - b->answer), at = a->n++;

    if (a->n_known < b->o->decode) {
        a->known[a->n_known++] = token;
        return 0;
    }
    return a->known[at] == token
               ? 0
               : err_set(b->e, ERR_INPUT,
                         "sequence %zu: token %zu is %d, and %d in the first run without guesses", i, at,
                         token, a->known[at]);
}

static int take_events(struct speculate *b, size_t *n_tokens, size_t *n_ended)
{
    struct gallop_event ev;
    int rc = 0;

    while (rc == 0 && gallop_take(b->g, &ev)) {
        struct answer *a = ev.user;

        if (ev.type == GALLOP_TOKEN) {
            rc = take_token(b, a, ev.token);
            ++*n_tokens;
        } else if (ev.type == GALLOP_FINISHED) {
            ++*n_ended;
            if (a->n != b->o->decode)
                rc = err_set(b->e, ERR_UNSUPPORTED, "sequence %zu ended after %zu of %zu tokens%s%s",
                             (size_t)(a - b->answer), a->n, b->o->decode, ev.error ? ": " : "",
                             ev.error ? ev.error : "");
        }
    }
    return rc;
}

/* Returns true if all sequences decode, and none is so close to its end that it can use fewer guesses. */
static bool is_full(const struct speculate *b, const struct row *row)
{
    for (size_t i = 0; i < row->batch; i++)
        if (b->answer[i].n == 0 || b->answer[i].n + b->o->of.guesses + 1 > b->o->decode)
            return false;
    return true;
}

static void set_kind(struct speculate *b, enum kind kind)
{
    b->oracle.guesser.adaptive = kind == CHOSEN;
    b->loop->guesser = kind == PLAIN ? NULL : &b->oracle.guesser;
    b->loop->cost = b->learned[kind].cost;
    b->loop->chances = b->learned[kind].chances;
}

/* Answers the prompts of ROW. */
static int kind_run(struct speculate *b, const struct row *row, enum kind kind, struct timed_steps *t)
{
    size_t n_ended = 0;
    int rc = 0;

    set_kind(b, kind);
    *t = (struct timed_steps){0};
    for (size_t i = 0; i < row->batch && rc == 0; i++) {
        b->answer[i].n = 0;
        rc = submit(b, row, i);
    }
    while (rc == 0 && n_ended < row->batch) {
        uint64_t guessed = b->loop->guess_counts.n_guessed;
        bool full = is_full(b, row);
        double start = clock_seconds(), seconds;
        size_t n_tokens = 0;

        gallop_step(b->g, 0);
        seconds = clock_seconds() - start;
        rc = take_events(b, &n_tokens, &n_ended);
        if (full)
            *t = (struct timed_steps){t->seconds + seconds, t->n_steps + 1, t->n_tokens + n_tokens,
                                      t->n_guessed + (size_t)(b->loop->guess_counts.n_guessed - guessed)};
    }
    b->learned[kind] = (struct learned){b->loop->cost, b->loop->chances};
    if (rc == 0 && t->n_steps == 0)
        return err_set(b->e, ERR_USAGE,
                       "--decode: found %zu, expected more tokens: no step had all %zu sequences",
                       b->o->decode, row->batch);
    return rc;
}

/* Measures all repetitions of ROW. */
static int measure_row(struct speculate *b, struct row *row, struct print_bar *bar)
{
    size_t r = (size_t)(row - b->row), n_kinds = b->o->of.adaptive ? KINDS : CHOSEN + 1;
    struct roof before, after;
    int rc = 0;

    for (size_t i = 0; i < row->batch; i++)
        b->answer[i] = (struct answer){.known = b->tokens + i * b->o->decode};
    for (int k = 0; k < KINDS; k++)
        b->learned[k] = b->fresh;
    roof_meter_measure(&b->roofs, b->o->roof_seconds, &before);
    for (size_t rep = 0; rep < b->o->reps && rc == 0; rep++, before = after) {
        for (size_t k = 0; k < n_kinds && rc == 0; k++) {
            enum kind kind = k == CHOSEN && !b->o->of.adaptive ? ALL : (enum kind)k;

            rc = kind_run(b, row, kind, &row->of[kind][rep]);
        }
        if (rc == 0 && !b->o->of.adaptive)
            row->of[CHOSEN][rep] = row->of[ALL][rep];
        roof_meter_measure(&b->roofs, b->o->roof_seconds, &after);
        row->roof[rep] = roof_between(&before, &after);
        print_progress(bar, r * b->o->reps + rep + 1, b->n_rows * b->o->reps);
        rc = rc ? rc : print_flush(b->e); /* fails, and ends the benchmark, if the output pipe is closed */
    }
    return rc;
}

/* ---- results ---- */

struct result {
    double plain, guessed;           /* tokens per second */
    double speedup, lowest, highest; /* of the repetitions: median, smallest, largest */
    double tokens, guesses;          /* per step and sequence */
    double step, row_ratio;          /* seconds of a step without guesses, and quotient with all guesses */
    double ideal_of_steps, ideal_of_roofs; /* ideal speedups */
    double share;                          /* measured speed, divided by the speed that the roofs allow */
};

static double rate(const struct timed_steps *t)
{
    return (double)t->n_tokens / t->seconds;
}

static double step_seconds(const struct timed_steps *t)
{
    return t->seconds / (double)t->n_steps;
}

/* Returns the largest number of tokens per second that the roofs R allow for ROW, with the best number of
 * guesses. Sets *SPEEDUP to this rate divided by the rate without guesses. */
static double ideal_rate(const struct speculate *b, const struct row *row, const struct roof *r,
                         double *speedup)
{
    struct bench_cost_model model = {.llm = engine_llm(b->g), .roof = r};
    double best = 0, plain = 0;

    for (size_t k = 0; k <= b->o->of.guesses; k++) {
        const struct bench_rows rows = {row->batch, row->context + b->o->decode / 2, k + 1, k + 1};
        double now = (double)row->batch * bench_speculate_tokens(k, b->o->of.accept) /
                     bench_cost_step(&model, &rows, 1).seconds;

        plain = k ? plain : now;
        best = now > best ? now : best;
    }
    *speedup = best / plain;
    return best;
}

static struct result result_of(const struct speculate *b, const struct row *row)
{
    enum { PLAIN_RATE, RATE, SPEEDUP, TOKENS, GUESSES, STEP, RATIO, ROOFS, SHARE, FIGURES };
    double x[FIGURES][BENCH_SPECULATE_REPS], gain;
    size_t n = b->o->reps;
    struct result r;

    for (size_t i = 0; i < n; i++) {
        const struct timed_steps *plain = &row->of[PLAIN][i], *chosen = &row->of[CHOSEN][i];
        double places = (double)(chosen->n_steps * row->batch);

        x[PLAIN_RATE][i] = rate(plain);
        x[RATE][i] = rate(chosen);
        x[SPEEDUP][i] = rate(chosen) / rate(plain);
        x[TOKENS][i] = (double)chosen->n_tokens / places;
        x[GUESSES][i] = (double)chosen->n_guessed / places;
        x[STEP][i] = step_seconds(plain);
        x[RATIO][i] = step_seconds(&row->of[ALL][i]) / step_seconds(plain);
        x[SHARE][i] = rate(chosen) / ideal_rate(b, row, &row->roof[i], &x[ROOFS][i]);
    }
    r = (struct result){.lowest = stat_min(x[SPEEDUP], n), .highest = stat_max(x[SPEEDUP], n)};
    r.plain = stat_median(x[PLAIN_RATE], n);
    r.guessed = stat_median(x[RATE], n);
    r.speedup = stat_median(x[SPEEDUP], n);
    r.tokens = stat_median(x[TOKENS], n);
    r.guesses = stat_median(x[GUESSES], n);
    r.step = stat_median(x[STEP], n);
    r.row_ratio = stat_median(x[RATIO], n);
    r.ideal_of_roofs = stat_median(x[ROOFS], n);
    r.share = stat_median(x[SHARE], n);
    gain = bench_speculate_tokens(b->o->of.guesses, b->o->of.accept) / r.row_ratio;
    r.ideal_of_steps = gain;
    return r;
}

static void print_row(const struct speculate *b, const struct row *row)
{
    const struct bench_speculate_options *of = &b->o->of;
    const struct gallop_model_info *m = engine_info(b->g)->model;
    struct result r = result_of(b, row);

    if (b->o->json)
        print_json(json_pack(
            "{s:s,s:I,s:I,s:I,s:I,s:f,s:b,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:i,s:s,s:s}",
            "test", "speculate", "prompt", (json_int_t)row->context, "batch", (json_int_t)row->batch,
            "tokens", (json_int_t)b->o->decode, "guesses", (json_int_t)of->guesses, "accept", of->accept,
            "adaptive", (int)of->adaptive, "tok_s_plain", r.plain, "tok_s", r.guessed, "speedup", r.speedup,
            "speedup_min", r.lowest, "speedup_max", r.highest, "tokens_per_step", r.tokens,
            "guesses_per_step", r.guesses, "step_s_plain", r.step, "step_ratio", r.row_ratio,
            "ideal_speedup_steps", r.ideal_of_steps, "ideal_speedup_roofs", r.ideal_of_roofs, "roof_share",
            r.share, "threads", m->threads, "dtype", m->dtype, "quant", m->quant));
    else
        print_fmt("%7zu %6zu %10.2f %10.2f %7.2f x %8.2f %8.2f %9.2f %7.2f x %7.2f x %6.1f %%\n",
                  row->context, row->batch, r.plain, r.guessed, r.speedup, r.tokens, r.guesses, r.row_ratio,
                  r.ideal_of_steps, r.ideal_of_roofs, 100 * r.share);
}

static void print_head(const struct speculate *b)
{
    const struct bench_speculate_options *of = &b->o->of;

    print_fmt(
        "%zu guesses, each right with the chance %g, %s; all answers are equal to those without guesses\n",
        of->guesses, of->accept, of->adaptive ? "as many as pay" : "all of them");
    print_fmt("%7s %6s %10s %10s %9s %8s %8s %9s %9s %9s %8s\n", "prompt", "batch", "tok/s", "guessing",
              "speedup", "tok/step", "guesses", "all, step", "of steps", "of roofs", "share");
}

/* ---- the benchmark ---- */

static size_t most_of(const size_t *x, size_t n)
{
    size_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* Sets the engine's options to the sizes that the measurements need. */
static int size_engine(const struct speculate *b, size_t context, size_t batch, struct gallop_options *o)
{
    /* The prompts stay in the prefix cache, beside the sequences. */
    size_t len = context + b->o->decode, room = len + context + 2 * KV_MAX_BLOCK;

    if (o->max_model_len == 0)
        o->max_model_len = (int64_t)len;
    if ((size_t)o->max_model_len < len)
        return err_set(b->e, ERR_USAGE,
                       "--max-model-len: found %lld, expected at least %zu, which the measurements need",
                       (long long)o->max_model_len, len);
    if (!kv_type_pooled(o->kv_cache_type)) /* regions are larger than their rows */
        room = 2 * len + 1024;
    o->max_num_seqs = (int64_t)batch;
    o->kv_cache_tokens = (int64_t)(batch * room);
    return 0;
}

static int alloc_arrays(struct speculate *b, size_t context, size_t batch)
{
    b->row = mem_zalloc(b->o->n_contexts * b->o->n_batches, sizeof(*b->row), MEM_APP);
    b->answer = mem_zalloc(batch, sizeof(*b->answer), MEM_APP);
    b->tokens = mem_zalloc(batch * b->o->decode, sizeof(*b->tokens), MEM_APP);
    b->prompt = mem_zalloc(context, sizeof(*b->prompt), MEM_APP);
    return b->row && b->answer && b->tokens && b->prompt ? 0 : err_nomem(b->e, "the benchmark");
}

/* Prepares the guesses and the rows to measure, and notes the costs and chances that a fresh engine has. */
static void open_guesses(struct speculate *b)
{
    b->loop = engine_loop(b->g);
    b->oracle = (struct oracle){
        .accept = b->o->of.accept, .seed = 1, .n_vocab = b->loop->x->caps.n_vocab, .answer = known_answer};
    oracle_init(&b->oracle, b->o->of.guesses);
    b->fresh = (struct learned){b->loop->cost, b->loop->chances};
    for (size_t i = 0; i < b->o->n_contexts; i++)
        for (size_t k = 0; k < b->o->n_batches; k++) {
            b->row[b->n_rows].context = b->o->context[i];
            b->row[b->n_rows++].batch = b->o->batch[k];
        }
}

static int measure(struct speculate *b)
{
    const struct gallop_model_info *m = engine_info(b->g)->model;
    struct print_bar bar = {.what = "measuring"};
    struct roof roof;
    int rc = roof_meter_open(&b->roofs, b->loop->x->pool, b->e);

    for (size_t i = 0; i < b->n_rows && rc == 0; i++)
        rc = measure_row(b, &b->row[i], &bar);
    print_bar_end(&bar);
    b->loop->guesser = NULL;
    if (rc == 0) {
        roof = b->row[b->n_rows - 1].roof[b->o->reps - 1];
        bench_roof_print(&roof, m->threads, m->isa, b->o->json);
        if (!b->o->json)
            print_head(b);
    }
    for (size_t i = 0; i < b->n_rows && rc == 0; i++)
        print_row(b, &b->row[i]);
    roof_meter_close(&b->roofs);
    return rc;
}

int bench_speculate(const struct bench_speculate *o, struct load *l, struct err *e)
{
    size_t context = most_of(o->context, o->n_contexts), batch = most_of(o->batch, o->n_batches);
    struct speculate *b = mem_zalloc(1, sizeof(*b), MEM_APP);
    int rc;

    if (!b)
        return err_nomem(e, "the benchmark");
    b->o = o;
    b->e = e;
    if ((rc = load_prepare(l, e)) == 0 && (rc = size_engine(b, context, batch, &l->o)) == 0 &&
        (rc = alloc_arrays(b, context, batch)) == 0)
        rc = load_engine(l, NULL, &b->g, e);
    if (rc == 0) {
        open_guesses(b);
        rc = b->loop->x->caps.guesses ? measure(b)
                                      : err_set(e, ERR_UNSUPPORTED, "the model cannot verify guessed tokens");
    }
    gallop_close(b->g);
    mem_free(b->prompt);
    mem_free(b->tokens);
    mem_free(b->answer);
    mem_free(b->row);
    mem_free(b);
    return rc;
}
