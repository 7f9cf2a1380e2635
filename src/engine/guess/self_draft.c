/* self_draft.c - packs the int4 weights, and computes the rows of guesses after the target's KV rows. */
#include "engine/guess/self_draft.h"

#include <string.h>

#include "base/files/map.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "base/threads/topo.h"
#include "ckpt/checkpoint.h"
#include "engine/executor.h"
#include "engine/guess/guess_draw.h"
#include "engine/llm.h"
#include "engine/seq.h"
#include "gallop.h"
#include "model/model.h"
#include "model/quant.h"

struct self_draft {
    struct llm *target;
    struct model model;
    struct model_work work;
    size_t most;
    struct sample_scratch *sampler; /* [n_samplers] one for each thread */
    size_t n_samplers;
    struct executor_rows *rows;  /* [max_seqs] */
    struct seq **active;         /* [max_seqs] sequences that get a further guess */
    bool *is_done;               /* [max_seqs] an active sequence whose last draw proposed no token */
    size_t n_active, first, end; /* the logits of active sequences [first, end) are computed */
};

/* ---- open ---- */

size_t self_draft_bytes(const struct self_draft *d)
{
    return d->model.packed_bytes + d->model.table_bytes;
}

/* Fails if the second set of weights does not fit into memory. */
static int check_memory(const struct self_draft *d, struct err *e)
{
    size_t all = topo_memory_limit_bytes(), limit = all - all / 32, used = map_region_live_bytes(),
           more = self_draft_bytes(d);
    const double gib = 1 << 30;

    if (used <= limit && more <= limit - used)
        return 0;
    return err_set(
        e, ERR_NOMEM,
        "the method self needs %.2f GiB for int4 weights beside %.2f GiB in use, and the memory is %.2f GiB",
        (double)more / gib, (double)used / gib, (double)all / gib);
}

static int open_weights(struct self_draft *d, const struct gallop_options *o, struct err *e)
{
    const struct model *m = &d->target->model;
    struct model_options mo = {.dtype = m->opt.dtype,
                               .kern = d->target->kern,
                               .allow_links = o->allow_links != 0,
                               .progress = o->progress,
                               .progress_ctx = o->progress_ctx};
    int rc;

    if (strcmp(m->quant, "none") != 0 || m->checkpoint->gguf.n || m->checkpoint->pack)
        return err_set(
            e, ERR_UNSUPPORTED,
            "the method self guesses with int4 weights beside weights that are not quantized, but those of "
            "this model are quantized or packed (%s)",
            m->quant);
    if ((rc = quant_read(&mo.quant, "int4", e)) != 0 ||
        (rc = model_open(&d->model, m->checkpoint->in.path, &mo, d->target->pool, e)) != 0 ||
        (rc = check_memory(d, e)) != 0)
        return rc;
    if ((rc = model_pack(&d->model, e)) != 0)
        return rc;
    return model_work_open(&d->work, &d->model, d->target->max_tokens, d->target->max_wanted, e);
}

static int open_arrays(struct self_draft *d, struct err *e)
{
    size_t n = d->target->max_seqs, threads = (size_t)pool_threads(d->target->pool);
    int rc = 0;

    d->sampler = mem_zalloc(threads, sizeof(*d->sampler), MEM_ENGINE);
    d->rows = mem_zalloc(n, sizeof(*d->rows), MEM_ENGINE);
    d->active = mem_zalloc(n, sizeof(struct seq *), MEM_ENGINE);
    d->is_done = mem_zalloc(n, sizeof(*d->is_done), MEM_ENGINE);
    if (!d->sampler || !d->rows || !d->active || !d->is_done)
        return err_nomem(e, "the method self");
    while (d->n_samplers < threads && rc == 0)
        rc = sample_open(&d->sampler[d->n_samplers++], d->target->kern, d->target->model.info.vocab, e);
    return rc;
}

int self_draft_open(struct self_draft **out, const struct gallop_options *o, struct llm *target, size_t most,
                    struct err *e)
{
    struct self_draft *d = mem_zalloc(1, sizeof(*d), MEM_ENGINE);
    int rc;

    *out = NULL;
    if (!d)
        return err_nomem(e, "the method self");
    d->target = target;
    d->most = most;
    if ((rc = open_weights(d, o, e)) != 0 || (rc = open_arrays(d, e)) != 0) {
        self_draft_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void self_draft_close(struct self_draft *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_samplers; i++)
        sample_close(&d->sampler[i]);
    mem_free(d->sampler);
    mem_free(d->rows);
    mem_free((void *)d->active);
    mem_free(d->is_done);
    model_work_close(&d->work);
    model_close(&d->model);
    mem_free(d);
}

/* ---- guesses ---- */

/* Task of the pool: draws the guesses of active sequences [first, end) from the logits. */
static void draw_share(void *ctx, int thread, int n_threads)
{
    struct self_draft *d = ctx;
    size_t n = (size_t)n_threads < d->n_samplers ? (size_t)n_threads : d->n_samplers,
           n_vocab = d->target->model.info.vocab;

    for (size_t i = d->first; i < d->end; i++)
        if (d->active[i]->guess.part % n == (size_t)thread)
            d->is_done[i] = !guess_draw(&d->sampler[thread], d->active[i],
                                        d->target->logits + (i - d->first) * n_vocab, n_vocab);
}

/* Computes the row of the last token or guess of each active sequence, and draws a guess from it. */
static void run_pass(struct self_draft *d)
{
    for (size_t i = 0; i < d->n_active; i++) {
        const struct seq *s = d->active[i];
        size_t pos = s->n_known - 1 + s->guess.n;

        d->rows[i] = (struct executor_rows){.slot = s->slot,
                                            .id = s->token + pos,
                                            .n = 1,
                                            .pos = pos,
                                            .n_prompt = s->n_prompt,
                                            .n_total = s->n_known,
                                            .n_wanted = 1};
    }
    llm_layers(d->target, &d->model, &d->work, d->rows, d->n_active);
    for (d->first = 0; d->first < d->n_active; d->first = d->end) {
        d->end =
            d->n_active - d->first > d->target->max_wanted ? d->first + d->target->max_wanted : d->n_active;
        llm_tail(d->target, &d->model, &d->work, d->first, d->end - d->first);
        if (d->end - d->first > 1)
            pool_run(d->target->pool, draw_share, d);
        else
            draw_share(d, 0, 1);
    }
}

void self_draft_propose(struct self_draft *d, struct seq **seq, size_t n)
{
    struct kv *kv = &d->target->kv;

    guess_draw_lanes(seq, n);
    d->n_active = 0;
    for (size_t i = 0; i < n; i++) {
        struct seq *s = seq[i];

        s->guess.n = s->guess.match = 0;
        s->guess.source = GUESS_SELF;
        if (s->guess.most && kv_reserve(kv, s->slot, s->n_known + s->guess.most - 1) == 0)
            d->active[d->n_active++] = s;
    }
    mem_guard_up();
    for (size_t k = 0; k < d->most && d->n_active; k++) {
        size_t n_still = 0;

        run_pass(d);
        for (size_t i = 0; i < d->n_active; i++)
            if (!d->is_done[i] && d->active[i]->guess.n < d->active[i]->guess.most)
                d->active[n_still++] = d->active[i];
        d->n_active = n_still;
    }
    mem_guard_down();
    for (size_t i = 0; i < n; i++) {
        int rc = kv_truncate(kv, seq[i]->slot, seq[i]->n_computed);

        ASSERT(rc == 0, "slot %zu cannot be truncated to %zu rows", seq[i]->slot, seq[i]->n_computed);
        guess_draw_undo(seq[i]);
    }
}
