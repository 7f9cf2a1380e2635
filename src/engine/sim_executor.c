/* sim_executor.c - computes the times of steps, and injects faults. */
#include "engine/sim_executor.h"

#include <math.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/schedule/cost.h"
#include "kern/kern.h"

enum { SLOW = 20 }; /* factor by which the fault "slow step" multiplies the time of a step */

/* Returns the seconds of a step that computes ROWS [n]. */
static double sim_step_s(const struct sim_executor_spec *s, const struct executor_rows *rows, size_t n)
{
    double n_rows = 0, n_wanted = 0, pairs = 0, keys = 0, bytes, linear, attention;

    for (size_t i = 0; i < n; i++) {
        struct cost_step step = cost_with((struct cost_step){0}, rows[i].n, rows[i].pos);

        n_rows += (double)rows[i].n;
        n_wanted += (double)rows[i].n_wanted;
        pairs += step.pairs;
        keys += (double)(rows[i].pos + rows[i].n);
    }
    bytes = s->dense_bytes;
    if (s->n_experts > 0)
        bytes += s->expert_bytes * (1 - pow(1 - s->top_k / s->n_experts, n_rows));
    linear = hypot(bytes / s->bandwidth, (n_rows * s->row_flops + n_wanted * s->head_flops) / s->flops);
    attention = fmax(keys * s->token_bytes / s->bandwidth, pairs * s->pair_flops / s->flops);
    return linear + attention + s->overhead_s;
}

/* Returns true with probability P, using the next number of the seeded random generator. */
static bool happens(struct sim_executor *m, double p)
{
    return p > 0 && rng_uniform(m->spec.seed, m->n_draws++) < p;
}

static int sim_reserve(void *ctx, size_t slot, size_t n)
{
    struct sim_executor *m = ctx;

    if (happens(m, m->spec.p_no_room))
        return ERR_NOSPACE;
    if (happens(m, m->spec.p_no_memory))
        return ERR_NOMEM;
    return kv_reserve(m->slots.kv, slot, n);
}

static bool sim_has_room(void *ctx, const struct executor_want *want, size_t n)
{
    struct sim_executor *m = ctx;

    return slots_has_room(&m->slots, want, n);
}

static size_t sim_begin(void *ctx, size_t slot, const struct executor_prefix *p)
{
    struct sim_executor *m = ctx;

    return slots_begin(&m->slots, slot, p, 0);
}

static int sim_fork(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p)
{
    struct sim_executor *m = ctx;

    (void)p;
    return kv_fork(m->slots.kv, from, n, to);
}

static void sim_release(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct sim_executor *m = ctx;

    slots_release(&m->slots, slot, token, n);
}

static bool sim_is_stale(void *ctx, size_t computed, size_t last_total, size_t total)
{
    (void)ctx;
    (void)computed;
    (void)last_total;
    (void)total;
    return false;
}

static int sim_run(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    struct sim_executor *m = ctx;

    ASSERT(!m->is_dead);
    slots_run(&m->slots, rows, n);
    m->now_s += sim_step_s(&m->spec, rows, n) * (happens(m, m->spec.p_slow) ? SLOW : 1);
    m->is_dead = happens(m, m->spec.p_dead);
    return m->is_dead ? err_set(e, ERR_OS, "the simulated executor has died") : 0;
}

/* Replaces the cache by an empty one. */
static int sim_reopen(void *ctx, struct err *e)
{
    struct sim_executor *m = ctx;
    int rc;

    if (happens(m, m->spec.p_opening))
        return EXECUTOR_LATER;
    if (happens(m, m->spec.p_stays_dead))
        return err_set(e, ERR_OS, "the simulated executor stays dead");
    kv_close(m->slots.kv);
    rc = kv_open(m->slots.kv, m->kv_type, &m->kv_lim, e);
    m->is_dead = rc != 0;
    return rc;
}

static void sim_reopen_wait(void *ctx, double seconds)
{
    struct sim_executor *m = ctx;

    m->now_s += seconds;
}

static void sim_settle(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct sim_executor *m = ctx;

    slots_settle(&m->slots, slot, token, n);
}

static const float *sim_logits(void *ctx, size_t first, size_t n)
{
    struct sim_executor *m = ctx;

    ASSERT(first + n <= m->x.caps.max_wanted, "%zu rows", n);
    return m->logits;
}

static double sim_clock_s(void *ctx)
{
    const struct sim_executor *m = ctx;

    return m->now_s;
}

int sim_executor_open(struct sim_executor *m, const struct sim_executor_spec *spec, struct kv *kv,
                      size_t max_tokens, struct err *e)
{
    size_t n = kv->lim.max_seqs, n_wanted = n + 16, n_vocab = spec->n_vocab ? spec->n_vocab : 1;
    int rc;

    *m = (struct sim_executor){.spec = *spec, .kv_type = kv->type->name, .kv_lim = kv->lim};
    m->logits = mem_zalloc(n_wanted * n_vocab, sizeof(*m->logits), MEM_ENGINE);
    if (!m->logits)
        return err_nomem(e, "a simulated executor");
    if ((rc = slots_open(&m->slots, kv, e)) != 0) {
        sim_executor_close(m);
        return rc;
    }
    m->x = (struct executor){.caps = {.n_slots = n,
                                      .max_len = kv->lim.max_len,
                                      .max_tokens = max_tokens,
                                      .max_wanted = n_wanted,
                                      .max_logits = n_wanted,
                                      .mixes = true,
                                      .chunks = true,
                                      .guesses = true,
                                      .block = kv->lim.block,
                                      .n_vocab = n_vocab},
                             .ctx = m,
                             .kern = kern_table(cpu_best()),
                             .has_room = sim_has_room,
                             .begin = sim_begin,
                             .reserve = sim_reserve,
                             .fork = sim_fork,
                             .release = sim_release,
                             .is_stale = sim_is_stale,
                             .run = sim_run,
                             .reopen = sim_reopen,
                             .reopen_wait = sim_reopen_wait,
                             .settle = sim_settle,
                             .logits = sim_logits,
                             .clock_s = sim_clock_s};
    return 0;
}

void sim_executor_close(struct sim_executor *m)
{
    slots_close(&m->slots);
    mem_free(m->logits);
    *m = (struct sim_executor){0};
}
