/* static_shapes.c - see static_shapes.h. */
#include "static_shapes.h"

#include "base/err.h"
#include "base/mem.h"
#include "engine/executor.h"
#include "engine/step.h"
#include "static_shapes.h"

enum { MOST_SLOTS = 64 };

static const size_t buckets[] = {16, 64, 128, 256, 512, 1024, STATIC_LONGEST};

static bool has_room(void *ctx, const struct executor_want *want, size_t n)
{
    struct static_shapes *f = ctx;

    for (size_t i = 0; i < n; i++)
        assert_true(want[i].slot < f->x.caps.n_slots);
    return f->inner->has_room(f->inner->ctx, want, n);
}

/* A slot has its own cache lines, so rows are never shared. */
static size_t begin(void *ctx, size_t slot, const struct executor_prefix *p)
{
    return 0;
}

static int reserve(void *ctx, size_t slot, size_t n)
{
    struct static_shapes *f = ctx;

    return f->inner->reserve(f->inner->ctx, slot, n);
}

static int fork_rows(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p)
{
    return ERR_UNSUPPORTED;
}

static void release(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct static_shapes *f = ctx;

    f->inner->release(f->inner->ctx, slot, NULL, 0);
}

static bool is_stale(void *ctx, size_t computed, size_t last_total, size_t total)
{
    struct static_shapes *f = ctx;

    return f->inner->is_stale(f->inner->ctx, computed, last_total, total);
}

static double clock_s(void *ctx)
{
    struct static_shapes *f = ctx;

    return f->inner->clock_s(f->inner->ctx);
}

/* Fills N rows of padding, at positions from 0, of the scratch slot. */
static struct executor_rows padding(struct static_shapes *f, size_t n)
{
    static const int32_t zeros[STATIC_LONGEST] = {0};
    size_t scratch = f->x.caps.n_slots;

    mem_guard_down(); /* A real executor has its scratch slot from the start. */
    f->inner->release(f->inner->ctx, scratch, NULL, 0);
    assert_int_equal(f->inner->reserve(f->inner->ctx, scratch, n), 0);
    mem_guard_up();
    f->n_padding += n;
    return (struct executor_rows){.slot = scratch, .id = zeros, .n = n, .n_prompt = n, .n_total = n};
}

/* A prompt is computed as a whole, and alone. */
static void check_prompt(const struct executor_rows *rows, size_t n, size_t n_prompts)
{
    if (n_prompts == 0)
        return;
    assert_int_equal(n, 1);
    assert_int_equal(rows[0].pos, 0);
    assert_int_equal(rows[0].n, rows[0].n_total);
}

static int run(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    struct static_shapes *f = ctx;
    size_t n_slots = f->x.caps.n_slots, bucket = 0, n_prompts = 0, n_full = n;
    struct executor_rows padded[MOST_SLOTS + 1];
    int rc;

    assert_true(n <= n_slots && n_slots <= MOST_SLOTS);
    for (size_t i = 0; i < n; i++)
        n_prompts += rows[i].n > 1;
    if (!f->inner->caps.mixes) { /* it pads by itself */
        f->n_prompts += n_prompts;
        f->n_frames += n_prompts == 0;
        check_prompt(rows, n, n_prompts);
        return f->inner->run(f->inner->ctx, rows, n, e);
    }
    memcpy(padded, rows, n * sizeof(*rows));
    check_prompt(rows, n, n_prompts);
    if (n_prompts) {
        while (buckets[bucket] < rows[0].n)
            bucket++;
        f->n_prompts++;
        if (buckets[bucket] > rows[0].n)
            padded[n_full++] = padding(f, buckets[bucket] - rows[0].n);
    } else { /* a frame of all slots */
        f->n_frames++;
        if (n < n_slots)
            padded[n_full++] = padding(f, n_slots - n);
    }
    rc = f->inner->run(f->inner->ctx, padded, n_full, e);
    mem_guard_down();
    f->inner->release(f->inner->ctx, n_slots, NULL, 0);
    mem_guard_up();
    return rc;
}

static void settle(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct static_shapes *f = ctx;

    f->inner->settle(f->inner->ctx, slot, token, n);
}

/* Padding is at the end, so rows with logits have the same numbers as in the inner executor. */
static const float *logits_of(void *ctx, size_t first, size_t n)
{
    struct static_shapes *f = ctx;

    return f->inner->logits(f->inner->ctx, first, n);
}

static const int32_t *best(void *ctx, size_t first, size_t n)
{
    struct static_shapes *f = ctx;

    return f->inner->best(f->inner->ctx, first, n);
}

static const float *hidden(void *ctx, size_t first, size_t n)
{
    struct static_shapes *f = ctx;

    return f->inner->hidden(f->inner->ctx, first, n);
}

void static_shapes_drive(struct static_shapes *f, struct gallop *g)
{
    struct step *loop = engine_loop(g);
    struct step_options o = loop->opt;
    struct err e = {0};

    *f = (struct static_shapes){.inner = loop->x, .x = *loop->x};
    f->x.caps.n_slots--;
    f->x.caps.max_prompts = 1;
    f->x.caps.mixes = f->x.caps.chunks = f->x.caps.guesses = false;
    if (f->inner->caps.mixes) {
        assert_true(f->x.caps.max_tokens >= STATIC_LONGEST);
        f->x.caps.max_tokens = STATIC_LONGEST;
    }
    f->x.ctx = f;
    f->x.has_room = has_room;
    f->x.begin = begin;
    f->x.reserve = reserve;
    f->x.fork = fork_rows;
    f->x.release = release;
    f->x.is_stale = is_stale;
    f->x.run = run;
    f->x.settle = settle;
    f->x.logits = logits_of;
    f->x.best = f->inner->best ? best : NULL;
    f->x.hidden = f->inner->hidden ? hidden : NULL;
    f->x.clock_s = clock_s;
    step_close(loop);
    if (step_open(loop, &f->x, &o, &e) != 0)
        fail_msg("%s", e.msg);
}
