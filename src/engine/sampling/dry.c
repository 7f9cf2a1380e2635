/* dry.c - finds repetitions at the end of a text, up to the last sequence breaker, and penalizes the tokens
 * that would continue them. */
#include "engine/sampling/dry.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/sampling/sampling.h"
#include "text/tok/tok.h"

/* Bytes of a token that are searched for breakers; longer tokens are cut. */
enum { LONGEST_TOKEN = 256 };

_Static_assert(DRY_LONGEST == 1024, "sampling.def has 1024 as the maximum of dry_allowed_length");

bool dry_is_on(const struct sampling *p)
{
    return p->dry_multiplier > 0 && p->dry_penalty_last_n != 0;
}

/* The breakers of a request. */
struct breakers {
    const struct sampling_str *text; /* [n] */
    size_t n;
};

static struct breakers breakers_of(const struct sampling *p, const struct tok *tok)
{
    static const struct sampling_str usual[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};

    if (!tok)
        return (struct breakers){0};
    if (sampling_given(p, SAMPLING_DRY_SEQUENCE_BREAKERS))
        return (struct breakers){p->dry_sequence_breakers, p->n_dry_sequence_breakers};
    return (struct breakers){usual, sizeof(usual) / sizeof(usual[0])};
}

/* Returns the largest end of a breaker in TEXT [N] that begins in the first N_BEGIN bytes; 0: there is none. */
static size_t breaker_end(const struct breakers *b, const char *text, size_t n_begin, size_t n)
{
    size_t end = 0;

    for (size_t i = 0; i < b->n; i++)
        for (size_t at = 0; at < n_begin && b->text[i].n <= n - at; at++)
            if (text[at] == b->text[i].s[0] && memcmp(text + at, b->text[i].s, b->text[i].n) == 0 &&
                at + b->text[i].n > end)
                end = at + b->text[i].n;
    return end;
}

/* Returns the number of tokens of TOKEN [N] after the last breaker, at most MOST, where MOST <= N and MOST <=
 * DRY_LONGEST. Goes back from the end until a breaker begins in a token; TEXT is the text of that token and the next
 * bytes, in which the breaker may end. */
static size_t count_behind_breaker(const struct breakers *b, const struct tok *tok, const int32_t *token,
                                   size_t n, size_t most)
{
    char text[LONGEST_TOKEN + SAMPLING_MAX_BREAKER_BYTES], one[LONGEST_TOKEN];
    uint16_t length[DRY_LONGEST];
    size_t n_text = 0;

    for (size_t i = 0; i < most && b->n > 0; i++) {
        size_t n_one = tok_text(tok, token[n - 1 - i], one, sizeof(one)), end, at = n_one;
        size_t rest = n_text < SAMPLING_MAX_BREAKER_BYTES ? n_text : SAMPLING_MAX_BREAKER_BYTES;

        memmove(text + n_one, text, rest);
        memcpy(text, one, n_one);
        n_text = n_one + rest;
        length[i] = (uint16_t)n_one;
        if ((end = breaker_end(b, text, n_one, n_text)) > 0) {
            while (at < end)
                at += length[--i];
            return i;
        }
    }
    return most;
}

/* The search for repetitions. Position K means K tokens before the last one. */
struct search {
    const int32_t *last; /* the last token */
    size_t n;            /* number of tokens */
    size_t limit;        /* longer repetitions count as this length */
    size_t left, right;  /* the tokens at left .. right - 1 equal those at 0 .. right - left - 1 */
    uint16_t length[DRY_LONGEST];
};

/* Returns the number of tokens, going back from position K, that equal those at the end. The calls are made for K = 1,
 * 2, ... (Z-algorithm): a token at or after `right` is compared once. */
static size_t length_at(struct search *s, size_t k)
{
    size_t len = 0;

    if (k < s->right) {
        len = s->length[k - s->left];
        len = len < s->right - k ? len : s->right - k;
    }
    if (k + len >= s->right) {
        while (len < s->limit && k + len < s->n && *(s->last - len) == *(s->last - k - len))
            len++;
        s->left = k;
        s->right = k + len;
    }
    if (k < s->limit)
        s->length[k] = (uint16_t)len;
    return len;
}

/* Sets longest[id] to 1 + the longest repetition that token ID would continue. The entries of all tokens of
 * the text are set; 0: no repetition. Returns true if there is a repetition. */
static bool find_longest(struct search *s, const struct sampling *p, size_t n_vocab, int32_t *longest)
{
    bool any = false;

    for (size_t k = 0; k + 1 < s->n; k++)
        if ((size_t) * (s->last - k) < n_vocab)
            longest[*(s->last - k)] = 0;
    for (size_t k = 1; k < s->n; k++) {
        size_t len = length_at(s, k), next = (size_t) * (s->last - k + 1);

        if (len < p->dry_allowed_length || next >= n_vocab)
            continue;
        any = true;
        if (longest[next] < (int32_t)len + 1)
            longest[next] = (int32_t)len + 1;
    }
    return any;
}

/* Returns true if the text of token ID contains a breaker. */
static bool breaks(const struct breakers *b, const struct tok *tok, int32_t id)
{
    char text[LONGEST_TOKEN];
    size_t n = b->n > 0 ? tok_text(tok, id, text, sizeof(text)) : 0;

    return breaker_end(b, text, n, n) > 0;
}

void dry_penalise(const struct sampling *p, const struct tok *tok, const int32_t *token, size_t n, float *x,
                  size_t n_vocab, int32_t *longest)
{
    size_t last_n = p->dry_penalty_last_n < 0 ? SIZE_MAX : (size_t)p->dry_penalty_last_n;
    const struct breakers b = breakers_of(p, tok);
    struct search s = {.n = n < last_n ? n : last_n};

    if (s.n < 2 || s.n <= p->dry_allowed_length)
        return;
    s.last = token + n - 1;
    s.limit = count_behind_breaker(&b, tok, token, n, s.n < DRY_LONGEST ? s.n : DRY_LONGEST);
    if (s.limit < p->dry_allowed_length || !find_longest(&s, p, n_vocab, longest))
        return;
    for (size_t k = 0; k + 1 < s.n; k++) {
        int32_t id = *(s.last - k);
        double v;

        if ((size_t)id >= n_vocab || longest[id] == 0)
            continue;
        v = (double)x[id] -
            p->dry_multiplier * pow(p->dry_base, (double)(longest[id] - 1) - (double)p->dry_allowed_length);
        if (x[id] > -INFINITY && !breaks(&b, tok, id))
            x[id] = v < -FLT_MAX ? -FLT_MAX : (float)v;
        longest[id] = 0;
    }
}
