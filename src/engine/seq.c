/* seq.c - creates the answers of a request: validates and copies the request, and allocates the memory of answers. */
#include "engine/seq.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "engine/constraints/constraints.h"
#include "engine/constraints/late.h"
#include "engine/executor.h"
#include "engine/guess/lookup.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

enum { USUAL_TEXT = 256 }; /* initial size of the text buffers; a step with longer text allocates more */

static int check_ids(const struct seq_request *r, size_t n_vocab, size_t max_len, struct err *e)
{
    const struct sampling *s = r->sampling;

    if (r->n_ids == 0)
        return err_set(e, ERR_INPUT, "the prompt is empty");
    if (!r->ids)
        return err_set(e, ERR_INPUT, "the prompt has %zu tokens, but ids is NULL", r->n_ids);
    if (r->n_ids > max_len || (r->n_ids == max_len && s->max_new_tokens > 0))
        return err_set(
            e, ERR_INPUT,
            "the prompt has %zu tokens, expected at most %zu, so that an answer fits into the context of %zu",
            r->n_ids, max_len - 1, max_len);
    if (!sampling_given(s, SAMPLING_MAX_NEW_TOKENS) && r->n_ids >= s->max_length)
        return err_set(
            e, ERR_INPUT,
            "the prompt has %zu tokens, but max_length of the model's generation_config.json limits "
            "prompt and answer together to %zu; max_new_tokens overrides this limit",
            r->n_ids, s->max_length);
    for (size_t i = 0; i < r->n_ids; i++)
        if (r->ids[i] < 0 || (size_t)r->ids[i] >= n_vocab)
            return err_set(e, ERR_INPUT, "token %d at position %zu is outside the vocabulary of %zu tokens",
                           r->ids[i], i, n_vocab);
    return 0;
}

/* Replaces the N strings of LIST by copies in the arena of C. */
static bool copy_texts(struct seq_common *c, struct sampling_str *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        list[i].s = arena_strndup(&c->arena, list[i].s, list[i].n);
        if (!list[i].s)
            return false;
    }
    return true;
}

/* Copies FROM and its arrays to c->sampling. Of the allowed tokens only a bit mask is kept. */
static int copy_sampling(struct seq_common *c, const struct sampling *from)
{
    struct sampling *to = &c->sampling;

    *to = *from;
#define COPY(field, n)                                                          \
    do {                                                                        \
        if (from->n) {                                                          \
            to->field = arena_zalloc(&c->arena, from->n, sizeof(*from->field)); \
            if (!to->field)                                                     \
                return ERR_NOMEM;                                               \
            memcpy(to->field, from->field, from->n * sizeof(*from->field));     \
        }                                                                       \
    } while (0)
    COPY(bias, n_bias);
    COPY(stop, n_stop);
    COPY(stop_token, n_stop_token);
    COPY(bad_words, n_bad_words);
    COPY(dry_sequence_breakers, n_dry_sequence_breakers);
    COPY(eos, n_eos);
    COPY(suppress, n_suppress);
    COPY(begin_suppress, n_begin_suppress);
    COPY(logprob_id, n_logprob_ids);
#undef COPY
    return copy_texts(c, to->stop, to->n_stop) && copy_texts(c, to->bad_words, to->n_bad_words) &&
                   copy_texts(c, to->dry_sequence_breakers, to->n_dry_sequence_breakers)
               ? 0
               : ERR_NOMEM;
}

/* Tokenizes TEXT [n] and adds it to the bad words of C. IDS is scratch. */
static int add_word(struct seq_common *c, const char *text, size_t n, struct tok_ids *ids, struct err *e)
{
    int32_t *copy;
    int rc;

    ids->n = 0;
    if ((rc = tok_encode(c->tok, text, n, 0, ids, e)) != 0 || ids->n == 0)
        return rc;
    copy = arena_zalloc(&c->arena, ids->n, sizeof(*copy));
    if (!copy)
        return err_nomem(e, "a request");
    memcpy(copy, ids->id, ids->n * sizeof(*copy));
    c->bad[c->n_bad++] = (struct sample_word){copy, ids->n};
    return 0;
}

/* Adds each bad word in two tokenizations: without and with a space in front. Leading spaces of the word are
 * dropped. */
static int fill_bad(struct seq_common *c, struct err *e)
{
    const struct sampling *p = &c->sampling;
    struct tok_ids ids = {0};
    int rc = 0;

    if (!c->tok && p->n_bad_words + p->n_dry_sequence_breakers > 0)
        return err_about(e, ERR_UNSUPPORTED, p->n_bad_words ? "bad_words" : "dry_sequence_breakers",
                         "this model has no tokenizer");
    if (p->n_bad_words == 0)
        return 0;
    c->bad = arena_zalloc(&c->arena, 2 * p->n_bad_words, sizeof(*c->bad));
    if (!c->bad)
        return err_nomem(e, "a request");
    for (size_t i = 0; i < p->n_bad_words && rc == 0; i++) {
        char text[SAMPLING_MAX_BAD_BYTES + 1] = " ";
        const struct sampling_str *w = &p->bad_words[i];
        size_t skip = 0, n;

        while (skip + 1 < w->n && w->s[skip] == ' ')
            skip++;
        n = w->n - skip;
        memcpy(text + 1, w->s + skip, n);
        rc = add_word(c, text + 1, n, &ids, e);
        if (rc == 0)
            rc = add_word(c, text, n + 1, &ids, e);
    }
    tok_ids_fini(&ids);
    return rc;
}

/* Returns true if the request allows ID as the first token of an answer. */
static bool may_begin(const struct seq_common *c, int32_t id)
{
    const struct sampling *p = &c->sampling;

    if (c->allowed && !(c->allowed[id / 32] >> id % 32 & 1))
        return false;
    if (sampling_has_id(p->suppress, p->n_suppress, id) ||
        sampling_has_id(p->begin_suppress, p->n_begin_suppress, id))
        return false;
    if (p->min_new_tokens > 0 &&
        (sampling_has_id(p->eos, p->n_eos, id) || sampling_has_id(p->stop_token, p->n_stop_token, id)))
        return false;
    for (size_t i = 0; i < c->n_bad; i++)
        if (c->bad[i].n == 1 && c->bad[i].id[0] == id)
            return false;
    return true;
}

static bool forbids(const struct seq_common *c)
{
    const struct sampling *p = &c->sampling;

    return c->allowed || c->n_bad || c->constraint || p->min_new_tokens > 0 || p->n_suppress ||
           p->n_begin_suppress;
}

/* Refuses a request that excludes every first token. If a request excludes every token later, sampling fails. */
static int check_choice(const struct seq_common *c, size_t n_vocab, struct err *e)
{
    if (!c->stop.limit || !forbids(c))
        return 0;
    for (size_t id = 0; id < n_vocab; id++)
        if (may_begin(c, (int32_t)id))
            return 0;
    return err_about(
        e, ERR_INPUT,
        c->allowed ? "allowed_token_ids"
        : c->n_bad ? "bad_words"
                   : "stop_token",
        "the request excludes every first token: each allowed token is a bad word, an end token that "
        "min_new_tokens excludes, or one of suppress_tokens of the model's generation config");
}

static int fill_common(struct seq_common *c, const struct seq_request *r, size_t n_vocab, size_t max_len,
                       struct err *e)
{
    int rc;

    if (copy_sampling(c, r->sampling) != 0)
        return err_nomem(e, "a request");
    sampling_sort(&c->sampling);
    if ((rc = sampling_validate(&c->sampling, n_vocab, e)) != 0)
        return rc;
    if (sample_allowed(&c->allowed, &c->sampling, n_vocab, &c->arena) != 0)
        return err_nomem(e, "a request");
    c->sampling.allowed = NULL;
    c->sampling.n_allowed = 0;
    c->prompt = arena_alloc(&c->arena, r->n_ids * sizeof(*c->prompt));
    if (!c->prompt)
        return err_nomem(e, "a request");
    memcpy(c->prompt, r->ids, r->n_ids * sizeof(*c->prompt));
    c->n_prompt = r->n_ids;
    if ((rc = stop_init(&c->stop, &c->sampling, r->n_ids, max_len, &c->arena, e)) != 0 ||
        (rc = fill_bad(c, e)) != 0 ||
        (rc = reasoning_init(&c->reasoning, &r->reasoning, r->ids, r->n_ids, c->tok, &c->arena, e)) != 0)
        return rc;
    for (size_t i = 0; i < c->reasoning.n_forced; i++)
        if (c->reasoning.forced[i] < 0 || (size_t)c->reasoning.forced[i] >= n_vocab)
            return err_about(e, ERR_UNSUPPORTED, "reasoning_close",
                             "token %d of the mark is not in the model's vocabulary of %zu tokens",
                             c->reasoning.forced[i], n_vocab);
    return check_choice(c, n_vocab, e);
}

/* Sets the rules of the beam search with WIDTH beams. */
static int fill_rules(struct seq_common *c, size_t width, struct err *e)
{
    const struct sampling *p = &c->sampling;
    size_t n_ends = p->ignore_eos ? 0 : p->n_eos;

    for (size_t i = 0; i < p->n_stop_token; i++)
        n_ends += p->ignore_eos || !sampling_has_id(p->eos, p->n_eos, p->stop_token[i]);
    c->rules = (struct beam_rules){.width = width,
                                   .n_ranked = beam_n_ranked(width, n_ends),
                                   .limit = c->stop.limit,
                                   .length_penalty = p->length_penalty,
                                   .early_stopping = (enum sampling_early)p->early_stopping};
    if (width == 1) /* greedy decoding, as in Hugging Face */
        c->rules.early_stopping = SAMPLING_EARLY_TRUE;
    if (c->rules.n_ranked > BEAM_MOST_RANKED)
        return err_about(
            e, ERR_INPUT, "num_beams",
            "found %zu beams and %zu tokens that end an output, but beams x (1 + tokens) is limited to %d",
            width, n_ends, BEAM_MOST_RANKED);
    c->lane = arena_zalloc(&c->arena, width, sizeof(struct seq *));
    return c->lane ? 0 : err_nomem(e, "a request");
}

/* Drops a reference to C, and frees C with the last one. */
static void let_go(struct seq_common *c)
{
    if (atomic_fetch_sub(&c->n_users, 1) != 1)
        return;
    if (c->constraint)
        constraints_put(c->constraints, c->constraint);
    guess_lookup_free_prompt(c->prompt_index);
    arena_fini(&c->arena);
    mem_free(c);
}

/* Creates the common part of a request, with one reference. */
static int new_common(struct seq_common **out, const struct seq_request *r, const struct tok *tok,
                      size_t n_vocab, size_t max_len, struct err *e)
{
    struct seq_common *c = mem_zalloc(1, sizeof(*c), MEM_ENGINE);
    int rc;

    *out = NULL;
    if (!c) {
        if (r->constraint)
            constraints_put(r->constraints, r->constraint);
        return err_nomem(e, "a request");
    }
    atomic_init(&c->n_users, 1);
    c->client = mem_client();
    c->constraints = r->constraints;
    c->constraint = r->constraint;
    arena_init(&c->arena, MEM_ENGINE);
    c->tok = tok;
    c->n_vocab = n_vocab;
    c->skip_special = !r->keep_special;
    c->n_hidden = r->n_hidden;
    c->keeps_logits = r->keeps_logits;
    c->keeps_probs = r->keeps_probs;
    c->n_kept_prompt = r->n_kept_prompt < r->n_ids ? r->n_kept_prompt : r->n_ids;
    rc = fill_common(c, r, n_vocab, max_len, e);
    if (rc == 0 && r->n_beams)
        rc = fill_rules(c, r->n_beams, e);
    /* the last token of the output is never guessed, and there are no guesses with beam search */
    if (rc == 0 && c->stop.limit > 1 && !r->n_beams) {
        c->most_guesses = r->most_guesses;
        c->lookup_length = r->most_guesses ? r->lookup_length : 0;
    }
    if (rc)
        let_go(c);
    else
        *out = c;
    return rc;
}

/* Creates answer number CHOICE. */
static struct seq *new_answer(struct seq_common *c, const struct seq_request *r, unsigned choice,
                              size_t max_len)
{
    struct seq *s = mem_zalloc(1, sizeof(*s), MEM_ENGINE);
    size_t room = max_len - r->n_ids;

    if (!s)
        return NULL;
    atomic_fetch_add(&c->n_users, 1);
    s->common = c;
    s->user = r->user;
    s->choice = choice;
    s->prompt_logprobs = choice ? -1 : r->prompt_logprobs;
    s->pooling = r->pooling;
    s->limit_s = r->limit_s;
    s->has_salt = r->salt != NULL;
    if (r->salt)
        memcpy(s->salt, r->salt, sizeof(s->salt));
    s->wait.priority = r->priority;
    s->wait.key = r->key;
    s->sampling = c->sampling;
    s->sampling.seed += choice;
    s->stop = c->stop;
    s->context_cuts = c->stop.limit == room && c->sampling.max_new_tokens > room;
    s->token = c->prompt;
    s->n_prompt = s->n_known = r->n_ids;
    s->cap = r->n_ids + c->stop.limit;
    arena_init(&s->arena, MEM_ENGINE);
    buf_init(&s->piece, MEM_ENGINE);
    buf_init(&s->text, MEM_ENGINE);
    buf_init(&s->special, MEM_ENGINE);
    return s;
}

int seq_new(struct seq **out, const struct seq_request *r, size_t n, const struct tok *tok, size_t n_vocab,
            size_t max_len, struct err *e)
{
    struct seq **at = out;
    struct seq_common *c;
    size_t n_seqs = r->n_beams ? r->n_beams : n;
    int rc = check_ids(r, n_vocab, max_len, e);

    *out = NULL;
    if (rc && r->constraint)
        constraints_put(r->constraints, r->constraint);
    if (rc || (rc = new_common(&c, r, tok, n_vocab, max_len, e)) != 0)
        return rc;
    c->n_results = n;
    for (unsigned choice = 0; choice < n_seqs && rc == 0; choice++) {
        *at = new_answer(c, r, choice, max_len);
        if (*at && r->n_beams)
            c->lane[choice] = *at;
        if (!*at)
            rc = err_nomem(e, "a request");
        else
            at = choice ? &(*at)->next : &(*at)->sibling;
    }
    let_go(c);
    if (rc) {
        seq_free_list(*out);
        *out = NULL;
    }
    return rc;
}

/* ---- running ---- */

/* Allocates the mask and the constraint's state of S. */
static int fill_constraint(struct seq *s)
{
    const struct seq_common *c = s->common;
    size_t words = constraints_mask_words(c->constraints), of_logits = (c->n_vocab + 31) / 32;

    s->mask_words = words > of_logits ? words : of_logits;
    s->mask = arena_zalloc(&s->arena, (1 + c->most_guesses) * s->mask_words, sizeof(*s->mask));
    s->history.allowed = s->mask;
    s->next_mask = late_mask_new(s->mask_words);
    return s->mask && s->next_mask
               ? constraint_run_open(&s->run, constraints_of(c->constraint), c->stop.limit, NULL)
               : ERR_NOMEM;
}

/* Allocates the state of S for speculative decoding. A sequence runs without lookup if there is no memory for
 * its index. */
static int fill_guesses(struct seq *s)
{
    struct seq_common *c = s->common;
    bool shares = c->n_results > 1;

    s->accepted_at = arena_zalloc(&s->arena, c->most_guesses, sizeof(*s->accepted_at));
    if (c->lookup_length && shares && !c->prompt_index)
        c->prompt_index = guess_lookup_prompt(c->n_prompt, c->lookup_length);
    if (c->lookup_length && (!shares || c->prompt_index))
        s->lookup = guess_lookup_new(c->prompt_index, shares ? c->stop.limit : s->cap, c->lookup_length,
                                     s->has_salt ? s->salt : NULL, s->choice ? s->n_prompt : 0);
    return s->accepted_at ? 0 : ERR_NOMEM;
}

/* Allocates the rows of logits and probabilities that the events of S contain. */
static int fill_kept(struct seq *s)
{
    const struct seq_common *c = s->common;
    size_t n_prompt = s->choice ? 0 : c->n_kept_prompt, n = 1 + c->most_guesses,
           row = c->n_vocab * sizeof(float);

    if (c->keeps_logits && !(s->kept_logits = arena_zalloc(&s->arena, n, row)))
        return ERR_NOMEM;
    if (c->keeps_probs && !(s->kept_probs = arena_zalloc(&s->arena, n, row)))
        return ERR_NOMEM;
    if (n_prompt && !(s->kept_prompt = arena_zalloc(&s->arena, n_prompt, row)))
        return ERR_NOMEM;
    return 0;
}

/* Allocates the state of the beam search whose head is S. */
static int fill_beams(struct seq *s)
{
    const struct seq_common *c = s->common;
    size_t width = c->rules.width;
    struct seq_beams *b = s->beams = arena_zalloc(&s->arena, 1, sizeof(*b));

    if (!b)
        return ERR_NOMEM;
    buf_init(&b->text, MEM_ENGINE);
    b->running = arena_zalloc(&s->arena, width, sizeof(struct seq *));
    b->next = arena_zalloc(&s->arena, width, sizeof(struct seq *));
    if (!b->running || !b->next || beam_init(&b->search, &c->rules, &s->arena) != 0)
        return ERR_NOMEM;
    b->running[0] = s;
    if (c->tok && c->sampling.n_stop &&
        (tok_stream_new(&b->detok, c->tok, c->skip_special, NULL) != 0 ||
         stop_begin(&b->stop, &c->stop, &s->sampling, &s->arena) != 0))
        return ERR_NOMEM;
    return 0;
}

/* Allocates and initializes the memory that S needs to run. */
static int fill(struct seq *s)
{
    const struct seq_common *c = s->common;
    bool counts = sample_history_counts(&s->sampling);
    size_t held = stop_longest(&s->sampling);
    int32_t *token = arena_alloc(&s->arena, s->cap * sizeof(*token));

    if (!token || stop_begin(&s->stop, &c->stop, &s->sampling, &s->arena) != 0 ||
        (counts &&
         sample_history_reserve(&s->history, sample_history_cap(s->n_prompt, c->stop.limit, c->n_vocab),
                                &s->arena, NULL) != 0) ||
        !buf_reserve(&s->piece, USUAL_TEXT) || !buf_reserve(&s->text, USUAL_TEXT + held) ||
        !buf_reserve(&s->special, USUAL_TEXT + held))
        return ERR_NOMEM;
    memcpy(token, c->prompt, s->n_prompt * sizeof(*token));
    if (s->pooling) {
        s->sum = arena_zalloc(&s->arena, c->n_hidden, sizeof(*s->sum));
        s->pooled = arena_zalloc(&s->arena, c->n_hidden, sizeof(*s->pooled));
        if (!s->sum || !s->pooled)
            return ERR_NOMEM;
    }
    if ((c->tok && tok_stream_new(&s->detok, c->tok, c->skip_special, NULL) != 0) || fill_kept(s) != 0)
        return ERR_NOMEM;
    if (reasoning_run_open(&s->reasoning, &c->reasoning) != 0)
        return ERR_NOMEM;
    if (c->rules.width && (!(s->logprob = arena_zalloc(&s->arena, c->stop.limit, sizeof(*s->logprob))) ||
                           (s->choice == 0 && fill_beams(s) != 0)))
        return ERR_NOMEM;
    sample_history_begin(&s->history, &s->sampling, token, s->n_prompt);
    s->history.allowed = c->allowed;
    if ((c->constraint && fill_constraint(s) != 0) || (c->most_guesses && fill_guesses(s) != 0))
        return ERR_NOMEM;
    s->history.output = token + s->n_prompt;
    s->history.n_before = s->n_prompt;
    s->history.tok = c->tok;
    s->history.bad = c->bad;
    s->history.n_bad = c->n_bad;
    s->token = token;
    return 0;
}

/* Frees the memory that fill() allocated. */
static void empty(struct seq *s)
{
    if (s->beams) {
        tok_stream_free(s->beams->detok);
        buf_fini(&s->beams->text);
        s->beams = NULL;
    }
    tok_stream_free(s->detok);
    s->detok = NULL;
    guess_lookup_free(s->lookup);
    s->lookup = NULL;
    s->accepted_at = NULL;
    s->kept_logits = s->kept_probs = s->kept_prompt = NULL;
    buf_fini(&s->piece);
    buf_fini(&s->text);
    buf_fini(&s->special);
    constraint_run_close(&s->run);
    late_mask_free(s->next_mask);
    s->next_mask = NULL;
    reasoning_run_close(&s->reasoning);
    arena_fini(&s->arena);
}

static bool make_ready(struct seq *s)
{
    if (!s->ready) {
        s->ready = fill(s) == 0;
        if (!s->ready)
            empty(s);
    }
    return s->ready;
}

int seq_make_ready(struct seq *s)
{
    enum mem_charge before = mem_charge(MEM_CHARGE_OLD);
    uint32_t client = mem_set_client(s->common->client);
    bool ready = true;

    for (size_t i = s->common->rules.width; i-- > 1 && ready;) /* the lanes after the head */
        ready = make_ready(s->common->lane[i]);
    ready = ready && make_ready(s);
    mem_set_client(client);
    mem_charge(before);
    return ready ? 0 : ERR_NOMEM;
}

void seq_clear_text(struct seq *s)
{
    size_t n = s->text.len < s->special.len ? s->text.len : s->special.len;

    buf_clear(&s->text);
    s->special.len -= n;
    if (s->special.len)
        memmove(s->special.data, s->special.data + n, s->special.len);
}

void seq_free(struct seq *s)
{
    if (!s)
        return;
    seq_free_list(s->sibling);
    empty(s);
    let_go(s->common);
    mem_free(s);
}

void seq_free_list(struct seq *s)
{
    while (s) {
        struct seq *next = s->next;

        seq_free(s);
        s = next;
    }
}

bool seq_forbids(const struct seq *s)
{
    return forbids(s->common);
}

bool seq_wants_all(const struct seq *s)
{
    return s->prompt_logprobs >= 0 || s->pooling == SEQ_POOL_MEAN;
}

struct executor_prefix seq_prefix(const struct seq *s)
{
    return (struct executor_prefix){.id = s->token,
                                    .n = s->n_known,
                                    .n_prompt = s->n_prompt,
                                    .n_shared = s->n_known - 1,
                                    .salt = s->has_salt ? s->salt : NULL};
}

size_t seq_n_output(const struct seq *s)
{
    return s->n_known - s->n_prompt;
}

size_t seq_most_guesses(const struct seq *s)
{
    size_t left = s->cap - s->n_known, most = s->common->most_guesses;

    if (left <= 1 || s->pooling || !s->stop.limit || s->common->rules.width)
        return 0;
    return left - 1 < most ? left - 1 : most;
}

size_t seq_most_rows(const struct seq *s)
{
    return s->stop.limit ? s->cap - 1 : s->cap;
}
