/* test_beams.c - beam search: the rules by hand, forks of rows in every cache, alone and in company, and what is
 * refused.
 */
#include <math.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/beams/beam.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engine/sampling/sample.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "gallop.h"
#include "text/tok/tok.h"
#include "ways.h"

enum { MOST_BEAMS = 8 };

/* ---- the rules alone ---- */

enum { A = 5, B = 6, END = 7 };

/* Ranks LISTS [n] of one or two tokens with their log-probabilities, marks ends, and takes the step. */
static bool rules_step(struct beam_search *b, const struct sample_top lists[][3], struct beam_text *running)
{
    struct beam_list list[BEAM_MOST];

    for (size_t i = 0; i < b->n_running; i++)
        list[i] = (struct beam_list){lists[i], 3};
    beam_rank(b, list);
    for (size_t i = 0; i < b->n_next; i++)
        b->next[i].ends = b->next[i].id == END;
    return beam_step(b, running);
}

static void an_end_behind_the_first_beams_counts(void **state)
{
    const struct beam_rules rules = {
        .width = 2, .n_ranked = 4, .limit = 9, .length_penalty = 1, .early_stopping = SAMPLING_EARLY_FALSE};
    static const struct sample_top first[][3] = {{{A, -.5f}, {B, -1.f}, {END, -2.f}}},
                                   second[][3] = {{{END, -1.f}, {A, -2.f}, {B, -3.f}},
                                                  {{A, -1.f}, {B, -1.2f}, {END, -9.f}}};
    int32_t a = A, c = B;
    float lp[2] = {-.5f, -1.f};
    struct beam_text none[2] = {{0}}, one[2] = {{&a, &lp[0], 1}, {&c, &lp[1], 1}};
    struct beam_search b;
    struct arena arena;

    arena_init(&arena, MEM_ENGINE);
    assert_int_equal(beam_init(&b, &rules, &arena), 0);
    assert_false(rules_step(&b, first, none));
    assert_int_equal(b.n_finished, 0); /* the end is the third continuation */
    assert_int_equal(b.n_running, 2);
    assert_false(rules_step(&b, second, one));
    assert_int_equal(b.n_finished, 1);
    assert_int_equal(b.finished[0].text.n, 2);
    assert_int_equal(b.finished[0].text.token[1], END);
    assert_float_equal(b.finished[0].score, -1.5 / 2, 1e-6);
    assert_int_equal(b.n_running, 2);
    assert_int_equal(b.next[0].parent, 1);
    assert_float_equal(b.sum[0], -2, 1e-6);
    assert_float_equal(b.sum[1], -2.2, 1e-6);
    arena_fini(&arena);
}

/* Runs one step of two ends with sums -1 and -3, with a running hypothesis of the sum RUNS, at length 3 of 9. */
static bool ends_search(enum sampling_early early, double penalty, float runs)
{
    const struct beam_rules rules = {
        .width = 2, .n_ranked = 4, .limit = 9, .length_penalty = penalty, .early_stopping = early};
    const struct sample_top lists[][3] = {{{END, -1.f}, {A, runs}, {B, -99.f}},
                                          {{END, -3.f}, {A, -99.f}, {B, -99.f}}};
    int32_t ids[2] = {A, B};
    float lp[2] = {0, 0};
    struct beam_text text[2] = {{ids, lp, 2}, {ids, lp, 2}};
    struct beam_search b;
    struct arena arena;
    bool ends;

    arena_init(&arena, MEM_ENGINE);
    assert_int_equal(beam_init(&b, &rules, &arena), 0);
    b.n_output = b.n_running = 2;
    ends = rules_step(&b, lists, text);
    assert_int_equal(b.n_finished, 2);
    arena_fini(&arena);
    return ends;
}

static void early_stopping_ends_a_search_too_early_or_late(void **state)
{
    /* The scores at length 3 are -1/3 and -1 with penalty 1, and -1 and -3 with penalty 0. */
    assert_true(ends_search(SAMPLING_EARLY_TRUE, 1, -3.1f));
    assert_true(ends_search(SAMPLING_EARLY_FALSE, 1, -3.1f));
    assert_false(ends_search(SAMPLING_EARLY_NEVER, 1, -3.1f)); /* -3.1 / 9 at the limit */
    assert_false(ends_search(SAMPLING_EARLY_NEVER, 1, -8.9f));
    assert_true(ends_search(SAMPLING_EARLY_NEVER, 1, -9.1f));
    assert_true(ends_search(SAMPLING_EARLY_NEVER, 0, -3.1f));
    assert_true(ends_search(SAMPLING_EARLY_NEVER, -1, -3.1f));
}

/* With penalty -1 the worst finished hypothesis has the score -4 * 1, the best running one -1.2 * 2; at the limit it
 * would have -1.2 * 9. */
static void a_negative_length_penalty_compares_at_the_limit(void **state)
{
    static const struct sample_top first[][3] = {{{A, -.5f}, {END, -4.f}, {B, -5.f}}},
                                   second[][3] = {{{END, -.5f}, {A, -.7f}, {B, -9.f}},
                                                  {{A, -9.f}, {B, -9.f}, {END, -9.f}}};
    static const enum sampling_early early[] = {SAMPLING_EARLY_TRUE, SAMPLING_EARLY_FALSE,
                                                SAMPLING_EARLY_NEVER};

    for (size_t i = 0; i < 3; i++) {
        const struct beam_rules rules = {
            .width = 2, .n_ranked = 4, .limit = 9, .length_penalty = -1, .early_stopping = early[i]};
        int32_t a = A, c = B;
        float lp[2] = {-.5f, -5.f};
        struct beam_text none[2] = {{&a, &lp[0], 0}, {&c, &lp[1], 0}},
                         one[2] = {{&a, &lp[0], 1}, {&c, &lp[1], 1}};
        struct beam_search b;
        struct arena arena;

        arena_init(&arena, MEM_ENGINE);
        assert_int_equal(beam_init(&b, &rules, &arena), 0);
        assert_false(rules_step(&b, first, none));
        assert_int_equal(b.n_finished, 1);
        assert_int_equal(rules_step(&b, second, one), early[i] == SAMPLING_EARLY_TRUE);
        assert_int_equal(b.n_finished, 2);
        assert_float_equal(b.finished[1].score, -4, 1e-6);
        arena_fini(&arena);
    }
}

/* ---- alone and in company ---- */

/* Requests: the answers of a search follow its first one. */
static const struct asked {
    int64_t n, beams, n_new; /* n -1: an answer of the request before; beams 0: no search */
    size_t n_ids;
    double repetition;
    const char *stop;
    enum gallop_early early;
} asked[] = {{.n = 1, .n_new = 40, .n_ids = 30},
             {.n = 4, .beams = 4, .n_new = 30, .n_ids = 40},
             {.n = -1},
             {.n = -1},
             {.n = -1},
             {.n = 2, .beams = 5, .n_new = 25, .n_ids = 17, .repetition = 1.3, .early = GALLOP_EARLY_NEVER},
             {.n = -1},
             {.n = 3, .beams = 3, .n_new = 60, .n_ids = 33, .stop = "e ", .early = GALLOP_EARLY_TRUE},
             {.n = -1},
             {.n = -1},
             {.n = 1, .beams = 8, .n_new = 20, .n_ids = 1},
             {.n = 1, .beams = 1, .n_new = 20, .n_ids = 64},
             {.n = 1, .n_new = 10, .n_ids = 100}};
enum { N = sizeof(asked) / sizeof(asked[0]) };

static void submit_asked(struct gallop *g, size_t which)
{
    const struct asked *a = &asked[which];
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    int32_t ids[128];

    if (a->n < 0)
        return;
    engines_text(which, 0, a->n_ids, ids);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = a->n_ids;
    r.n = a->n;
    r.user = (void *)which;
    r.sampling.max_new_tokens = a->n_new;
    r.sampling.ignore_eos = 1;
    if (a->beams) {
        r.sampling.use_beam_search = 1;
        r.sampling.num_beams = a->beams;
        r.sampling.early_stopping = (int)a->early;
        r.sampling.repetition_penalty = a->repetition > 0 ? a->repetition : NAN;
        r.sampling.stop = &a->stop;
        r.sampling.n_stop = a->stop != NULL;
    }
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("request %zu: %s", which, err);
}

/* The results of a search are in order of their scores, and differ. */
static void check_order(const struct engines_answer *a)
{
    for (size_t i = 1; i < N; i++)
        if (asked[i].n < 0) {
            assert_true(a[i].end.has_score && a[i].end.score <= a[i - 1].end.score);
            assert_true(a[i].n != a[i - 1].n ||
                        memcmp(a[i].token, a[i - 1].token, a[i].n * sizeof(int32_t)) != 0);
        }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(a[i].end.has_score, asked[i].n < 0 || asked[i].beams > 0);
    assert_int_equal(a[7].end.finish, GALLOP_FINISH_STOP);
    assert_string_equal(a[7].end.stop_string ? "e " : "", "e ");
}

static struct engines_answer alone[N];

static void answers_are_the_same_alone_and_in_company(void **state)
{
    /* the smallest pool that holds eight blocks of each size */
    assert_true(ways_alone_and_in_company(alone, N, 2048, submit_asked, check_order).n_cached > 0);
    assert_int_equal(alone[0].n, 40);
}

/* Submits a search of text WHICH with three long results, which begin at answer 3 * WHICH. */
static void submit_long(struct gallop *g, size_t which)
{
    struct gallop_request r;
    int32_t ids[20];

    engines_text(which, 0, 20, ids);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 20;
    r.n = 3;
    r.user = (void *)(3 * which);
    r.sampling.max_new_tokens = 90;
    r.sampling.ignore_eos = 1;
    r.sampling.use_beam_search = 1;
    r.sampling.repetition_penalty = 1.2;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
}

/* The rows of all lanes of a preempted search are computed again. */
static void a_preempted_search_gets_other_results(void **state)
{
    static const struct {
        const char *type, *index;
        int64_t budget;
    } pools[] = {{NULL, NULL, 0},         {"paged", "none", 320},
                 {"paged", "radix", 320}, {"slab_pool", "hash", 320},
                 {"dynamic", NULL, 600},  {"bmc", NULL, 600}};
    static struct engines_answer got[9], want[9];
    char says[256];

    test_of_one_thread();
    for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
        struct gallop_options o = engines_options(i ? 8 : 3, i ? 16 : 0, 256);
        struct gallop *g;

        o.kv_cache_type = pools[i].type;
        o.prefix_index = pools[i].index;
        o.kv_cache_tokens = pools[i].budget;
        g = engines_open("demo", &o);
        memset(got, 0, sizeof(got));
        for (size_t q = 0; q < 3; q++)
            submit_long(g, q);
        engines_run(g, got);
        if (i == 0)
            memcpy(want, got, sizeof(want));
        if (engines_differ(got, want, 9, says))
            fail_msg("%s %s: %s", pools[i].type, pools[i].index ? pools[i].index : "", says);
        print_message("%s: %d preemptions\n", pools[i].type ? pools[i].type : "alone",
                      (int)engines_stats(g).n_preempted);
        assert_true(i == 0 || engines_stats(g).n_preempted > 0);
        engines_check_cache(g);
        gallop_close(g);
    }
    for (size_t q = 0; q < 9; q++)
        assert_true(want[q].n == 90 && want[q].end.has_score);
}

/* The largest search that fits, which comes to its end beside another request, and one token more. */
static void beams_that_can_never_fit_are_refused(void **state)
{
    static const struct {
        const char *type;
        int64_t longest; /* three beams behind 40 tokens: 32 rows shared, or none */
    } pools[] = {{"paged", 57}, {"slab_pool", 57}, {"dynamic", 41}, {"bmc", 41}};
    static struct engines_answer got[4];

    for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
        struct gallop_options o = engines_options(4, 64, 192);
        char err[GALLOP_ERR_SIZE];
        struct gallop_request r;
        struct gallop *g;
        int32_t ids[40];

        o.kv_cache_type = pools[i].type;
        o.kv_cache_tokens = 240;
        g = engines_open("demo", &o);
        gallop_request_init(&r);
        engines_text(1, 0, 40, ids);
        r.ids = ids;
        r.n_ids = 40;
        r.n = 3;
        r.sampling.use_beam_search = 1;
        r.sampling.ignore_eos = 1;
        r.sampling.max_new_tokens = pools[i].longest + 1;
        assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_BAD_INPUT);
        if (!strstr(err, "rows of the KV cache, which has 240"))
            fail_msg("%s: %s", pools[i].type, err);
        r.sampling.max_new_tokens = pools[i].longest;
        memset(got, 0, sizeof(got));
        assert_int_equal(gallop_submit(g, &r, NULL, err), 0);
        engines_submit_text(g, 30, 90, 3);
        engines_run(g, got);
        for (size_t k = 0; k < 4; k++)
            if (got[k].n != (k < 3 ? (size_t)pools[i].longest : 90) ||
                got[k].end.finish != GALLOP_FINISH_LENGTH)
                fail_msg("%s: answer %zu ends behind %zu tokens", pools[i].type, k, got[k].n);
        engines_check_cache(g);
        gallop_close(g);
    }
}

/* The lanes of a search share the blocks of its prompt, so that four of them need not wait for a pool that could hold
 * four such prompts. */
static void a_search_waits_for_rows_that_it_shares(void **state)
{
    static struct engines_answer got[N];
    struct gallop_options o = engines_options(8, 0, 256);
    struct gallop *g;
    struct gallop_request r;
    int32_t ids[128];
    size_t most = 0;

    o.kv_cache_type = "paged";
    o.kv_cache_tokens = 400;
    g = engines_open("demo", &o);
    memset(got, 0, sizeof(got));
    submit_asked(g, 0);
    gallop_request_init(&r);
    engines_text(9, 0, 128, ids);
    r.ids = ids;
    r.n_ids = 128;
    r.n = 4;
    r.user = (void *)1;
    r.sampling.use_beam_search = 1;
    r.sampling.max_new_tokens = 9;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    while (gallop_step(g, 0)) {
        struct gallop_event ev;

        most = engines_stats(g).n_running > most ? engines_stats(g).n_running : most;
        while (gallop_take(g, &ev))
            engines_take(got, &ev);
    }
    assert_int_equal(most, 2);
    assert_true(got[4].ended && got[4].end.has_score);
    gallop_close(g);
}

/* The sum of a result is that of the log-probabilities of its tokens in a prompt. */
static void the_score_is_not_that_of_the_output(void **state)
{
    static struct engines_answer got[N];
    struct gallop_options o = engines_options(8, 0, 256);
    struct gallop *g = engines_open("demo", &o);
    struct gallop_request r;
    struct gallop_event ev;
    char err[GALLOP_ERR_SIZE];
    double sum = 0;
    int32_t ids[128];
    size_t at = 1;

    memset(got, 0, sizeof(got));
    submit_asked(g, 1);
    engines_run(g, got);
    gallop_request_init(&r);
    engines_text(1, 0, 40, ids);
    memcpy(ids + 40, got[1].token, got[1].n * sizeof(int32_t));
    r.ids = ids;
    r.n_ids = 40 + got[1].n;
    r.prompt_logprobs = 0;
    r.sampling.max_new_tokens = 0;
    assert_int_equal(gallop_submit(g, &r, NULL, err), 0);
    while (gallop_next(g, &ev))
        if (ev.type == GALLOP_PROMPT_TOKEN)
            sum += at++ >= 40 ? (double)ev.logprob : 0;
    assert_int_equal(at, r.n_ids);
    assert_float_equal(got[1].end.cumulative_logprob, sum, 1e-3);
    assert_float_equal(got[1].end.score, sum / (double)got[1].n, 1e-4);
    gallop_close(g);
}

/* Searches 16 tokens behind N_IDS tokens with four beams, which GOT has then. */
static void search_16(struct gallop *g, size_t n_ids, struct engines_answer *got)
{
    int32_t ids[140];
    struct gallop_request r;

    engines_text(3, 0, n_ids, ids);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n_ids;
    r.n = 4;
    r.sampling.max_new_tokens = 16;
    r.sampling.ignore_eos = 1;
    r.sampling.use_beam_search = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    engines_run(g, got);
}

/* RoPE factors of phi3-longrope change after 128 tokens, so all lanes are computed again. */
static void a_search_across_the_border_of_longrope_differs_in_company(void **state)
{
    static struct engines_answer got[2][MOST_BEAMS];

    for (int k = 0; k < 2; k++) {
        struct gallop_options o = engines_options(4, k ? 16 : 0, 256);
        struct gallop *g;

        o.kv_cache_type = k ? "dynamic" : "paged";
        g = engines_open("phi3-longrope", &o);
        search_16(g, 120, got[k]);
        gallop_close(g);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(got[0][i].n, 16);
        assert_memory_equal(got[0][i].token, got[1][i].token, 16 * sizeof(int32_t));
    }
}

/* Beyond that border the factors stay, so that forks use the rows that they share. */
static void a_search_behind_the_border_of_longrope_computes_no_row_again(void **state)
{
    static struct engines_answer got[MOST_BEAMS];
    struct gallop_options o = engines_options(4, 0, 256);
    struct gallop *g;

    o.prefix_index = "none"; /* it would give rows that are lost back */
    g = engines_open("phi3-longrope", &o);
    search_16(g, 140, got);
    assert_int_equal(got[3].n, 16);
    assert_int_equal(engine_loop(g)->n_recomputed, 0);
    gallop_close(g);
}

/* ---- ends ---- */

/* [n_favoured] Searches write these tokens only; 0: all. */
static int32_t favoured[4];
static size_t n_favoured;

/* Submits a search of text TEXT with BEAMS beams and N results for 12 tokens. */
static void submit_ends(struct gallop *g, size_t text, int64_t beams, int64_t n, const int32_t *ends,
                        size_t n_ends, int ignore_eos, const char *const *stop)
{
    static const float much[] = {90, 90, 90, 90};
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    int32_t ids[24];

    for (int i = 0; i < 24; i++) /* words, since the model has learned nothing of bytes */
        ids[i] = 300 + (61 * (int)text + i * i * 5 + i * 37) % 1500;
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 24;
    r.n = n;
    r.sampling.use_beam_search = 1;
    r.sampling.num_beams = beams;
    r.sampling.max_new_tokens = 12;
    r.sampling.ignore_eos = ignore_eos;
    r.sampling.stop_token = ends;
    r.sampling.n_stop_token = n_ends;
    r.sampling.stop = stop;
    r.sampling.n_stop = stop != NULL;
    r.sampling.bias_id = favoured;
    r.sampling.bias = much;
    r.sampling.n_bias = n_favoured;
    r.sampling.frequency_penalty = n_favoured ? 2 : 0; /* they alternate */
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

/* Runs steps until the search has its first tokens. Returns its state. */
static const struct beam_search *first_tokens(struct gallop *g)
{
    do
        assert_true(gallop_step(g, 0));
    while (engine_loop(g)->running[0]->beams->search.n_output == 0);
    return &engine_loop(g)->running[0]->beams->search;
}

/* The best first tokens all end the output. As many continuations are ranked as are needed for every beam to go on, and
 * an end token that is given twice counts once. */
static void beams_are_lost_behind_several_end_tokens(void **state)
{
    static struct engines_answer got[4];
    static const struct {
        size_t n_ends; /* of the best first tokens */
        bool eos;      /* and the model's own end token is given */
        int ignore_eos;
        size_t ranked; /* for each beam */
    } cases[] = {{0, false, 1, 2}, {0, false, 0, 2}, {0, true, 0, 2},  {1, false, 1, 2}, {1, false, 0, 3},
                 {1, true, 0, 3},  {1, true, 1, 3},  {4, false, 1, 5}, {4, true, 0, 6}};
    struct gallop_options o = engines_options(8, 64, 64);
    struct gallop *g = engines_open("demo", &o);
    int32_t top[6], best[4], ends[5], eos = tok_eos(engine_llm(g)->tok);

    submit_ends(g, 9, 6, 1, NULL, 0, 1, NULL); /* the first tokens in order of their probabilities */
    first_tokens(g);
    for (size_t i = 0, n = 0; i < 6; i++) {
        top[i] = engine_loop(g)->running[0]->beams->running[i]->token[24];
        if (top[i] != eos && n < 4)
            best[n++] = top[i];
    }
    gallop_cancel(g, 0);
    engines_run(g, got);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const struct beam_search *b;
        size_t n = 0, n_finished;

        memset(got, 0, sizeof(got));
        for (; n < cases[c].n_ends; n++)
            ends[n] = best[n];
        if (cases[c].eos)
            ends[n++] = eos;
        submit_ends(g, 9, 4, 1, ends, n, cases[c].ignore_eos, NULL);
        b = first_tokens(g);
        assert_int_equal(b->rules.n_ranked, 4 * cases[c].ranked);
        assert_int_equal(b->n_running, 4);
        n_finished = 0;
        for (size_t i = 0; i < 4; i++) {
            bool ends_it = top[i] == eos && (cases[c].eos || !cases[c].ignore_eos);

            for (size_t k = 0; k < cases[c].n_ends; k++)
                ends_it |= top[i] == best[k];
            if (!ends_it)
                continue;
            assert_true(n_finished < b->n_finished && b->finished[n_finished].text.n == 1);
            assert_int_equal(b->finished[n_finished++].text.token[0], top[i]);
        }
        assert_int_equal(b->n_finished, n_finished);
        gallop_cancel(g, 0);
        engines_run(g, got);
    }
    gallop_close(g);
}

/* Returns the text of IDS [n], free(). */
static char *text_of(const struct gallop *g, const int32_t *ids, size_t n)
{
    char *text = NULL;
    size_t len;

    assert_int_equal(gallop_detokenize(g, ids, n, 0, &text, &len, NULL), 0);
    return text;
}

enum { BEAMS = 6 };

/* Searches with the stop string STOP: a result has it in its last tokens, or not at all. Returns the number of results
 * that it ended. */
static size_t search_with_stop(struct gallop *g, size_t text, const char *stop)
{
    static struct engines_answer got[BEAMS];
    size_t n_stopped = 0;

    memset(got, 0, sizeof(got));
    submit_ends(g, text, BEAMS, BEAMS, NULL, 0, 1, &stop);
    engines_run(g, got);
    for (size_t i = 0; i < BEAMS; i++) {
        char *all = text_of(g, got[i].token, got[i].n), *less = text_of(g, got[i].token, got[i].n - 1);
        const char *at = strstr(all, stop);

        if (strstr(less, stop) || !at != (got[i].end.finish != GALLOP_FINISH_STOP))
            fail_msg("result %zu, stop string \"%s\": \"%s\" ends with %d", i, stop, all,
                     (int)got[i].end.finish);
        if (at) /* the text ends before the stop string */
            assert_int_equal(strlen(got[i].text), at - all);
        n_stopped += at != NULL;
        gallop_free(all);
        gallop_free(less);
    }
    return n_stopped;
}

/* Returns whether another of the N answers ALL begins with the first D tokens of answer K, and no more of them. */
static bool is_fork(const struct engines_answer *all, size_t n, size_t k, size_t d)
{
    for (size_t i = 0; i < n; i++)
        if (i != k && d < all[i].n && memcmp(all[i].token, all[k].token, d * sizeof(int32_t)) == 0 &&
            all[i].token[d] != all[k].token[d])
            return true;
    return false;
}

/* A stop string that begins inside of the token before a fork, and ends in the token behind it, is found in each
 * hypothesis that has it, though its beginning belongs to the lane from which the hypothesis was forked. */
static void a_forked_beam_forgets_the_beginning_of_a_stop_string(void **state)
{
    static struct engines_answer plain[BEAMS];
    struct gallop_options o = engines_options(BEAMS, 64, 64);
    struct gallop *g = engines_open("demo", &o);
    size_t n_stopped = 0;

    for (size_t text = 0; text < 4; text++) {
        memset(plain, 0, sizeof(plain));
        submit_ends(g, text, BEAMS, BEAMS, NULL, 0, 1, NULL);
        engines_run(g, plain);
        for (size_t k = 0; k < BEAMS; k++)
            for (size_t d = 1; d + 2 < plain[k].n; d++) {
                char *before, *upto;

                if (!is_fork(plain, BEAMS, k, d))
                    continue;
                before = text_of(g, plain[k].token, d - 1);
                upto = text_of(g, plain[k].token, d + 2);
                if (strlen(upto) > strlen(before) + 2)
                    n_stopped += search_with_stop(g, text, upto + strlen(before) + 1);
                gallop_free(before);
                gallop_free(upto);
            }
    }
    print_message("%zu results were stopped\n", n_stopped);
    assert_true(n_stopped > 20);
    gallop_close(g);
}

/* A character of two tokens is one in each hypothesis that has it, though its first byte belongs to the lane from which
 * the hypothesis was forked: a stop string after that fork ends it. */
static void a_forked_beam_forgets_the_first_byte_of_a_character(void **state)
{
    static const char *const stops[] = {"\u00e9", "\u00e8", "\u00e9a", "a\u00e8"};
    struct gallop_options o = engines_options(BEAMS, 64, 64);
    struct gallop *g = engines_open("demo", &o);
    size_t n_stopped = 0, n = 0;
    int32_t *ids = NULL;

    assert_int_equal(gallop_tokenize(g,
                                     "\xc3\xa9\xc3\xa8"
                                     "a",
                                     5, GALLOP_PLAIN_TEXT, &ids, &n, NULL),
                     0);
    assert_true(n >= 5 && ids[n - 5] == ids[n - 3]); /* the first byte of both */
    for (size_t i = 0; i < 4; i++)
        favoured[i] = ids[n - 4 + i];
    n_favoured = 4;
    gallop_free(ids);
    for (size_t text = 0; text < 8; text++)
        for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
            n_stopped += search_with_stop(g, text, stops[i]);
    n_favoured = 0;
    print_message("%zu results were stopped\n", n_stopped);
    assert_true(n_stopped > 20);
    gallop_close(g);
}

/* ---- faults ---- */

static int (*fork_rows)(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p);
static struct executor changed;
static size_t n_forks, n_failed;

/* Fails with every second fork. */
static int failing_fork(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p)
{
    if (n_forks++ % 2) {
        n_failed++;
        return n_failed % 2 ? ERR_NOMEM : ERR_NOSPACE;
    }
    return fork_rows(ctx, from, n, to, p);
}

static void a_failed_fork_changes_the_answer(void **state)
{
    static struct engines_answer got[2][N];

    for (int k = 0; k < 2; k++) {
        struct gallop_options o = engines_options(8, 16, 256);
        struct gallop *g;

        o.kv_cache_type = "dynamic"; /* which has no prefix cache */
        g = engines_open("demo", &o);
        changed = *engine_loop(g)->x;
        fork_rows = changed.fork;
        changed.fork = k ? failing_fork : fork_rows;
        engine_loop(g)->x = &changed;
        submit_asked(g, 1);
        submit_asked(g, 5);
        engines_run(g, got[k]);
        gallop_close(g);
    }
    assert_true(n_failed > 3);
    for (size_t i = 1; i < 7; i++) {
        assert_int_equal(got[1][i].n, got[0][i].n);
        assert_memory_equal(got[1][i].token, got[0][i].token, got[0][i].n * sizeof(int32_t));
    }
}

static void a_cancelled_search_leaves_rows_or_events(void **state)
{
    static struct engines_answer got[N];
    struct gallop_options o = engines_options(8, 16, 256);
    struct gallop *g = engines_open("demo", &o);

    for (size_t steps = 0; steps < 12; steps++) { /* while it waits, in the prompt, and in the search */
        memset(got, 0, sizeof(got));
        submit_asked(g, 1);
        for (size_t i = 0; i < steps; i++) {
            struct gallop_event ev;

            gallop_step(g, 0);
            assert_false(gallop_take(g, &ev)); /* events come at the end */
        }
        gallop_cancel(g, 0);
        engines_run(g, got);
        for (size_t i = 1; i < 5; i++) {
            assert_true(got[i].ended && got[i].n == 0 && !got[i].end.has_score);
            assert_int_equal(got[i].end.finish, GALLOP_FINISH_CANCELLED);
        }
        assert_int_equal(engine_loop(g)->n_free, 8);
        engines_check_cache(g);
    }
    submit_asked(g, 1);
    gallop_close(g); /* with a search that waits */
}

/* Submits a search of text 1 with WIDTH beams, whose rest CHANGE sets, and returns the code. */
static int try(struct gallop *g, int64_t width, void (*change)(struct gallop_request *r), char *err)
{
    struct gallop_request r;
    int32_t ids[8];

    engines_text(1, 0, 8, ids);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 8;
    r.n = width;
    r.sampling.use_beam_search = 1;
    r.sampling.max_new_tokens = 4;
    r.sampling.ignore_eos = 1;
    if (change)
        change(&r);
    return gallop_submit(g, &r, NULL, err);
}

static void draw(struct gallop_request *r)
{
    r->sampling.do_sample = 1;
}
static void heat(struct gallop_request *r)
{
    r->sampling.temperature = .7;
}
static void cut_k(struct gallop_request *r)
{
    r->sampling.top_k = 5;
}
static void cut_p(struct gallop_request *r)
{
    r->sampling.top_p = .5;
}
static void cut_min(struct gallop_request *r)
{
    r->sampling.min_p = .5;
}
static void constrain(struct gallop_request *r)
{
    r->structured_outputs.regex = "[a-z]+";
}
static void call(struct gallop_request *r)
{
    r->structured_outputs.tool_calls = "{}";
}
static void report(struct gallop_request *r)
{
    r->sampling.logprobs = 1;
}
static void limit(struct gallop_request *r)
{
    r->sampling.thinking_token_budget = 3;
}
static void widen(struct gallop_request *r)
{
    r->sampling.num_beams = 33;
}
static void narrow(struct gallop_request *r)
{
    r->sampling.num_beams = 2;
}
static void no_beams(struct gallop_request *r)
{
    r->sampling.num_beams = 0;
}
static void other_early(struct gallop_request *r)
{
    r->sampling.early_stopping = 3;
}
static void other_penalty(struct gallop_request *r)
{
    r->sampling.length_penalty = INFINITY;
}
static void pool(struct gallop_request *r)
{
    r->pooling = GALLOP_POOL_LAST;
    r->n = 1;
    r->sampling.max_new_tokens = 0;
}
static void warm(struct gallop_request *r)
{
    r->sampling.temperature = 1;
}
static void warm_and_draw(struct gallop_request *r)
{
    r->sampling.temperature = 1;
    r->sampling.do_sample = 1;
}
static void warm_and_cut(struct gallop_request *r)
{
    r->sampling.temperature = 1;
    r->sampling.top_p = .5;
}
static void cold(struct gallop_request *r)
{
    r->sampling.temperature = 0;
    r->sampling.logprobs = 0;
}

static void an_unsupported_search_is_not_refused_by_name(void **state)
{
    static const struct {
        int64_t width;
        void (*change)(struct gallop_request *r);
        const char *says;
    } bad[] = {{4, draw, "do_sample: "},
               {4, heat, "temperature: "},
               {4, warm_and_draw, "do_sample: "},
               {4, warm_and_cut, "top_p: "},
               {4, cut_k, "top_k: "},
               {4, cut_p, "top_p: "},
               {4, cut_min, "min_p: "},
               {4, constrain, "structured_outputs: "},
               {4, call, "structured_outputs: "},
               {4, report, "logprobs: "},
               {4, limit, "thinking_token_budget: "},
               {1, widen, "num_beams: found 33, expected"},
               {4, narrow, "n: found 4, expected at most 2"},
               {1, no_beams, "num_beams: found 0"},
               {33, NULL, "n: found 33, expected at most 32"},
               {1, pool, "pooling: "},
               {4, other_early, "early_stopping: "},
               {4, other_penalty, "length_penalty: "}};
    static struct engines_answer got[BEAM_MOST];
    struct gallop_options o = engines_options(32, 0, 64);
    struct gallop *g = engines_open("demo", &o);
    char err[GALLOP_ERR_SIZE];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (try(g, bad[i].width, bad[i].change, err) == 0)
            fail_msg("not refused: %s", bad[i].says);
        if (strncmp(err, bad[i].says, strlen(bad[i].says)) != 0)
            fail_msg("%s, expected %s", err, bad[i].says);
    }
    assert_int_equal(try(g, 1, cold, err), 0);
    engines_run(g, got);
    memset(got, 0, sizeof(got));
    assert_int_equal(try(g, 32, cold, err), 0);
    engines_run(g, got);
    for (size_t i = 0; i < 32; i++)
        assert_true(got[i].ended && got[i].n == 4 && got[i].end.has_score);
    gallop_close(g);
    o = engines_options(4, 0, 64);
    g = engines_open("demo", &o);
    assert_int_not_equal(try(g, 5, NULL, err), 0);
    assert_string_equal(
        err, "n: found 5 beams, expected at most max_num_seqs, 4, because all beams are computed together");
    gallop_close(g);
}

static void a_search_at_temperature_1_is_refused_or_another_one(void **state)
{
    static struct engines_answer got[3][4];
    struct gallop_options o = engines_options(4, 0, 64);
    struct gallop *g = engines_open("demo", &o);
    char says[256], err[GALLOP_ERR_SIZE];

    for (int k = 0; k < 3; k++) {
        if (try(g, 4, k == 0 ? NULL : k == 1 ? warm : cold, err) != 0)
            fail_msg("%s", err);
        engines_run(g, got[k]);
        if (engines_differ(got[k], got[0], 4, says))
            fail_msg("%s", says);
        for (int i = 0; i < 4; i++)
            assert_true(got[k][i].end.score == got[0][i].end.score);
    }
    gallop_close(g);
}

/* One request at a time has slots for all of its beams. */
static void a_search_is_refused_or_not_alone_with_the_iterative_scheduler(void **state)
{
    static struct engines_answer got[2][6];
    char says[256];

    for (int iterative = 0; iterative < 2; iterative++) {
        struct gallop_options o = engines_options(6, 16, 64);
        struct gallop *g;
        size_t most = 0;

        o.scheduler = iterative ? "iterative" : NULL;
        g = engines_open("demo", &o);
        engines_submit_text(g, 20, 12, 4);
        assert_int_equal(try(g, 4, NULL, NULL), 0); /* answers 0 to 3 */
        engines_submit_text(g, 20, 12, 5);
        while (gallop_step(g, 0)) {
            struct gallop_event ev;

            most = engines_stats(g).n_running > most ? engines_stats(g).n_running : most;
            while (gallop_take(g, &ev))
                engines_take(got[iterative], &ev);
        }
        assert_int_equal(most, iterative ? 1 : 3);
        assert_int_equal(engine_loop(g)->n_free, 6);
        gallop_close(g);
    }
    if (engines_differ(got[1], got[0], 6, says))
        fail_msg("%s", says);
}

static void generate_nothing(struct gallop_request *r)
{
    r->sampling.max_new_tokens = 0;
}

static void a_search_for_no_tokens_does_not_end(void **state)
{
    static struct engines_answer got[MOST_BEAMS];
    struct gallop_options o = engines_options(8, 0, 64);
    struct gallop *g = engines_open("demo", &o);

    assert_int_equal(try(g, 3, generate_nothing, NULL), 0);
    engines_run(g, got);
    for (size_t i = 0; i < 3; i++)
        assert_true(got[i].ended && got[i].n == 0 && got[i].end.finish == GALLOP_FINISH_LENGTH);
    gallop_close(g);
}

/* ---- memory ---- */

static void ask_three(struct gallop_request *r)
{
    static const char *const stop[] = {"never"};

    r->sampling.repetition_penalty = 1.2;
    r->sampling.stop = stop;
    r->sampling.n_stop = 1;
}

static void a_search_survives_any_failing_allocation(void **state)
{
    static struct engines_answer want[MOST_BEAMS], got[MOST_BEAMS];
    struct gallop_options o = engines_options(4, 0, 64);
    size_t failures = 0;

    test_of_one_thread();
    for (int k = 0; k < 2; k++) {
        struct gallop *g;
        char err[GALLOP_ERR_SIZE];

        o.kv_cache_type = k ? "paged" : "dynamic";
        g = engines_open("demo", &o);
        memset(want, 0, sizeof(want));
        assert_int_equal(try(g, 3, ask_three, err), 0);
        engines_run(g, want);
        for (long n = 1;; n++) {
            bool failed;
            int rc;

            memset(got, 0, sizeof(got));
            mem_fail_at(n);
            rc = try(g, 3, ask_three, err);
            if (rc == 0)
                engines_run(g, got);
            failed = mem_failed();
            mem_fail_at(0);
            failures += failed;
            if (rc == 0 && got[0].end.finish != GALLOP_FINISH_ERROR)
                for (size_t i = 0; i < 3; i++) {
                    assert_int_equal(got[i].n, want[i].n);
                    assert_memory_equal(got[i].token, want[i].token, want[i].n * sizeof(int32_t));
                }
            assert_int_equal(engine_loop(g)->n_free, 4);
            engines_check_cache(g);
            if (!failed)
                break;
        }
        gallop_close(g);
    }
    assert_true(failures > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_behind_the_first_beams_counts),
        cmocka_unit_test(early_stopping_ends_a_search_too_early_or_late),
        cmocka_unit_test(a_negative_length_penalty_compares_at_the_limit),
        cmocka_unit_test(answers_are_the_same_alone_and_in_company),
        cmocka_unit_test(a_preempted_search_gets_other_results),
        cmocka_unit_test(beams_that_can_never_fit_are_refused),
        cmocka_unit_test(a_search_waits_for_rows_that_it_shares),
        cmocka_unit_test(the_score_is_not_that_of_the_output),
        cmocka_unit_test(a_search_across_the_border_of_longrope_differs_in_company),
        cmocka_unit_test(a_search_behind_the_border_of_longrope_computes_no_row_again),
        cmocka_unit_test(beams_are_lost_behind_several_end_tokens),
        cmocka_unit_test(a_forked_beam_forgets_the_beginning_of_a_stop_string),
        cmocka_unit_test(a_forked_beam_forgets_the_first_byte_of_a_character),
        cmocka_unit_test(a_failed_fork_changes_the_answer),
        cmocka_unit_test(a_cancelled_search_leaves_rows_or_events),
        cmocka_unit_test(an_unsupported_search_is_not_refused_by_name),
        cmocka_unit_test(a_search_at_temperature_1_is_refused_or_another_one),
        cmocka_unit_test(a_search_is_refused_or_not_alone_with_the_iterative_scheduler),
        cmocka_unit_test(a_search_for_no_tokens_does_not_end),
        cmocka_unit_test(a_search_survives_any_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
