/* test_company.c - requests get the same tokens alone and together, for every cache type, cache size, number
 * of tokens of a step, number of threads and number of running requests; also where windows drop rows, where
 * RoPE factors change with the length, and where requests are preempted. test_grid.c compares bits of logits,
 * step by step.
 *
 * It also runs under ThreadSanitizer.
 */
#include "base/err.h"
#include "base/log.h"
#include "engine/engine_priv.h"
#include "engine/guess/oracle.h"
#include "engine/llm.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "gallop.h"
#include "pairs.h"
#include "ways.h"

enum { N_REQUESTS = 7, LONGEST = 320 };

/* The lengths of the prompts and of the answers differ, so that rows leave the batch at different times. */
static const size_t lengths[N_REQUESTS] = {1, 3, 17, 64, 65, 130, 300},
                    n_new[N_REQUESTS] = {70, 70, 70, 90, 6, 7, 8};

static const struct setup {
    const char *model, *dtype, *rows, *sparse, *quant;
} setups[] = {
    {"llama3-rope", "fp32", NULL, NULL, NULL},
    {"llama-yarn", "bf16", NULL, NULL, NULL},
    {"llama3-rope", "bf16", "int8", NULL, NULL},
    {"llama3-rope", "bf16", "int4", NULL, NULL},
    {"phi3-longrope", "fp32", NULL, NULL, NULL}, /* This model has other RoPE factors after 128 tokens. */
    {"llama-dynamic", "fp32", NULL, NULL, NULL},
    {"gemma3", "bf16", NULL, NULL, NULL}, /* These models have windows that drop rows. */
    {"gemma3", "fp32", "int8", NULL, NULL},
    {"gemma3", "fp32", "int4", NULL, NULL},
    {"gpt-oss", "bf16", NULL, NULL, NULL},
    {"gemma4", "bf16", "int8", NULL, NULL}, /* The layers of this model share rows. */
    {"llama3-rope", "bf16", "int8", "sink=4,window=48", NULL},
    {"gemma3", "bf16", NULL, "sink=4,window=48", NULL},
    {"gpt-oss", "fp32", "int8", "sink=4,window=48", NULL},
    {"gemma4", "bf16", "int4", "sink=4,window=48", NULL},
    {"llama4", "fp32", "bf16", "sink=4,window=48", NULL},
    {"phi3-longrope", "bf16", "fp32", "sink=4,window=48", NULL},
    {"llama3-rope", "bf16", NULL, NULL, "int8"},
    {"gemma3", "fp32", "int8", NULL, "int8"},
    {"gpt-oss", "bf16", NULL, NULL, "int8"}, /* These experts have a limit between their linears. */
    {"llama4", "bf16", NULL, NULL, "int8"},  /* These experts have no limit. */
    {"gemma3", "bf16", NULL, NULL, "int4"},
    {"gpt-oss", "bf16", "int8", NULL, "{\"mlp\":\"int4-g128\",\"out_projection\":\"mxfp4\"}"},
    {GALLOP_SOURCE_DIR "/test/data/blocks.gguf", "bf16", NULL, NULL, NULL},
};

/* Most cases have one thread, because waking other threads costs most of the time. */
static const int thread_counts[] = {1, 1, 1, 1, 1, 1, 2, 3, 4};
static const int64_t step_tokens[] = {0, 9, 33, 48},
                     budgets[] = {0, 336} /* The second pool is so small that requests are preempted. */,
                     seqs[] = {8, 4};

/* Speculative decoding: chance in percent that a guess is right, or -1 for no guesses; and the number of guesses. */
static const struct {
    int accept;
    size_t most;
} guesses[] = {{-1, 0}, {70, 4}, {0, 4}, {95, 12}, {100, 1}};

enum { SETUP, WAY, BUDGET, STEP, THREADS, SEQS, GUESSES, N_DIMENSIONS };
#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { THIN = 7 };
#else
enum { THIN = 1 };
#endif

static struct gallop *open_setup(const struct setup *s, const struct way *w, int64_t budget, int64_t step,
                                 int threads, int64_t n_seqs)
{
    struct gallop_options o = engines_options(n_seqs, step, LONGEST);

    o.dtype = s->dtype;
    o.quant = s->quant;
    o.kv_cache_dtype = s->rows;
    o.kv_sparse = s->sparse;
    o.kv_cache_tokens = budget;
    o.threads = threads;
    ways_set(&o, w);
    return engines_open(s->model, &o);
}

/* The right answers, for the guesses. */
static const int32_t *right_answer(void *ctx, const struct seq *s, size_t *n)
{
    const struct engines_answer *a = (const struct engines_answer *)ctx + (size_t)(uintptr_t)s->user;

    *n = a->n;
    return a->token;
}

/* Makes G guess tokens of the answers WANT as in guesses[which]. */
static void guess(struct gallop *g, struct engines_answer *want, size_t which, struct oracle *o)
{
    *o = (struct oracle){.accept = guesses[which].accept / 100.0,
                         .seed = which,
                         .n_vocab = engine_llm(g)->model.info.vocab,
                         .answer = right_answer,
                         .ctx = want};
    oracle_init(o, guesses[which].most);
    engine_loop(g)->guesser = guesses[which].accept < 0 ? NULL : &o->guesser;
}

static void run_requests(struct gallop *g, bool together, struct engines_answer a[N_REQUESTS])
{
    struct gallop_event ev;

    memset(a, 0, N_REQUESTS * sizeof(*a));
    for (size_t q = 0; q < N_REQUESTS; q++) {
        engines_submit_text(g, lengths[q], (int64_t)n_new[q], q);
        while ((!together || q + 1 == N_REQUESTS) && gallop_next(g, &ev)) {
            engines_take(a, &ev);
            if (ev.type == GALLOP_FINISHED)
                engines_check_cache(g);
        }
    }
}

static void a_request_gets_other_tokens_in_some_company(void **state)
{
    static struct engines_answer want[N_REQUESTS], got[N_REQUESTS];
    const size_t size[] = {COUNT(setups),        n_ways,      COUNT(budgets), COUNT(step_tokens),
                           COUNT(thread_counts), COUNT(seqs), COUNT(guesses)};
    size_t n, preempted = 0, accepted = 0, rejected = 0, last = SIZE_MAX;
    struct oracle oracle;
    struct pairs_row *row = pairs_cover(size, N_DIMENSIONS, 0, &n);

    for (size_t i = 0; i < n; i += THIN) {
        const size_t *at = row[i].at;
        const struct setup *s = &setups[at[SETUP]];
        struct gallop *g;
        char says[256];

        if (last != at[SETUP]) {
            g = open_setup(s, &ways[0], 0, 0, 1, 1);
            run_requests(g, false, want);
            for (size_t q = 0; q < N_REQUESTS; q++)
                assert_true(want[q].n == n_new[q] && want[q].end.finish == GALLOP_FINISH_LENGTH);
            gallop_close(g);
            last = at[SETUP];
        }
        g = open_setup(s, &ways[at[WAY]], budgets[at[BUDGET]], step_tokens[at[STEP]],
                       thread_counts[at[THREADS]], seqs[at[SEQS]]);
        guess(g, want, at[GUESSES], &oracle);
        run_requests(g, true, got);
        if (engines_differ(got, want, N_REQUESTS, says))
            fail_msg(
                "%s %s, linears %s, rows %s, %s, in %s, %d rows, steps of %d, %d threads, %d %% right guesses: %s",
                s->model, s->dtype, s->quant ? s->quant : "alike", s->rows ? s->rows : "auto",
                s->sparse ? s->sparse : "whole", ways_name(&ways[at[WAY]]), (int)budgets[at[BUDGET]],
                (int)step_tokens[at[STEP]], thread_counts[at[THREADS]], guesses[at[GUESSES]].accept, says);
        preempted += engines_stats(g).n_preempted;
        accepted += engine_loop(g)->guess_counts.n_accepted;
        rejected += engine_loop(g)->guess_counts.n_guessed - engine_loop(g)->guess_counts.n_accepted;
        gallop_close(g);
    }
    print_message("%zu combinations, %zu times a request was preempted, %zu right and %zu wrong guesses\n", n,
                  preempted, accepted, rejected);
    assert_true((preempted > 5 || THIN > 1) && accepted > 100 && rejected > 100);
    free(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_gets_other_tokens_in_some_company),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
