/* split.c - depth first: a piece goes through all steps before the next one is cut, so no list of pieces
 * exists. */
#include "text/tok/split.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tok/unicode.h"

int split_add(struct split *p, struct split_step step, struct err *e)
{
    for (size_t i = 0; i < p->n; i++)
        if (step.kind == SPLIT_SPELL && p->step[i].kind == SPLIT_SPELL)
            return err_set(e, ERR_UNSUPPORTED, "a pre_tokenizer with two ByteLevel steps is not understood");
    if (!mem_grow((void **)&p->step, &p->cap, p->n + 1, sizeof(*p->step), MEM_TEXT))
        return err_nomem(e, "pre_tokenizer");
    p->step[p->n++] = step;
    return 0;
}

void split_seal(struct split *p, bool spelled)
{
    p->unspell = spelled;
    for (size_t i = 0; i < p->n; i++)
        if (p->step[i].kind == SPLIT_SPELL)
            p->unspell = true;
    p->bytes = p->unspell;
    if (!spelled && p->n && p->step[p->n - 1].kind == SPLIT_SPELL) {
        p->n--;
        p->unspell = false;
    }
}

void split_fini(struct split *p)
{
    mem_free(p->step);
    *p = (struct split){0};
}

bool split_work_init(struct split_work *w, const struct split *p, struct pattern_work *re)
{
    *w = (struct split_work){.re = re, .n_out = p->n + 1};
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

static int run(const struct run *r, size_t k, const char *s, size_t n, bool first);

/* The parts of one piece under a behaviour. A part waits until the next one shows whether it grows. */
struct parts {
    const struct run *r;
    size_t k; /* the step that cuts */
    const char *s;
    bool first;
    enum split_behavior behavior;
    bool invert;
    bool waits, waits_is_match;
    size_t begin, end;
};

static int emit(struct parts *x, size_t begin, size_t end)
{
    return run(x->r, x->k + 1, x->s + begin, end - begin, x->first && begin == 0);
}

static int parts_end(struct parts *x)
{
    bool waits = x->waits;

    x->waits = false;
    return waits ? emit(x, x->begin, x->end) : 0;
}

/* True when the part that waits takes the next one in. */
static bool grows(const struct parts *x, bool match)
{
    if (!x->waits)
        return false;
    if (x->behavior == SPLIT_CONTIGUOUS)
        return x->waits_is_match == match;
    if (x->behavior == SPLIT_MERGED_PREVIOUS)
        return match && !x->waits_is_match;
    return x->waits_is_match && !match; /* SPLIT_MERGED_NEXT */
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
        x->waits = true;
        x->begin = begin;
        x->end = end;
    }
    x->waits_is_match = match;
    return rc;
}

static int split(const struct run *r, struct parts *x, size_t n)
{
    struct pattern_iter it;
    struct buf *older = &r->w->out[x->k];
    const char *subject = x->s;
    size_t done = 0, begin, end;
    int more, rc = 0;

    if (unicode_is_newer(x->s, n)) {
        buf_clear(older);
        buf_add(older, x->s, n);
        if (older->oom)
            return err_nomem(r->e, "pre_tokenizer");
        unicode_make_older(older->data, n);
        subject = older->data;
    }
    pattern_start(&it, r->p->step[x->k].re, r->w->re, subject, n);
    while (rc == 0 && (more = pattern_next(&it, &begin, &end, r->e)) != 0) {
        if (more < 0)
            return -more;
        if (done < begin)
            rc = part(x, done, begin, false);
        if (rc == 0)
            rc = part(x, begin, end, true);
        done = end;
    }
    if (rc == 0 && done < n)
        rc = part(x, done, n, false);
    return rc;
}

static int split_literal(const struct run *r, struct parts *x, size_t n)
{
    const struct split_step *p = &r->p->step[x->k];
    size_t done = 0;
    const char *hit;
    int rc = 0;

    while (rc == 0 && done < n && (hit = memmem(x->s + done, n - done, p->text.s, p->text.n)) != NULL) {
        size_t begin = (size_t)(hit - x->s);

        if (done < begin)
            rc = part(x, done, begin, false);
        if (rc == 0)
            rc = part(x, begin, begin + p->text.n, true);
        done = begin + p->text.n;
    }
    if (rc == 0 && done < n)
        rc = part(x, done, n, false);
    return rc;
}

static bool in_class(enum split_class cls, uint32_t c)
{
    switch (cls) {
    case SPLIT_NUMERIC: return unicode_is_numeric(c);
    case SPLIT_PUNCTUATION: return unicode_is_punctuation(c);
    default: return unicode_is_space(c);
    }
}

static int split_chars(const struct run *r, struct parts *x, size_t n)
{
    size_t done = 0;
    int rc = 0;

    for (size_t i = 0, len; rc == 0 && i < n; i += len) {
        if (!in_class(r->p->step[x->k].cls, utf8_decode(x->s + i, &len)))
            continue;
        if (done < i)
            rc = part(x, done, i, false);
        if (rc == 0)
            rc = part(x, i, i + len, true);
        done = i + len;
    }
    if (rc == 0 && done < n)
        rc = part(x, done, n, false);
    return rc;
}

static int kind_of(uint32_t c)
{
    return unicode_is_space(c) ? 0 : unicode_is_word(c) ? 1 : 2;
}

static int split_runs(struct parts *x, size_t n)
{
    size_t begin = 0;
    int kind = 0, rc = 0;

    for (size_t i = 0, len; rc == 0 && i < n; i += len) {
        int next = kind_of(utf8_decode(x->s + i, &len));

        if (next == kind)
            continue;
        if (kind)
            rc = emit(x, begin, i);
        begin = i;
        kind = next;
    }
    return rc == 0 && kind ? emit(x, begin, n) : rc;
}

static int cut(const struct run *r, size_t k, const char *s, size_t n, bool first)
{
    const struct split_step *p = &r->p->step[k];
    struct parts x = {.r = r, .k = k, .s = s, .first = first, .behavior = p->behavior, .invert = p->invert};
    int rc;

    if (p->kind == SPLIT_PATTERN)
        rc = split(r, &x, n);
    else if (p->kind == SPLIT_CHARS)
        rc = split_chars(r, &x, n);
    else if (p->kind == SPLIT_RUNS)
        rc = split_runs(&x, n);
    else
        rc = split_literal(r, &x, n);
    return rc ? rc : parts_end(&x);
}

static int metaspace(const struct run *r, size_t k, const char *s, size_t n, bool first)
{
    const struct split_step *p = &r->p->step[k];
    struct buf *to = &r->w->out[k];
    bool begins = n >= p->text.n && memcmp(s, p->text.s, p->text.n) == 0;

    begins = begins || s[0] == ' ';
    buf_clear(to);
    if (!begins && (p->scheme == SPLIT_ALWAYS || (p->scheme == SPLIT_FIRST && first)))
        buf_add(to, p->text.s, p->text.n);
    for (size_t i = 0, from = 0; i <= n; i++) {
        if (i < n && s[i] != ' ')
            continue;
        buf_add(to, s + from, i - from);
        if (i < n)
            buf_add(to, p->text.s, p->text.n);
        from = i + 1;
    }
    if (to->oom)
        return err_nomem(r->e, "pre_tokenizer");
    if (!p->split)
        return run(r, k + 1, to->data, to->len, first);
    return cut(r, k, to->data, to->len, first);
}

/* Reads letters back into bytes; every character is a letter, for nothing after the spelling makes others. */
static int last(const struct run *r, const char *s, size_t n)
{
    struct buf *to = &r->w->out[r->p->n];
    size_t m = 0;

    if (!r->p->unspell)
        return r->sink(r->ctx, s, n, r->e);
    buf_clear(to);
    buf_add(to, s, n); /* room */
    if (to->oom)
        return err_nomem(r->e, "pre_tokenizer");
    if (!unicode_unspell(s, n, to->data, &m))
        return err_set(r->e, ERR_UNSUPPORTED, "a step after ByteLevel puts in characters that spell no byte");
    return r->sink(r->ctx, to->data, m, r->e);
}

static int run(const struct run *r, size_t k, const char *s, size_t n, bool first)
{
    const struct split_step *p;
    struct buf *to;

    if (n == 0)
        return 0;
    if (k == r->p->n)
        return last(r, s, n);
    p = &r->p->step[k];
    to = &r->w->out[k];
    switch (p->kind) {
    case SPLIT_SPACE:
        if (s[0] == ' ')
            return run(r, k + 1, s, n, first);
        buf_clear(to);
        buf_char(to, ' ');
        buf_add(to, s, n);
        break;
    case SPLIT_PREPEND:
        if (!first)
            return run(r, k + 1, s, n, first);
        buf_clear(to);
        buf_add(to, p->text.s, p->text.n);
        buf_add(to, s, n);
        break;
    case SPLIT_SPELL:
        buf_clear(to);
        buf_add(to, s, n);
        buf_add(to, s, n); /* room for two bytes a letter */
        if (!to->oom)
            to->len = unicode_spell(s, n, to->data);
        break;
    case SPLIT_METASPACE: return metaspace(r, k, s, n, first);
    default: return cut(r, k, s, n, first);
    }
    return to->oom ? err_nomem(r->e, "pre_tokenizer") : run(r, k + 1, to->data, to->len, first);
}

int split_run(const struct split *p, struct split_work *w, const char *s, size_t n, bool first,
              split_sink *sink, void *ctx, struct err *e)
{
    struct run r = {.p = p, .w = w, .sink = sink, .ctx = ctx, .e = e};

    return run(&r, 0, s, n, first);
}
