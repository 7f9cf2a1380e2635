/* seq.c - admission of a request. */
#include "engine/seq.h"

#include <string.h>

#include "base/mem.h"

enum { USUAL_TEXT = 256 }; /* bytes that a step adds to a text; more has to be allocated */

static int check_ids(const struct seq_request *r, size_t n_vocab, size_t max_len, struct err *e)
{
    const struct sampling *s = r->sampling;

    if (r->n_ids == 0)
        return err_set(e, ERR_INPUT, "the prompt is empty");
    if (!r->ids)
        return err_set(e, ERR_INPUT, "a prompt of %zu tokens is said to be there, but ids is NULL", r->n_ids);
    if (r->n_ids > max_len || (r->n_ids == max_len && s->max_new_tokens > 0))
        return err_set(
            e, ERR_INPUT,
            "the prompt has %zu tokens; with a context of %zu at most %zu leave room for an answer", r->n_ids,
            max_len, max_len - 1);
    if (!sampling_given(s, SAMPLING_MAX_NEW_TOKENS) && r->n_ids >= s->max_length)
        return err_set(
            e, ERR_INPUT,
            "the prompt has %zu tokens, but max_length of the model's generation_config.json allows "
            "%zu of prompt and answer together: give max_new_tokens",
            r->n_ids, s->max_length);
    for (size_t i = 0; i < r->n_ids; i++)
        if (r->ids[i] < 0 || (size_t)r->ids[i] >= n_vocab)
            return err_set(e, ERR_INPUT, "token %d at position %zu is outside the vocabulary of %zu",
                           r->ids[i], i, n_vocab);
    return 0;
}

/* Texts of a list that is the sequence's. */
static bool copy_texts(struct seq *s, struct sampling_str *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        list[i].s = arena_strndup(&s->arena, list[i].s, list[i].n);
        if (!list[i].s)
            return false;
    }
    return true;
}

/* Arrays of the sampling record live as long as the sequence. */
static int copy_sampling(struct seq *s, const struct sampling *from)
{
    struct sampling *to = &s->sampling;

    *to = *from;
#define COPY(field, n)                                                          \
    do {                                                                        \
        if (from->n) {                                                          \
            to->field = arena_zalloc(&s->arena, from->n, sizeof(*from->field)); \
            if (!to->field)                                                     \
                return ERR_NOMEM;                                               \
            memcpy(to->field, from->field, from->n * sizeof(*from->field));     \
        }                                                                       \
    } while (0)
    COPY(bias, n_biases);
    COPY(stop, n_stops);
    COPY(stop_token, n_stop_tokens);
    COPY(bad_words, n_bad_words);
    COPY(eos, n_eos);
    COPY(allowed, n_allowed);
    COPY(logprob_id, n_logprob_ids);
#undef COPY
    return copy_texts(s, to->stop, to->n_stops) && copy_texts(s, to->bad_words, to->n_bad_words) ? 0
                                                                                                 : ERR_NOMEM;
    return 0;
}

/* Adds TEXT as TOK writes it where it has tokens. */
static int add_word(struct seq *s, const struct tok *tok, const char *text, size_t n,
                    struct sample_word *list, struct tok_ids *ids, struct err *e)
{
    int32_t *copy;
    int rc;

    ids->n = 0;
    if ((rc = tok_encode(tok, text, n, 0, ids, e)) != 0 || ids->n == 0)
        return rc;
    copy = arena_zalloc(&s->arena, ids->n, sizeof(*copy));
    if (!copy)
        return err_nomem(e, "a request");
    memcpy(copy, ids->id, ids->n * sizeof(*copy));
    list[s->history.n_bad++] = (struct sample_word){copy, ids->n};
    return 0;
}

/* Words are forbidden as they stand at the beginning of a text and behind a blank, whose own blanks in front
 * do not count. */
static int fill_bad(struct seq *s, const struct tok *tok, struct err *e)
{
    const struct sampling *p = &s->sampling;
    struct sample_word *list;
    struct tok_ids ids = {0};
    int rc = 0;

    s->history.output = s->token + s->n_prompt;
    if (p->n_bad_words == 0)
        return 0;
    if (!tok)
        return err_set(e, ERR_UNSUPPORTED, "bad_words: this model has no tokenizer");
    list = arena_zalloc(&s->arena, 2 * p->n_bad_words, sizeof(*list));
    if (!list)
        return err_nomem(e, "a request");
    for (size_t i = 0; i < p->n_bad_words && rc == 0; i++) {
        char text[SAMPLING_MAX_BAD_BYTES + 1] = " ";
        const struct sampling_str *w = &p->bad_words[i];
        size_t skip = 0, n;

        while (skip + 1 < w->n && w->s[skip] == ' ')
            skip++;
        n = w->n - skip;
        memcpy(text + 1, w->s + skip, n);
        rc = add_word(s, tok, text + 1, n, list, &ids, e);
        if (rc == 0)
            rc = add_word(s, tok, text, n + 1, list, &ids, e);
    }
    s->history.bad = list;
    tok_ids_fini(&ids);
    return rc;
}

/* The first token of the answer may be ID. */
static bool may_begin(const struct seq *s, int32_t id)
{
    const struct sample_history *h = &s->history;
    const struct sampling *p = &s->sampling;

    if (h->allowed && !(h->allowed[id / 32] >> id % 32 & 1))
        return false;
    if (p->min_new_tokens > 0 &&
        (sampling_has_id(p->eos, p->n_eos, id) || sampling_has_id(p->stop_token, p->n_stop_tokens, id)))
        return false;
    for (size_t i = 0; i < h->n_bad; i++)
        if (h->bad[i].n == 1 && h->bad[i].id[0] == id)
            return false;
    return true;
}

/* A request that forbids every token is wrong as it is; those that forbid the rest later are seen then. */
static int check_choice(const struct seq *s, size_t n_vocab, struct err *e)
{
    if (!s->stop.limit || !seq_forbids(s))
        return 0;
    for (size_t id = 0; id < n_vocab; id++)
        if (may_begin(s, (int32_t)id))
            return 0;
    return err_set(e, ERR_INPUT,
                   "%s: no token is left to choose: what is allowed is forbidden as a bad word, or as an end "
                   "before the fewest tokens",
                   s->sampling.n_allowed ? "allowed_token_ids"
                   : s->history.n_bad    ? "bad_words"
                                         : "stop_token");
}

static int fill(struct seq *s, const struct seq_request *r, const struct tok *tok, size_t n_vocab,
                size_t max_len, struct err *e)
{
    size_t room = max_len - r->n_ids, held = 0;
    int rc;

    if (copy_sampling(s, r->sampling) != 0)
        return err_nomem(e, "a request");
    sampling_sort(&s->sampling);
    if ((rc = sampling_validate(&s->sampling, n_vocab, e)) != 0 ||
        (rc = stop_init(&s->stop, &s->sampling, r->n_ids, max_len, &s->arena, e)) != 0)
        return rc;
    s->context_cuts = s->stop.limit == room && s->sampling.max_new_tokens > room;
    s->n_prompt = s->n_known = r->n_ids;
    s->cap = r->n_ids + s->stop.limit;
    s->token = arena_alloc(&s->arena, s->cap * sizeof(*s->token));
    if (!s->token)
        return err_nomem(e, "a request");
    memcpy(s->token, r->ids, r->n_ids * sizeof(*s->token));
    if ((rc = sample_history_init(&s->history, &s->sampling, s->token, s->n_prompt, s->stop.limit, n_vocab,
                                  &s->arena, e)) != 0)
        return rc;
    if ((rc = fill_bad(s, tok, e)) != 0 || (rc = check_choice(s, n_vocab, e)) != 0)
        return rc;
    for (size_t i = 0; i < s->sampling.n_stops; i++)
        held = s->sampling.stop[i].n > held ? s->sampling.stop[i].n : held;
    if (!buf_reserve(&s->piece, USUAL_TEXT) || !buf_reserve(&s->text, USUAL_TEXT + held))
        return err_nomem(e, "a request");
    s->sampling.seed += r->choice;
    if (s->pooling) {
        s->sum = arena_zalloc(&s->arena, r->n_hidden, sizeof(*s->sum));
        s->pooled = arena_zalloc(&s->arena, r->n_hidden, sizeof(*s->pooled));
        if (!s->sum || !s->pooled)
            return err_nomem(e, "a request");
    }
    return tok ? tok_stream_new(&s->detok, tok, !r->keep_special, e) : 0;
}

int seq_new(struct seq **out, const struct seq_request *r, const struct tok *tok, size_t n_vocab,
            size_t max_len, struct err *e)
{
    struct seq *s;
    int rc = check_ids(r, n_vocab, max_len, e);

    *out = NULL;
    if (rc)
        return rc;
    s = mem_zalloc(1, sizeof(*s), MEM_ENGINE);
    if (!s)
        return err_nomem(e, "a request");
    s->user = r->user;
    s->choice = r->choice;
    s->prompt_logprobs = r->prompt_logprobs;
    s->pooling = r->pooling;
    s->limit_s = r->limit_s;
    s->has_salt = r->salt != NULL;
    if (r->salt)
        memcpy(s->salt, r->salt, sizeof(s->salt));
    s->wait.priority = r->priority;
    s->wait.key = r->key;
    arena_init(&s->arena, MEM_ENGINE);
    buf_init(&s->piece, MEM_ENGINE);
    buf_init(&s->text, MEM_ENGINE);
    if ((rc = fill(s, r, tok, n_vocab, max_len, e)) != 0) {
        seq_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void seq_free(struct seq *s)
{
    if (!s)
        return;
    tok_stream_free(s->detok);
    buf_fini(&s->piece);
    buf_fini(&s->text);
    arena_fini(&s->arena);
    mem_free(s);
}

void seq_free_list(struct seq *s)
{
    while (s) {
        struct seq *next = s->next;

        seq_free_list(s->sibling);
        seq_free(s);
        s = next;
    }
}

bool seq_forbids(const struct seq *s)
{
    return s->history.allowed || s->history.n_bad || s->sampling.min_new_tokens > 0;
}

bool seq_wants_all(const struct seq *s)
{
    return s->prompt_logprobs >= 0 || s->pooling == SEQ_POOL_MEAN;
}

size_t seq_n_output(const struct seq *s)
{
    return s->n_known - s->n_prompt;
}

size_t seq_most_rows(const struct seq *s)
{
    return s->stop.limit ? s->cap - 1 : s->cap;
}
