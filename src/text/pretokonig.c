/* pretokonig.c - one pass over an Oniguruma (Ruby syntax) pattern, writing PCRE2 as it goes.
 *
 * The two dialects agree on most of what tokenizers use; this rewrites where they do not and refuses what it
 * does not know, so that a pattern is never silently read in another sense. Rewritten: \s (PCRE2 also counts
 * U+180E), \w, \b, \h, scripts (\p{Han} would mean Script_Extensions), nested and intersected classes (PCRE2
 * 10.42 miscompiles &&), {,n} and {n}? and {n,m}+ (in Ruby: optional, repeated). The result is for PCRE2_UTF
 * | PCRE2_UCP | PCRE2_MULTILINE with newline = LF, which is what ^ $ and . mean in Ruby.
 */
#include "text/pretokonig.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pretokesc.h"

enum { MAX_DEPTH = 64, MAX_REPEAT = 1000, MAX_PATTERN = 65536 };

static bool at(const struct pretokesc_reader *r, const char *s)
{
    size_t n = strlen(s);

    return (size_t)(r->end - r->p) >= n && memcmp(r->p, s, n) == 0;
}

/* Puts TEXT in front of what was written since START. */
static void wrap(struct buf *b, size_t start, const char *text)
{
    size_t n = strlen(text), old = b->len;

    buf_str(b, text);
    if (b->oom)
        return;
    memmove(b->data + start + n, b->data + start, old - start);
    memcpy(b->data + start, text, n);
}

/* A class while it is read: FLAT can stand between brackets; ALTS are "|"-joined one-character patterns that
 * cannot. */
struct class
{
    struct buf flat, alts;
};

static void class_fini(struct class *c)
{
    buf_fini(&c->flat);
    buf_fini(&c->alts);
}

static void class_add_alt(struct class *c, const char *s, size_t n)
{
    if (c->alts.len)
        buf_char(&c->alts, '|');
    buf_add(&c->alts, s, n);
}

/* Writes the one-character pattern that C means. */
static void class_write(const struct class *c, bool negated, struct buf *out)
{
    if (c->alts.len == 0) {
        buf_str(out, negated ? "[^" : "[");
        buf_add(out, c->flat.data, c->flat.len);
        buf_char(out, ']');
        return;
    }
    if (negated)
        buf_str(out, "(?:(?!");
    buf_str(out, "(?:");
    if (c->flat.len) {
        buf_char(out, '[');
        buf_add(out, c->flat.data, c->flat.len);
        buf_str(out, "]|");
    }
    buf_add(out, c->alts.data, c->alts.len);
    buf_char(out, ')');
    if (negated)
        buf_str(out, ")(?s:.))");
}

static int read_class(struct pretokesc_reader *r, struct class *out, bool *negated);

/* A class inside a class joins its parent: flat where possible, else as an alternative. */
static int read_nested(struct pretokesc_reader *r, struct class *into)
{
    struct class inner = {.flat.tag = MEM_TEXT, .alts.tag = MEM_TEXT};
    struct buf whole = {.tag = MEM_TEXT};
    bool negated;
    int rc = read_class(r, &inner, &negated);

    if (rc == 0 && !negated && inner.alts.len == 0) {
        buf_add(&into->flat, inner.flat.data, inner.flat.len);
    } else if (rc == 0) {
        class_write(&inner, negated, &whole);
        class_add_alt(into, whole.data, whole.len);
    }
    if (whole.oom || inner.flat.oom || inner.alts.oom)
        into->flat.oom = true;
    buf_fini(&whole);
    class_fini(&inner);
    return rc;
}

/* One character or set of a class; *is_set: it cannot begin a range. */
static int read_member(struct pretokesc_reader *r, struct pretokesc *x)
{
    size_t len;

    if (*r->p == '\\') {
        if (r->end - r->p > 1 && (r->p[1] == 'b' || r->p[1] == 'R' || r->p[1] == 'X'))
            return pretokesc_refuse(r, "the escape");
        return pretokesc_read(r, x);
    }
    *x = (struct pretokesc){.ch = utf8_decode(r->p, &len)};
    r->p += len;
    return 0;
}

static void put_code(struct buf *b, uint32_t c)
{
    char s[4];

    pretokesc_put(b, s, utf8_encode(c, s));
}

static int read_member_or_range(struct pretokesc_reader *r, struct class *c)
{
    struct pretokesc lo, hi;
    int rc = read_member(r, &lo);

    if (rc)
        return rc;
    if (lo.is_set) {
        if (lo.negated) {
            char alt[160];
            int n = snprintf(alt, sizeof(alt), "[^%s]", lo.set);
            class_add_alt(c, alt, (size_t)n);
        } else {
            buf_str(&c->flat, lo.set);
        }
        return 0;
    }
    put_code(&c->flat, lo.ch);
    if (r->end - r->p < 2 || r->p[0] != '-' || r->p[1] == ']' || at(r, "-&&"))
        return 0;
    if (r->p[1] == '[')
        return pretokesc_refuse(r, "a range that ends in a class");
    r->p++;
    if ((rc = read_member(r, &hi)) != 0)
        return rc;
    if (hi.is_set || hi.ch < lo.ch)
        return pretokesc_refuse(r, "the range before this place");
    buf_char(&c->flat, '-');
    put_code(&c->flat, hi.ch);
    return 0;
}

/* One operand of &&: members up to "&&" or the closing bracket, which stay unread. */
static int read_operand(struct pretokesc_reader *r, struct class *c)
{
    bool first = true;
    int rc;

    while (r->p < r->end && !at(r, "&&") && (*r->p != ']' || first)) {
        if (at(r, "[:"))
            return pretokesc_refuse(r, "a POSIX bracket");
        if (*r->p == '[')
            rc = read_nested(r, c);
        else
            rc = read_member_or_range(r, c);
        if (rc)
            return rc;
        first = false;
    }
    if (r->p == r->end)
        return pretokesc_refuse(r, "a class without its closing bracket");
    return first ? pretokesc_refuse(r, "an empty class") : 0;
}

/* Reads "[...]" at r->p. Intersections come out as look-aheads in ALTS. */
static int read_class(struct pretokesc_reader *r, struct class *out, bool *negated)
{
    struct buf all = {.tag = MEM_TEXT};
    int rc = 0;

    *negated = false;
    if (++r->depth > MAX_DEPTH)
        return pretokesc_refuse(r, "a class nested this deep");
    r->p++;
    if (r->p < r->end && *r->p == '^') {
        *negated = true;
        r->p++;
    }
    rc = read_operand(r, out);
    while (rc == 0 && at(r, "&&")) {
        buf_str(&all, "(?=");
        class_write(out, false, &all);
        buf_char(&all, ')');
        if (out->flat.oom || out->alts.oom)
            all.oom = true;
        buf_clear(&out->flat);
        buf_clear(&out->alts);
        r->p += 2;
        rc = read_operand(r, out);
    }
    if (rc == 0)
        r->p++;
    if (rc == 0 && all.len) {
        class_write(out, false, &all);
        if (out->flat.oom || out->alts.oom)
            all.oom = true;
        buf_clear(&out->flat);
        buf_clear(&out->alts);
        wrap(&all, 0, "(?:");
        buf_char(&all, ')');
        buf_add(&out->alts, all.data, all.len);
    }
    if (all.oom)
        out->flat.oom = true;
    buf_fini(&all);
    r->depth--;
    return rc;
}

static int class_atom(struct pretokesc_reader *r)
{
    struct class c = {.flat.tag = MEM_TEXT, .alts.tag = MEM_TEXT};
    bool negated;
    int rc = read_class(r, &c, &negated);

    if (rc == 0)
        class_write(&c, negated, r->out);
    if (c.flat.oom || c.alts.oom)
        r->out->oom = true;
    class_fini(&c);
    return rc;
}

static int escape_atom(struct pretokesc_reader *r)
{
    static const char in[] = "(?<=[" PRETOKONIG_WORD "])", not_in[] = "(?<![" PRETOKONIG_WORD "])",
                      next[] = "(?=[" PRETOKONIG_WORD "])", not_next[] = "(?![" PRETOKONIG_WORD "])";
    struct pretokesc x;
    char c = r->end - r->p > 1 ? r->p[1] : 0;
    int rc;

    if (c == 'A' || c == 'z' || c == 'Z') {
        buf_add(r->out, r->p, 2);
        r->p += 2;
        return 0;
    }
    if (c == 'b' || c == 'B') {
        buf_fmt(r->out, "(?:%s%s|%s%s)", in, c == 'b' ? not_next : next, not_in, c == 'b' ? next : not_next);
        r->p += 2;
        return 0;
    }
    if ((rc = pretokesc_read(r, &x)) != 0)
        return rc;
    if (x.is_set)
        buf_fmt(r->out, x.negated ? "[^%s]" : "[%s]", x.set);
    else
        put_code(r->out, x.ch);
    return 0;
}

static int alternatives(struct pretokesc_reader *r, bool inside);

/* (?i-m:...) and (?i): Ruby's m is PCRE2's s. *open: a ':' follows, so a body does too. */
static int group_options(struct pretokesc_reader *r, bool *open)
{
    buf_str(r->out, "(?");
    for (r->p += 2; r->p < r->end && *r->p != ':' && *r->p != ')'; r->p++) {
        if (*r->p == 'i' || *r->p == '-')
            buf_char(r->out, *r->p);
        else if (*r->p == 'm')
            buf_char(r->out, 's');
        else
            return pretokesc_refuse(r, "the group");
    }
    if (r->p == r->end)
        return pretokesc_refuse(r, "a group without its closing parenthesis");
    *open = *r->p == ':';
    if (*r->p == ')')
        return pretokesc_refuse(r, "an option without a group of its own");
    buf_char(r->out, *r->p++);
    return 0;
}

static int group_atom(struct pretokesc_reader *r)
{
    static const char *const kind[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    bool open = true;
    size_t k;
    int rc = 0;

    if (++r->depth > MAX_DEPTH)
        return pretokesc_refuse(r, "a group nested this deep");
    for (k = 0; k < sizeof(kind) / sizeof(*kind) && !at(r, kind[k]); k++)
        ;
    if (k < sizeof(kind) / sizeof(*kind)) {
        buf_str(r->out, kind[k]);
        r->p += strlen(kind[k]);
    } else if (at(r, "(?")) {
        rc = group_options(r, &open);
    } else if (at(r, "(*")) {
        rc = pretokesc_refuse(r, "the group");
    } else {
        buf_str(r->out, "(?:"); /* nobody asks what a group captured */
        r->p++;
    }
    if (rc == 0 && open)
        rc = alternatives(r, true);
    r->depth--;
    return rc;
}

static int atom(struct pretokesc_reader *r)
{
    size_t len;

    switch (*r->p) {
    case '(': return group_atom(r);
    case '[': return class_atom(r);
    case '\\': return escape_atom(r);
    case '.':
    case '^':
    case '$': buf_char(r->out, *r->p++); return 0;
    case '*':
    case '+':
    case '?': return pretokesc_refuse(r, "a repeat of nothing");
    default: break;
    }
    utf8_decode(r->p, &len);
    pretokesc_put(r->out, r->p, len);
    r->p += len;
    return 0;
}

/* A {n,m} at r->p; false: the brace is an ordinary character there. */
static bool read_interval(struct pretokesc_reader *r, unsigned *lo, unsigned *hi, bool *no_hi, bool *exact)
{
    const char *p = r->p + 1;
    const char *digits = p;
    bool has_lo, has_hi;

    for (*lo = 0; p < r->end && *p >= '0' && *p <= '9' && *lo <= MAX_REPEAT; p++)
        *lo = *lo * 10 + (unsigned)(*p - '0');
    has_lo = p > digits;
    *exact = p < r->end && *p == '}';
    *hi = *lo;
    *no_hi = false;
    if (p < r->end && *p == ',') {
        digits = ++p;
        for (*hi = 0; p < r->end && *p >= '0' && *p <= '9' && *hi <= MAX_REPEAT; p++)
            *hi = *hi * 10 + (unsigned)(*p - '0');
        has_hi = p > digits;
        *no_hi = !has_hi;
        if (!has_lo && !has_hi)
            return false;
    } else if (!has_lo) {
        return false;
    }
    if (p == r->end || *p != '}')
        return false;
    r->p = p + 1;
    return true;
}

/* An interval and what may follow it. Ruby: {n}? makes it optional, and {n,m}+ repeats the whole. */
static int interval(struct pretokesc_reader *r, size_t start, bool *was_one)
{
    unsigned lo, hi;
    bool no_hi, exact;

    *was_one = read_interval(r, &lo, &hi, &no_hi, &exact);
    if (!*was_one)
        return 0;
    if (lo > MAX_REPEAT || hi > MAX_REPEAT || (!no_hi && hi < lo))
        return pretokesc_refuse(r, "the interval before this place");
    if (no_hi)
        buf_fmt(r->out, "{%u,}", lo);
    else
        buf_fmt(r->out, "{%u,%u}", lo, hi);
    if (r->p < r->end && *r->p == '?' && !exact) {
        buf_char(r->out, '?');
        r->p++;
    }
    if (r->p < r->end && (*r->p == '?' || *r->p == '+' || *r->p == '*' || *r->p == '{')) {
        wrap(r->out, start, "(?:");
        buf_char(r->out, ')');
    }
    return 0;
}

static int repeats(struct pretokesc_reader *r, size_t start)
{
    bool again = false, was_one;
    int rc;

    while (r->p < r->end) {
        if (*r->p == '*' || *r->p == '+' || *r->p == '?') {
            if (again) {
                wrap(r->out, start, "(?:");
                buf_char(r->out, ')');
            }
            buf_char(r->out, *r->p++);
            if (r->p < r->end && (*r->p == '+' || *r->p == '?'))
                buf_char(r->out, *r->p++);
            again = true;
        } else if (*r->p == '{') {
            if (again) {
                wrap(r->out, start, "(?:");
                buf_char(r->out, ')');
            }
            if ((rc = interval(r, start, &was_one)) != 0)
                return rc;
            if (!was_one)
                return 0;
            again = false; /* interval() has wrapped already where more follows */
        } else {
            return 0;
        }
    }
    return 0;
}

static int alternatives(struct pretokesc_reader *r, bool inside)
{
    int rc;

    while (r->p < r->end && *r->p != ')') {
        size_t start = r->out->len;

        if (*r->p == '|') {
            buf_char(r->out, *r->p++);
            continue;
        }
        if ((rc = atom(r)) != 0 || (rc = repeats(r, start)) != 0)
            return rc;
        if (r->out->oom)
            return err_nomem(r->e, "pattern");
        if (r->out->len > 4 * MAX_PATTERN)
            return pretokesc_refuse(r, "a pattern this long");
    }
    if (inside && r->p == r->end)
        return pretokesc_refuse(r, "a group without its closing parenthesis");
    if (inside)
        buf_char(r->out, *r->p++);
    return 0;
}

int pretokonig_translate(const char *pattern, size_t n, struct buf *out, struct err *e)
{
    struct pretokesc_reader r = {.begin = pattern, .p = pattern, .end = pattern + n, .out = out, .e = e};
    int rc;

    if (n > MAX_PATTERN)
        return err_set(e, ERR_UNSUPPORTED, "a pattern of %zu bytes; at most %d are read", n,
                       (int)MAX_PATTERN);
    rc = alternatives(&r, false);
    if (rc == 0 && r.p != r.end)
        rc = pretokesc_refuse(&r, "a closing parenthesis without its opening one");
    if (rc == 0 && out->oom)
        rc = err_nomem(e, "pattern");
    return rc;
}
