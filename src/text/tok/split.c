/* split.c - runs the pre-tokenizer depth first: a piece goes through all steps before the next piece is cut,
 * so no list of pieces is needed. */
#include "text/tok/split.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tok/pattern.h"
#include "text/tok/unicode.h"

void split_seal(struct split *p)
{
    for (size_t i = 0; i < p->steps.n; i++)
        if (p->steps.step[i].kind == SPLIT_SPELL)
            p->bytes = p->unspell = true;
    if (p->unspell && p->steps.step[p->steps.n - 1].kind == SPLIT_SPELL) {
        p->steps.n--;
        p->unspell = false;
    }
}

bool split_work_init(struct split_work *w, const struct split *p, struct pattern_work *re)
{
    *w = (struct split_work){.re = re, .n_out = p->steps.n + 1};
    w->out = mem_zalloc(w->n_out, sizeof(*w->out), MEM_TEXT);
    for (size_t i = 0; w->out && i < w->n_out; i++)
        buf_init(&w->out[i], MEM_TEXT);
    return w->out != NULL;
}

void split_work_fini(struct split_work *w)
{
    for (size_t i = 0; w->out && i < w->n_out; i++)
        buf_fini(&w->out[i]);
    mem_free(w->out);
    *w = (struct split_work){0};
}

struct run {
    const struct split *p;
    struct split_work *w;
    split_sink *sink;
    void *ctx;
    struct err *e;
};

static int split_step(const struct run *r, size_t k, const char *s, size_t n, size_t start);

/* The parts into which a step cuts a piece, joined as `behavior` demands. The last part is pending, because the next
 * one may be joined to it. */
struct parts {
    const struct run *r;
    size_t k; /* the index of the step that cuts */
    const char *s;
    size_t start;
    enum step_behavior behavior;
    bool invert;
    bool pending, pending_is_match; /* the part s[begin, end) is pending; it is a match */
    size_t begin, end;
};

static int emit(struct parts *x, size_t begin, size_t end)
{
    return split_step(x->r, x->k + 1, x->s + begin, end - begin, x->start > begin ? x->start - begin : 0);
}

static int parts_end(struct parts *x)
{
    bool pending = x->pending;

    x->pending = false;
    return pending ? emit(x, x->begin, x->end) : 0;
}

/* True if the pending part is joined with the next one, which is a MATCH or the text before a match. */
static bool grows(const struct parts *x, bool match)
{
    if (!x->pending)
        return false;
    if (x->behavior == SPLIT_CONTIGUOUS)
        return x->pending_is_match == match;
    if (x->behavior == SPLIT_MERGED_PREVIOUS)
        return match && !x->pending_is_match;
    return x->pending_is_match && !match; /* SPLIT_MERGED_NEXT */
}

static int part(struct parts *x, size_t begin, size_t end, bool match)
{
    int rc = 0;

    if (x->invert)
        match = !match;
    if (x->behavior == SPLIT_ISOLATED)
        return emit(x, begin, end);
    if (x->behavior == SPLIT_REMOVED)
        return match ? 0 : emit(x, begin, end);
    if (grows(x, match)) {
        x->end = end;
    } else {
        rc = parts_end(x);
        x->pending = true;
        x->begin = begin;
        x->end = end;
    }
    x->pending_is_match = match;
    return rc;
}

/* Returns the kind of character that C is in CLASS; neighbours of one kind form a run. 0: not in CLASS. */
static int class_of(enum step_class class, uint32_t c)
{
    switch (class) {
    case SPLIT_NUMERIC: return unicode_is_numeric(c);
    case SPLIT_PUNCTUATION: return unicode_is_punctuation(c);
    case SPLIT_BLANK: return unicode_is_space(c);
    default: return unicode_is_space(c) ? 0 : unicode_is_word(c) ? 1 : 2;
    }
}

/* Finds the next character of P's class (SPLIT_RUNS: the next run) at or after offset AT. False: there is none. */
static bool next_chars(const struct step *p, const char *s, size_t n, size_t at, size_t *begin, size_t *end)
{
    int found = 0;
    size_t len = 0;

    for (*begin = at; *begin < n; *begin += len)
        if ((found = class_of(p->class, utf8_decode(s + *begin, &len))) != 0)
            break;
    *end = *begin + len;
    while (found && p->class == SPLIT_RUNS && *end < n &&
           class_of(p->class, utf8_decode(s + *end, &len)) == found)
        *end += len;
    return found;
}

/* Cuts S at the matches of step K, which are found in a copy without characters unknown to PCRE2. */
static int cut(const struct run *r, size_t k, const char *s, size_t n, size_t start)
{
    const struct step *p = &r->p->steps.step[k];
    struct parts x = {.r = r, .k = k, .s = s, .start = start, .behavior = p->behavior, .invert = p->invert};
    struct buf *older = &r->w->out[k];
    struct pattern_iter it;
    size_t done = 0, begin, end;
    int more, rc = 0;

    if (p->re && unicode_is_newer(s, n)) {
        buf_clear(older);
        buf_add(older, s, n);
        if (older->oom)
            return err_nomem(r->e, "pre_tokenizer");
        unicode_make_older(older->data, n);
        s = older->data;
    }
    pattern_start(&it, p, r->w->re, s, n);
    while (rc == 0 && (more = p->kind == SPLIT_CHARS ? next_chars(p, s, n, done, &begin, &end)
                                                     : pattern_next(&it, &begin, &end, r->e)) != 0) {
        if (more < 0)
            return -more;
        if (done < begin)
            rc = part(&x, done, begin, false);
        if (rc == 0)
            rc = part(&x, begin, end, true);
        done = end;
    }
    if (rc == 0 && done < n)
        rc = part(&x, done, n, false);
    return rc ? rc : parts_end(&x);
}

/* Passes a word to the sink. Letters are turned back into bytes; a step after SPLIT_SPELL may have added
 * other characters, which is an error. */
static int last(const struct run *r, const char *s, size_t n)
{
    struct buf *to = &r->w->out[r->p->steps.n];
    size_t m = 0;

    if (!r->p->unspell)
        return r->sink(r->ctx, s, n, r->e);
    buf_clear(to);
    buf_add(to, s, n); /* reserves room for the bytes */
    if (to->oom)
        return err_nomem(r->e, "pre_tokenizer");
    if (!unicode_unspell(s, n, to->data, &m))
        return err_set(r->e, ERR_UNSUPPORTED,
                       "a step after ByteLevel adds characters outside GPT-2's byte alphabet");
    return r->sink(r->ctx, to->data, m, r->e);
}

/* Applies step P, which rewrites a piece without cutting it, and writes the result to TO. *START: see
 * split_run(); it is updated for the result. */
static int rewrite(const struct run *r, const struct step *p, struct json_str s, struct buf *to,
                   size_t *start)
{
    size_t done = 0;
    int rc = 0;

    buf_clear(to);
    if (p->kind == SPLIT_REPLACE) {
        rc = pattern_replace(p, r->w->re, s, to, &done, *start ? start : NULL, r->e);
        buf_add(to, s.s + done, s.n - done);
    } else if (p->kind == SPLIT_PREPEND) {
        buf_add(to, p->text.s, p->text.n);
        buf_add(to, s.s, s.n);
        *start += *start ? p->text.n : 0;
    } else {
        buf_add(to, s.s, s.n);
        buf_add(to, s.s, s.n); /* reserves room for two bytes per letter */
        if (!to->oom) {
            *start = unicode_spell(s.s, *start, to->data);
            to->len = unicode_spell(s.s, s.n, to->data);
        }
    }
    return rc == 0 && to->oom ? err_nomem(r->e, "pre_tokenizer") : rc;
}

static int split_step(const struct run *r, size_t k, const char *s, size_t n, size_t start)
{
    const struct step *p;
    bool idle;
    int rc;

    if (n == 0)
        return 0;
    if (k == r->p->steps.n)
        return last(r, s, n);
    p = &r->p->steps.step[k];
    if (p->kind == SPLIT_MATCHES || p->kind == SPLIT_CHARS)
        return cut(r, k, s, n, start);
    idle = p->kind == SPLIT_PREPEND &&
           ((p->first && !start) || (p->missing && n >= p->text.n && memcmp(s, p->text.s, p->text.n) == 0));
    if (idle)
        return split_step(r, k + 1, s, n, start);
    rc = rewrite(r, p, (struct json_str){s, n}, &r->w->out[k], &start);
    return rc ? rc : split_step(r, k + 1, r->w->out[k].data, r->w->out[k].len, start);
}

int split_run(const struct split *p, struct split_work *w, const char *s, size_t n, size_t start,
              split_sink *sink, void *ctx, struct err *e)
{
    struct run r = {.p = p, .w = w, .sink = sink, .ctx = ctx, .e = e};

    return split_step(&r, 0, s, n, start);
}
