/* beam.c - implements the rules of beam.h. */
#include "engine/beams/beam.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/sampling/sample.h"

size_t beam_n_ranked(size_t width, size_t n_ends)
{
    return (n_ends > 1 ? 1 + n_ends : 2) * width;
}

int beam_init(struct beam_search *b, const struct beam_rules *rules, struct arena *a)
{
    size_t width = rules->width;

    ASSERT(width > 0 && width <= BEAM_MOST && rules->n_ranked >= width, "%zu beams", width);
    *b = (struct beam_search){.rules = *rules, .n_running = 1};
    b->sum = arena_zalloc(a, width, sizeof(*b->sum));
    b->finished = arena_zalloc(a, width, sizeof(*b->finished));
    b->next = arena_zalloc(a, rules->n_ranked, sizeof(*b->next));
    if (!b->sum || !b->finished || !b->next)
        return ERR_NOMEM;
    for (size_t i = 0; i < width; i++) {
        struct beam_text *t = &b->finished[i].text;

        t->token = arena_zalloc(a, rules->limit, sizeof(*t->token));
        t->logprob = arena_zalloc(a, rules->limit, sizeof(*t->logprob));
        if (!t->token || !t->logprob)
            return ERR_NOMEM;
    }
    return 0;
}

/* Merges the lists, which are sorted. */
void beam_rank(struct beam_search *b, const struct beam_list *list)
{
    size_t at[BEAM_MOST] = {0};

    for (b->n_next = 0; b->n_next < b->rules.n_ranked; b->n_next++) {
        struct beam_next best = {.parent = SIZE_MAX};

        for (size_t i = 0; i < b->n_running; i++) {
            const struct sample_top *t = &list[i].list[at[i]];

            if (at[i] < list[i].n && (best.parent == SIZE_MAX || t->logprob + b->sum[i] > best.sum))
                best = (struct beam_next){
                    .sum = t->logprob + b->sum[i], .logprob = t->logprob, .id = t->id, .parent = i};
        }
        if (best.parent == SIZE_MAX)
            return;
        at[best.parent]++;
        b->next[b->n_next] = best;
    }
}

/* Returns SUM / N ^ length_penalty. */
static float score_of(const struct beam_search *b, float sum, size_t n)
{
    return sum / (float)pow((double)n, b->rules.length_penalty);
}

/* Adds the hypothesis PARENT, which the continuation C ends, to the finished hypotheses, unless `width` better ones are
 * finished. */
static void add_finished(struct beam_search *b, const struct beam_next *c, const struct beam_text *parent)
{
    float score = score_of(b, c->sum, b->n_output + 1);
    size_t width = b->rules.width, at;
    struct beam_text t;

    if (b->n_finished == width && !(score > b->finished[width - 1].score))
        return;
    b->n_finished += b->n_finished < width;
    at = b->n_finished - 1;
    t = b->finished[at].text; /* the arrays of the worst hypothesis, which is replaced, or unused ones */
    for (; at > 0 && score > b->finished[at - 1].score; at--)
        b->finished[at] = b->finished[at - 1];
    memcpy(t.token, parent->token, b->n_output * sizeof(*t.token));
    memcpy(t.logprob, parent->logprob, b->n_output * sizeof(*t.logprob));
    t.token[b->n_output] = c->id;
    t.logprob[b->n_output] = c->logprob;
    t.n = b->n_output + 1;
    b->finished[at] = (struct beam_finished){.text = t, .sum = c->sum, .score = score};
}

/* Returns true if the best running hypothesis may still beat the worst finished one. */
static bool may_improve(const struct beam_search *b)
{
    const struct beam_rules *r = &b->rules;
    size_t n = r->early_stopping == SAMPLING_EARLY_NEVER && r->length_penalty > 0 ? r->limit : b->n_output;

    if (b->n_finished < r->width)
        return true;
    return r->early_stopping != SAMPLING_EARLY_TRUE &&
           score_of(b, b->sum[0], n) > b->finished[r->width - 1].score;
}

bool beam_step(struct beam_search *b, const struct beam_text *running)
{
    size_t width = b->rules.width, n_running = 0;
    bool is_last = b->n_output + 1 >= b->rules.limit;

    for (size_t i = 0; i < b->n_next; i++) {
        struct beam_next c = b->next[i];

        if ((c.ends || is_last) && i < width)
            add_finished(b, &c, &running[c.parent]);
        if (!c.ends && !is_last && n_running < width) {
            b->sum[n_running] = c.sum;
            b->next[n_running++] = c;
        }
    }
    b->n_running = n_running;
    b->n_output++;
    return n_running == 0 || !may_improve(b);
}
