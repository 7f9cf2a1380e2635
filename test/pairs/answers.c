/* answers.c - see answers.h. */
#include "answers.h"

#include <math.h>

static void bytes_add(struct bytes *b, const void *what, size_t n)
{
    if (n == 0)
        return;
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        if (!(b->at = realloc(b->at, b->cap)))
            abort();
    }
    memcpy(b->at + b->n, what, n);
    b->n += n;
}

static void add_token(struct bytes *b, const struct gallop_event *ev, size_t n_vocab)
{
    bytes_add(b, &ev->token, sizeof(ev->token));
    bytes_add(b, &ev->logprob, sizeof(ev->logprob));
    bytes_add(b, &ev->rank, sizeof(ev->rank));
    bytes_add(b, ev->top, ev->n_top * sizeof(*ev->top));
    if (ev->logits)
        bytes_add(b, ev->logits, n_vocab * sizeof(float));
    if (ev->probs)
        bytes_add(b, ev->probs, n_vocab * sizeof(float));
}

void answers_add(struct answer *a, const struct gallop_event *ev, size_t n_vocab)
{
    struct choice *c = &a->choice[ev->choice];

    if (c->ended)
        snprintf(c->error, sizeof(c->error), "an event follows the last");
    switch (ev->type) {
    case GALLOP_TOKEN:
        bytes_add(&c->ids, &ev->token, sizeof(ev->token));
        add_token(&c->tokens, ev, n_vocab);
        break;
    case GALLOP_PROMPT_TOKEN: add_token(&c->prompt, ev, n_vocab); break;
    case GALLOP_TEXT:
        bytes_add(&c->text, ev->text, ev->text_len);
        bytes_add(&c->special, ev->special, ev->text_len);
        break;
    case GALLOP_EMBEDDING: bytes_add(&c->embedding, ev->embedding, ev->n_embedding * sizeof(float)); break;
    case GALLOP_FINISHED:
        c->ended = true;
        c->finish = ev->finish;
        c->n_prompt = ev->n_prompt;
        c->n_output = ev->n_output;
        c->stop_token = ev->stop_token;
        c->context_full = ev->context_full;
        c->forbids_all = ev->forbids_all;
        c->n_warnings = ev->n_warnings;
        c->has_score = ev->has_score;
        c->score = ev->score;
        c->sum = ev->cumulative_logprob;
        c->n_cached = ev->n_cached;
        c->n_stored = ev->n_stored;
        snprintf(c->stop, sizeof(c->stop), "%s", ev->stop_string ? ev->stop_string : "");
        if (ev->error)
            snprintf(c->error, sizeof(c->error), "%s", ev->error);
    }
}

void answers_clear(struct answer *a)
{
    for (size_t i = 0; i < ANSWERS_MAX_CHOICES; i++) {
        struct choice *c = &a->choice[i];
        struct bytes *const all[] = {&c->ids, &c->tokens, &c->prompt, &c->embedding, &c->text, &c->special};

        for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
            free(all[k]->at);
    }
    memset(a, 0, sizeof(*a));
}

/* With PREFIX, compares the bytes that both have. */
static bool bytes_differ(const struct bytes *a, const struct bytes *b, bool prefix, const char *what,
                         char says[256])
{
    size_t at = 0;

    while (at < a->n && at < b->n && a->at[at] == b->at[at])
        at++;
    if ((at == a->n && at == b->n) || (prefix && (at == a->n || at == b->n)))
        return false;
    snprintf(says, 256, "%s differs at byte %zu of %zu, alone %zu", what, at, a->n, b->n);
    return true;
}

static bool ends_differ(const struct choice *a, const struct choice *b, char says[256])
{
    if (a->finish != b->finish || a->n_output != b->n_output || strcmp(a->error, b->error) != 0)
        snprintf(says, 256, "it ends behind %zu tokens (%d %.50s), alone behind %zu (%d %.50s)", a->n_output,
                 (int)a->finish, a->error, b->n_output, (int)b->finish, b->error);
    else if (a->n_prompt != b->n_prompt)
        snprintf(says, 256, "its prompt has %zu tokens, alone %zu", a->n_prompt, b->n_prompt);
    else if (a->stop_token != b->stop_token || strcmp(a->stop, b->stop) != 0)
        snprintf(says, 256, "it ends with stop %d \"%s\", alone %d \"%s\"", a->stop_token, a->stop,
                 b->stop_token, b->stop);
    else if (a->context_full != b->context_full || a->forbids_all != b->forbids_all ||
             a->n_warnings != b->n_warnings)
        snprintf(says, 256, "context_full, forbids_all, n_warnings are %d %d %zu, alone %d %d %zu",
                 a->context_full, a->forbids_all, a->n_warnings, b->context_full, b->forbids_all,
                 b->n_warnings);
    else if (a->has_score != b->has_score || memcmp(&a->score, &b->score, sizeof(a->score)) != 0 ||
             memcmp(&a->sum, &b->sum, sizeof(a->sum)) != 0)
        snprintf(says, 256, "its score and sum are %.17g %.17g, alone %.17g %.17g", a->score, a->sum,
                 b->score, b->sum);
    else
        return false;
    return true;
}

static bool choices_differ(const struct choice *a, const struct choice *b, bool may_be_cut, char says[256])
{
    bool cut = may_be_cut && a->finish == GALLOP_FINISH_CANCELLED;

    if (cut && a->error[0]) {
        snprintf(says, 256, "it was cancelled, and says: %.150s", a->error);
        return true;
    }
    if (!a->ended || !b->ended) {
        snprintf(says, 256, "it %s, alone it %s", a->ended ? "ended" : "did not end",
                 b->ended ? "ended" : "did not");
        return a->ended != b->ended;
    }
    return bytes_differ(&a->ids, &b->ids, cut, "the list of tokens", says) ||
           bytes_differ(&a->tokens, &b->tokens, cut, "a token's event", says) ||
           bytes_differ(&a->prompt, &b->prompt, cut, "the scored prompt", says) ||
           bytes_differ(&a->embedding, &b->embedding, cut, "the embedding", says) ||
           bytes_differ(&a->text, &b->text, cut, "the text", says) ||
           bytes_differ(&a->special, &b->special, cut, "the flags of special tokens", says) ||
           (!cut && ends_differ(a, b, says));
}

/* Returns whether the cancellation of A came too early or had no effect. A step may give several tokens. */
static bool is_cut_wrongly(const struct answer *a, size_t cancel_at)
{
    bool is_cancelled = false, is_reached = cancel_at == 0;

    for (size_t i = 0; i < ANSWERS_MAX_CHOICES; i++) {
        const struct choice *c = &a->choice[i];

        is_cancelled |= c->finish == GALLOP_FINISH_CANCELLED;
        is_reached |= c->n_output >= cancel_at;
        if (c->finish != GALLOP_FINISH_CANCELLED && !c->has_score &&
            c->n_output > cancel_at + GALLOP_MAX_DRAFT_TOKENS + 1)
            return true;
    }
    return is_cancelled && !is_reached;
}

bool answers_differ(const struct answer *a, const struct answer *b, size_t cancel_at, char says[256])
{
    if (cancel_at != SIZE_MAX && is_cut_wrongly(a, cancel_at)) {
        snprintf(says, 256, "it was to be cancelled after %zu tokens, and was not", cancel_at);
        return true;
    }
    if (a->code != b->code || strcmp(a->reason, b->reason) != 0) {
        snprintf(says, 256, "it is refused (%d, %.90s), alone (%d, %.90s)", a->code, a->reason, b->code,
                 b->reason);
        return true;
    }
    for (size_t i = 0; i < ANSWERS_MAX_CHOICES; i++) {
        char how[256];

        if (choices_differ(&a->choice[i], &b->choice[i], cancel_at != SIZE_MAX, how)) {
            snprintf(says, 256, "answer %zu: %.200s", i, how);
            return true;
        }
    }
    return false;
}
