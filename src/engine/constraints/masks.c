/* masks.c - groups sequences by their constraints, and computes masks. */
#include "engine/constraints/masks.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "engine/sampling/sampling.h"
#include "engine/seq.h"
#include "text/grammar/constraint.h"

int masks_open(struct masks *m, size_t n_seqs, const struct pool *pool, size_t most, struct err *e)
{
    *m = (struct masks){.n_threads = pool ? (size_t)pool_threads(pool) : 1, .most = most};
    m->seq = mem_zalloc(n_seqs, sizeof(struct seq *), MEM_ENGINE);
    m->steps = mem_zalloc(m->n_threads, sizeof(*m->steps), MEM_ENGINE);
    return m->seq && m->steps ? 0 : err_nomem(e, "the engine's step");
}

void masks_close(struct masks *m)
{
    mem_free((void *)m->seq);
    mem_free(m->steps);
    *m = (struct masks){.n = 0};
}

void masks_begin(struct masks *m)
{
    for (size_t i = 0; i < m->n_threads; i++) {
        m->most_done = m->steps[i].done > m->most_done ? m->steps[i].done : m->most_done;
        m->steps[i] = (struct constraint_steps){.left = m->most};
    }
}

void masks_add(struct masks *m, struct seq *s)
{
    size_t at = m->n++;

    for (; at > 0 && (uintptr_t)m->seq[at - 1]->run.c > (uintptr_t)s->run.c; at--)
        m->seq[at] = m->seq[at - 1];
    m->seq[at] = s;
}

/* Calls m->work for the sequences of THREAD. All sequences of a constraint belong to one thread. */
static void masks_share(void *ctx, int thread, int n_threads)
{
    const struct masks *m = ctx;
    size_t group = 0;

    for (size_t i = 0; i < m->n; i++) {
        struct seq *s = m->seq[i];
        double begin;

        group += i > 0 && s->run.c != m->seq[i - 1]->run.c;
        if (group % (size_t)n_threads != (size_t)thread)
            continue;
        begin = clock_seconds();
        s->run.steps = m->steps ? &m->steps[thread] : NULL;
        m->work(m->ctx, s);
        s->mask_s += clock_seconds() - begin;
    }
}

/* Task of the pool: calls masks_share(). Disables the pool's guard against allocations during the call, since
 * new states of a constraint are allocated. */
static void masks_task(void *ctx, int thread, int n_threads)
{
    bool is_guarded = mem_guarded(); /* false on the caller's thread, which has no guard */

    if (is_guarded)
        mem_guard_down();
    masks_share(ctx, thread, n_threads);
    if (is_guarded)
        mem_guard_up();
}

void masks_run(struct masks *m, struct pool *pool)
{
    if (pool && m->n > 1)
        pool_run(pool, masks_task, m);
    else if (m->n)
        masks_share(m, 0, 1);
}

void masks_finish(struct seq *s, uint32_t *mask)
{
    const struct sampling *p = &s->sampling;
    const struct seq_common *c = s->common;

    for (size_t i = 0; i < p->n_eos; i++) /* the mask must not allow end tokens as text */
        mask[p->eos[i] / 32] &= ~(UINT32_C(1) << p->eos[i] % 32);
    for (size_t i = 0; i < p->n_eos && !p->ignore_eos && constraint_run_may_end(&s->run); i++)
        mask[p->eos[i] / 32] |= UINT32_C(1) << p->eos[i] % 32;
    for (size_t i = 0; i < p->n_stop_token && constraint_run_may_end(&s->run); i++)
        mask[p->stop_token[i] / 32] |= UINT32_C(1) << p->stop_token[i] % 32;
    for (size_t i = 0; c->allowed && i < (c->n_vocab + 31) / 32; i++)
        mask[i] &= c->allowed[i];
}

bool masks_guess(struct seq *s, uint32_t *mask)
{
    struct err e = {0};

    memset(mask, 0, s->mask_words * sizeof(*mask));
    constraint_run_mask(&s->run, mask, &e);
    if (e.code || constraint_is_paused(s->run.c))
        return false;
    masks_finish(s, mask);
    return true;
}
