/* test_requests.c - the ends of requests: cancelled at any time, preempted when the cache is full, ended by a
 * stop string or for lack of memory, dropped with the engine. Counts are checked, and not times. */
#include <pthread.h>

#include "base/err.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "check.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "kv/kv.h"

enum { LONGEST = ENGINES_MOST_TOKENS, MOST = 8 };

/* ---- a cache that observes the steps ---- */

static struct {
    struct gallop *g;
    struct kv_type type;
    struct kv_ops ops; /* the engine's own functions, except those below */
    int (*reserve)(struct kv *c, size_t seq, size_t n);
    size_t n_calls, cancel_at, largest;
    uint64_t id;
} watch;

static void *cancel_thread(void *arg)
{
    (void)arg;
    assert_int_equal(gallop_cancel(watch.g, watch.id), 0);
    return NULL;
}

/* Call number cancel_at cancels from another thread, in the middle of a step. */
static int watched_reserve(struct kv *c, size_t seq, size_t n)
{
    static size_t last;
    pthread_t t;

    last = watch.n_calls++ ? last : 0;
    watch.largest = n - last > watch.largest ? n - last : watch.largest;
    last = n;
    if (watch.n_calls == watch.cancel_at) {
        assert_int_equal(pthread_create(&t, NULL, cancel_thread, NULL), 0);
        assert_int_equal(pthread_join(t, NULL), 0);
    }
    return watch.reserve(c, seq, n);
}

static void watch_steps(struct gallop *g, uint64_t id, size_t cancel_at)
{
    struct kv *c = &engine_llm(g)->kv;

    memset(&watch, 0, sizeof(watch));
    watch.g = g;
    watch.id = id;
    watch.cancel_at = cancel_at;
    watch.type = *c->type;
    watch.ops = *c->type->ops;
    watch.reserve = watch.ops.reserve;
    watch.ops.reserve = watched_reserve;
    watch.type.ops = &watch.ops;
    c->type = &watch.type;
}

/* ---- cancelling ---- */

static void a_long_prompt_is_cancelled_behind_the_step_that_runs(void **state)
{
    struct gallop_options o = engines_options(1, 16, LONGEST);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct engines_answer out[1] = {0};

    watch_steps(g, engines_submit_text(g, 900, 5, 0), 3);
    engines_run(g, out);
    assert_int_equal(out[0].end.finish, GALLOP_FINISH_CANCELLED);
    assert_int_equal(out[0].n, 0);
    assert_int_equal(engines_stats(g).n_steps, 3);
    assert_int_equal(engines_stats(g).n_prompt_tokens, 3 * 16);
    gallop_close(g);
}

static void a_step_takes_no_more_than_512_rows_however_many_it_may(void **state)
{
    struct gallop_options o = engines_options(1, 4096, LONGEST);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct engines_answer out[1] = {0};

    watch_steps(g, engines_submit_text(g, 1000, 1, 0), 0);
    engines_run(g, out);
    assert_int_equal(watch.largest, 512);
    assert_int_equal(engines_stats(g).n_steps, 2);
    gallop_close(g);
}

static void a_request_is_cancelled_and_the_other_goes_on_as_if_alone(void **state)
{
    struct gallop_options o = engines_options(4, 64, 256);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct engines_answer alone[2] = {0}, out[2] = {0};
    struct gallop_event ev;
    uint64_t id[2];

    engines_submit_text(g, 30, 20, 1);
    engines_run(g, alone);
    for (int first = 0; first < 2; first++) { /* before the other request, and after it */
        memset(out, 0, sizeof(out));
        for (size_t k = 0; k < 2; k++)
            id[k == (size_t)first] = engines_submit_text(g, 30, 20, k == (size_t)first);
        while (out[0].n < 3 && gallop_next(g, &ev))
            engines_take(out, &ev);
        assert_int_equal(gallop_cancel(g, id[0]), 0);
        engines_run(g, out);
        assert_int_equal(out[0].end.finish, GALLOP_FINISH_CANCELLED);
        assert_in_range(out[0].n, 3, 4);
        assert_int_equal(out[1].end.finish, GALLOP_FINISH_LENGTH);
        assert_int_equal(out[1].n, 20);
        assert_memory_equal(out[1].token, alone[1].token, 20 * sizeof(int32_t));
    }
    gallop_close(g);
}

static void all_that_were_submitted_are_cancelled_and_none_that_come_later(void **state)
{
    struct gallop_options o = engines_options(4, 64, 256);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct engines_answer out[4] = {0};

    assert_int_equal(gallop_cancel(g, 0), 0); /* There is no request. */
    assert_int_equal(gallop_cancel(g, 1), 0); /* No request has this id yet. */
    assert_int_equal(gallop_cancel(g, UINT64_MAX), 0);
    engines_submit_text(g, 20, 4, 0);
    engines_submit_text(g, 20, 4, 1);
    engines_run(g, out);
    assert_int_equal(out[0].end.finish, GALLOP_FINISH_LENGTH);
    assert_int_equal(out[1].end.finish, GALLOP_FINISH_LENGTH);
    memset(out, 0, sizeof(out));
    engines_submit_text(g, 20, 4, 0);
    engines_submit_text(g, 20, 4, 1);
    assert_int_equal(gallop_cancel(g, 0), 0);
    engines_submit_text(g, 20, 4, 2);
    assert_int_equal(gallop_cancel(g, UINT64_MAX), 0);
    engines_run(g, out);
    assert_int_equal(out[0].end.finish, GALLOP_FINISH_CANCELLED);
    assert_int_equal(out[1].end.finish, GALLOP_FINISH_CANCELLED);
    assert_int_equal(out[2].end.finish, GALLOP_FINISH_LENGTH);
    gallop_close(g);
}

static void cancels_wait_by_the_256_and_are_taken_by_the_next_event(void **state)
{
    struct gallop_options o = engines_options(1, 64, 256);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct engines_answer out[2] = {0};
    struct gallop_event ev;
    uint64_t id = engines_submit_text(g, 20, 4, 0);

    engines_submit_text(g, 20, 4, 1);
    for (int i = 0; i < 256; i++)
        assert_int_equal(gallop_cancel(g, id), 0);
    assert_int_equal(gallop_cancel(g, id + 1), -1);
    assert_int_equal(gallop_next(g, &ev), 1);
    engines_take(out, &ev);
    assert_int_equal(out[0].end.finish, GALLOP_FINISH_CANCELLED);
    assert_int_equal(gallop_cancel(g, id + 1), 0);
    engines_run(g, out);
    assert_int_equal(out[1].end.finish, GALLOP_FINISH_CANCELLED);
    gallop_close(g);
}

static void a_request_is_cancelled_while_it_waits(void **state)
{
    struct gallop_options o = engines_options(1, 64, 256);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct engines_answer out[3] = {0};
    struct gallop_event ev;
    struct gallop_stats s;

    engines_submit_text(g, 20, 6, 0);
    engines_submit_text(g, 20, 6, 1);
    engines_submit_text(g, 20, 6, 2);
    assert_int_equal(gallop_next(g, &ev), 1);
    engines_take(out, &ev);
    s = engines_stats(g);
    assert_int_equal(s.n_running, 1);
    assert_int_equal(s.n_waiting, 2);
    assert_int_equal(gallop_cancel(g, 2), 0);
    while (!out[1].ended && gallop_next(g, &ev))
        engines_take(out, &ev);
    assert_int_equal(out[1].end.finish, GALLOP_FINISH_CANCELLED);
    assert_int_equal(out[1].n, 0);
    s = engines_stats(g);
    assert_int_equal(s.n_running, 1);
    assert_int_equal(s.n_waiting, 1);
    assert_int_equal(s.n_finished, 1);
    engines_run(g, out);
    assert_int_equal(out[0].n, 6);
    assert_int_equal(out[2].n, 6);
    s = engines_stats(g);
    assert_int_equal(s.n_running, 0);
    assert_int_equal(s.n_waiting, 0);
    assert_int_equal(s.n_finished, 3);
    assert_int_equal(s.n_prompt_tokens, 2 * 20);
    assert_int_equal(s.n_output_tokens, 2 * 6);
    gallop_close(g);
}

/* ---- closing ---- */

static void an_engine_is_closed_with_requests_at_every_stage_and_leaks_none(void **state)
{
    size_t blocks = mem_live_blocks(), regions = map_region_live_bytes();

    for (int n_taken = 0; n_taken < 12;
         n_taken++) { /* Both end in the second step, with events that the caller has not taken. */
        struct gallop_options o = engines_options(2, 64, 256);
        struct gallop *g = engines_open("llama3-rope", &o);
        struct gallop_event ev;

        for (size_t q = 0; q < 4; q++)
            engines_submit_text(g, 20, 2, q);
        for (int i = 0; i < n_taken; i++)
            assert_int_equal(gallop_next(g, &ev), 1);
        gallop_close(g);
        if (mem_live_blocks() != blocks || map_region_live_bytes() != regions)
            fail_msg("closed behind event %d: %zu blocks of memory are left", n_taken,
                     mem_live_blocks() - blocks);
    }
}

/* The tail of the queue stays right whichever request is removed. */
static void requests_that_come_while_others_run_are_served(void **state)
{
    struct gallop_options o = engines_options(2, 64, 256);
    struct gallop *g = engines_open("llama3-rope", &o);
    static struct engines_answer out[MOST];
    struct gallop_event ev;
    size_t n = 0;

    memset(out, 0, sizeof(out));
    for (; n < 3; n++)
        engines_submit_text(g, 20, 3 + (int64_t)n, n);
    while (gallop_next(g, &ev)) {
        engines_take(out, &ev);
        if (ev.type == GALLOP_FINISHED &&
            n < MOST) { /* A request is cancelled, the first one or one in the middle, and one is added. */
            engines_submit_text(g, 20, 3 + (int64_t)(n % 3), n);
            n++;
        }
    }
    assert_int_equal(n, MOST);
    for (size_t q = 0; q < MOST; q++)
        assert_int_equal(out[q].n, 3 + (q < 3 ? q : q % 3));
    assert_int_equal(engines_stats(g).n_finished, MOST);
    gallop_close(g);
}

/* ---- a full cache ---- */

/* Sixteen blocks of 16 rows serve four requests that end with 127 rows, so that two fit completely. All four
 * are admitted: prompts of 16 rows and one more block for each take eight blocks. With 64 rows each they fill
 * the cache, and the fourth is preempted with 64 rows. With 80 rows of each of three, one block is left, and
 * the third is preempted with 80 rows. Two finish. The third is admitted again and then the fourth, with 81
 * and 65 rows and one more block each, which are 7 and 6 blocks; in the end they have 8 and 7. No request is
 * preempted twice. */
static void a_preempted_request_waits_until_its_rows_fit(void **state)
{
    static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"};
    static struct engines_answer want[4], got[4];

    for (size_t t = 0; t < 4; t++) {
        struct gallop_options o = engines_options(4, 64, 256), ample = engines_options(4, 64, 256);
        struct gallop *g;
        struct gallop_stats s;
        char says[256];

        memset(want, 0, sizeof(want));
        memset(got, 0, sizeof(got));
        o.kv_cache_type = ample.kv_cache_type = types[t];
        o.kv_cache_tokens = 256;
        g = engines_open("llama3-rope", &ample);
        for (size_t q = 0; q < 4; q++)
            engines_submit_text(g, 16, 112, q);
        engines_run(g, want);
        assert_int_equal(engines_stats(g).n_recomputed_tokens, 0);
        gallop_close(g);
        g = engines_open("llama3-rope", &o);
        for (size_t q = 0; q < 4; q++)
            engines_submit_text(g, 16, 112, q);
        engines_run(g, got);
        s = engines_stats(g);
        if (engines_differ(got, want, 4, says))
            fail_msg("%s: where the cache is full, %s", types[t], says);
        if (t < 2) {
            assert_int_equal(s.n_preempted, 2);
            assert_int_equal(s.n_recomputed_tokens, 64 + 80);
            /* These are regions that grow ahead. */
        } else if (s.n_preempted > 4 || s.n_recomputed_tokens > 4 * 127)
            fail_msg("%s: %d times preempted, %d rows computed again; at most once each is expected",
                     types[t], (int)s.n_preempted, (int)s.n_recomputed_tokens);
        assert_int_equal(s.n_prompt_tokens, 4 * 16);
        assert_int_equal(s.n_output_tokens, 4 * 112);
        gallop_close(g);
    }
}

/* Nine blocks serve three requests that end with 63 rows. At 48 rows each the first needs another block, and
 * the third is preempted. */
static void of_three_the_youngest_is_preempted(void **state)
{
    struct gallop_options o = engines_options(3, 64, 144);
    static struct engines_answer out[3];
    struct gallop_event ev;
    struct gallop *g;

    memset(out, 0, sizeof(out));
    o.kv_cache_tokens = 144;
    g = engines_open("llama3-rope", &o);
    for (size_t q = 0; q < 3; q++)
        engines_submit_text(g, 16, 48, q);
    while ((!out[0].ended || !out[1].ended) && gallop_next(g, &ev))
        engines_take(out, &ev);
    assert_int_equal(out[0].n, 48);
    assert_int_equal(out[1].n, 48);
    assert_int_equal(out[2].n, 49 - 16); /* the token after the last row that it had */
    engines_run(g, out);
    assert_int_equal(out[1].end.finish, GALLOP_FINISH_LENGTH);
    assert_int_equal(out[2].end.finish, GALLOP_FINISH_LENGTH);
    assert_int_equal(out[2].n, 48);
    assert_int_equal(engines_stats(g).n_preempted, 1);
    gallop_close(g);
}

/* Nine blocks serve two requests that end with 79 rows. At 64 rows each the first takes the last block. The
 * second, which is the youngest, is preempted itself. */
static void the_youngest_is_preempted_by_its_own_need(void **state)
{
    struct gallop_options o = engines_options(2, 64, 144);
    static struct engines_answer out[2];
    struct gallop_event ev;
    struct gallop *g;

    memset(out, 0, sizeof(out));
    o.kv_cache_tokens = 144;
    o.prefix_index = "none"; /* Otherwise the rows that it gave back would be found again. */
    g = engines_open("llama3-rope", &o);
    for (size_t q = 0; q < 2; q++)
        engines_submit_text(g, 16, 64, q);
    while (!out[0].ended && gallop_next(g, &ev))
        engines_take(out, &ev);
    assert_int_equal(out[0].n, 64);
    assert_int_equal(out[1].n, 65 - 16);
    engines_run(g, out);
    assert_int_equal(out[1].end.finish, GALLOP_FINISH_LENGTH);
    assert_int_equal(out[1].n, 64);
    assert_int_equal(engines_stats(g).n_preempted, 1);
    assert_int_equal(engines_stats(g).n_recomputed_tokens, 64);
    gallop_close(g);
}

/* A prompt that could only just begin is not started, because its rows would soon be dropped. */
static void a_prompt_waits_while_its_rows_do_not_fit(void **state)
{
    struct gallop_options o = engines_options(4, 64, 256);
    static struct engines_answer out[3];
    struct gallop_event ev;
    struct gallop *g;

    memset(out, 0, sizeof(out));
    o.kv_cache_tokens = 256;
    g = engines_open("llama3-rope", &o);
    engines_submit_text(g, 100, 60, 0); /* 7 blocks, then 10 */
    engines_submit_text(g, 140, 20, 1); /* 9 blocks, so that both fit for a while, then 10 */
    engines_submit_text(g, 10, 10, 2);  /* It would fit, but other requests are first. */
    assert_int_equal(gallop_next(g, &ev), 1);
    engines_take(out, &ev);
    assert_int_equal(engines_stats(g).n_running, 1);
    assert_int_equal(engines_stats(g).n_waiting, 2);
    engines_run(g, out);
    for (size_t q = 0; q < 3; q++)
        assert_int_equal(out[q].end.finish, GALLOP_FINISH_LENGTH);
    assert_int_equal(engines_stats(g).n_preempted, 0);
    assert_int_equal(engines_stats(g).n_recomputed_tokens, 0);
    gallop_close(g);
}

/* The last token of an answer is not computed: 64 rows are four blocks, and a fifth block would prevent the
 * start. */
static void two_that_fill_the_cache_to_the_last_row_run_together(void **state)
{
    struct gallop_options o = engines_options(2, 128, 128);
    struct engines_answer out[2] = {0};
    struct gallop_event ev;
    struct gallop *g;

    o.kv_cache_tokens = 128;
    g = engines_open("llama3-rope", &o);
    engines_submit_text(g, 49, 16, 0);
    engines_submit_text(g, 49, 16, 1);
    assert_int_equal(gallop_next(g, &ev), 1);
    engines_take(out, &ev);
    assert_int_equal(engines_stats(g).n_running, 2);
    engines_run(g, out);
    assert_int_equal(out[0].n, 16);
    assert_int_equal(out[1].n, 16);
    assert_int_equal(engines_stats(g).n_preempted, 0);
    gallop_close(g);
}

/* The longest sequence can always run alone, also with the smallest pool that is allowed. */
static void the_longest_request_ends_in_the_smallest_cache(void **state)
{
    static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"},
                             *const models[] = {"llama3-rope", "gemma3", "mistral", "gpt-oss"},
                             *const sparse[] = {NULL, "sink=4,window=40"};
    static struct engines_answer want[3], got[3];

    for (size_t m = 0; m < 4; m++)
        for (size_t w = 0; w < 2; w++)
            for (size_t t = 0; t < 4; t++) {
                struct gallop_options o = engines_options(3, 16, 200);
                struct gallop *g;
                char err[GALLOP_ERR_SIZE], says[256];

                memset(got, 0, sizeof(got));
                memset(want, 0, sizeof(want));
                o.kv_cache_type = types[t];
                o.kv_sparse = sparse[w];
                for (int pass = 0; pass < 2; pass++) {
                    g = engines_open(models[m], &o);
                    engines_submit_text(g, 120, 80, 0);
                    engines_submit_text(g, 190, 10, 1);
                    engines_submit_text(g, 199, 1, 2);
                    engines_run(g, pass ? got : want);
                    o.kv_cache_tokens = (int64_t)kv_least_tokens(types[t], &engine_llm(g)->kv.lim);
                    gallop_close(g);
                }
                for (size_t q = 0; q < 3; q++)
                    assert_int_equal(got[q].end.finish, GALLOP_FINISH_LENGTH);
                if (engines_differ(got, want, 3, says))
                    fail_msg("%s, %s: in the smallest cache, of %d, %s", models[m], types[t],
                             (int)o.kv_cache_tokens, says);
                o.kv_cache_tokens -= 16;
                assert_int_equal(engines_try(&g, models[m], &o, err), GALLOP_BAD_INPUT);
                assert_non_null(strstr(err, "cannot hold one sequence"));
            }
}

/* ---- text ---- */

/* Makes a tokenizer of three tokens: 4 is an x followed by the beginning of a character, and 5 has 2000
 * letters. */
static const char *made;

static void make_model(void)
{
    char path[4096];
    FILE *f;

    made = files_folder();
    files_copy_all(engines_path("llama3-rope"), made);
    snprintf(path, sizeof(path), "%s/tokenizer.json", made);
    assert_non_null(f = fopen(path, "w"));
    fputs("{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"post_processor\":null,"
          "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":"
          "\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":3,\"x\u00c3\":4,\"",
          f);
    for (int i = 0; i < 2000; i++)
        fputc('y', f);
    fputs("\":5}}}", f);
    assert_int_equal(fclose(f), 0);
}

static struct gallop *open_made(void)
{
    struct gallop_options o = engines_options(3, 64, 256);

    return engines_open(made, &o);
}

/* Returns a request for N_NEW times TOKEN. */
static void submit_forced(struct gallop *g, int32_t token, int64_t n_new, const char *stop, size_t which)
{
    const int32_t ids[] = {7, 8, 9};
    const float bias = 1e6f;
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 3;
    r.user = (void *)which;
    r.sampling.max_new_tokens = n_new;
    r.sampling.bias_id = &token;
    r.sampling.bias = &bias;
    r.sampling.n_bias = 1;
    r.sampling.stop = &stop;
    r.sampling.n_stop = stop != NULL;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

static void nothing_is_shown_behind_a_stop_string(void **state)
{
    struct engines_answer out[3] = {0};
    struct gallop *g;

    make_model();
    g = open_made();
    submit_forced(g, 4, 2, NULL, 0);
    submit_forced(g, 4, 9, "x", 1);
    submit_forced(g, 4, 9, "\xef\xbf\xbdx", 2);
    engines_run(g, out);
    assert_string_equal(out[0].text, "x\xef\xbf\xbdx\xef\xbf\xbd"); /* The last token was held back. */
    assert_string_equal(out[1].text, "");
    assert_int_equal(out[1].end.finish, GALLOP_FINISH_STOP);
    assert_int_equal(out[1].n, 1);
    assert_string_equal(out[2].text, "x");
    assert_int_equal(out[2].end.finish, GALLOP_FINISH_STOP);
    gallop_close(g);
}

/* Text that was shown is freed. */
static void a_long_text_takes_no_more_memory_than_a_short_one(void **state)
{
    struct gallop_event ev;
    struct gallop *g;
    size_t n = 0, bytes = 0;

    make_model();
    g = open_made();
    submit_forced(g, 5, 40, NULL, 0);
    while (gallop_next(g, &ev)) {
        if (ev.type != GALLOP_TEXT)
            continue;
        assert_int_equal(ev.text_len, 2000);
        if (++n == 3)
            bytes = mem_live_bytes();
        else if (n > 3)
            assert_int_equal(mem_live_bytes(), bytes);
    }
    assert_int_equal(n, 40);
    gallop_close(g);
}

/* Allocation N after the submission fails, and only that one. */
static void no_memory_for_one_text_ends_that_request_and_no_other(void **state)
{
    size_t n_failed = 0;
    bool failed = true;

    make_model();
    for (long n = 1; failed; n++) {
        size_t length[3] = {0}, n_faults = 0;
        struct gallop *g = open_made();
        struct gallop_event ev;

        submit_forced(g, 5, 3, NULL, 0);
        submit_forced(g, 5, 3, NULL, 1);
        submit_forced(g, 3, 3, NULL, 2);
        mem_fail_at(n);
        while (gallop_next(g, &ev)) {
            if (ev.type == GALLOP_TEXT)
                length[(size_t)ev.user] += ev.text_len;
            if (ev.type != GALLOP_FINISHED)
                continue;
            if (ev.finish == GALLOP_FINISH_ERROR) {
                n_faults++;
                assert_non_null(strstr(ev.error, "memory"));
            } else if (length[(size_t)ev.user] != ((size_t)ev.user < 2 ? 6000u : 3u))
                fail_msg("allocation %ld fails: request %zu ends with %zu bytes of text", n, (size_t)ev.user,
                         length[(size_t)ev.user]);
        }
        failed = mem_failed();
        mem_fail_at(0);
        if (n_faults > 1)
            fail_msg("allocation %ld fails: %zu requests end with an error, one is expected", n, n_faults);
        n_failed += n_faults;
        gallop_close(g);
    }
    assert_true(n_failed > 0); /* The comparison: some of the failures ended a request. */
}

/* ---- rows that become wrong in a longer sequence ---- */

static void likely(struct gallop *g, const int32_t *ids, size_t n, size_t n_new, struct engines_answer *a)
{
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n;
    r.sampling.max_new_tokens = (int64_t)n_new;
    r.sampling.ignore_eos = 1;
    r.sampling.do_sample = 0;
    r.sampling.logprobs = 0;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
    engines_run(g, a);
    assert_int_equal(a->n, n_new);
}

/* Longrope uses other factors for all rows once a sequence exceeds a length, 128 here: an answer that crosses
 * it continues as after a prompt of that length. */
static void an_answer_that_crosses_the_border_of_longrope_goes_on_with_new_rows(void **state)
{
    enum { PROMPT = 120, FIRST = 10, REST = 10 };
    struct gallop_options o = engines_options(1, 0, 256);
    struct gallop *g = engines_open("phi3-longrope", &o);
    struct engines_answer whole[1] = {{0}}, rest[1] = {{0}};
    int32_t ids[PROMPT + FIRST];

    engines_text(0, 0, PROMPT, ids);
    likely(g, ids, PROMPT, FIRST + REST, whole);
    memcpy(ids + PROMPT, whole->token, FIRST * sizeof(int32_t));
    likely(g, ids, PROMPT + FIRST, REST, rest);
    assert_memory_equal(rest->token, whole->token + FIRST, REST * sizeof(int32_t));
    check_same(rest->logprob, whole->logprob + FIRST, REST,
               "log-probabilities behind the border, and behind a prompt");
    assert_int_equal(engines_stats(g).n_recomputed_tokens, 128);
    gallop_close(g);
}

static void submit_likely(struct gallop *g, const int32_t *ids, size_t n, size_t n_new, size_t n_answers,
                          size_t which)
{
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n;
    r.n = n_answers;
    r.user = (void *)which;
    r.sampling.max_new_tokens = (int64_t)n_new;
    r.sampling.ignore_eos = 1;
    r.sampling.do_sample = 0;
    r.sampling.logprobs = 0;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

/* A second answer begins after the first one has crossed the length, because another request had its slot
 * until then. The first answer's rows of the prompt have factors that do not suit the second. */
static void a_late_second_answer_takes_no_rows_from_behind_the_border_of_longrope(void **state)
{
    enum { PROMPT = 120, NEW = 60, OTHER = 40 };

    for (int keep = 0; keep < 2; keep++) {
        struct gallop_options o = engines_options(2, 0, 256);
        static struct engines_answer of[3]; /* the other request's and the two of this request */
        int32_t ids[PROMPT];
        struct gallop_event ev;
        struct gallop *g;

        memset(of, 0, sizeof(of));
        o.prefix_index = keep ? "radix" : "none";
        g = engines_open("phi3-longrope", &o);
        engines_text(0, 0, PROMPT, ids);
        submit_likely(g, ids + 1, 5, OTHER, 1, 0);
        submit_likely(g, ids, PROMPT, NEW, 2, 1);
        while (gallop_next(g, &ev)) {
            if (ev.user == (void *)1 && ev.choice == 1 && of[2].n == 0)
                assert_in_range(of[1].n, OTHER - 10, NEW - 1); /* It is late, and the first one runs. */
            engines_take(of, &ev);
        }
        assert_int_equal(of[1].n, NEW);
        assert_int_equal(of[2].n, NEW);
        assert_memory_equal(of[2].token, of[1].token, NEW * sizeof(int32_t));
        check_same(of[2].logprob, of[1].logprob, NEW, "log-probabilities of a late second answer");
        gallop_close(g);
    }
}

/* ---- log-probabilities ---- */

enum { TOP = 3, SOME = 6 };

struct tops {
    size_t n;
    struct gallop_logprob top[SOME][TOP];
};

static void submit_top(struct gallop *g, size_t which)
{
    int32_t ids[4] = {5, 6, 7, (int32_t)(8 + which)};
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 4;
    r.sampling.max_new_tokens = SOME;
    r.sampling.ignore_eos = 1;
    r.sampling.do_sample = 0;
    r.sampling.logprobs = TOP;
    r.user = (void *)which;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

static void take_tops(struct gallop *g, struct tops *all)
{
    struct gallop_event ev;

    while (gallop_next(g, &ev))
        if (ev.type == GALLOP_TOKEN) {
            struct tops *t = &all[(size_t)ev.user];

            assert_int_equal(ev.n_top, TOP);
            memcpy(t->top[t->n++], ev.top, sizeof(t->top[0]));
        }
}

static void the_likeliest_tokens_of_a_step_are_each_request_s_own(void **state)
{
    struct gallop_options o = engines_options(MOST, 0, 256);
    struct gallop *g = engines_open("llama3-rope", &o);
    struct tops alone[MOST], together[MOST];

    memset(alone, 0, sizeof(alone));
    memset(together, 0, sizeof(together));
    for (size_t i = 0; i < MOST; i++) {
        submit_top(g, i);
        take_tops(g, alone);
    }
    for (size_t i = 0; i < MOST; i++)
        submit_top(g, i);
    take_tops(g, together);
    for (size_t i = 0; i < MOST; i++)
        for (size_t k = 0; k < SOME * TOP; k++) {
            const struct gallop_logprob *a = &alone[i].top[k / TOP][k % TOP],
                                        *b = &together[i].top[k / TOP][k % TOP];

            if (a->id != b->id || a->logprob != b->logprob)
                fail_msg("request %zu, token %zu, place %zu: %d with %.9g, expected %d with %.9g as alone", i,
                         k / TOP, k % TOP, b->id, (double)b->logprob, a->id, (double)a->logprob);
        }
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_likeliest_tokens_of_a_step_are_each_request_s_own),
        cmocka_unit_test(an_answer_that_crosses_the_border_of_longrope_goes_on_with_new_rows),
        cmocka_unit_test(a_late_second_answer_takes_no_rows_from_behind_the_border_of_longrope),
        cmocka_unit_test(a_long_prompt_is_cancelled_behind_the_step_that_runs),
        cmocka_unit_test(a_step_takes_no_more_than_512_rows_however_many_it_may),
        cmocka_unit_test(a_request_is_cancelled_and_the_other_goes_on_as_if_alone),
        cmocka_unit_test(all_that_were_submitted_are_cancelled_and_none_that_come_later),
        cmocka_unit_test(cancels_wait_by_the_256_and_are_taken_by_the_next_event),
        cmocka_unit_test(a_request_is_cancelled_while_it_waits),
        cmocka_unit_test(an_engine_is_closed_with_requests_at_every_stage_and_leaks_none),
        cmocka_unit_test(requests_that_come_while_others_run_are_served),
        cmocka_unit_test(a_preempted_request_waits_until_its_rows_fit),
        cmocka_unit_test(of_three_the_youngest_is_preempted),
        cmocka_unit_test(the_youngest_is_preempted_by_its_own_need),
        cmocka_unit_test(a_prompt_waits_while_its_rows_do_not_fit),
        cmocka_unit_test(two_that_fill_the_cache_to_the_last_row_run_together),
        cmocka_unit_test(the_longest_request_ends_in_the_smallest_cache),
        cmocka_unit_test(nothing_is_shown_behind_a_stop_string),
        cmocka_unit_test(a_long_text_takes_no_more_memory_than_a_short_one),
        cmocka_unit_test(no_memory_for_one_text_ends_that_request_and_no_other),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
