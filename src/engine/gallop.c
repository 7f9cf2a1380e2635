/* gallop.c - the engine of gallop.h: opens and closes it, and tells its facts and counts. */
#include "gallop.h"

#include <string.h>

#include "base/mem.h"
#include "base/threads/pool.h"
#include "engine/constraints/constraints.h"
#include "engine/embeddings/embedder.h"
#include "engine/engine_priv.h"
#include "engine/gallop_priv.h"
#include "engine/guess/sources.h"
#include "engine/llm.h"
#include "engine/open/open.h"
#include "engine/pjrt/frames.h"
#include "engine/sampling/sampling.h"
#include "engine/step.h"

enum { DEFAULT_TARGET_MS = 700 };

/* An engine with its parts. */
struct whole {
    struct gallop g; /* the first member, because it is cast to struct whole */
    struct llm llm;
    struct step step;
    struct constraints constraints;
    struct embedder embedder;
    struct sampling config;
};

_Static_assert((int)GALLOP_BAD_INPUT == (int)ERR_INPUT && (int)GALLOP_UNSUPPORTED == (int)ERR_UNSUPPORTED &&
                   (int)GALLOP_OS_ERROR == (int)ERR_OS && (int)GALLOP_NO_MEMORY == (int)ERR_NOMEM &&
                   (int)GALLOP_NO_SPACE == (int)ERR_NOSPACE && (int)GALLOP_CANCELLED == (int)ERR_CANCELLED,
               "internal error codes are returned unchanged");
_Static_assert(sizeof(((struct err *)0)->msg) <= GALLOP_ERR_SIZE, "every sentence fits the caller's buffer");
_Static_assert((int)ENGINE_FAIR_KEYS == (int)WAITING_KEYS, "engine_fair_key() returns waiting_key()");

int engine_give(char *err, const struct err *e, int rc)
{
    if (rc && err)
        err_text(e, err, GALLOP_ERR_SIZE);
    return rc;
}

const char *gallop_version(void)
{
    return GALLOP_VERSION;
}

void gallop_options_init(struct gallop_options *o)
{
    memset(o, 0, sizeof(*o));
}

/* ---- the step's options ---- */

/* Returns true if the value CHOSEN of an option is NAME. CHOSEN may be NULL (the default). */
static bool is_chosen(const char *chosen, const char *name)
{
    return chosen && strcmp(chosen, name) == 0;
}

/* Sets initial estimates, rather too high, of the seconds to read the weights and to compute a row, until
 * steps are measured. */
static void guess_costs(const struct llm *m, struct step_options *s)
{
    const double flops = 2e10 * pool_threads(m->pool), bytes = 1e10;

    s->step_guess_s = (double)m->model.packed_bytes / bytes;
    s->row_guess_s = (double)m->model.packed_bytes / flops;
}

static void read_step_options(const struct gallop_options *o, const struct llm *m, struct step_options *s)
{
    bool prompts_first = is_chosen(o->scheduler, "continuous_prefill_first");

    *s = (struct step_options){.one_by_one = is_chosen(o->scheduler, "iterative"),
                               .max_queued = (size_t)o->max_num_queued_reqs,
                               .max_queued_tokens = (size_t)o->max_num_queued_tokens,
                               .policy = WAITING_FCFS,
                               .order = prompts_first ? SCHED_PROMPTS_FIRST : SCHED_DECODES_FIRST,
                               .worst_case = is_chosen(o->admission, "worst-case"),
                               .target_s =
                                   (o->tpot_target_ms > 0 ? o->tpot_target_ms : DEFAULT_TARGET_MS) / 1000};
    if (o->scheduling_policy)
        waiting_policy_of_name(o->scheduling_policy, &s->policy);
    guess_costs(m, s);
}

static int open_step(struct gallop *g, const struct gallop_options *o, struct err *e)
{
    struct guess_maker *guesser = NULL;
    struct step_options so;
    size_t n_seqs;
    int rc;

    read_step_options(o, g->llm, &so);
    n_seqs = so.max_seqs ? so.max_seqs : g->llm->max_seqs;
    if (o->speculative_config && (rc = guess_sources_open(&g->guesses, o, g->llm, e)) != 0)
        return rc;
    guesser = g->guesses ? guess_sources_maker(g->guesses) : NULL;
    rc = engine_open_executor(&g->executor, &g->frames, &g->plugin, g->llm, o,
                              n_seqs > SCHED_ROWS ? n_seqs : SCHED_ROWS, guesser ? guesser->most : 0, e);
    if (rc || (rc = step_open(g->step, &g->executor, &so, e)) != 0)
        return rc;
    g->step->guesser = guesser;
    return 0;
}

int engine_open(struct gallop **out, const struct gallop_options *o, struct checkpoint *c, struct err *e)
{
    struct llm_source source;
    struct whole *w;
    struct gallop *g;
    int rc;

    *out = NULL;
    if ((rc = engine_read_source(o, false, &source, e)) != 0)
        return rc;
    source.checkpoint = c;
    w = mem_zalloc(1, sizeof(*w), MEM_ENGINE);
    if (!w)
        return err_nomem(e, "the engine");
    g = &w->g;
    g->llm = &w->llm;
    g->step = &w->step;
    g->constraints = &w->constraints;
    g->embedder = &w->embedder;
    g->config = &w->config;
    arena_init(&g->config_arena, MEM_ENGINE);
    engine_open_inbox(g);
    rng_seeds_init(&g->seeds);
    if (source.pool)
        pool_lock(source.pool);
    if ((rc = engine_open_llm(g->llm, o, &source, g->config, &g->config_arena, e)) == 0 &&
        (rc = open_step(g, o, e)) == 0)
        rc = engine_read_info(g, o->model, e);
    g->pool = g->llm->pool;
    g->info.has_priorities = g->step->waiting.policy != WAITING_FCFS;
    if (source.pool)
        pool_unlock(source.pool);
    if (rc) {
        gallop_close(g);
        return rc;
    }
    constraints_open(g->constraints, g->llm->tok);
    *out = g;
    return 0;
}

void gallop_close(struct gallop *g)
{
    if (!g)
        return;
    engine_close_inbox(g);
    step_close(g->step);
    guess_sources_close(g->guesses);
    if (!engine_close_executor(g->frames, g->plugin))
        return; /* a call of the plugin that has not returned still uses the rest of G */
    if (g->texts)
        g->close_texts(g->texts);
    embedder_close(g->embedder);
    constraints_close(g->constraints);
    llm_close(g->llm);
    arena_fini(&g->config_arena);
    mem_free((struct whole *)g);
}

void engine_keep_texts(struct gallop *g, struct texts *t, void (*close)(struct texts *t))
{
    g->texts = t;
    g->close_texts = close;
}

struct texts *engine_texts(const struct gallop *g)
{
    ASSERT(g->texts, "an engine that gallop_open() did not open");
    return g->texts;
}

struct llm *engine_llm(struct gallop *g)
{
    return g->llm;
}

const struct frames *engine_frames(const struct gallop *g)
{
    return g->frames;
}

const struct constraints *engine_constraints(const struct gallop *g)
{
    return g->constraints;
}

struct step *engine_loop(const struct gallop *g)
{
    return g->step;
}

const struct guess_sources *engine_guesses(const struct gallop *g)
{
    return g->guesses;
}

void engine_executor_state(const struct gallop *g, struct engine_executor *s)
{
    const struct outage *o = &g->step->outage;

    *s = (struct engine_executor){.is_down = atomic_load(&o->is_down),
                                  .n_restarts = atomic_load(&o->n_restarts)};
    if (g->frames)
        frames_state(g->frames, s);
}

void engine_executor_program(const struct gallop *g, size_t i, struct engine_program *p)
{
    frames_program(g->frames, i, p);
}

uint32_t engine_fair_key(const char *key, size_t n)
{
    return waiting_key(key, n);
}

const struct engine_info *engine_info(const struct gallop *g)
{
    return &g->info;
}

_Static_assert((int)GALLOP_MAX_DRAFT_TOKENS == (int)GUESS_MOST, "gallop.h has the maximum number of guesses");

void gallop_stats(const struct gallop *g, struct gallop_stats *s)
{
    const struct step *step = g->step;

    pool_lock(g->pool); /* waits for the end of a step, and of submissions and cancellations */
    llm_stats(g->llm, s);
    constraints_stats(g->constraints, s);
    s->n_waiting = step_n_waiting(step);
    s->n_running = step->n_running;
    s->n_steps = step->n_steps;
    s->n_prompt_tokens = step->n_prompt_tokens;
    s->n_output_tokens = step->n_output_tokens;
    s->n_finished = step->n_finished;
    s->n_cached_tokens = step->n_cached_tokens;
    s->n_stored_tokens = step->n_stored_tokens;
    s->n_preempted = step->n_preempted;
    s->n_recomputed_tokens = step->n_recomputed;
    s->grammar_mask = step->mask;
    s->n_drafts = step->guess_counts.n_drafts;
    s->n_draft_tokens = step->guess_counts.n_guessed;
    s->n_accepted_tokens = step->guess_counts.n_accepted;
    s->n_draft_positions = step->guesser ? step->guesser->most : 0;
    memcpy(s->n_accepted_per_pos, step->n_accepted_at, sizeof(s->n_accepted_per_pos));
    pool_unlock(g->pool);
}
