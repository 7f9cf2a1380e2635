/* test_static.c - an executor of static shapes drives the same engine and gives the same tokens: prompts one
 * at a time, whole and padded to a bucket, decoding in full frames of all slots, the two never in one step,
 * and padding that can write into no live slot.
 */
#include "base/mem.h"
#include "engine/step.h"
#include "engines.h"

enum { SLOTS = 4, LONGEST = 128 };

static const size_t buckets[] = {16, 32, 64, 128};

/* Wraps an executor that allows everything. Its last slot is the scratch that padding writes into. */
struct fixed {
    const struct executor *inner;
    struct executor x;
    size_t n_prompts, n_frames, n_padding;
};

static bool has_room(void *ctx, const struct executor_want *want, size_t n)
{
    struct fixed *f = ctx;

    for (size_t i = 0; i < n; i++)
        assert_true(want[i].slot < SLOTS);
    return f->inner->has_room(f->inner->ctx, want, n);
}

/* A slot has cache lines of its own: nothing comes from elsewhere. */
static size_t begin(void *ctx, size_t slot, const struct executor_prefix *p)
{
    return 0;
}

static int reserve(void *ctx, size_t slot, size_t n)
{
    struct fixed *f = ctx;

    return f->inner->reserve(f->inner->ctx, slot, n);
}

static int fork_rows(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p)
{
    return ERR_UNSUPPORTED;
}

static void release(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct fixed *f = ctx;

    f->inner->release(f->inner->ctx, slot, NULL, 0);
}

static bool is_stale(void *ctx, size_t computed, size_t last_total, size_t total)
{
    struct fixed *f = ctx;

    return f->inner->is_stale(f->inner->ctx, computed, last_total, total);
}

static double clock_s(void *ctx)
{
    struct fixed *f = ctx;

    return f->inner->clock_s(f->inner->ctx);
}

/* N rows of padding, at positions from 0 on, of the scratch slot. */
static struct executor_rows padding(struct fixed *f, size_t n)
{
    static const int32_t zeros[LONGEST] = {0};

    mem_guard_down(); /* a real one has its scratch from the start */
    f->inner->release(f->inner->ctx, SLOTS, NULL, 0);
    assert_int_equal(f->inner->reserve(f->inner->ctx, SLOTS, n), 0);
    mem_guard_up();
    f->n_padding += n;
    return (struct executor_rows){.slot = SLOTS, .id = zeros, .n = n, .n_prompt = n, .n_total = n};
}

static const float *run(void *ctx, const struct executor_rows *rows, size_t n)
{
    struct fixed *f = ctx;
    struct executor_rows padded[SLOTS + 1];
    size_t bucket = 0, n_prompts = 0;

    for (size_t i = 0; i < n; i++)
        n_prompts += rows[i].n > 1;
    memcpy(padded, rows, n * sizeof(*rows));
    if (n_prompts) { /* whole, alone */
        assert_int_equal(n, 1);
        assert_int_equal(rows[0].pos, 0);
        assert_int_equal(rows[0].n, rows[0].n_total);
        while (buckets[bucket] < rows[0].n)
            bucket++;
        f->n_prompts++;
        if (buckets[bucket] > rows[0].n) {
            padded[n] = padding(f, buckets[bucket] - rows[0].n);
            n++;
        }
    } else { /* a frame of all slots */
        f->n_frames++;
        if (n < SLOTS) {
            padded[n] = padding(f, SLOTS - n);
            n++;
        }
    }
    return f->inner->run(f->inner->ctx, padded, n);
}

static void wrap(struct fixed *f, const struct executor *inner)
{
    *f = (struct fixed){.inner = inner, .x = *inner};
    f->x.caps.n_slots = SLOTS;
    f->x.caps.max_prompts = 1;
    f->x.caps.mixes = f->x.caps.chunks = false;
    f->x.caps.max_tokens = LONGEST;
    f->x.ctx = f;
    f->x.has_room = has_room;
    f->x.begin = begin;
    f->x.reserve = reserve;
    f->x.fork = fork_rows;
    f->x.release = release;
    f->x.is_stale = is_stale;
    f->x.run = run;
    f->x.clock_s = clock_s;
}

enum { REQUESTS = 12 };

/* Adds requests to G, and runs it dry; tokens into OUT. */
static void run_requests(struct step *g, int32_t out[REQUESTS][LONGEST], size_t n_vocab)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        int32_t ids[LONGEST];
        struct sampling sampling;
        struct seq_request r = {
            .ids = ids, .n_ids = 1 + i * 9 % 70, .sampling = &sampling, .prompt_logprobs = -1};
        struct err e = {0};
        struct seq *s;

        engines_text(i, 0, r.n_ids, ids);
        sampling_default(&sampling);
        sampling.ignore_eos = true;
        sampling.max_new_tokens = 4 + i * 3 % 30;
        sampling.do_sample = i % 2;
        sampling.seed = i;
        sampling_mark(&sampling, SAMPLING_MAX_NEW_TOKENS);
        r.user = out[i];
        assert_int_equal(step_take_place(g, r.n_ids, &e), 0);
        assert_int_equal(seq_new(&s, &r, NULL, n_vocab, LONGEST, &e), 0);
        s->queued = true;
        s->id = i + 1;
        step_add(g, s);
    }
    for (size_t steps = 0; step_run(g); steps++) {
        struct step_event ev;

        assert_true(steps < 10000);
        while (step_take(g, &ev)) {
            int32_t *to = ev.seq->user;

            if (ev.type == STEP_TOKEN)
                to[seq_n_output(ev.seq) - 1] = ev.token;
            if (ev.type == STEP_FINISHED) {
                assert_int_equal(ev.seq->fault.code, 0);
                seq_free(ev.seq);
            }
        }
    }
}

static void static_shapes_give_the_tokens_of_an_executor_that_allows_everything(void **state)
{
    static const char *const models[] = {"llama3-rope", "gemma3"}, *const types[] = {"dynamic", "paged"};

    for (int m = 0; m < 4; m++) {
        struct gallop_options o = engines_options(SLOTS + 1, LONGEST, LONGEST);
        static int32_t free_run[REQUESTS][LONGEST], fixed_run[REQUESTS][LONGEST];
        struct step_options so = {.step_guess_s = .01, .row_guess_s = .001};
        struct gallop *g;
        struct executor x;
        struct fixed f;
        struct step step;
        struct err e = {0};

        memset(free_run, 0, sizeof(free_run));
        memset(fixed_run, 0, sizeof(fixed_run));
        o.kv_cache_type = types[m / 2];
        g = engines_open(models[m % 2], &o);
        llm_executor(gallop_llm(g), &x);
        assert_int_equal(step_open(&step, &x, &so, &e), 0);
        run_requests(&step, free_run, x.caps.n_vocab);
        step_close(&step);
        wrap(&f, &x);
        assert_int_equal(step_open(&step, &f.x, &so, &e), 0);
        run_requests(&step, fixed_run, x.caps.n_vocab);
        step_close(&step);
        f.inner->release(f.inner->ctx, SLOTS, NULL, 0);
        assert_memory_equal(free_run, fixed_run, sizeof(free_run));
        assert_true(f.n_prompts >= REQUESTS - 1 && f.n_frames > 20 &&
                    f.n_padding > 100); /* a prompt of one row is a frame */
        gallop_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_shapes_give_the_tokens_of_an_executor_that_allows_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
