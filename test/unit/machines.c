/* machines.c - opens simulated machines, and submits requests to them. */
#include "machines.h"

#include "engine/sampling/sampling.h"
#include "engine/seq.h"

void machines_open(struct machine *m, const struct machine_size *size, const struct sim_executor_spec *spec,
                   const struct step_options *o)
{
    const struct kv_limits lim = {.n_layers = 1,
                                  .n_kv = 1,
                                  .head_dim = 1,
                                  .dtype = DT_I8,
                                  .max_seqs = size->max_seqs,
                                  .max_len = size->max_len,
                                  .block = 16,
                                  .pool_tokens = size->pool_tokens,
                                  .step_tokens = size->step_tokens,
                                  .keep_prefixes = size->keep_prefixes};
    struct err e = {0};

    *m = (struct machine){.max_len = size->max_len};
    if (kv_open(&m->kv, "paged", &lim, &e) != 0 ||
        sim_executor_open(&m->sim, spec, &m->kv, size->step_tokens, &e) != 0 ||
        step_open(&m->step, &m->sim.x, o, &e) != 0)
        fail_msg("%s", e.msg);
}

void machines_close(struct machine *m)
{
    step_close(&m->step);
    sim_executor_close(&m->sim);
    kv_close(&m->kv);
}

uint64_t machines_submit(struct machine *m, const struct machine_request *r)
{
    struct sampling sampling;
    const struct seq_request of_seq = {.ids = r->ids,
                                       .n_ids = r->n_prompt,
                                       .sampling = &sampling,
                                       .key = r->key,
                                       .prompt_logprobs = -1,
                                       .most_guesses = r->most_guesses};
    struct err e = {0};
    struct seq *s;

    sampling_default(&sampling);
    sampling.max_new_tokens = r->n_output;
    sampling.ignore_eos = true;
    sampling_mark(&sampling, SAMPLING_MAX_NEW_TOKENS);
    if (step_take_place(&m->step, r->n_prompt, &e) != 0)
        return 0;
    assert_int_equal(seq_new(&s, &of_seq, 1, NULL, INT32_MAX, m->max_len, &e), 0);
    s->queued = true;
    s->id = ++m->n_came;
    step_add(&m->step, s);
    return s->id;
}

static void take_events(struct machine *m)
{
    struct step_event ev;

    while (step_take(&m->step, &ev))
        if (ev.type == STEP_FINISHED)
            seq_free(ev.seq);
}

void machines_step(struct machine *m)
{
    take_events(m); /* of requests that were cancelled */
    step_run(&m->step);
    take_events(m);
}
