/* requests.c - see requests.h. */
#include "requests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines.h"

static const char *const stop_strings[] = {"ab", "cc", "dq", "he", "n't"};
static const char *const bad_words[] = {"ba", "zz", "the"};
static const char *const choices[] = {"abcd", "abce", "ba"};
static const char *const breakers[] = {"a", "\n"};

/* ---- prompts ---- */

static const size_t borders[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 200};

static size_t add_text(struct request *q, size_t n, size_t text, size_t pos, size_t more, size_t most)
{
    if (n + more > most)
        more = most - n;
    engines_text(text, pos, more, q->ids + n);
    return n + more;
}

/* Copies the prompt of another request and LENGTH tokens of its answer. */
static size_t add_turn(struct request *q, const struct request *before, const struct answer *answer,
                       size_t length, size_t most)
{
    const struct choice *c = &answer->choice[0];
    size_t n = before->r.n_ids < most ? before->r.n_ids : most, have = c->ids.n / sizeof(int32_t);

    memcpy(q->ids, before->ids, n * sizeof(int32_t));
    length = length < have ? length : have;
    length = length < most - n ? length : most - n;
    if (length)
        memcpy(q->ids + n, c->ids.at, length * sizeof(int32_t));
    return n + length;
}

static size_t make_prompt(struct request *q, size_t i, const struct request *before,
                          const struct answer *answer, struct draws *d, size_t most)
{
    size_t kind = draws_below(d, i ? 6 : 3), other = i ? draws_below(d, i) : 0, own = 1 + draws_below(d, 40),
           n = 0;

    switch (kind) {
    case 0: break;
    case 1: n = add_text(q, 0, draws_below(d, 2), 0, DRAWS_ONE(d, borders), most); break;
    case 2: own = draws_chance(d, 30) ? 200 + draws_below(d, 250) : own; break;
    case 3: /* the same prompt, or its beginning */
        n = add_turn(q, &before[other], &answer[other], 0, most);
        n = draws_chance(d, 50) ? n : 1 + draws_below(d, n);
        own = draws_chance(d, 50) ? 0 : own;
        break;
    default: /* the next turn of a conversation */
        n = add_turn(q, &before[other], &answer[other], draws_below(d, REQUESTS_MAX_NEW + 1), most);
        own = draws_chance(d, 20) ? 0 : own;
    }
    return add_text(q, n, 10 + draws_below(d, 5), n, n + own ? own : 1, most);
}

/* Puts padding in front of the prompt of Q. */
static void pad(struct request *q, size_t n, size_t most)
{
    size_t have = q->r.n_ids;

    n = n < most - have ? n : most - have;
    memmove(q->ids + n, q->ids, have * sizeof(int32_t));
    for (size_t i = 0; i < n; i++)
        q->ids[i] = 3;
    memset(q->mask, 0, n);
    memset(q->mask + n, 1, have);
    q->r.n_ids = have + n;
    q->r.mask = q->mask;
}

/* ---- sampling ---- */

static void set_lists(struct request *q, struct draws *d)
{
    struct gallop_sampling *p = &q->r.sampling;

    if (draws_chance(d, 25)) {
        p->stop = stop_strings;
        p->n_stop = 1 + draws_below(d, 5);
    }
    if (draws_chance(d, 15)) {
        for (size_t i = 0; i < 2; i++)
            q->stop_token[i] = (int32_t)(3 + draws_below(d, 150));
        p->stop_token = q->stop_token;
        p->n_stop_token = 1 + draws_below(d, 2);
    }
    if (draws_chance(d, 15)) {
        for (size_t i = 0; i < 3; i++) {
            q->bias_id[i] = (int32_t)(5 + 50 * i + draws_below(d, 50));
            q->bias[i] = (float)draws_below(d, 13) - 6;
        }
        p->bias_id = q->bias_id;
        p->bias = q->bias;
        p->n_bias = 1 + draws_below(d, 3);
    }
    if (draws_chance(d, 10)) {
        p->bad_words = bad_words;
        p->n_bad_words = 1 + draws_below(d, 3);
    }
}

static void set_penalties(struct gallop_sampling *p, struct draws *d)
{
    static const double repetition[] = {.5, .9, 1.2, 2};

    if (draws_chance(d, 20))
        p->repetition_penalty = DRAWS_ONE(d, repetition);
    if (draws_chance(d, 15))
        p->presence_penalty = (double)draws_below(d, 5) - 2;
    if (draws_chance(d, 15))
        p->frequency_penalty = (double)draws_below(d, 5) - 2;
    if (draws_chance(d, 15)) {
        p->dry_multiplier = 1 + (double)draws_below(d, 3);
        p->dry_allowed_length = (int64_t)draws_below(d, 4);
        if (draws_chance(d, 50)) {
            p->dry_sequence_breakers = breakers;
            p->n_dry_sequence_breakers = draws_below(d, 3);
        }
        p->dry_penalty_last_n = draws_chance(d, 50) ? -1 : (int64_t)draws_below(d, 64);
    }
}

static void set_draws(struct gallop_sampling *p, struct draws *d)
{
    static const double temperatures[] = {0, .3, 1, 1.7, 100};
    static const double shares[] = {.1, .9, .999};

    p->do_sample = 1;
    p->temperature = DRAWS_ONE(d, temperatures);
    if (draws_chance(d, 30))
        p->top_k = (int64_t)draws_below(d, 40);
    if (draws_chance(d, 20))
        p->top_p = DRAWS_ONE(d, shares);
    if (draws_chance(d, 15))
        p->min_p = DRAWS_ONE(d, shares) / 10;
    if (draws_chance(d, 15))
        p->typical_p = DRAWS_ONE(d, shares);
    if (draws_chance(d, 15))
        p->top_n_sigma = (double)draws_below(d, 4);
    if (draws_chance(d, 15)) {
        p->xtc_probability = DRAWS_ONE(d, shares);
        p->xtc_threshold = .02;
    }
}

static void set_beams(struct request *q, struct draws *d)
{
    struct gallop_sampling *p = &q->r.sampling;

    p->use_beam_search = 1;
    p->num_beams = 1 + (int64_t)draws_below(d, 5);
    q->r.n = 1 + (int64_t)draws_below(d, (size_t)p->num_beams);
    p->length_penalty = (double)draws_below(d, 5) - 2;
    p->early_stopping = (int)draws_below(d, 3);
    p->do_sample = 0;
    p->logprobs = draws_chance(d, 30) ? 0 : -1;
}

/* ---- constraints ---- */

static void set_constraint(struct gallop_structured_outputs *s, bool has_schemas, struct draws *d)
{
    switch (draws_below(d, has_schemas ? 6 : 3)) {
    case 0: s->regex = draws_chance(d, 50) ? "[a-m]{3,30}" : "(ab|cd|[e-z]+ ?)*x?"; break;
    case 1:
        s->choice = choices;
        s->n_choice = 1 + draws_below(d, 3);
        break;
    case 2: s->grammar = "root ::= (\"a\" | \"b\" root \"c\" | [d-p]){1,9}"; break;
    case 3: s->json_object = 1; break;
    default:
        s->json = draws_chance(d, 50)
                      ? "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":6},"
                        "\"age\":{\"type\":\"integer\"}},\"required\":[\"name\"]}"
                      : "{\"type\":\"array\",\"items\":{\"enum\":[1,\"two\",null]},\"maxItems\":4}";
        s->disable_any_whitespace = draws_chance(d, 50);
    }
}

static void set_reasoning(struct request *q, struct draws *d)
{
    q->r.sampling.thinking_token_budget = (int64_t)draws_below(d, 12);
    q->r.reasoning_open = "ab";
    q->r.reasoning_close = "cd";
    q->r.reasoning_begun = draws_chance(d, 50);
}

/* ---- all together ---- */

/* What a request asks for beside tokens. HAS_ROWS: it may have rows of logits. */
static void set_results(struct request *q, bool pools, bool has_rows, struct draws *d)
{
    struct gallop_request *r = &q->r;

    if (draws_chance(d, 40))
        r->sampling.logprobs = (int64_t)draws_below(d, 5);
    if (!pools && draws_chance(d, 12))
        r->prompt_logprobs = (int64_t)draws_below(d, 4);
    r->keep_special = draws_chance(d, 20);
    if (!has_rows)
        return;
    r->return_logits = draws_chance(d, 6);
    r->return_probs = draws_chance(d, 6);
    r->return_prompt_logits = draws_chance(d, 4);
}

/* How the engine treats the request, which changes no answer. */
static void set_service(struct request *q, struct draws *d)
{
    static const char *const keys[] = {NULL, "a", "b"}, *const salts[] = {NULL, NULL, "salt", "other"};

    q->r.key = DRAWS_ONE(d, keys);
    q->r.cache_salt = DRAWS_ONE(d, salts);
    q->r.priority = (int)draws_below(d, 3);
    q->r.speculative = !draws_chance(d, 15);
    q->cancel_at = draws_chance(d, 8) ? draws_below(d, REQUESTS_MAX_NEW) : SIZE_MAX;
}

/* Puts the token whose rows are NaN into the prompt, or makes it the next token. */
static void spoil(struct request *q, int32_t poison, struct draws *d)
{
    if (draws_chance(d, 60)) {
        q->ids[draws_below(d, q->r.n_ids)] = poison;
        return;
    }
    q->bias_id[0] = poison;
    q->bias[0] = 1e30f;
    q->r.sampling.bias_id = q->bias_id;
    q->r.sampling.bias = q->bias;
    q->r.sampling.n_bias = 1;
}

void requests_make(struct request *q, size_t i, const struct request *before, const struct answer *answer,
                   const struct requests_kind *kind, struct draws *d)
{
    struct gallop_sampling *p = &q->r.sampling;
    bool beams = draws_chance(d, 12), pools = !beams && !kind->greedy && draws_chance(d, 6);
    size_t most = beams ? 100 : kind->longest - (draws_chance(d, 90) ? REQUESTS_MAX_NEW : 1);

    memset(q, 0, sizeof(*q));
    gallop_request_init(&q->r);
    q->r.user = (void *)i;
    q->r.ids = q->ids;
    q->r.n_ids = make_prompt(q, i, before, answer, d, most);
    p->max_new_tokens = draws_chance(d, 5) ? 0 : 1 + (int64_t)draws_below(d, REQUESTS_MAX_NEW);
    if (!beams && q->r.n_ids < 60 &&
        draws_chance(
            d, kind->longest < REQUESTS_LONGEST ? 60 : 25)) /* many of these do not fit into a small cache */
        p->max_new_tokens = REQUESTS_MAX_NEW + (int64_t)draws_below(d, 150);
    p->ignore_eos = draws_chance(d, 70);
    p->has_seed = 1;
    p->seed = draws_below(d, 1000);
    p->do_sample = 0;
    set_service(q, d);
    if (!kind->greedy) {
        set_results(q, pools, !pools && !beams, d);
        set_lists(q, d);
        set_penalties(p, d);
        if (draws_chance(d, 10))
            p->min_new_tokens = (int64_t)draws_below(d, (size_t)p->max_new_tokens + 1);
    }
    if (pools) {
        q->r.pooling = (enum gallop_pooling)(GALLOP_POOL_LAST + draws_below(d, 3));
        p->max_new_tokens = 0;
    } else if (beams) {
        set_beams(q, d);
    } else if (!kind->greedy) {
        if (draws_chance(d, 60))
            set_draws(p, d);
        if (draws_chance(d, 15))
            set_constraint(&q->r.structured_outputs, kind->has_schemas, d);
        if (kind->has_schemas && draws_chance(d, 20))
            set_reasoning(q, d);
    }
    if (!beams && !pools && draws_chance(d, 20))
        q->r.n = 2 + (int64_t)draws_below(d, ANSWERS_MAX_CHOICES - 2);
    if (kind->poison && draws_chance(d, 15))
        spoil(q, kind->poison, d);
    if (draws_chance(d, 6))
        pad(q, 1 + draws_below(d, 20), most);
}

/* ---- descriptions ---- */

struct line {
    char *out;
    size_t size, n;
};

__attribute__((format(printf, 2, 3))) static void say(struct line *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    l->n += (size_t)vsnprintf(l->out + l->n, l->size - l->n, format, args);
    va_end(args);
    l->n = l->n < l->size ? l->n : l->size - 1;
}

static void say_number(struct line *l, const char *name, double value, double usual)
{
    if (!isnan(value) && value != usual)
        say(l, " %s=%g", name, value);
}

void requests_describe(const struct request *q, char *out, size_t size)
{
    const struct gallop_sampling *p = &q->r.sampling;
    const struct gallop_structured_outputs *s = &q->r.structured_outputs;
    struct line l = {out, size, 0};

    say(&l, "%zu tokens, %lld new:", q->r.n_ids, (long long)p->max_new_tokens);
#define SAY(name, usual) say_number(&l, #name, (double)(name), usual)
    SAY(q->r.n, 1);
    SAY(p->num_beams, -1);
    SAY(p->length_penalty, NAN);
    SAY(p->early_stopping, -1);
    SAY(p->ignore_eos, 0);
    SAY(p->min_new_tokens, -1);
    SAY(p->thinking_token_budget, -1);
    SAY(q->r.reasoning_begun, 0);
    SAY(p->do_sample, 0);
    SAY(p->seed, -1);
    SAY(p->temperature, NAN);
    SAY(p->top_k, -1);
    SAY(p->top_p, NAN);
    SAY(p->min_p, NAN);
    SAY(p->typical_p, NAN);
    SAY(p->top_n_sigma, NAN);
    SAY(p->xtc_probability, NAN);
    SAY(p->repetition_penalty, NAN);
    SAY(p->frequency_penalty, NAN);
    SAY(p->presence_penalty, NAN);
    SAY(p->dry_multiplier, NAN);
    SAY(p->dry_allowed_length, -1);
    SAY(p->dry_penalty_last_n, -1);
    SAY(p->logprobs, -1);
    SAY(p->n_bias, 0);
    SAY(p->n_stop, 0);
    SAY(p->n_stop_token, 0);
    SAY(p->n_bad_words, 0);
    SAY(q->r.prompt_logprobs, -1);
    SAY(q->r.return_logits, 0);
    SAY(q->r.return_probs, 0);
    SAY(q->r.return_prompt_logits, 0);
    SAY(q->r.pooling, 0);
    SAY(q->r.priority, 0);
    SAY(q->r.speculative, 1);
    SAY(q->r.mask != NULL, 0);
    SAY(q->cancel_at, (double)SIZE_MAX);
#undef SAY
    say(&l, "%s%s%s%s", q->r.key ? " key=" : "", q->r.key ? q->r.key : "", q->r.cache_salt ? " salt=" : "",
        q->r.cache_salt ? q->r.cache_salt : "");
    say(&l, "%s%s%s%s%s%s", s->regex ? " regex=" : "", s->regex ? s->regex : "", s->json ? " json" : "",
        s->json_object ? " json_object" : "", s->grammar ? " grammar" : "", s->choice ? " choice" : "");
}
