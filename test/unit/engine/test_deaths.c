/* test_deaths.c - an executor that fails in any of its runs: every kind of request gets the events that it gets without
 * the fault. While it is down, requests come and go; one that cannot be opened again ends those that wait. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "dying.h"
#include "engine/llm.h"
#include "engine/schedule/outage.h"
#include "engine/step.h"
#include "engines.h"
#include "gallop.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { THIN = 5 };
#else
enum { THIN = 1 };
#endif
enum { KINDS = 16, ANSWERS = 3, RECORDS = KINDS * ANSWERS, MOST_BYTES = 1 << 14, PROMPT = 30 };

/* What the events of an answer said, but for its times and counts of the cache. Answer C to request I has the index
 * C * KINDS + I. */
struct record {
    size_t n;
    char bytes[MOST_BYTES];
    bool ended;
    enum gallop_finish finish;
    char error[GALLOP_ERR_SIZE];
    size_t n_output;
};

static struct record without[RECORDS], with[RECORDS];

static void put(struct record *r, const void *what, size_t n)
{
    if (n == 0)
        return;
    assert_true(r->n + n <= MOST_BYTES);
    memcpy(r->bytes + r->n, what, n);
    r->n += n;
}

static void note(struct record all[RECORDS], const struct gallop_event *ev, size_t n_vocab)
{
    struct record *r = &all[(size_t)ev->user + ev->choice * KINDS];

    assert_false(r->ended);
    put(r, &ev->type, sizeof(ev->type));
    switch (ev->type) {
    case GALLOP_TOKEN:
    case GALLOP_PROMPT_TOKEN:
        put(r, &ev->token, sizeof(ev->token));
        put(r, &ev->logprob, sizeof(ev->logprob));
        put(r, ev->top, ev->n_top * sizeof(*ev->top));
        if (ev->logits)
            put(r, ev->logits, (n_vocab < 20 ? n_vocab : 20) * sizeof(*ev->logits));
        break;
    case GALLOP_TEXT: put(r, ev->text, ev->text_len); break;
    case GALLOP_EMBEDDING: put(r, ev->embedding, ev->n_embedding * sizeof(*ev->embedding)); break;
    case GALLOP_FINISHED:
        put(r, &ev->finish, sizeof(ev->finish));
        put(r, &ev->n_output, sizeof(ev->n_output));
        put(r, &ev->score, sizeof(ev->score));
        r->ended = true;
        r->finish = ev->finish;
        r->n_output = ev->n_output;
        if (ev->error)
            snprintf(r->error, sizeof(r->error), "%s", ev->error);
    }
}

/* Fills R with a request of kind I, whose prompt is IDS. */
static void make(size_t i, struct gallop_request *r, int32_t ids[PROMPT + KINDS])
{
    static const char *const stop[] = {"the", "and"};

    gallop_request_init(r);
    engines_text(20 + i, 0, PROMPT + i, ids);
    r->ids = ids;
    r->n_ids = PROMPT + i;
    r->user = (void *)i;
    r->sampling.max_new_tokens = (int64_t)(6 + i % 5);
    r->sampling.ignore_eos = 1;
    r->sampling.do_sample = i % 2 == 1;
    r->sampling.temperature = 1.1;
    r->sampling.has_seed = 1;
    r->sampling.seed = i;
    switch (i) {
    case 2: r->sampling.repetition_penalty = 1.3; break;
    case 3: r->sampling.frequency_penalty = .7; break;
    case 4:
        r->sampling.use_beam_search = 1;
        r->n = 3;
        break;
    case 5:
        r->sampling.logprobs = 4;
        r->n = 3;
        break;
    case 6: r->prompt_logprobs = 2; break;
    case 7: r->structured_outputs.regex = "[a-f]{3,}( [0-9]+)*"; break;
    case 8: r->structured_outputs.json = "{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}"; break;
    case 9:
        r->pooling = GALLOP_POOL_MEAN;
        r->sampling.max_new_tokens = 0;
        break;
    case 10:
        r->pooling = GALLOP_POOL_LAST;
        r->sampling.max_new_tokens = 0;
        break;
    case 11:
        r->sampling.stop = stop;
        r->sampling.n_stop = 2;
        break;
    case 12: r->return_logits = 1; break;
    case 13:
        r->reasoning_open = "<think>";
        r->reasoning_close = "</think>";
        r->reasoning_begun = 1;
        r->sampling.thinking_token_budget = 3;
        break;
    case 14: r->sampling.max_new_tokens = 0; break;
    case 15: r->sampling.dry_multiplier = 2; break;
    default:;
    }
}

static uint64_t submit(struct gallop *g, size_t i)
{
    int32_t ids[PROMPT + KINDS];
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    uint64_t id;

    make(i, &r, ids);
    if (gallop_submit(g, &r, &id, err) != 0)
        fail_msg("request %zu: %s", i, err);
    return id;
}

static void finish(struct gallop *g, struct record all[RECORDS])
{
    struct gallop_event ev;

    while (gallop_next(g, &ev))
        note(all, &ev, engine_llm(g)->model.info.vocab);
}

/* An executor that gives hidden states fails in run() only. */
static bool is_embedding(size_t i)
{
    return i == 9 || i == 10;
}

static void run_all(struct gallop *g, struct record all[RECORDS])
{
    memset(all, 0, RECORDS * sizeof(*all));
    for (size_t i = 0; i < KINDS; i++)
        if (!engine_loop(g)->x->failure || !is_embedding(i))
            submit(g, i);
    finish(g, all);
}

static void expect_equal(const char *what, uint64_t run)
{
    for (size_t i = 0; i < RECORDS; i++) {
        assert_true((without[i].ended || i >= KINDS || is_embedding(i)) &&
                    without[i].finish != GALLOP_FINISH_ERROR);
        if (with[i].error[0])
            fail_msg("%s, run %llu failed: request %zu: %s", what, (unsigned long long)run, i, with[i].error);
        if (with[i].n != without[i].n || memcmp(with[i].bytes, without[i].bytes, with[i].n) != 0)
            fail_msg("%s, run %llu failed: request %zu has other events (%zu and %zu bytes)", what,
                     (unsigned long long)run, i, with[i].n, without[i].n);
    }
}

static struct gallop *open_dying(struct dying *d, const char *guesses)
{
    struct gallop_options o = engines_options(24, 64, 256);
    struct gallop *g;

    o.prefix_index = "none"; /* nothing of a dead executor is found again */
    o.speculative_config = guesses;
    g = engines_open("demo", &o);
    dying_drive(d, g);
    return g;
}

/* Each run fails once, then every twelfth. */
static void compare_all(const char *what, const char *guesses)
{
    struct dying d;
    struct gallop *g = open_dying(&d, guesses);
    uint64_t n_runs, n_deaths = 0;

    run_all(g, without);
    n_runs = d.n_runs;
    assert_true(n_runs > 10);
    for (uint64_t n = 1; n <= n_runs; n += THIN) {
        d.n_laters = n % 3;
        d.n_opened = 0;
        d.at = d.n_runs + n;
        run_all(g, with);
        assert_int_equal(d.n_opened, d.n_runs >= d.at); /* with guesses, a round may have fewer runs */
        n_deaths += d.n_opened;
        expect_equal(what, n);
    }
    assert_true(n_deaths > n_runs / 3 / THIN);
    d.at = 0;
    d.every = 12;
    run_all(g, with);
    expect_equal(what, d.every);
    assert_true(d.n_opened > 0);
    engines_check_cache(g);
    gallop_close(g);
}

static void logits_that_are_lost_are_computed_again(void **state)
{
    struct dying d;
    struct gallop *g = open_dying(&d, "{\"method\":\"suffix\",\"num_speculative_tokens\":4}");
    uint64_t n_runs;

    dying_in_logits(&d);
    run_all(g, without);
    n_runs = d.n_runs;
    for (uint64_t n = 1; n <= n_runs; n += 2 * THIN) {
        d.at = d.n_runs + n;
        run_all(g, with);
        expect_equal("logits", n);
    }
    assert_true(d.n_opened > n_runs / 5 / THIN);
    gallop_close(g);
}

static void every_kind_of_request_survives_every_run(void **state)
{
    compare_all("no guesses", NULL);
}

static void guesses_survive_every_run(void **state)
{
    compare_all("suffix", "{\"method\":\"suffix\",\"num_speculative_tokens\":4}");
    compare_all("self", "{\"method\":\"self\",\"num_speculative_tokens\":3}");
}

static void a_request_that_kills_the_executor_ends_and_the_others_go_on(void **state)
{
    struct dying d;
    struct gallop *g = open_dying(&d, NULL);

    run_all(g, without);
    d.poison = PROMPT + 3;
    run_all(g, with);
    assert_int_equal(with[3].finish, GALLOP_FINISH_ERROR);
    assert_non_null(strstr(with[3].error, "the executor failed in each run of this request: run "));
    assert_int_equal(d.n_opened, OUTAGE_RUNS);
    for (size_t i = 0; i < KINDS; i++)
        assert_true(i == 3 || with[i].finish != GALLOP_FINISH_ERROR ||
                    strstr(with[i].error, "in each run of this request"));
    gallop_close(g);
}

/* Requests that are cancelled, are overdue or arrive while the executor is down. */
static void an_engine_serves_while_its_executor_is_down(void **state)
{
    struct dying d;
    struct gallop *g = open_dying(&d, NULL);
    struct gallop_request r;
    struct gallop_event ev;
    int32_t ids[PROMPT + KINDS];
    uint64_t id[4];

    run_all(g, without);
    memset(with, 0, sizeof(with));
    d.at = d.n_runs + 2;
    d.n_laters = 200;
    id[0] = submit(g, 0);
    id[1] = submit(g, 1);
    make(2, &r, ids);
    r.deadline_s = 1;
    assert_int_equal(gallop_submit(g, &r, &id[2], NULL), 0);
    while (!d.is_dead) {
        assert_int_equal(gallop_step(g, 0), 1);
        while (gallop_take(g, &ev))
            note(with, &ev, 0);
    }
    assert_true(atomic_load(&engine_loop(g)->outage.is_down));
    assert_int_equal(engines_stats(g).n_running, 0);
    assert_int_equal(gallop_cancel(g, id[1]), 0);
    submit(g, 3);
    while (!with[1].ended || !with[2].ended) { /* while it is down */
        assert_true(d.is_dead);
        gallop_step(g, 0);
        while (gallop_take(g, &ev))
            note(with, &ev, 0);
    }
    assert_int_equal(with[1].finish, GALLOP_FINISH_CANCELLED);
    assert_int_equal(with[2].finish, GALLOP_FINISH_DEADLINE);
    finish(g, with);
    assert_false(atomic_load(&engine_loop(g)->outage.is_down));
    for (size_t i = 0; i < 4; i += 3) {
        assert_int_equal(with[i].n, without[i].n);
        assert_memory_equal(with[i].bytes, without[i].bytes, with[i].n);
    }
    gallop_close(g);
}

/* Returns how often TEXT is in the file F. */
static int count_in(FILE *f, const char *text)
{
    char line[4096];
    int n = 0;

    rewind(f);
    while (fgets(line, sizeof(line), f))
        n += strstr(line, text) != NULL;
    return n;
}

static void an_executor_that_stays_dead_ends_the_requests_that_wait(void **state)
{
    struct dying d;
    struct gallop *g = open_dying(&d, NULL);
    FILE *log = tmpfile();
    int usual = dup(2);
    double began;

    run_all(g, without);
    memset(with, 0, sizeof(with));
    d.at = d.n_runs + 2;
    d.n_no_opens = OUTAGE_TRIES + 1;
    assert_non_null(log);
    dup2(fileno(log), 2);
    submit(g, 0);
    submit(g, 5);
    began = d.ahead_s;
    finish(g, with);
    assert_true(d.ahead_s - began > 12 && d.ahead_s - began < 14);
    for (size_t i = 0; i <= 5; i += 5) {
        assert_int_equal(with[i].finish, GALLOP_FINISH_ERROR);
        assert_string_equal(with[i].error, "the executor cannot be opened again: the lid is shut");
    }
    /* The next request waits for the next try, and is answered after the one that succeeds. */
    submit(g, 1);
    finish(g, with);
    assert_int_equal(with[1].finish, GALLOP_FINISH_ERROR);
    submit(g, 2);
    finish(g, with);
    assert_int_equal(with[2].n, without[2].n);
    assert_int_equal(d.n_opened, 1);
    dup2(usual, 2);
    close(usual);
    assert_int_equal(count_in(log, "the executor failed: run "),
                     1); /* whatever comes of a death, and how often */
    assert_int_equal(count_in(log, "cannot be opened again"), 1);
    assert_int_equal(count_in(log, ""), 2);
    fclose(log);
    gallop_close(g);
}

/* The requests that wait for a slot do not fail one group after the other. */
static void an_executor_that_fails_in_each_run_ends_all_requests(void **state)
{
    struct dying d;
    struct gallop *g = open_dying(&d, NULL);
    struct gallop_event ev;
    size_t n_ended = 0;

    d.every = 1;
    for (size_t i = 0; i < 100; i++)
        submit(g, 0);
    while (gallop_next(g, &ev)) {
        assert_int_equal(ev.type, GALLOP_FINISHED);
        assert_non_null(strstr(ev.error, "the executor fail"));
        n_ended++;
    }
    assert_int_equal(n_ended, 100);
    assert_int_equal(d.n_runs, OUTAGE_TRIES + 1);
    assert_true(d.ahead_s < 14);
    gallop_close(g);
}

/* Without requests, gallop_step() opens the executor, and does not wait. */
static void an_idle_engine_opens_its_executor_again(void **state)
{
    struct dying d;
    struct gallop *g = open_dying(&d, NULL);
    uint64_t id;

    memset(with, 0, sizeof(with));
    d.at = 1;
    d.n_laters = 3;
    id = submit(g, 0);
    assert_int_equal(gallop_step(g, 0), 1);
    assert_true(d.is_dead);
    assert_int_equal(gallop_cancel(g, id), 0);
    finish(g, with);
    assert_true(d.is_dead);
    for (int i = 0; i < 3 && d.is_dead; i++)
        assert_int_equal(gallop_step(g, 0), 0);
    assert_false(d.is_dead);
    assert_int_equal(atomic_load(&engine_loop(g)->outage.n_restarts), 1);
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_request_survives_every_run),
        cmocka_unit_test(guesses_survive_every_run),
        cmocka_unit_test(logits_that_are_lost_are_computed_again),
        cmocka_unit_test(a_request_that_kills_the_executor_ends_and_the_others_go_on),
        cmocka_unit_test(an_engine_serves_while_its_executor_is_down),
        cmocka_unit_test(an_executor_that_stays_dead_ends_the_requests_that_wait),
        cmocka_unit_test(an_executor_that_fails_in_each_run_ends_all_requests),
        cmocka_unit_test(an_idle_engine_opens_its_executor_again),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
