/* suffix.c - collects and counts votes for the next tokens, as suffix.h describes. */
#include "engine/guess/suffix.h"

#include "engine/guess/match.h"

enum { MAX_VOTERS = 2 * MATCH_MAX_OCCURRENCES };

/* An occurrence of the match, and its current position. */
struct voter {
    size_t end;                 /* an occurrence in the own tokens: index of the next token */
    struct history_place place; /* an occurrence in the history: position of the latest token */
    int32_t token;              /* the token that it votes for */
};

struct vote {
    const struct history *history;
    const int32_t *token; /* [n] the own tokens */
    size_t n;
    const int32_t *guess; /* the guesses so far */
    bool repeats;
    struct voter voter[MAX_VOTERS];
    size_t n_voters, n_own; /* the first N_OWN voters are occurrences in the own tokens */
};

static bool next(const struct vote *v, struct voter *x, bool is_own)
{
    if (!is_own)
        return history_next(v->history, &x->place, &x->token);
    if (x->end >= v->n && !v->repeats)
        return false;
    x->token = x->end < v->n ? v->token[x->end] : v->guess[x->end - v->n];
    x->end++;
    return true;
}

/* Moves all voters to their next token, and removes those that have none. */
static void advance(struct vote *v)
{
    size_t n = 0, n_own = 0;

    for (size_t i = 0; i < v->n_voters; i++) {
        bool is_own = i < v->n_own;

        if (!next(v, &v->voter[i], is_own))
            continue;
        n_own += is_own;
        v->voter[n++] = v->voter[i];
    }
    v->n_voters = n;
    v->n_own = n_own;
}

/* Keeps the voters for the token with the most votes. */
static void elect(struct vote *v)
{
    uint8_t first[MAX_VOTERS], votes[MAX_VOTERS]; /* the first voter of each token, and its votes */
    size_t n_tokens = 0, best = 0, n = 0, n_own = 0;

    for (size_t i = 0; i < v->n_voters; i++) {
        size_t k = 0;

        while (k < n_tokens && v->voter[first[k]].token != v->voter[i].token)
            k++;
        if (k == n_tokens) {
            first[n_tokens] = (uint8_t)i;
            votes[n_tokens++] = 0;
        }
        votes[k]++;
    }
    for (size_t k = 1; k < n_tokens; k++)
        if (votes[k] > votes[best])
            best = k;
    for (size_t i = 0, at = first[best]; i < v->n_voters; i++)
        if (v->voter[i].token == v->voter[at].token) {
            n_own += i < v->n_own;
            v->voter[n++] = v->voter[i];
        }
    v->n_voters = n;
    v->n_own = n_own;
}

/* Makes the occurrences of the longest match the voters. Returns its length. */
static size_t gather(struct vote *v, const struct match *own, const struct history_writer *w)
{
    struct history_place place[MATCH_MAX_OCCURRENCES];
    size_t end[MATCH_MAX_OCCURRENCES], n_places = 0, recent;
    size_t in_own = match_longest(own, &recent), in_history = 0;

    if (v->history)
        in_history = history_find(v->history, w, v->token, v->n, own->max_length, place,
                                  MATCH_MAX_OCCURRENCES, &n_places);
    if (in_own && in_own >= in_history)
        v->n_own = match_occurrences(own, end);
    for (size_t i = 0; i < v->n_own; i++)
        v->voter[v->n_voters++].end = end[i];
    for (size_t i = 0; i < n_places && in_history >= in_own; i++)
        v->voter[v->n_voters++].place = place[i];
    return in_own > in_history ? in_own : in_history;
}

/* If a match was interrupted, makes its continuation the only voter. Returns the length of a match that counts as
 * equally good, or 0. */
static size_t resume(struct vote *v, const struct match *own)
{
    size_t end;

    if (!match_interrupted(own, &end))
        return 0;
    v->voter[0].end = end;
    v->n_voters = v->n_own = 1;
    return SUFFIX_RESUMED;
}

size_t suffix_guess(const struct match *own, const struct history *h, const struct history_writer *w,
                    const int32_t *token, size_t n, const struct match_rule *rule, int32_t *guess,
                    size_t *length)
{
    struct vote v = {.history = h, .token = token, .n = n, .guess = guess, .repeats = rule->repeats};
    size_t found = match_has(own, n) ? gather(&v, own, w) : 0, resumed, depth, n_guesses;
    double least;

    if (match_has(own, n) && found < SUFFIX_RESUMED && (resumed = resume(&v, own)) > 0)
        found = resumed;
    depth = match_depth(rule, found);
    least = rule->min_share * (double)v.n_voters;
    if (length)
        *length = found;
    for (n_guesses = 0; n_guesses < depth; n_guesses++) {
        advance(&v);
        if (v.n_voters == 0)
            break;
        elect(&v);
        if ((double)v.n_voters < least)
            break;
        guess[n_guesses] = v.voter[0].token;
    }
    return n_guesses;
}
