/* dying.c - see dying.h. */
#include "dying.h"

#include "base/err.h"
#include "engine/executor.h"
#include "engine/step.h"

static const struct executor *alive(struct dying *d)
{
    assert_false(d->is_dead);
    return d->inner;
}

static bool has_room(void *ctx, const struct executor_want *want, size_t n)
{
    const struct executor *x = alive(ctx);

    return x->has_room(x->ctx, want, n);
}

static size_t begin(void *ctx, size_t slot, const struct executor_prefix *p)
{
    struct dying *d = ctx;
    const struct executor *x = alive(d);

    d->used[slot] = true;
    return x->begin(x->ctx, slot, p);
}

static int reserve(void *ctx, size_t slot, size_t n)
{
    const struct executor *x = alive(ctx);

    return x->reserve(x->ctx, slot, n);
}

static int fork_rows(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p)
{
    struct dying *d = ctx;
    const struct executor *x = alive(d);
    int rc = x->fork(x->ctx, from, n, to, p);

    d->used[to] |= rc == 0;
    return rc;
}

/* Rows of a dead executor are not kept for other sequences. */
static void release(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct dying *d = ctx;

    assert_false(d->is_dead && token);
    d->used[slot] = false;
    d->inner->release(d->inner->ctx, slot, token, n);
}

static bool is_stale(void *ctx, size_t computed, size_t last_total, size_t total)
{
    const struct executor *x = alive(ctx);

    return x->is_stale(x->ctx, computed, last_total, total);
}

static void failure(void *ctx, struct err *e)
{
    struct dying *d = ctx;

    assert_true(d->is_dead);
    err_set(e, ERR_OS, "run %llu was the last", (unsigned long long)d->n_runs);
}

static int run(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    struct dying *d = ctx;
    const struct executor *x = alive(d);
    size_t n_wanted = 0;

    d->n_runs++;
    d->dies_soon = d->n_runs == d->at || (d->every && d->n_runs % d->every == 0);
    for (size_t i = 0; i < n; i++) {
        d->dies_soon |= d->poison && rows[i].n_prompt == d->poison;
        n_wanted += rows[i].n_wanted;
    }
    if (d->dies_soon && !(d->at_logits && n_wanted)) {
        d->is_dead = true;
        failure(d, e);
        return ERR_OS;
    }
    return x->run(x->ctx, rows, n, e);
}

static int reopen(void *ctx, struct err *e)
{
    struct dying *d = ctx;

    assert_true(d->is_dead);
    for (size_t i = 0; i < DYING_SLOTS; i++)
        assert_false(d->used[i]);
    if (d->n_waited++ < d->n_laters)
        return EXECUTOR_LATER;
    d->n_waited = 0;
    if (d->n_no_opens) {
        d->n_no_opens--;
        return err_set(e, ERR_OS, "the lid is shut");
    }
    d->is_dead = false;
    d->n_opened++;
    return 0;
}

static void reopen_wait(void *ctx, double seconds)
{
    struct dying *d = ctx;

    assert_true(d->is_dead);
    assert_true(seconds > 0 && seconds <= 1);
    d->ahead_s += seconds;
}

static void settle(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    const struct executor *x = alive(ctx);

    x->settle(x->ctx, slot, token, n);
}

static const float *logits_of(void *ctx, size_t first, size_t n)
{
    struct dying *d = ctx;
    const struct executor *x = alive(d);

    d->is_dead = d->dies_soon;
    return d->is_dead ? NULL : x->logits(x->ctx, first, n);
}

static const int32_t *best(void *ctx, size_t first, size_t n)
{
    struct dying *d = ctx;
    const struct executor *x = alive(d);

    d->is_dead = d->dies_soon;
    return d->is_dead ? NULL : x->best(x->ctx, first, n);
}

static const float *hidden(void *ctx, size_t first, size_t n)
{
    const struct executor *x = alive(ctx);

    return x->hidden(x->ctx, first, n);
}

static double clock_s(void *ctx)
{
    struct dying *d = ctx;

    return d->inner->clock_s(d->inner->ctx) + d->ahead_s;
}

void dying_in_logits(struct dying *d)
{
    d->at_logits = true;
    d->x.failure = failure;
    d->x.hidden = NULL;
}

void dying_drive(struct dying *d, struct gallop *g)
{
    struct step *loop = engine_loop(g);
    struct step_options o = loop->opt;
    struct guess_maker *guesser = loop->guesser;
    struct err e = {0};

    *d = (struct dying){.inner = loop->x, .x = *loop->x};
    assert_true(d->x.caps.n_slots <= DYING_SLOTS && !d->x.read_ahead);
    d->x.ctx = d;
    d->x.has_room = has_room;
    d->x.begin = begin;
    d->x.reserve = reserve;
    d->x.fork = fork_rows;
    d->x.release = release;
    d->x.is_stale = is_stale;
    d->x.run = run;
    d->x.reopen = reopen;
    d->x.reopen_wait = reopen_wait;
    d->x.settle = settle;
    d->x.logits = logits_of;
    d->x.best = d->inner->best ? best : NULL;
    d->x.hidden = d->inner->hidden ? hidden : NULL;
    d->x.failure = d->inner->failure ? failure : NULL;
    d->x.clock_s = clock_s;
    step_close(loop);
    if (step_open(loop, &d->x, &o, &e) != 0)
        fail_msg("%s", e.msg);
    loop->guesser = guesser;
}
