/* stop.c - matches each stop string with a Knuth-Morris-Pratt automaton; the longest partial match is held back. */
#include "engine/sampling/stop.h"

#include "base/arena.h"
#include "base/buf.h"
#include "engine/sampling/sampling.h"

#include <string.h>

struct stop_text {
    /* [n] failure function: after a mismatch with i + 1 matched bytes, fallback[i] bytes still match. */
    uint16_t *fallback;
    size_t matched; /* number of bytes of the stop string that match the end of the text; below n */
};
_Static_assert(SAMPLING_MAX_STOP_BYTES <= UINT16_MAX, "a length fits uint16_t");

static void make_fallback(const char *s, size_t n, uint16_t *fallback)
{
    size_t k = 0;

    fallback[0] = 0;
    for (size_t i = 1; i < n; i++) {
        while (k > 0 && s[i] != s[k])
            k = fallback[k - 1];
        if (s[i] == s[k])
            k++;
        fallback[i] = (uint16_t)k;
    }
}

size_t stop_longest(const struct sampling *s)
{
    size_t longest = 0;

    for (size_t i = 0; i < s->n_stop; i++)
        longest = s->stop[i].n > longest ? s->stop[i].n : longest;
    return longest;
}

int stop_init(struct stop *st, const struct sampling *s, size_t n_prompt, size_t max_len, struct arena *a,
              struct err *e)
{
    *st = (struct stop){.s = s, .limit = max_len > n_prompt ? max_len - n_prompt : 0, .token = -1};
    if (s->max_new_tokens < st->limit)
        st->limit = s->max_new_tokens;
    if (!sampling_given(s, SAMPLING_MAX_NEW_TOKENS)) {
        size_t left = s->max_length > n_prompt ? s->max_length - n_prompt : 0;

        st->limit = left < st->limit ? left : st->limit;
    }
    if (s->n_stop == 0)
        return 0;
    st->text = arena_zalloc(a, s->n_stop, sizeof(*st->text));
    if (!st->text)
        return err_nomem(e, "stop strings");
    for (size_t i = 0; i < s->n_stop; i++) {
        size_t n = s->stop[i].n;

        ASSERT(n > 0 && n <= SAMPLING_MAX_STOP_BYTES, "stop string of %zu bytes", n);
        st->text[i].fallback = arena_zalloc(a, n, sizeof(uint16_t));
        if (!st->text[i].fallback)
            return err_nomem(e, "stop strings");
        make_fallback(s->stop[i].s, n, st->text[i].fallback);
    }
    st->held = arena_alloc(a, stop_longest(s));
    return st->held ? 0 : err_nomem(e, "stop strings");
}

int stop_begin(struct stop *st, const struct stop *from, const struct sampling *s, struct arena *a)
{
    *st = *from;
    st->s = s;
    if (s->n_stop == 0)
        return 0;
    st->text = arena_alloc(a, s->n_stop * sizeof(*st->text));
    st->held = arena_alloc(a, stop_longest(s));
    if (!st->text || !st->held)
        return ERR_NOMEM;
    memcpy(st->text, from->text, s->n_stop * sizeof(*st->text));
    return 0;
}

void stop_copy(struct stop *to, const struct stop *from)
{
    to->n_output = from->n_output;
    to->why = from->why;
    to->token = from->token;
    to->string = from->string;
    for (size_t i = 0; i < from->s->n_stop; i++)
        to->text[i].matched = from->text[i].matched;
    if ((to->n_held = from->n_held) > 0)
        memcpy(to->held, from->held, from->n_held);
}

void stop_reset(struct stop *st)
{
    st->n_output = st->n_held = 0;
    st->why = STOP_NONE;
    st->token = -1;
    for (size_t i = 0; i < st->s->n_stop; i++)
        st->text[i].matched = 0;
}

enum stop_why stop_token(struct stop *st, int32_t id, size_t n_output)
{
    const struct sampling *s = st->s;

    st->n_output = n_output;
    if (n_output > s->min_new_tokens) {
        if (!s->ignore_eos && sampling_has_id(s->eos, s->n_eos, id))
            st->why = STOP_EOS;
        else if (sampling_has_id(s->stop_token, s->n_stop_token, id))
            st->why = STOP_TOKEN;
        if (st->why != STOP_NONE) {
            st->token = id;
            return st->why;
        }
    }
    if (n_output >= st->limit)
        st->why = STOP_LENGTH;
    return st->why;
}

/* Advances every automaton by the byte C. Returns the index of the longest stop string that is complete, or n_stop. */
static size_t stop_advance(struct stop *st, char c)
{
    const struct sampling *s = st->s;
    size_t complete = s->n_stop;

    for (size_t i = 0; i < s->n_stop; i++) {
        struct stop_text *t = &st->text[i];
        const char *want = s->stop[i].s;
        size_t n = s->stop[i].n;

        while (t->matched > 0 && want[t->matched] != c)
            t->matched = t->fallback[t->matched - 1];
        if (want[t->matched] == c)
            t->matched++;
        if (t->matched < n)
            continue;
        t->matched = t->fallback[n - 1];
        if (complete == s->n_stop || n > s->stop[complete].n)
            complete = i;
    }
    return complete;
}

/* Appends the first N bytes of the held text followed by PIECE to OUT. */
static void release(const struct stop *st, const char *piece, size_t n, struct buf *out)
{
    size_t first = n < st->n_held ? n : st->n_held;

    buf_add(out, st->held, first);
    buf_add(out, piece, n - first);
}

/* Holds back the last KEEP bytes of the held text followed by PIECE [n]. */
static void hold(struct stop *st, const char *piece, size_t n, size_t keep)
{
    size_t old = keep > n ? keep - n : 0; /* number of bytes at the end of the held text that stay held */

    memmove(st->held, st->held + st->n_held - old, old);
    memcpy(st->held + old, piece + n - (keep - old), keep - old);
    st->n_held = keep;
}

bool stop_text(struct stop *st, const char *piece, size_t n, struct buf *out)
{
    bool counts = st->n_output > st->s->min_new_tokens;
    size_t keep = 0;

    if (n == 0)
        return false;
    if (st->s->n_stop == 0) {
        buf_add(out, piece, n);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        size_t k = stop_advance(st, piece[i]);

        if (k == st->s->n_stop || !counts)
            continue;
        release(st, piece, st->n_held + i + 1 - (st->s->include_stop ? 0 : st->s->stop[k].n), out);
        st->n_held = 0;
        st->why = STOP_STRING;
        st->string = k;
        return true;
    }
    for (size_t i = 0; i < st->s->n_stop; i++)
        if (st->text[i].matched > keep)
            keep = st->text[i].matched;
    release(st, piece, st->n_held + n - keep, out);
    hold(st, piece, n, keep);
    return false;
}

void stop_flush(struct stop *st, struct buf *out)
{
    buf_add(out, st->held, st->n_held);
    st->n_held = 0;
}
