/* test_frames.c - the executor on a PJRT plugin whose calls fail one after the other (test/pjrt/fake.c). */
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "children.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engine/pjrt/frames.h"
#include "engine/step.h"
#include "engines.h"
#include "gallop.h"
#include "model/stream.h"
#include "ops/batch.h"
#include "ops/linear_ints.h"

static long (*calls)(void), (*objects)(void), (*runs)(void);
static void (*reset)(void);
static const int32_t *(*inputs)(size_t *n);
static int (*let_go)(bool yes);

static void *symbol(void *library, const char *name)
{
    void *p = dlsym(library, name);

    assert_non_null(p);
    return p;
}

/* Loads the functions of the plugin itself; the engine loads the same library. */
static int load_fake(void **state)
{
    void *p, *library = dlopen(FAKE_PJRT, RTLD_NOW);

    assert_non_null(library);
    p = symbol(library, "fake_pjrt_calls");
    memcpy(&calls, &p, sizeof(p));
    p = symbol(library, "fake_pjrt_objects");
    memcpy(&objects, &p, sizeof(p));
    p = symbol(library, "fake_pjrt_runs");
    memcpy(&runs, &p, sizeof(p));
    p = symbol(library, "fake_pjrt_reset");
    memcpy(&reset, &p, sizeof(p));
    p = symbol(library, "fake_pjrt_inputs");
    memcpy(&inputs, &p, sizeof(p));
    p = symbol(library, "fake_pjrt_let_go");
    memcpy(&let_go, &p, sizeof(p));
    setenv("XDG_CACHE_HOME", "cache", 1);
    setenv("FAKE_PJRT_FRAMES", "1", 1);
    return 0;
}

static struct gallop_options options(void)
{
    struct gallop_options o = engines_options(2, 16, 64);

    o.executor = "pjrt";
    o.pjrt_plugin = FAKE_PJRT;
    o.prompt_buckets = "16";
    o.batch_buckets = "2";
    o.context_buckets = "64";
    return o;
}

static void fail_call(long n);

/* A step of an engine has at most 512 rows, whatever max_batched_tokens says. */
static void no_program_is_compiled_for_more_rows_than_a_step_has(void **state)
{
    struct gallop_options o = options();
    char err[GALLOP_ERR_SIZE];
    struct frames_stats s;
    struct gallop *g;

    fail_call(0);
    o.max_model_len = 1024;
    o.kv_cache_tokens = 2048;
    o.max_batched_tokens = 1024;
    o.context_buckets = "1024";
    o.prompt_buckets = "16,513";
    assert_int_equal(engines_try(&g, "demo", &o, err), GALLOP_BAD_INPUT);
    if (!strstr(err, "prompt_buckets") || !strstr(err, "from 1 to 512"))
        fail_msg("%s", err);
    o.prompt_buckets = "16";
    for (size_t n = 0; o.max_batched_tokens >= 512; o.max_batched_tokens /= 2, n = s.n_programs) {
        g = engines_open("demo", &o);
        frames_stats(engine_frames(g), &s);
        assert_true(n == 0 || s.n_programs == n);
        gallop_close(g);
    }
}

static void fail_call(long n)
{
    char text[24];

    snprintf(text, sizeof(text), "%ld", n);
    setenv("FAKE_PJRT_FAIL", text, 1);
    reset();
}

static uint64_t restarts(struct gallop *g)
{
    return atomic_load(&engine_loop(g)->outage.n_restarts);
}

static void every_call_may_fail_while_a_model_is_opened(void **state)
{
    struct gallop_options o = options();
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;
    long n_good, failed = 0, before = objects();

    fail_call(0);
    g = engines_open("demo", &o);
    n_good = calls();
    gallop_close(g);
    assert_int_equal(objects(), before);
    assert_true(n_good > 20);
    for (long n = 1; n <= n_good; n++) {
        size_t live = mem_live_blocks();
        int rc;

        fail_call(n);
        rc = engines_try(&g, "demo", &o, err);
        if (rc) { /* a program that cannot be kept is only a warning */
            char what[40];

            assert_int_equal(rc, GALLOP_OS_ERROR);
            snprintf(what, sizeof(what), "call %ld", n);
            assert_non_null(strstr(err, what));
            assert_null(strchr(err, '\n'));
            assert_int_equal(mem_live_blocks(), live);
            failed++;
        } else {
            gallop_close(g);
        }
        assert_int_equal(objects(), before);
    }
    assert_true(failed > n_good / 2);
}

static void a_step_that_fails_is_computed_again(void **state)
{
    struct gallop_options o = options();
    struct frames_stats s;
    struct gallop *g;
    long before = objects(), n_good;

    fail_call(0);
    g = engines_open("demo", &o);
    for (int turn = 0; turn < 2; turn++) {
        struct engines_answer a = {0};

        reset();
        engines_submit_text(g, 10, 3, 0);
        engines_run(g, &a);
        assert_int_equal(a.n, 3);
        n_good = calls();
    }
    for (long n = 1; n <= n_good; n++) {
        struct engines_answer a = {0};

        fail_call(n);
        engines_submit_text(g, 10, 3, 0);
        engines_run(g, &a);
        assert_int_equal(a.end.finish, GALLOP_FINISH_LENGTH);
        assert_int_equal(a.n, 3);
        assert_int_equal(restarts(g), n);
    }
    frames_stats(engine_frames(g), &s); /* new caches are enough for a device that has computed in between */
    assert_int_equal(s.n_compiled, s.n_programs);
    gallop_close(g);
    assert_int_equal(objects(), before);
}

static void a_prompt_whose_chunks_fail_is_computed_again(void **state)
{
    struct gallop_options o = options();
    struct gallop *g;
    long n_good;

    fail_call(0);
    g = engines_open("demo", &o);
    for (long n = 0, end = 1; n <= end; n++) {
        struct engines_answer a = {0};
        int32_t ids[40];

        fail_call(n);
        engines_text((size_t)n, 0, 40, ids); /* three chunks, of which no slot has rows */
        engines_submit(g, ids, 40, 2, 0);
        engines_run(g, &a);
        n_good = calls();
        end = n ? end : n_good;
        assert_int_equal(a.end.finish, GALLOP_FINISH_LENGTH);
        assert_int_equal(a.n, 2);
        fail_call(0);
        a = (struct engines_answer){0};
        engines_submit(g, ids, 40, 2, 0);
        engines_run(g, &a);
        assert_int_equal(a.n, 2);
        assert_int_equal(a.end.n_cached, 39);
    }
    gallop_close(g);
}

/* Returns the bytes of results that were copied from the device so far. */
static size_t down_bytes(const struct gallop *g)
{
    struct frames_stats s;

    frames_stats(engine_frames(g), &s);
    return s.down_bytes;
}

static void greedy_requests_copy_a_token_for_each_row(void **state)
{
    struct gallop_options o = options();
    struct engines_answer a = {0};
    struct gallop_request r;
    struct gallop *g;
    size_t V;

    fail_call(0);
    g = engines_open("demo", &o);
    V = engine_info(g)->model->vocab_size;
    engines_submit_text(g, 10, 3, 0);
    engines_run(g, &a);
    assert_int_equal(a.n, 3);
    assert_int_equal(down_bytes(g), 4 + 2 * 2 * 4); /* a prompt, and two frames of two sequences */

    gallop_request_init(&r);
    r.text = "x";
    r.sampling.max_new_tokens = 3;
    r.sampling.logprobs = 0;
    r.sampling.ignore_eos = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    a = (struct engines_answer){0};
    engines_run(g, &a);
    assert_int_equal(a.n, 3);
    assert_true(down_bytes(g) > 3 * V * 4);
    gallop_close(g);
}

static void tokens_that_the_device_does_not_know_are_drawn_from_logits(void **state)
{
    struct gallop_options o = options();
    struct engines_answer a = {0}, b = {0};
    struct gallop *g;

    fail_call(0);
    g = engines_open("demo", &o);
    engines_submit_text(g, 10, 3, 0);
    engines_run(g, &a);
    setenv("FAKE_PJRT_UNSURE", "1", 1);
    engines_submit_text(g, 10, 3, 0);
    engines_run(g, &b);
    unsetenv("FAKE_PJRT_UNSURE");
    assert_int_equal(b.n, 3);
    assert_memory_equal(a.token, b.token, 3 * sizeof(a.token[0]));
    assert_true(down_bytes(g) > engine_llm(g)->model.info.vocab * (1 + 2 * 2) * 4);
    gallop_close(g);
}

/* The tokens of the fake plugin are zeros, which continue a prompt of zeros as guessed. */
static void guesses_are_verified_in_one_frame(void **state)
{
    struct gallop_options o = options();
    struct engines_answer a[2] = {{0}, {0}};
    int32_t zeros[15] = {0};
    struct gallop *g;

    fail_call(0);
    unsetenv("FAKE_PJRT_FRAMES");
    o.speculative_config = "{\"method\":\"ngram\",\"num_speculative_tokens\":3,\"adaptive\":false}";
    g = engines_open("demo", &o);
    reset();
    engines_submit(g, zeros, 15, 12, 0);
    engines_run(g, a);
    assert_int_equal(a[0].n, 12);
    /* The prompt gives a token, and a frame two, because the latest match has one token behind it. */
    assert_int_equal(runs(), 1 + 6);
    engines_submit(g, zeros, 12, 12, 0);
    engines_submit_text(g, 12, 12, 1);
    a[0] = (struct engines_answer){0};
    engines_run(g, a);
    assert_int_equal(a[0].n, 12);
    assert_int_equal(a[1].n, 12);
    gallop_close(g);
    setenv("FAKE_PJRT_FRAMES", "1", 1);
}

static void a_scored_prompt_is_computed_once(void **state)
{
    struct gallop_options o = options();
    struct gallop_request r;
    int32_t ids[50];
    struct gallop_event ev;
    size_t n_scored = 0;
    long before = objects();
    struct gallop *g;

    fail_call(0);
    o.prompt_buckets = "64";
    o.max_batched_tokens = 64;
    g = engines_open("demo", &o);
    engines_text(0, 0, 50, ids);
    for (long n = 0; n < 12; n++) { /* of the calls of a step, the N-th fails */
        gallop_request_init(&r);
        r.ids = ids;
        r.n_ids = 50;
        r.prompt_logprobs = 0;
        r.sampling.max_new_tokens = 1;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        fail_call(n);
        n_scored = 0;
        while (gallop_next(g, &ev) && ev.type != GALLOP_FINISHED)
            n_scored += ev.type == GALLOP_PROMPT_TOKEN;
        if (n == 0) {
            assert_int_equal(n_scored, 49);
            assert_int_equal(runs(), 1 + 2); /* the prompt, and twice the head for at most 32 rows */
        }
    }
    fail_call(0);
    gallop_close(g);
    assert_int_equal(objects(), before);
}

/* ---- which rows a slot gives to the next sequence ---- */

/* Answers IDS [n] with N_NEW greedy tokens. Returns the number of rows that were taken from the slot. */
static size_t ask(struct gallop *g, const int32_t *ids, size_t n, int64_t n_new, const char *salt,
                  int32_t *token)
{
    struct engines_answer a = {0};
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n;
    r.cache_salt = salt;
    r.sampling.max_new_tokens = n_new;
    r.sampling.ignore_eos = 1;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
    engines_run(g, &a);
    assert_int_equal(a.n, n_new);
    memcpy(token, a.token, (size_t)n_new * sizeof(*token));
    return a.end.n_cached;
}

static void rows_of_another_salt_are_not_used(void **state)
{
    static const char *const salt[] = {NULL, "a", "b"};
    struct gallop_options o = options();
    int32_t ids[30], token[2], right[2];
    struct gallop *g;

    fail_call(0);
    o.max_num_seqs = 1;
    o.batch_buckets = "1";
    g = engines_open("demo", &o);
    engines_text(0, 0, 30, ids);
    ask(g, ids, 30, 2, NULL, right);
    for (int first = 0; first < 3; first++)
        for (int second = 0; second < 3; second++) {
            ask(g, ids, 1, 1, "of nobody else", token);
            ask(g, ids, 30, 2, salt[first], token);
            assert_memory_equal(token, right, sizeof(right));
            assert_int_equal(ask(g, ids, 30, 2, salt[second], token), first == second ? 29 : 0);
            assert_memory_equal(token, right, sizeof(right));
        }
    gallop_close(g);
}

/* The likeliest token at each position of a scored prompt is that which a greedy answer to the tokens before it has. */
static void rows_of_a_scored_prompt_have_their_own_logits(void **state)
{
    struct gallop_options o = options();
    struct gallop_request r;
    struct gallop_event ev;
    int32_t ids[60], likeliest[60] = {0}, token, next = -1;
    struct executor_rows rows = {.id = ids, .n = 9, .n_prompt = 9, .n_total = 9, .n_wanted = 3};
    size_t n = 1;
    struct executor x;
    struct err e;
    struct gallop *g;

    fail_call(0);
    o.prompt_buckets = "64";
    o.max_batched_tokens = 64;
    g = engines_open("demo", &o);
    engines_text(7, 0, 60, ids);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 60;
    r.prompt_logprobs = 1;
    r.sampling.max_new_tokens = 1;
    r.sampling.ignore_eos = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_PROMPT_TOKEN && ev.n_top) {
            likeliest[n++] = ev.top[0].id;
        } else if (ev.type == GALLOP_TOKEN) {
            next = ev.token;
        }
    }
    assert_int_equal(n, 60);
    for (size_t i = 1; i < 60; i++) {
        ask(g, ids, i, 1, NULL, &token);
        assert_int_equal(likeliest[i], token);
    }
    ask(g, ids, 60, 1, NULL, &token);
    assert_int_equal(next, token);
    frames_executor((struct frames *)(uintptr_t)engine_frames(g), &x);
    assert_int_equal(x.run(x.ctx, &rows, 1, &e), 0);
    for (int i = 0; i < 3; i++) /* only logits tell */
        assert_int_equal(x.best(x.ctx, 0, 3)[i], -1);
    gallop_close(g);
}

/* ---- copies of rows ---- */

/* With room for SLOTS sequences, 5 or 2. */
static struct gallop *open_wide(int slots)
{
    struct gallop_options o = options();

    o.max_num_seqs = slots;
    o.batch_buckets = slots == 5 ? "5" : "2";
    o.context_buckets = "32,64";
    return engines_open("demo", &o);
}

/* Submits 38 tokens for N answers, which fill a context bucket of 64 rows, or for beams. */
static void submit_copies(struct gallop *g, size_t n, int64_t n_beams, struct gallop_request *r,
                          const int32_t *ids)
{
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(r);
    r->ids = ids;
    r->n_ids = 38;
    r->n = (int)n;
    r->sampling.num_beams = n_beams;
    r->sampling.max_new_tokens = 6;
    r->sampling.ignore_eos = 1;
    if (gallop_submit(g, r, NULL, err) != 0)
        fail_msg("%s", err);
}

static void answers_and_beams_copy_the_rows_that_they_share(void **state)
{
    struct engines_answer a[5] = {{0}}, one = {0};
    struct gallop_request r;
    struct gallop_stats s;
    struct gallop *g;
    int32_t ids[38];

    fail_call(0);
    g = open_wide(5);
    engines_text(3, 0, 38, ids);
    submit_copies(g, 4, 1, &r, ids);
    engines_run(g, a);
    s = engines_stats(g);
    assert_int_equal(s.n_recomputed_tokens, 0);
    /* The prompt in chunks of 16, three copies, and frames of all answers: the others compute the last row, too. */
    assert_int_equal(runs(), 3 + 3 + 6);
    engines_submit(g, ids, 38, 6, 0);
    engines_run(g, &one);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(a[i].n, 6);
        assert_memory_equal(a[i].token, one.token, 6 * sizeof(one.token[0]));
    }
    memset(a, 0, sizeof(a));
    submit_copies(g, 1, 4, &r, ids);
    engines_run(g, a);
    assert_int_equal(a[0].n, 6);
    assert_memory_equal(a[0].token, one.token, 6 * sizeof(one.token[0]));
    s = engines_stats(g);
    assert_int_equal(s.n_recomputed_tokens, 0);
    gallop_close(g);
}

static void two_slots_are_enough_for_a_copy(void **state)
{
    struct engines_answer a[2] = {{0}};
    struct gallop *g = open_wide(2);
    struct gallop_request r;
    int32_t ids[38];

    engines_text(3, 0, 38, ids);
    submit_copies(g, 2, 1, &r, ids);
    engines_run(g, a);
    assert_int_equal(a[0].n, 6);
    assert_memory_equal(a[0].token, a[1].token, 6 * sizeof(a[0].token[0]));
    gallop_close(g);
}

/* The rows of a slot keep their tokens, salt and frequencies in the copy. */
static void a_copied_slot_gives_its_rows_like_another(void **state)
{
    int32_t ids[30], other[30], token[2];
    struct executor x;
    struct gallop *g;

    fail_call(0);
    g = open_wide(5);
    engines_text(1, 0, 30, ids);
    engines_text(2, 0, 30, other);
    frames_executor((struct frames *)(uintptr_t)engine_frames(g), &x);
    ask(g, ids, 30, 2, "a", token);
    for (size_t from = 0; from < 5; from++) {
        const uint8_t salt[16] = {1}, *salts[] = {NULL, salt};

        for (int i = 0; i < 2; i++) {
            struct executor_prefix p = {.id = ids, .n = 30, .n_prompt = 30, .n_shared = 29, .salt = salts[i]};
            struct executor_rows rows = {.slot = from, .id = ids, .n = 16, .n_prompt = 30, .n_total = 30};
            size_t to = (from + 1) % 5;
            struct err e;

            x.release(x.ctx, from, NULL, 0);
            assert_int_equal(x.begin(x.ctx, from, &p), 0);
            assert_int_equal(x.run(x.ctx, &rows, 1, &e), 0);
            x.release(x.ctx, to, NULL, 0);
            assert_int_equal(x.fork(x.ctx, from, 15, to, &p), 0);
            x.release(x.ctx, to, ids, 15);
            p.salt = salts[!i];
            assert_int_equal(x.begin(x.ctx, to, &p), 0);
            p.salt = salts[i];
            assert_int_equal(x.fork(x.ctx, from, 15, to, &p), 0);
            assert_int_equal(x.begin(x.ctx, to, &p), 15);
            assert_true(x.sees(x.ctx, to, 15));
            x.settle(x.ctx, to, ids, 12);
            assert_true(x.sees(x.ctx, to, 12) && !x.sees(x.ctx, to, 13));
            x.release(x.ctx, to, NULL, 12);
            assert_int_equal(x.begin(x.ctx, to, &p), 0);
            assert_int_equal(x.fork(x.ctx, from, 15, to, &p), 0);
            p.id = other;
            assert_int_equal(x.begin(x.ctx, to, &p), 0);
        }
    }
    gallop_close(g);
}

/* A failed run loses the rows of all slots, also of those in which no sequence runs. */
static void rows_that_a_failed_device_had_are_not_used(void **state)
{
    struct executor_prefix p = {.n = 30, .n_prompt = 30, .n_shared = 29};
    struct executor_rows rows = {.n = 16, .n_prompt = 30, .n_total = 30};
    struct executor x;
    struct gallop *g;
    int32_t ids[30];
    struct err e;
    int rc;

    fail_call(0);
    g = open_wide(5);
    engines_text(1, 0, 30, ids);
    p.id = rows.id = ids;
    frames_executor((struct frames *)(uintptr_t)engine_frames(g), &x);
    assert_int_equal(x.begin(x.ctx, 0, &p), 0);
    assert_int_equal(x.run(x.ctx, &rows, 1, &e), 0);
    x.release(x.ctx, 0, ids, 16);
    assert_int_equal(x.begin(x.ctx, 0, &p), 16);
    x.release(x.ctx, 0, ids, 16);
    fail_call(1);
    rows.slot = 1;
    assert_int_equal(x.run(x.ctx, &rows, 1, &e), ERR_OS);
    while ((rc = x.reopen(x.ctx, &e)) == EXECUTOR_LATER)
        x.reopen_wait(x.ctx, 1);
    assert_int_equal(rc, 0);
    assert_int_equal(x.begin(x.ctx, 0, &p), 0);
    gallop_close(g);
}

/* A frame reads at least the rows of its sequences: the bucket that they fill, or the next one. */
static void a_row_sees_all_rows_before_it(void **state)
{
    struct gallop_options o = options();
    struct gallop *narrow, *wide;
    int32_t ids[40], token[8], right[8];

    fail_call(0);
    wide = engines_open("demo", &o);
    o.context_buckets = "20,32";
    narrow = engines_open("demo", &o);
    engines_text(6, 0, 40, ids);
    for (size_t n = 15; n <= 35; n++) {
        ask(wide, ids, n, 8, NULL, right);
        ask(narrow, ids, n, 8, NULL, token);
        assert_memory_equal(token, right, sizeof(right));
    }
    gallop_close(narrow);
    gallop_close(wide);
}

static void every_call_may_fail_while_rows_are_copied(void **state)
{
    struct engines_answer right[8] = {{0}}, a[8];
    struct gallop_request r;
    char says[256];
    int32_t ids[38];
    struct gallop *g;
    long n_good, before = objects();

    fail_call(0);
    g = open_wide(5);
    engines_text(4, 0, 38, ids);
    for (long n = 0, end = 1; n <= end; n++) {
        fail_call(n);
        memset(a, 0, sizeof(a));
        submit_copies(g, 3, 1, &r, ids);
        r.user = (void *)4;
        r.n = 1;
        r.sampling.num_beams = 2;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        engines_run(g, a);
        n_good = calls();
        end = n ? end : n_good;
        if (n == 0)
            memcpy(right, a, sizeof(a));
        else if (engines_differ(a, right, 8, says))
            fail_msg("call %ld: %s", n, says);
        fail_call(0);
        ask(g, ids, 1, 1, "elsewhere", (int32_t[1]){0});
    }
    assert_true(restarts(g) > 20);
    gallop_close(g);
    assert_int_equal(objects(), before);
}

/* ---- frequencies that depend on the length of a sequence ---- */

enum { ORIGINAL = 128, LONGEST = 192 }; /* the length from which on the frequencies of these goldens change */

static struct gallop *open_rope(const char *name)
{
    struct gallop_options o = options();

    fail_call(0);
    o.max_num_seqs = 1;
    o.batch_buckets = "1";
    o.max_model_len = LONGEST;
    o.kv_cache_tokens = 1024;
    o.context_buckets = "192";
    o.prompt_buckets = "192";
    o.max_batched_tokens = LONGEST;
    return engines_open(name, &o);
}

/* Checks the cosines and sines of the last frame, whose rows are those from POS on of a sequence of N_TOTAL
 * tokens, of which N_PROMPT are its prompt. */
static void expect_angles(struct gallop *g, size_t pos, size_t n_prompt, size_t n_total)
{
    static float cos[LONGEST * 64], sin[LONGEST * 64];
    const struct model_info *info = &engine_llm(g)->model.info;
    struct batch_seq s = {.n = n_total - pos, .pos = pos, .n_prompt = n_prompt, .n_total = n_total};
    struct batch b = {.n_seqs = 1, .seq = &s};
    size_t T = pos ? 1 : LONGEST, n_cos = T * info->rope[0].half, n;
    const int32_t *found = inputs(&n);

    rope_fill(&info->rope[0], &b, 0, s.n, cos, sin);
    assert_int_equal(info->n_ropes, 1);
    assert_int_equal(n, 4 * T + 1 + 2 * n_cos + 1);
    found += 4 * T + 1;
    assert_memory_equal(found, cos, s.n * info->rope[0].half * sizeof(*cos));
    assert_memory_equal(found + n_cos, sin, s.n * info->rope[0].half * sizeof(*sin));
    for (size_t i = s.n * info->rope[0].half; i < n_cos; i++) /* padding */
        assert_true(found[i] == 0 && found[n_cos + i] == 0);
}

static void frequencies_are_those_of_the_sequence_and_not_of_the_longest(void **state)
{
    static const size_t lengths[] = {150, 10, ORIGINAL - 1, ORIGINAL, ORIGINAL + 1};
    static const char *const names[] = {"phi3-longrope", "llama-dynamic"};
    int32_t ids[LONGEST], token[2];

    engines_text(0, 0, LONGEST, ids);
    for (size_t k = 0; k < 2; k++) {
        struct gallop *g = open_rope(names[k]);

        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            size_t n = lengths[i];
            char salt[2] = {(char)('a' + i), 0};

            ask(g, ids, n, 1, salt, token);
            expect_angles(g, 0, n, n);
            ids[0]++; /* so that no rows are found */
            ask(g, ids, n, 2, salt, token);
            expect_angles(g, k == 0 && n == ORIGINAL ? 0 : n, n, n + 1);
        }
        gallop_close(g);
    }
}

/* Greedy answers continue as if their tokens had been the prompt, on both sides of the border. */
static void rows_are_computed_again_across_the_border_of_longrope(void **state)
{
    struct gallop *g = open_rope("phi3-longrope");
    int32_t ids[LONGEST], token[30], next;

    engines_text(5, 0, LONGEST, ids);
    ask(g, ids, ORIGINAL - 10, 30, "a", token);
    memcpy(ids + ORIGINAL - 10, token, sizeof(token));
    for (size_t n = 0; n < 30; n++) {
        ask(g, ids, 1, 1, "c", &next);
        assert_int_equal(ask(g, ids, ORIGINAL - 10 + n, 1, "b", &next), 0);
        assert_int_equal(next, token[n]);
    }
    /* What a slot holds is used on the side of the border on which it was computed. */
    assert_int_equal(ask(g, ids, ORIGINAL + 19, 1, "b", &next), ORIGINAL + 18);
    assert_int_equal(ask(g, ids, ORIGINAL + 1, 1, "b", &next), ORIGINAL);
    assert_int_equal(ask(g, ids, ORIGINAL, 1, "b", &next), 0);
    assert_int_equal(next, token[10]);
    assert_int_equal(ask(g, ids, ORIGINAL - 1, 1, "b", &next), ORIGINAL - 2);
    assert_int_equal(ask(g, ids, ORIGINAL + 1, 1, "b", &next), 0);
    assert_int_equal(next, token[11]);
    gallop_close(g);
}

static void rows_of_dynamic_ntk_are_used_for_prompts_of_their_length(void **state)
{
    struct gallop *g = open_rope("llama-dynamic");
    int32_t ids[LONGEST], right, next;

    engines_text(5, 0, LONGEST, ids);
    ask(g, ids, 150, 1, "a", &right);
    ask(g, ids, 140, 1, "b", &next);
    assert_int_equal(ask(g, ids, 150, 1, "b", &next), 0);
    assert_int_equal(next, right);
    assert_int_equal(ask(g, ids, 150, 1, "b", &next), 149);
    assert_int_equal(next, right);
    ask(g, ids, ORIGINAL - 8, 1, "b", &next);
    assert_int_equal(ask(g, ids, ORIGINAL, 1, "b", &next), ORIGINAL - 8);
    assert_int_equal(ask(g, ids, ORIGINAL + 1, 1, "b", &next), 0);
    gallop_close(g);
}

/* ---- failures under load ---- */

enum { LOAD = 7 };

/* Submits LOAD requests of many kinds, which need more slots than there are, and takes their answers. Returns the sum
 * of the log-probabilities of scored prompts. */
static double run_load(struct gallop *g, struct engines_answer *all)
{
    struct gallop_event ev;
    double sum = 0;

    memset(all, 0, LOAD * sizeof(*all));
    for (size_t i = 0; i < LOAD; i++) {
        struct gallop_request r;
        int32_t ids[40];
        char err[GALLOP_ERR_SIZE];

        gallop_request_init(&r);
        engines_text(3 * i, 0, 40, ids);
        r.ids = ids;
        r.n_ids = 3 + i * 6;
        r.user = (void *)i;
        r.sampling.max_new_tokens = (int64_t)(3 + i % 4);
        r.sampling.ignore_eos = 1;
        r.sampling.do_sample = i % 3 == 1;
        r.sampling.has_seed = 1;
        r.sampling.seed = i;
        r.sampling.logprobs = i % 3 == 2 ? 2 : -1;
        r.prompt_logprobs = i == 5 ? 1 : -1;
        if (gallop_submit(g, &r, NULL, err) != 0)
            fail_msg("%s", err);
    }
    while (gallop_next(g, &ev))
        if (ev.type == GALLOP_PROMPT_TOKEN)
            sum += (double)ev.logprob;
        else
            engines_take(all, &ev);
    return sum;
}

static void every_call_may_fail_under_load(void **state)
{
    static struct engines_answer without[LOAD], with[LOAD];
    struct gallop_options o = options();
    struct gallop *g;
    char says[256];
    long n_good, before = objects();
    double sum;

    fail_call(0);
    g = engines_open("demo", &o);
    reset();
    sum = run_load(g, without);
    n_good = calls();
    assert_int_not_equal(without[0].token[0], without[0].token[1]);
    for (long times = 1; times <= 3; times++) {
        char text[24];

        /* After a second call the caches cannot be made again, and all is opened again; a third one fails then. */
        snprintf(text, sizeof(text), "%ld", times);
        setenv("FAKE_PJRT_TIMES", text, 1);
        for (long n = times; n <= n_good; n += times == 1 ? 1 : 31) {
            uint64_t n_restarts = restarts(g);

            fail_call(n);
            assert_true(run_load(g, with) == sum);
            if (engines_differ(with, without, LOAD, says))
                fail_msg("call %ld: %s", n, says);
            assert_true(restarts(g) == n_restarts + 1 || calls() < n);
        }
    }
    unsetenv("FAKE_PJRT_TIMES");
    gallop_close(g);
    assert_int_equal(objects(), before);
}

/* ---- closing ---- */

/* Runs steps of G until its executor is down and a call of the plugin hangs on another thread. */
static void run_until_it_hangs(struct gallop *g)
{
    struct gallop_event ev;

    engines_submit_text(g, 10, 3, 0);
    for (int i = 0; !let_go(false) && i < 5000; i++) {
        gallop_step(g, 0.01);
        while (gallop_take(g, &ev))
            ;
    }
    assert_int_equal(let_go(false), 1);
}

static size_t n_threads(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/task");

    for (struct dirent *f; (f = readdir(d)) != NULL;)
        n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Lets the plugin's calls return, and waits until no more than N threads are left, which then have used what was left
 * behind. */
static void expect_end_of_threads(size_t n)
{
    let_go(true);
    for (int i = 0; n_threads() > n && i < 20000; i++)
        usleep(1000);
    assert_int_equal(n_threads(), n);
    assert_int_equal(let_go(false), 0);
}

/* The calls that hang are those that end a client: of a device that is opened again, or of the engine itself. */
static void an_engine_is_closed_while_a_call_hangs(void **state)
{
    static struct gallop *left[2]; /* to the leak sanitizer, what is left behind is not lost */
    size_t before;

    for (int stays = 0; stays < 2; stays++) {
        struct gallop_options o = options();
        struct gallop *g;
        double begin;

        fail_call(0);
        g = engines_open("demo", &o);
        before = n_threads();
        if (stays) {
            setenv("FAKE_PJRT_STAY", "1", 1);
        } else {
            setenv("FAKE_PJRT_TIMES", "2", 1);
            fail_call(1); /* the upload of a frame, and caches that cannot be made */
            setenv("FAKE_PJRT_STAY", "1", 1);
            run_until_it_hangs(g);
        }
        left[stays] = g;
        begin = clock_seconds();
        gallop_close(g);
        assert_true(clock_seconds() - begin < 60); /* it would last for ever */
        assert_int_equal(let_go(false), 1);
        expect_end_of_threads(before);
        assert_non_null(left[stays]);
        unsetenv("FAKE_PJRT_STAY");
        unsetenv("FAKE_PJRT_TIMES");
    }
}

static void an_engine_is_closed_while_its_process_hangs(void **state)
{
    struct gallop_options o = options();
    struct gallop_event ev;
    size_t live = mem_live_blocks();
    struct gallop *g;
    double begin;

    if (getenv("GALLOP_BIN"))
        setenv("GALLOP_PROGRAM", getenv("GALLOP_BIN"), 1);
    o.executor_process = 1;
    fail_call(0);
    g = engines_open("demo", &o);
    fail_call(4); /* of the next process: a call while it is opened */
    setenv("FAKE_PJRT_HOW", "hang", 1);
    kill(children_first(getpid()), SIGKILL);
    engines_submit_text(g, 10, 3, 0);
    for (int i = 0; i < 100; i++) { /* until the next process hangs, or before that */
        gallop_step(g, 0.01);
        while (gallop_take(g, &ev))
            ;
    }
    begin = clock_seconds();
    gallop_close(g);
    assert_true(clock_seconds() - begin < 60); /* it would be 1800 */
    assert_int_equal(children_first(getpid()), 0);
    assert_int_equal(mem_live_blocks(), live);
    unsetenv("FAKE_PJRT_HOW");
}

static float read_row(const struct llm *m, const struct linear *l, size_t i, float *out)
{
    static int8_t number[4096];
    float scale;

    if (linear_ints_of(l)) {
        scale = linear_ints_row8(l, i, number);
        for (size_t k = 0; k < l->k; k++)
            out[k] = number[k];
        return scale;
    }
    if (stream_of(&m->model, l))
        stream_row(stream_of(&m->model, l), i, out);
    else
        linear_row(l, i, out);
    return 1;
}

/* With this executor, linears are not packed when the model is opened, and their weights are those of one that is. */
static void weights_are_read_one_linear_at_a_time(void **state)
{
    static float found[4096], expected[4096];

    fail_call(0);
    for (int is_int8 = 0; is_int8 < 2; is_int8++) {
        struct gallop_options o = options(), plain = engines_options(2, 16, 64);
        struct gallop *g, *eager;
        struct llm *m, *other;
        struct err e;

        o.quant = plain.quant = is_int8 ? "int8" : NULL;
        g = engines_open("demo", &o);
        eager = engines_open("demo", &plain);
        m = engine_llm(g);
        other = engine_llm(eager);
        assert_int_equal(llm_check_computes(other, &e), 0);
        assert_int_equal(llm_check_computes(m, &e), ERR_UNSUPPORTED);
        assert_int_equal(m->model.n_linears, other->model.n_linears);
        for (size_t n = 0; n < m->model.n_linears; n++) {
            const struct linear *l = m->model.linear[n];

            const struct model_todo *t = stream_of(&m->model, l);

            assert_true(t && !l->packed);
            assert_null(stream_of(&other->model, other->model.linear[n]));
            if (is_int8)
                assert_int_equal(stream_pack(t, m->pool, &e), 0);
            for (size_t i = 0; i < l->n; i += l->n / 7 + 1) {
                float scale = read_row(m, l, i, found);

                assert_true(scale == read_row(other, other->model.linear[n], i, expected));
                assert_memory_equal(found, expected, l->k * sizeof(float));
            }
            stream_unpack(t);
            stream_drop(l, t);
            assert_null(l->packed);
        }
        gallop_close(g);
        gallop_close(eager);
    }
}

static void allocations_may_fail_while_a_device_is_opened_again(void **state)
{
    struct gallop_options o = options();
    struct gallop *g;
    bool failed = true;
    size_t live;

    fail_call(0);
    g = engines_open("demo", &o);
    setenv("FAKE_PJRT_TIMES", "2", 1);
    live = mem_live_blocks();
    for (long n = 1; failed; n += 1 + n / 3) { /* the next try has the memory that failed */
        struct engines_answer a = {0};

        engines_submit_text(g, 10, 3, 0);
        fail_call(1);
        mem_fail_at(n);
        engines_run(g, &a);
        failed = mem_failed();
        mem_fail_at(0);
        if (a.end.finish != GALLOP_FINISH_LENGTH) /* of the request itself */
            assert_true(n < 10 && a.end.finish == GALLOP_FINISH_ERROR);
        assert_int_equal(mem_live_blocks(), live);
    }
    unsetenv("FAKE_PJRT_TIMES");
    gallop_close(g);
}

static void as_many_buckets_as_may_be_given_are_served(void **state)
{
    struct gallop_options o = options();
    struct engines_answer a = {0};
    struct gallop *g;

    fail_call(0);
    o.context_buckets = "16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31";
    g = engines_open("demo", &o);
    engines_submit_text(g, 50, 3, 0);
    engines_run(g, &a);
    assert_int_equal(a.n, 3);
    gallop_close(g);
}

static void embeddings_and_other_kv_types_are_refused(void **state)
{
    struct gallop_options o = options();
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    fail_call(0);
    g = engines_open("demo", &o);
    gallop_request_init(&r);
    r.text = "x";
    r.text_len = 1;
    r.pooling = GALLOP_POOL_MEAN;
    r.sampling.max_new_tokens = 0;
    assert_int_equal(gallop_submit(g, &r, NULL, err), GALLOP_UNSUPPORTED);
    assert_non_null(strstr(err, "computes no embeddings"));
    gallop_close(g);
    o.kv_cache_dtype = "int8";
    assert_int_equal(engines_try(&g, "demo", &o, err), GALLOP_UNSUPPORTED);
    assert_non_null(strstr(err, "kv_cache_dtype"));
}

static void other_versions_are_refused_by_their_numbers(void **state)
{
    struct gallop_options o = options();
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    fail_call(0);
    setenv("FAKE_PJRT_MAJOR", "7", 1);
    assert_int_equal(engines_try(&g, "demo", &o, err), GALLOP_UNSUPPORTED);
    assert_non_null(strstr(err, "version 7.0 of the interface, expected 0.*"));
    unsetenv("FAKE_PJRT_MAJOR");
    setenv("FAKE_PJRT_SMALL", "1", 1);
    assert_int_equal(engines_try(&g, "demo", &o, err), GALLOP_UNSUPPORTED);
    assert_non_null(strstr(err, "has a table of 200 bytes"));
    unsetenv("FAKE_PJRT_SMALL");
    o.pjrt_device = 3;
    assert_int_equal(engines_try(&g, "demo", &o, err), GALLOP_BAD_INPUT);
    assert_non_null(strstr(err, "has 1 devices, and no device 3"));
}

static void options_reach_the_plugin_in_their_types(void **state)
{
    struct gallop_options o = options();
    struct frames_stats s;
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

    fail_call(0);
    o.pjrt_options = "{\"a\":\"x\",\"b\":-7,\"c\":0.5,\"d\":true,\"e\":[3,4],\"f\":false}";
    g = engines_open("demo", &o);
    frames_stats(engine_frames(g), &s);
    assert_string_equal(s.version, "fake a='x' b=-7 c=0.5f d=yes e=[3,4 f=no");
    gallop_close(g);
    o.pjrt_options = "{\"a\":null}";
    assert_int_equal(engines_try(&g, "demo", &o, err), GALLOP_BAD_INPUT);
    assert_non_null(strstr(err, "pjrt_options: a is null, expected a string"));
}

static void a_device_without_enough_memory_is_refused_with_what_fits(void **state)
{
    struct gallop_options o = options();
    char err[GALLOP_ERR_SIZE], *at;
    struct gallop *g;
    long slots;

    fail_call(0);
    setenv("FAKE_PJRT_MEMORY", "17000000000,1000000000", 1);
    g = engines_open("demo", &o);
    gallop_close(g);
    o.max_num_seqs = 100;
    o.batch_buckets = "100";
    o.max_batched_tokens = 100;
    o.max_model_len = 2048;
    setenv("FAKE_PJRT_MEMORY", "60000000,1000000", 1);
    assert_int_equal(engines_try(&g, "demo", &o, err), GALLOP_NO_MEMORY);
    assert_non_null(strstr(err, "caches of 100 slots x 2048 rows"));
    assert_non_null(strstr(err, "but the device has 56.27 MiB free of 57.22 MiB"));
    assert_non_null(at = strstr(err, "MiB; "));
    slots = strtol(at + 5, NULL, 10);
    assert_true(slots > 1 && slots < 100);
    o.max_num_seqs = o.max_batched_tokens = slots; /* what it names can be opened */
    o.batch_buckets = o.prompt_buckets = NULL;
    g = engines_open("demo", &o);
    gallop_close(g);
    unsetenv("FAKE_PJRT_MEMORY");
}

static void buckets_are_read(void **state)
{
    static const char *const wrong[] = {"", ",", "0", "8,8", "16,8", "1,2,", "x", "-1", "65", "1 2", "+1"};
    struct frames_buckets b;
    struct err e;

    assert_int_equal(frames_read_buckets(&b, "1", "x", 64, &e), 0);
    assert_int_equal(frames_read_buckets(&b, "1,2,64", "x", 64, &e), 0);
    assert_int_equal(b.n, 3);
    assert_int_equal(b.size[2], 64);
    assert_int_equal(frames_read_buckets(&b, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "x", 64, &e), 0);
    assert_int_equal(frames_read_buckets(&b, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "x", 64, &e),
                     ERR_INPUT);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (frames_read_buckets(&b, wrong[i], "x", 64, &e) != ERR_INPUT)
            fail_msg("\"%s\" is accepted", wrong[i]);
}

/* Runs ROWS [n], which must be refused with the words SAYS; NULL: which must succeed. */
static void run_rows(struct gallop_executor *x, const struct gallop_rows *rows, size_t n, const char *says)
{
    struct gallop_outcome out;
    char err[GALLOP_ERR_SIZE];
    int rc = gallop_executor_run(x, rows, n, &out, err);

    if (!says && rc)
        fail_msg("%s", err);
    if (says && (rc != GALLOP_BAD_INPUT || !strstr(err, says)))
        fail_msg("status %d: %s", rc, err);
}

static void a_scheduler_outside_runs_prompts_alone_in_slots(void **state)
{
    static const int32_t ids[64];
    const struct gallop_rows prompt = {.ids = ids, .n = 7, .n_wanted = 1},
                             other = {.ids = ids, .n = 2, .slot = 1, .n_wanted = 2};
    struct gallop_options o = options();
    struct gallop_executor_caps caps;
    struct gallop_executor *x;
    char err[GALLOP_ERR_SIZE];

    fail_call(0);
    o.model = engines_path("demo");
    assert_int_equal(gallop_executor_open(&x, GALLOP_EXECUTOR_VERSION, &o, err), 0);
    gallop_executor_describe(x, &caps);
    assert_true(!caps.mixes && caps.chunks && caps.max_prompts == 1);
    assert_int_equal(caps.n_slots, 2);
    assert_int_equal(caps.n_blocks, 0);
    assert_true(caps.kv_bytes > 0);
    run_rows(x, (struct gallop_rows[]){prompt, other}, 2, "2 sequences have more than one row");
    run_rows(x, (struct gallop_rows[]){prompt, {.ids = ids, .n = 1, .slot = 1}}, 2,
             "1 of 2 sequences have more than one row");
    run_rows(x, &prompt, 1, NULL);
    run_rows(x, &other, 1, NULL);
    run_rows(x, (struct gallop_rows[]){{.ids = ids, .n = 1, .pos = 7}, {.ids = ids, .n = 1, .slot = 1}}, 2,
             NULL);
    run_rows(x, &(struct gallop_rows){.ids = ids, .n = 1, .pos = 9}, 1, "its slot 0 has 8 rows");
    assert_int_equal(gallop_executor_truncate(x, 0, 4, err), 0);
    run_rows(x, &(struct gallop_rows){.ids = ids, .n = 1, .pos = 5}, 1, "its slot 0 has 4 rows");
    run_rows(x, &(struct gallop_rows){.ids = ids, .n = 3, .pos = 4}, 1, NULL);
    gallop_executor_close(x);
}

/* Computes the prompt IDS [7] in slot 1, and then a row behind it. Returns the token with the largest logit, or -1 if a
 * run fails. */
static int32_t run_twice(struct gallop_executor *x, const int32_t *ids, char *err)
{
    const struct gallop_rows rows[2] = {{.ids = ids, .n = 7, .slot = 1},
                                        {.ids = ids + 7, .n = 1, .pos = 7, .slot = 1, .n_wanted = 1}};
    struct gallop_executor_caps caps;
    struct gallop_outcome out;
    int32_t best = 0;

    gallop_executor_describe(x, &caps);
    for (int i = 0; i < 2; i++) {
        int rc = gallop_executor_run(x, &rows[i], 1, &out, err);

        if (rc) {
            assert_int_equal(rc, GALLOP_OS_ERROR);
            assert_null(out.logits);
            return -1;
        }
    }
    for (size_t i = 0; i < caps.vocab_size; i++)
        best = out.logits[i] > out.logits[best] ? (int32_t)i : best;
    return best;
}

static void a_scheduler_outside_is_told_that_all_rows_are_lost(void **state)
{
    struct gallop_options o = options();
    struct gallop_executor *x;
    char err[GALLOP_ERR_SIZE];
    long n_good, before = objects();
    int32_t ids[8], right;

    fail_call(0);
    o.model = engines_path("demo");
    engines_text(3, 0, 8, ids);
    assert_int_equal(gallop_executor_open(&x, GALLOP_EXECUTOR_VERSION, &o, err), 0);
    run_twice(x, ids, err);
    reset();
    right = run_twice(x, ids, err);
    n_good = calls();
    for (long n = 1; n <= n_good; n++) {
        char what[40];

        fail_call(n);
        snprintf(what, sizeof(what), "call %ld failed", n);
        assert_int_equal(run_twice(x, ids, err), -1);
        assert_non_null(strstr(err, what));
        run_rows(x, &(struct gallop_rows){.ids = ids, .n = 1, .pos = 7, .slot = 1}, 1,
                 "its slot 1 has 0 rows");
        assert_int_equal(run_twice(x, ids, err), right);
    }
    gallop_executor_close(x);
    assert_int_equal(objects(), before);
}

static void blocks_of_the_caller_are_refused(void **state)
{
    struct gallop_options o = options();
    struct gallop_executor *x;
    char err[GALLOP_ERR_SIZE];

    fail_call(0);
    o.model = engines_path("demo");
    o.kv_cache_type = "extern";
    o.kv_cache_tokens = 1024;
    assert_int_equal(gallop_executor_open(&x, GALLOP_EXECUTOR_VERSION, &o, err), GALLOP_UNSUPPORTED);
    assert_non_null(strstr(err, "stores rows in slots"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail_while_a_model_is_opened),
        cmocka_unit_test(no_program_is_compiled_for_more_rows_than_a_step_has),
        cmocka_unit_test(a_step_that_fails_is_computed_again),
        cmocka_unit_test(a_prompt_whose_chunks_fail_is_computed_again),
        cmocka_unit_test(greedy_requests_copy_a_token_for_each_row),
        cmocka_unit_test(tokens_that_the_device_does_not_know_are_drawn_from_logits),
        cmocka_unit_test(guesses_are_verified_in_one_frame),
        cmocka_unit_test(a_scored_prompt_is_computed_once),
        cmocka_unit_test(rows_of_another_salt_are_not_used),
        cmocka_unit_test(rows_of_a_scored_prompt_have_their_own_logits),
        cmocka_unit_test(answers_and_beams_copy_the_rows_that_they_share),
        cmocka_unit_test(two_slots_are_enough_for_a_copy),
        cmocka_unit_test(a_copied_slot_gives_its_rows_like_another),
        cmocka_unit_test(rows_that_a_failed_device_had_are_not_used),
        cmocka_unit_test(a_row_sees_all_rows_before_it),
        cmocka_unit_test(every_call_may_fail_while_rows_are_copied),
        cmocka_unit_test(frequencies_are_those_of_the_sequence_and_not_of_the_longest),
        cmocka_unit_test(rows_are_computed_again_across_the_border_of_longrope),
        cmocka_unit_test(rows_of_dynamic_ntk_are_used_for_prompts_of_their_length),
        cmocka_unit_test(every_call_may_fail_under_load),
        cmocka_unit_test(an_engine_is_closed_while_a_call_hangs),
        cmocka_unit_test(an_engine_is_closed_while_its_process_hangs),
        cmocka_unit_test(weights_are_read_one_linear_at_a_time),
        cmocka_unit_test(allocations_may_fail_while_a_device_is_opened_again),
        cmocka_unit_test(as_many_buckets_as_may_be_given_are_served),
        cmocka_unit_test(embeddings_and_other_kv_types_are_refused),
        cmocka_unit_test(other_versions_are_refused_by_their_numbers),
        cmocka_unit_test(options_reach_the_plugin_in_their_types),
        cmocka_unit_test(a_device_without_enough_memory_is_refused_with_what_fits),
        cmocka_unit_test(buckets_are_read),
        cmocka_unit_test(a_scheduler_outside_runs_prompts_alone_in_slots),
        cmocka_unit_test(a_scheduler_outside_is_told_that_all_rows_are_lost),
        cmocka_unit_test(blocks_of_the_caller_are_refused),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, load_fake, NULL);
}
