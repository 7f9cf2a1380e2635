/* test_many.c - one engine for many clients: answers that share a prompt, scored prompts, limited queues,
 * deadlines, policies, and submissions from other threads. Each answer is compared with that of the request
 * alone. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/step.h"
#include "engines.h"
#include "gallop.h"

enum { LONGEST = 96, ANSWERS = 8 };

struct answer {
    size_t n, n_scored, n_cached;
    int32_t token[LONGEST];
    float logprob[LONGEST], scored[LONGEST];
    int32_t best[LONGEST]; /* the most likely token at each scored token */
    bool ended;
    enum gallop_finish finish;
    size_t when; /* the position of its end among all ends */
};

/* The answer to one request. */
struct result {
    struct answer of[ANSWERS];
    size_t n_ended;
};

static size_t n_ends;

static struct gallop_options small(int64_t seqs, int64_t rows)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.dtype = "fp32";
    o.max_num_seqs = seqs;
    o.max_batched_tokens = rows;
    o.max_model_len = 128;
    o.block_size = 16;
    return o;
}

static int32_t prompts[64][LONGEST];

static const int32_t *prompt(size_t which)
{
    return prompts[which % 64];
}

static int write_prompts(void **state)
{
    for (size_t which = 0; which < 64; which++)
        engines_text(which, 0, LONGEST, prompts[which]);
    return 0;
}

static struct gallop_request request(size_t which, size_t n, int64_t n_new, struct result *out)
{
    struct gallop_request r;

    gallop_request_init(&r);
    r.ids = prompt(which);
    r.n_ids = n;
    r.sampling.max_new_tokens = n_new;
    r.sampling.ignore_eos = 1;
    r.sampling.do_sample = 1;
    r.sampling.temperature = 1;
    r.sampling.has_seed = 1;
    r.sampling.seed = 100 + which;
    r.sampling.logprobs = 0;
    r.user = out;
    return r;
}

static uint64_t submit(struct gallop *g, const struct gallop_request *r)
{
    char err[GALLOP_ERR_SIZE];
    uint64_t id;

    if (gallop_submit(g, r, &id, err) != 0)
        fail_msg("%s", err);
    return id;
}

static void note(const struct gallop_event *ev)
{
    struct result *r = ev->user;
    struct answer *a = &r->of[ev->choice];

    assert_false(a->ended);
    switch (ev->type) {
    case GALLOP_TOKEN:
        a->logprob[a->n] = ev->logprob;
        a->token[a->n++] = ev->token;
        break;
    case GALLOP_PROMPT_TOKEN:
        a->best[a->n_scored] = ev->n_top ? ev->top[0].id : -1;
        a->scored[a->n_scored++] = ev->logprob;
        break;
    case GALLOP_FINISHED:
        a->ended = true;
        a->finish = ev->finish;
        a->n_cached = ev->n_cached;
        a->when = n_ends++;
        r->n_ended++;
        assert_int_equal(ev->n_output, a->n);
        break;
    case GALLOP_TEXT:
    case GALLOP_EMBEDDING: break;
    }
}

static void run_all(struct gallop *g)
{
    struct gallop_event ev;

    while (gallop_next(g, &ev))
        note(&ev);
}

static void assert_same(const struct answer *found, const struct answer *expected)
{
    assert_int_equal(found->n, expected->n);
    assert_int_equal(found->finish, expected->finish);
    for (size_t i = 0; i < expected->n; i++) {
        if (found->token[i] != expected->token[i] ||
            memcmp(&found->logprob[i], &expected->logprob[i], 4) != 0)
            fail_msg("token %zu is %d (%.9g), alone it is %d (%.9g)", i, found->token[i],
                     (double)found->logprob[i], expected->token[i], (double)expected->logprob[i]);
    }
}

/* ---- answers ---- */

static void answers_that_share_a_prompt_are_those_of_requests_alone(void **state)
{
    static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"}, *const models[] = {
                                                                                     "llama3-rope", "gemma3"};

    for (size_t t = 0; t < 8; t++) {
        struct gallop_options o = small(ANSWERS + 1, 16);
        static struct result alone[ANSWERS], all, other;
        struct gallop_request r;
        struct gallop *g;

        memset(alone, 0, sizeof(alone));
        memset(&all, 0, sizeof(all));
        memset(&other, 0, sizeof(other));
        o.kv_cache_type = types[t % 4];
        g = engines_open(models[t / 4], &o);
        for (size_t i = 0; i < ANSWERS; i++) {
            r = request(5, 45, 20, &alone[i]);
            r.sampling.seed += i;
            submit(g, &r);
            run_all(g);
        }
        r = request(5, 45, 20, &all);
        r.n = ANSWERS;
        submit(g, &r);
        r = request(6, 30, 40, &other);
        submit(g, &r);
        run_all(g);
        assert_int_equal(all.n_ended, ANSWERS);
        assert_int_equal(other.n_ended, 1);
        for (size_t i = 0; i < ANSWERS; i++)
            assert_same(&all.of[i], &alone[i].of[0]);
        gallop_close(g);
    }
}

/* A prompt of 45 rows has 8 answers: all rows of the prompt but the last are computed once. */
static void a_shared_prompt_is_computed_once(void **state)
{
    struct gallop_options o = small(ANSWERS, 64);
    static struct result all;
    struct gallop_request r;
    struct gallop_stats s;
    struct gallop *g;

    memset(&all, 0, sizeof(all));
    o.kv_cache_type = "paged";
    g = engines_open("llama3-rope", &o);
    r = request(5, 45, 2, &all);
    r.n = ANSWERS;
    submit(g, &r);
    run_all(g);
    gallop_stats(g, &s);
    assert_int_equal(s.n_prompt_tokens, 45 + ANSWERS - 1);
    assert_int_equal(s.n_cached_tokens, 44 * (ANSWERS - 1));
    for (size_t i = 1; i < ANSWERS; i++)
        assert_int_equal(all.of[i].n_cached, 44);
    gallop_close(g);
}

static void more_answers_than_slots_come_one_after_another(void **state)
{
    struct gallop_options o = small(2, 64);
    static struct result alone, all;
    struct gallop_request r;
    struct gallop *g;

    memset(&alone, 0, sizeof(alone));
    memset(&all, 0, sizeof(all));
    g = engines_open("llama3-rope", &o);
    r = request(5, 20, 10, &all);
    r.n = ANSWERS;
    submit(g, &r);
    run_all(g);
    assert_int_equal(all.n_ended, ANSWERS);
    r = request(5, 20, 10, &alone);
    r.sampling.seed += ANSWERS - 1;
    submit(g, &r);
    run_all(g);
    assert_same(&all.of[ANSWERS - 1], &alone.of[0]);
    gallop_close(g);
}

static void a_cancel_ends_all_answers_at_any_moment(void **state)
{
    struct gallop_options o = small(3, 8);
    struct gallop *g = engines_open("llama3-rope", &o);

    for (int steps = 0; steps < 14; steps++) {
        static struct result all;
        struct gallop_request r = request(5, 20, 10, &all);
        struct gallop_event ev;
        uint64_t id;

        memset(&all, 0, sizeof(all));
        r.n = ANSWERS;
        id = submit(g, &r);
        for (int i = 0; i < steps; i++) {
            gallop_step(g, 0);
            while (gallop_take(g, &ev))
                note(&ev);
        }
        assert_int_equal(gallop_cancel(g, id), 0);
        assert_int_equal(gallop_step(g, 0), 1);
        while (gallop_take(g, &ev))
            note(&ev);
        assert_int_equal(all.n_ended, ANSWERS);
        assert_int_equal(gallop_step(g, 0), 0);
    }
    gallop_close(g);
}

static void engines_close_over_answers_in_any_state(void **state)
{
    for (int steps = 0; steps < 8; steps++) {
        struct gallop_options o = small(3, 8);
        struct gallop *g = engines_open("llama3-rope", &o);
        static struct result all;
        struct gallop_request r = request(5, 20, 2, &all);
        struct gallop_event ev;

        r.n = ANSWERS;
        submit(g, &r);
        for (int i = 0; i < steps; i++) {
            gallop_step(g, 0);
            while (i + 1 < steps && gallop_take(g, &ev))
                ;
        }
        gallop_close(g);
    }
}

static void the_number_of_answers_has_limits(void **state)
{
    struct gallop_options o = small(2, 64);
    struct gallop *g = engines_open("llama3-rope", &o);
    static struct result all;
    struct gallop_request r = request(5, 20, 1, &all);
    char err[GALLOP_ERR_SIZE];

    r.n = 129;
    assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_BAD_INPUT);
    assert_non_null(strstr(err, "n: found 129, expected 1 to 128"));
    r.n = -1;
    assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_BAD_INPUT);
    gallop_close(g);
}

/* ---- scored prompts ---- */

/* The log-probabilities of a prompt are those that decoding it token by token gives. */
static void a_prompt_is_scored_as_if_it_had_been_generated(void **state)
{
    static const int64_t rows[] = {64, 7, 1};
    static struct result one, many, other;
    struct gallop_options o = small(4, 64);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct gallop_request r;

    memset(&one, 0, sizeof(one));
    for (size_t i = 1; i < 40; i++) { /* Each prefix alone gives the log-probability of its next token. */
        struct gallop_event ev;
        float found = NAN;

        r = request(9, i, 1, &one);
        r.sampling.do_sample = 0;
        r.sampling.logprobs = 1024;
        submit(g, &r);
        while (gallop_next(g, &ev)) {
            if (ev.type != GALLOP_TOKEN)
                continue;
            one.of[0].best[i - 1] = ev.top[0].id;
            for (size_t k = 0; k < ev.n_top; k++)
                found = ev.top[k].id == prompt(9)[i] ? ev.top[k].logprob : found;
        }
        one.of[0].scored[i - 1] = found;
    }
    gallop_close(g);
    for (size_t c = 0; c < sizeof(rows) / sizeof(rows[0]); c++)
        for (int n_new = 0; n_new < 2; n_new++) {
            memset(&many, 0, sizeof(many));
            memset(&other, 0, sizeof(other));
            o = small(rows[c] < 4 ? 1 : 4, rows[c]);
            g = engines_open("llama3-rope", &o);
            r = request(3, 30, 20, &other);
            submit(g, &r);
            r = request(9, 40, n_new, &many);
            r.prompt_logprobs = 1;
            submit(g, &r);
            run_all(g);
            assert_int_equal(many.of[0].n_scored, 39);
            assert_int_equal(many.of[0].n, n_new);
            assert_memory_equal(many.of[0].scored, one.of[0].scored, 39 * sizeof(float));
            assert_memory_equal(many.of[0].best, one.of[0].best, 39 * sizeof(int32_t));
            gallop_close(g);
        }
}

static void a_prompt_of_one_token_has_nothing_to_score(void **state)
{
    static struct result one;
    struct gallop_options o = small(4, 64);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct gallop_request r = request(9, 1, 3, &one);
    char err[GALLOP_ERR_SIZE];

    memset(&one, 0, sizeof(one));
    r.prompt_logprobs = 0;
    submit(g, &r);
    run_all(g);
    assert_int_equal(one.of[0].n_scored, 0);
    assert_int_equal(one.of[0].n, 3);
    r.prompt_logprobs = 1025;
    assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_BAD_INPUT);
    assert_non_null(strstr(err, "prompt_logprobs: found 1025"));
    gallop_close(g);
}

/* ---- the queue ---- */

static void a_full_queue_refuses_and_takes_again_when_requests_begin(void **state)
{
    struct gallop_options o = small(1, 64);
    static struct result r[4];
    struct gallop_event ev;
    struct gallop_request q;
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    memset(r, 0, sizeof(r));
    o.max_num_queued_reqs = 2;
    g = engines_open("llama3-rope", &o);
    for (size_t i = 0; i < 2; i++) {
        q = request(i, 10, 4, &r[i]);
        submit(g, &q);
    }
    q = request(2, 10, 4, &r[2]);
    assert_int_equal(gallop_submit(g, &q, NULL, err), GALLOP_NO_SPACE);
    assert_non_null(strstr(err, "the queue is full: 2 requests are waiting"));
    gallop_step(g, 0); /* The first request begins. */
    while (gallop_take(g, &ev))
        note(&ev);
    submit(g, &q);
    q = request(3, 10, 4, &r[3]);
    assert_int_equal(gallop_submit(g, &q, NULL, err), GALLOP_NO_SPACE);
    /* Requests that never ran return their room in the queue as well. */
    assert_int_equal(gallop_cancel(g, 0), 0);
    run_all(g);
    submit(g, &q);
    submit(g, &q);
    assert_int_equal(gallop_submit(g, &q, NULL, err), GALLOP_NO_SPACE);
    gallop_close(g);
}

static void prompts_that_wait_are_counted_by_tokens_but_one_may_always_wait(void **state)
{
    struct gallop_options o = small(1, 64);
    static struct result r[4];
    struct gallop_request q;
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    memset(r, 0, sizeof(r));
    o.max_num_queued_tokens = 50;
    g = engines_open("llama3-rope", &o);
    q = request(0, 40, 4, &r[0]);
    submit(g, &q);
    q = request(1, 11, 4, &r[1]);
    assert_int_equal(gallop_submit(g, &q, NULL, err), GALLOP_NO_SPACE);
    assert_non_null(strstr(err, "prompts of 40 tokens are waiting, 11 more"));
    q = request(1, 10, 4, &r[1]);
    submit(g, &q);
    run_all(g);
    q = request(2, 80, 4, &r[2]);
    submit(g, &q);
    q = request(3, 1, 4, &r[3]);
    assert_int_equal(gallop_submit(g, &q, NULL, err), GALLOP_NO_SPACE);
    run_all(g);
    assert_int_equal(r[2].of[0].finish, GALLOP_FINISH_LENGTH);
    gallop_close(g);
}

static double now_s;

static double clock_that_stands(void *ctx)
{
    (void)ctx;
    return now_s;
}

static void a_deadline_ends_who_waits_and_who_runs(void **state)
{
    struct gallop_options o = small(1, 64);
    static struct result r[3];
    struct gallop_request q;
    struct gallop *g = engines_open("llama3-rope", &o);
    struct gallop_event ev;

    memset(r, 0, sizeof(r));
    ((struct executor *)(uintptr_t)engine_loop(g)->x)->clock_s = clock_that_stands;
    now_s = 1;
    q = request(0, 10, 80, &r[0]);
    q.deadline_s = .02;
    q.n = 3;
    submit(g, &q);
    q = request(1, 10, 3, &r[1]);
    q.deadline_s = 1e-9;
    submit(g, &q);
    q = request(2, 10, 3, &r[2]);
    q.deadline_s = 1e9;
    submit(g, &q);
    gallop_step(g, 0);
    while (gallop_take(g, &ev))
        note(&ev);
    now_s += .03;
    run_all(g);
    assert_int_equal(r[0].of[0].finish, GALLOP_FINISH_DEADLINE);
    assert_in_range(r[0].of[0].n, 1, 79);
    for (int i = 1; i < 3; i++) { /* They wait for the first request, and have its deadline. */
        assert_int_equal(r[0].of[i].finish, GALLOP_FINISH_DEADLINE);
        assert_int_equal(r[0].of[i].n, 0);
    }
    assert_int_equal(r[1].of[0].finish, GALLOP_FINISH_DEADLINE);
    assert_int_equal(r[1].of[0].n, 0);
    assert_int_equal(r[2].of[0].finish, GALLOP_FINISH_LENGTH);
    gallop_close(g);
}

struct submitter {
    struct gallop *g;
    struct result *r;
    size_t first, n;
};

static void a_deadline_counts_from_submission(void **state)
{
    struct gallop_options o = small(1, 64);
    static struct result r[1];
    struct gallop_request q = request(0, 10, 80, &r[0]);
    struct gallop *g = engines_open("llama3-rope", &o);

    memset(r, 0, sizeof(r));
    q.deadline_s = .01;
    submit(g, &q);
    for (double until = clock_seconds() + .02; clock_seconds() < until;) /* No thread runs a step. */
        ;
    run_all(g);
    assert_int_equal(r[0].of[0].finish, GALLOP_FINISH_DEADLINE);
    assert_int_equal(r[0].of[0].n, 0);
    gallop_close(g);
}

static void *submit_some(void *arg)
{
    struct submitter *s = arg;

    for (size_t i = s->first; i < s->first + s->n; i++) {
        struct gallop_request q = request(i, 5 + i % 20, 6, &s->r[i]);

        submit(s->g, &q);
    }
    return NULL;
}

static void *submit_late(void *arg)
{
    for (double until = clock_seconds() + .02; clock_seconds() < until;)
        ;
    return submit_some(arg);
}

static void a_step_waits_for_a_submission_as_long_as_it_is_told(void **state)
{
    struct gallop_options o = small(2, 64);
    static struct result r[1];
    struct gallop *g = engines_open("llama3-rope", &o);
    struct submitter s = {g, r, 0, 1};
    double start = clock_seconds();
    pthread_t t;

    memset(r, 0, sizeof(r));
    assert_int_equal(gallop_step(g, .03), 0);
    assert_true(clock_seconds() - start >= .029);
    assert_int_equal(pthread_create(&t, NULL, submit_late, &s), 0);
    assert_int_equal(gallop_step(g, 30), 1);
    assert_true(clock_seconds() - start < 20);
    assert_int_equal(pthread_join(t, NULL), 0);
    run_all(g);
    assert_int_equal(r[0].n_ended, 1);
    gallop_close(g);
}

static void requests_of_many_threads_arrive_whole_and_get_their_own(void **state)
{
    enum { THREADS = 4, EACH = 50 };
    static struct result together[THREADS * EACH], alone;
    struct gallop_options o = small(8, 64);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct submitter s[THREADS];
    pthread_t t[THREADS];
    size_t ended = 0;

    memset(together, 0, sizeof(together));
    for (size_t i = 0; i < THREADS; i++) {
        s[i] = (struct submitter){g, together, i * EACH, EACH};
        assert_int_equal(pthread_create(&t[i], NULL, submit_some, &s[i]), 0);
    }
    while (ended < THREADS * EACH) {
        struct gallop_event ev;

        gallop_step(g, .01);
        while (gallop_take(g, &ev)) {
            note(&ev);
            ended += ev.type == GALLOP_FINISHED;
        }
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    for (size_t i = 0; i < THREADS * EACH; i += 7) {
        struct gallop_request q = request(i, 5 + i % 20, 6, &alone);

        memset(&alone, 0, sizeof(alone));
        submit(g, &q);
        run_all(g);
        assert_same(&together[i].of[0], &alone.of[0]);
    }
    gallop_close(g);
}

/* ---- policies ---- */

static void priorities_and_keys_decide_who_is_next(void **state)
{
    static const char *const policies[] = {"fcfs", "priority", "fair"};
    /* the ends of six requests of key a, then of one of key b with a smaller priority */
    static const size_t last_ends[] = {6, 1, 2};

    for (size_t p = 0; p < 3; p++) {
        struct gallop_options o = small(1, 64);
        static struct result r[7];
        struct gallop *g;

        memset(r, 0, sizeof(r));
        n_ends = 0;
        o.scheduling_policy = policies[p];
        g = engines_open("llama3-rope", &o);
        for (size_t i = 0; i < 7; i++) {
            struct gallop_request q = request(i, 60, 60, &r[i]);
            struct gallop_event ev;

            q.key = i < 6 ? "a" : "b";
            q.priority = i < 6 ? 1 : p == 1 ? -1000 : 1;
            submit(g, &q);
            if (i == 0) { /* It is running when the others are submitted. */
                gallop_step(g, 0);
                while (gallop_take(g, &ev))
                    note(&ev);
            }
        }
        run_all(g);
        assert_in_range(r[6].of[0].when, p == 0 ? 6 : 1, p == 2 ? 5 : last_ends[p]);
        gallop_close(g);
    }
}

/* There are 16 blocks, and four requests that end with 8 blocks each. */
static void worst_case_admission_never_computes_twice(void **state)
{
    static const char *const admissions[] = {"optimistic", "worst-case"};

    for (size_t a = 0; a < 2; a++) {
        struct gallop_options o = small(4, 64);
        static struct result r[4];
        struct gallop_stats s;
        struct gallop *g;

        memset(r, 0, sizeof(r));
        o.kv_cache_tokens = 256;
        o.admission = admissions[a];
        g = engines_open("llama3-rope", &o);
        for (size_t i = 0; i < 4; i++) {
            struct gallop_request q = request(i, 32, 95, &r[i]);

            submit(g, &q);
        }
        run_all(g);
        gallop_stats(g, &s);
        assert_int_equal(s.n_preempted != 0, a == 0);
        assert_int_equal(s.n_finished, 4);
        gallop_close(g);
    }
}

/* What a running request holds of the budget, in rows: blocks of 16, or the capacity of its region. */
static void the_use_of_the_cache_is_a_part_of_its_budget(void **state)
{
    static const struct {
        const char *type;
        size_t rows;
    } held[] = {{"slab_pool", 32}, {"paged", 32}, {"dynamic", 64}, {"bmc", 32}};

    for (size_t t = 0; t < sizeof(held) / sizeof(held[0]); t++) {
        struct gallop_options o = small(4, 64);
        static struct result r;
        struct gallop_request q;
        struct gallop_stats s;
        struct gallop *g;

        memset(&r, 0, sizeof(r));
        o.kv_cache_type = held[t].type;
        o.kv_cache_tokens = 512;
        g = engines_open("llama3-rope", &o);
        gallop_stats(g, &s);
        assert_int_equal(s.kv_used_bytes, 0);
        q = request(0, 20, 2, &r);
        submit(g, &q);
        assert_true(gallop_step(g, 0));
        gallop_stats(g, &s);
        assert_int_equal(s.kv_used_bytes * 512, held[t].rows * s.kv_budget_bytes);
        run_all(g);
        gallop_stats(g, &s);
        assert_int_equal(s.kv_used_bytes, 0);
        gallop_close(g);
    }
}

static void schedulers_differ_in_when_and_never_in_what(void **state)
{
    static const char *const schedulers[] = {"continuous_batch", "continuous_prefill_first", "iterative"};
    static struct result r[3][6];

    memset(r, 0, sizeof(r));
    for (size_t k = 0; k < 3; k++) {
        struct gallop_options o = small(4, 16);
        struct gallop_stats s;
        struct gallop *g;
        size_t most = 0;

        o.scheduler = schedulers[k];
        g = engines_open("llama3-rope", &o);
        for (size_t i = 0; i < 6; i++) {
            struct gallop_request q = request(i, 20 + 3 * i, 12, &r[k][i]);

            submit(g, &q);
        }
        while (gallop_step(g, 0)) {
            struct gallop_event ev;

            gallop_stats(g, &s);
            most = s.n_running > most ? s.n_running : most;
            while (gallop_take(g, &ev))
                note(&ev);
        }
        assert_int_equal(most, k == 2 ? 1 : 4);
        for (size_t i = 0; i < 6; i++)
            assert_same(&r[k][i].of[0], &r[0][i].of[0]);
        gallop_close(g);
    }
}

static void wrong_names_and_numbers_are_refused_at_open(void **state)
{
    static const struct {
        struct gallop_options o;
        const char *sentence;
    } wrong[] = {
        {{.scheduling_policy = "lifo"},
         "scheduling_policy: found 'lifo', expected one of fcfs|priority|fair"},
        {{.scheduler = "greedy"}, "scheduler: found 'greedy', expected "},
        {{.admission = "none"}, "admission: found 'none', expected one of optimistic|worst-case"},
        {{.max_num_queued_reqs = -1}, "max_num_queued_reqs"},
        {{.max_num_queued_tokens = -1}, "max_num_queued_tokens"},
        {{.tpot_target_ms = -1}, "tpot_target_ms"},
        {{.tpot_target_ms = (double)NAN}, "tpot_target_ms"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct gallop_options o = wrong[i].o;
        char err[GALLOP_ERR_SIZE] = "";
        struct gallop *g;

        assert_int_equal(engines_try(&g, "llama3-rope", &o, err), GALLOP_BAD_INPUT);
        if (!strstr(err, wrong[i].sentence))
            fail_msg("\"%s\" is expected in: %s", wrong[i].sentence, err);
    }
}

/* ---- a long queue ---- */

static double best_step(struct gallop *g, size_t n_steps)
{
    double best = 1;

    for (size_t i = 0; i < n_steps; i++) {
        struct gallop_event ev;
        double start = clock_seconds();

        gallop_step(g, 0);
        start = clock_seconds() - start;
        best = start < best ? start : best;
        while (gallop_take(g, &ev))
            ;
    }
    return best;
}

static void a_hundred_thousand_that_wait_do_not_slow_a_step(void **state)
{
    enum { MANY = 100000 };
    struct gallop_options o = small(1, 64);
    static struct result r;
    struct gallop_request q = request(0, 10, 100, &r), next = request(1, 1, 1, &r);
    double few, many;
    struct gallop_stats s;
    struct gallop *g;

    o.threads = 1; /* A single measurement may have lost its processor. */
    g = engines_open("llama3-rope", &o);
    submit(g, &q);
    few = best_step(g, 30);
    for (size_t i = 0; i < MANY; i++)
        submit(g, &next);
    best_step(g, 1); /* They are taken over. */
    many = best_step(g, 30);
    gallop_stats(g, &s);
    assert_int_equal(s.n_waiting, MANY);
    print_message("a step: %.0f us, with %d waiting %.0f us\n", few * 1e6, MANY, many * 1e6);
    /* Walking over them would cost 100000 cache misses, which take 500 us and more. A sanitizer multiplies
     * both times. */
    assert_true(many < 3 * few + 300e-6);
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_that_share_a_prompt_are_those_of_requests_alone),
        cmocka_unit_test(a_shared_prompt_is_computed_once),
        cmocka_unit_test(more_answers_than_slots_come_one_after_another),
        cmocka_unit_test(a_cancel_ends_all_answers_at_any_moment),
        cmocka_unit_test(engines_close_over_answers_in_any_state),
        cmocka_unit_test(the_number_of_answers_has_limits),
        cmocka_unit_test(a_prompt_is_scored_as_if_it_had_been_generated),
        cmocka_unit_test(a_prompt_of_one_token_has_nothing_to_score),
        cmocka_unit_test(a_full_queue_refuses_and_takes_again_when_requests_begin),
        cmocka_unit_test(prompts_that_wait_are_counted_by_tokens_but_one_may_always_wait),
        cmocka_unit_test(a_deadline_ends_who_waits_and_who_runs),
        cmocka_unit_test(a_deadline_counts_from_submission),
        cmocka_unit_test(a_step_waits_for_a_submission_as_long_as_it_is_told),
        cmocka_unit_test(requests_of_many_threads_arrive_whole_and_get_their_own),
        cmocka_unit_test(priorities_and_keys_decide_who_is_next),
        cmocka_unit_test(worst_case_admission_never_computes_twice),
        cmocka_unit_test(the_use_of_the_cache_is_a_part_of_its_budget),
        cmocka_unit_test(schedulers_differ_in_when_and_never_in_what),
        cmocka_unit_test(wrong_names_and_numbers_are_refused_at_open),
        cmocka_unit_test(a_hundred_thousand_that_wait_do_not_slow_a_step),
    };

    return cmocka_run_group_tests(tests, write_prompts, NULL);
}
