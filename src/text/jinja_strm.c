/* jinja_strm.c - str methods that search, strip, pad, replace and join. Predicates are in jinja_stris.c,
 * splitting in jinja_split.c, format() in jinja_fmt.c.
 */
#include "text/jinja_strm.h"

#include <string.h>

#include "text/jinja_case.h"
#include "text/jinja_fmt.h"
#include "text/jinja_html.h"
#include "text/jinja_iter.h"
#include "text/jinja_split.h"
#include "text/jinja_str.h"
#include "text/jinja_stris.h"
#include "text/jinja_uni.h"

/* V with the flags of SELF: what a method of Markup returns is Markup. */
static struct jv like(struct jv v, struct jv self)
{
    if (jv_is(v, JV_STR))
        v.flags = self.flags;
    return v;
}

/* An argument as text to insert into SELF: escaped when SELF is Markup. */
static struct jv inserted(struct jrun *r, struct jv self, struct jv v)
{
    return jv_is_markup(self) ? jinja_html_escape(r, v) : v;
}

static struct jv map_case(struct jrun *r, struct jv self, const struct jargs *a, const char *name,
                          enum jcase how)
{
    return jinja_args_bind(r, name, a, "", 0, NULL) ? jinja_case_map(r, self, how) : jv_none();
}

static struct jv str_upper(struct jrun *r, struct jv self, const struct jargs *a)
{
    return map_case(r, self, a, "upper", JCASE_UPPER);
}

static struct jv str_lower(struct jrun *r, struct jv self, const struct jargs *a)
{
    return map_case(r, self, a, "lower", JCASE_LOWER);
}

static struct jv str_title(struct jrun *r, struct jv self, const struct jargs *a)
{
    return map_case(r, self, a, "title", JCASE_TITLE);
}

static struct jv str_capitalize(struct jrun *r, struct jv self, const struct jargs *a)
{
    return map_case(r, self, a, "capitalize", JCASE_CAPITALIZE);
}

static struct jv str_swapcase(struct jrun *r, struct jv self, const struct jargs *a)
{
    return map_case(r, self, a, "swapcase", JCASE_SWAP);
}

static struct jv str_casefold(struct jrun *r, struct jv self, const struct jargs *a)
{
    return map_case(r, self, a, "casefold", JCASE_FOLD);
}

static bool in_set(const char *p, size_t n, struct jv chars)
{
    if (!jv_is(chars, JV_STR))
        return jinja_uni_space(jinja_str_char(p));
    for (size_t i = 0; i < chars.u.str->n; i += jinja_str_step(chars.u.str->p + i))
        if (jinja_str_step(chars.u.str->p + i) == n && memcmp(chars.u.str->p + i, p, n) == 0)
            return true;
    return false;
}

struct jv jinja_strm_strip(struct jrun *r, struct jv v, struct jv chars, int ends)
{
    const char *p = v.u.str->p;
    size_t from = 0, to = v.u.str->n, cost = jv_is(chars, JV_STR) ? chars.u.str->n / 8 : 0;

    if (!jv_is(chars, JV_STR) && !jv_is(chars, JV_MISSING) && !jv_is(chars, JV_NONE)) {
        jinja_run_fail(r, "strip arg must be None or str");
        return jv_none();
    }
    while ((ends & JSTRM_LEFT) && from < to && in_set(p + from, jinja_str_step(p + from), chars) &&
           jinja_run_step(r, cost))
        from += jinja_str_step(p + from);
    while ((ends & JSTRM_RIGHT) && from < to) {
        size_t n = jinja_str_back(p, to);

        if (!in_set(p + to - n, n, chars) || !jinja_run_step(r, cost))
            break;
        to -= n;
    }
    return jinja_str_sub(r, v, from, to);
}

static struct jv strip(struct jrun *r, struct jv self, const struct jargs *a, const char *name, int ends)
{
    struct jv p[1];

    return jinja_args_bind(r, name, a, "chars /", 0, p) ? jinja_strm_strip(r, self, p[0], ends) : jv_none();
}

static struct jv str_strip(struct jrun *r, struct jv self, const struct jargs *a)
{
    return strip(r, self, a, "strip", JSTRM_LEFT | JSTRM_RIGHT);
}

static struct jv str_lstrip(struct jrun *r, struct jv self, const struct jargs *a)
{
    return strip(r, self, a, "lstrip", JSTRM_LEFT);
}

static struct jv str_rstrip(struct jrun *r, struct jv self, const struct jargs *a)
{
    return strip(r, self, a, "rstrip", JSTRM_RIGHT);
}

/* The bytes of SELF between the characters START and STOP as slicing counts them. False: an error, or
 * nothing there. */
static bool window(struct jrun *r, struct jv self, struct jv start, struct jv stop, const char *name,
                   size_t *from, size_t *to)
{
    int64_t n = (int64_t)jinja_str_chars(self.u.str), i = 0, j = n;

    if (jv_is(start, JV_NONE))
        start = jv_missing();
    if (jv_is(stop, JV_NONE))
        stop = jv_missing();
    if (!jinja_args_index(r, name, start, &i) || !jinja_args_index(r, name, stop, &j) ||
        !jinja_run_step(r, self.u.str->n / 8))
        return false;
    i = i < 0 ? (i < -n ? 0 : i + n) : i;
    j = j < 0 ? (j < -n ? 0 : j + n) : j > n ? n : j;
    if (i > j || i > n)
        return false;
    *from = jinja_str_offset(self.u.str, (size_t)i);
    *to = j == n ? self.u.str->n : jinja_str_offset(self.u.str, (size_t)j);
    return true;
}

/* The character index of the first or last occurrence, -1 for none. */
static int64_t search(struct jrun *r, struct jv self, const struct jargs *a, const char *name, bool last)
{
    struct jv p[3];
    const struct jstr *sub = NULL;
    const char *s = self.u.str->p;
    size_t from, to, hit;

    if (!jinja_args_bind(r, name, a, "sub start end /", 1, p) || !jinja_args_str(r, name, p[0], &sub) ||
        !window(r, self, p[1], p[2], name, &from, &to))
        return -1;
    hit = last ? jinja_str_rfind(r, s + from, to - from, sub->p, sub->n)
               : jinja_str_find(s + from, to - from, sub->p, sub->n);
    return hit == SIZE_MAX ? -1 : (int64_t)jinja_str_count(s, from + hit);
}

static struct jv str_find(struct jrun *r, struct jv self, const struct jargs *a)
{
    return jv_int(search(r, self, a, "find", false));
}

static struct jv str_rfind(struct jrun *r, struct jv self, const struct jargs *a)
{
    return jv_int(search(r, self, a, "rfind", true));
}

static struct jv found(struct jrun *r, int64_t at)
{
    if (at < 0)
        jinja_run_fail(r, "substring not found");
    return jv_int(at);
}

static struct jv str_index(struct jrun *r, struct jv self, const struct jargs *a)
{
    return found(r, search(r, self, a, "index", false));
}

static struct jv str_rindex(struct jrun *r, struct jv self, const struct jargs *a)
{
    return found(r, search(r, self, a, "rindex", true));
}

static struct jv str_count(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jv p[3];
    const struct jstr *sub = NULL;
    const char *s = self.u.str->p;
    size_t from, to, hit;
    int64_t n = 0;

    if (!jinja_args_bind(r, "count", a, "sub start end /", 1, p) || !jinja_args_str(r, "count", p[0], &sub) ||
        !window(r, self, p[1], p[2], "count", &from, &to))
        return jv_int(0);
    if (sub->n == 0)
        return jv_int((int64_t)jinja_str_count(s + from, to - from) + 1);
    while ((hit = jinja_str_find(s + from, to - from, sub->p, sub->n)) != SIZE_MAX) {
        from += hit + sub->n;
        n++;
    }
    return jv_int(n);
}

static bool has_affix(struct jv self, size_t from, size_t to, const struct jstr *x, bool at_end)
{
    if (x->n > to - from)
        return false;
    return x->n == 0 || memcmp(self.u.str->p + (at_end ? to - x->n : from), x->p, x->n) == 0;
}

static struct jv affix(struct jrun *r, struct jv self, const struct jargs *a, const char *name, bool at_end)
{
    struct jv p[3];
    size_t from, to, n;
    const struct jv *one;

    if (!jinja_args_bind(r, name, a, "prefix start end /", 1, p))
        return jv_none();
    if (!jv_is(p[0], JV_STR) && !jv_is(p[0], JV_TUPLE)) {
        jinja_run_fail(r, "%s first arg must be str or a tuple of str, not %s", name, jinja_val_type(p[0]));
        return jv_none();
    }
    if (!window(r, self, p[1], p[2], name, &from, &to))
        return jv_bool(false);
    one = jv_is(p[0], JV_TUPLE) ? p[0].u.list->v : p;
    n = jv_is(p[0], JV_TUPLE) ? p[0].u.list->n : 1;
    for (size_t i = 0; i < n && jinja_run_step(r, 0); i++) {
        const struct jstr *s = NULL;

        if (!jinja_args_str(r, name, one[i], &s))
            return jv_none();
        if (has_affix(self, from, to, s, at_end))
            return jv_bool(true);
    }
    return jv_bool(false);
}

static struct jv str_startswith(struct jrun *r, struct jv self, const struct jargs *a)
{
    return affix(r, self, a, "startswith", false);
}

static struct jv str_endswith(struct jrun *r, struct jv self, const struct jargs *a)
{
    return affix(r, self, a, "endswith", true);
}

static struct jv remove_affix(struct jrun *r, struct jv self, const struct jargs *a, const char *name,
                              bool at_end)
{
    const struct jstr *x = NULL;
    size_t n = self.u.str->n;
    struct jv p[1];

    if (!jinja_args_bind(r, name, a, "prefix /", 1, p) || !jinja_args_str(r, name, p[0], &x))
        return jv_none();
    if (!has_affix(self, 0, n, x, at_end))
        return self;
    return jinja_str_sub(r, self, at_end ? 0 : x->n, at_end ? n - x->n : n);
}

static struct jv str_removeprefix(struct jrun *r, struct jv self, const struct jargs *a)
{
    return remove_affix(r, self, a, "removeprefix", false);
}

static struct jv str_removesuffix(struct jrun *r, struct jv self, const struct jargs *a)
{
    return remove_affix(r, self, a, "removesuffix", true);
}

struct jv jinja_strm_replace(struct jrun *r, struct jv v, struct jv from, struct jv to, int64_t count)
{
    const char *s = v.u.str->p, *q = from.u.str->p;
    size_t n = v.u.str->n, m = from.u.str->n, at = 0, hit;
    struct jbuf b = {.r = r};

    if (!jinja_run_step(r, n / 8))
        return jv_none();
    while (count != 0 && !r->rc) {
        hit = jinja_str_find(s + at, n - at, q, m);
        if (hit == SIZE_MAX)
            break;
        jinja_str_put(&b, s + at, hit);
        jinja_str_put(&b, to.u.str->p, to.u.str->n);
        at += hit + m;
        count -= count > 0;
        if (m == 0) { /* between all characters */
            if (at >= n)
                break;
            hit = jinja_str_step(s + at);
            jinja_str_put(&b, s + at, hit);
            at += hit;
            jinja_run_step(r, 0);
        }
    }
    if (at == 0 && b.n == 0)
        return v;
    jinja_str_put(&b, s + at, n - at);
    return like(jinja_str_done(&b), v);
}

static struct jv str_replace(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jv p[3];
    const struct jstr *old = NULL, *new = NULL;
    int64_t count = -1;

    if (!jinja_args_bind(r, "replace", a, "old new count /", 2, p) ||
        !jinja_args_index(r, "replace", p[2], &count))
        return jv_none();
    p[1] = inserted(r, self, p[1]);
    if (r->rc || !jinja_args_str(r, "replace", p[0], &old) || !jinja_args_str(r, "replace", p[1], &new))
        return jv_none();
    return jinja_strm_replace(r, self, p[0], p[1], count);
}

struct jv jinja_strm_join(struct jrun *r, struct jv separator, struct jv items)
{
    struct jbuf b = {.r = r};
    struct jiter *it = jinja_iter_open(r, items);
    struct jv v;

    for (size_t i = 0; it && jinja_iter_next(r, it, &v); i++) {
        v = inserted(r, separator, v);
        if (!r->rc && !jv_is(v, JV_STR))
            jinja_run_fail(r, "sequence item %zu: expected str instance, %s found", i, jinja_val_type(v));
        if (r->rc)
            break;
        if (i)
            jinja_str_put(&b, separator.u.str->p, separator.u.str->n);
        jinja_str_put(&b, v.u.str->p, v.u.str->n);
    }
    return like(jinja_str_done(&b), separator);
}

static struct jv str_join(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jv p[1];

    return jinja_args_bind(r, "join", a, "iterable /", 1, p) ? jinja_strm_join(r, self, p[0]) : jv_none();
}

struct jv jinja_strm_pad(struct jrun *r, struct jv v, int64_t width, struct jv fill, char how)
{
    struct jbuf b = {.r = r};
    size_t n = jinja_str_chars(v.u.str), pad, left;

    if (width <= 0 || (size_t)width <= n)
        return v;
    pad = (size_t)width - n;
    left = how == 'r' ? pad : how == 'l' ? 0 : pad / 2 + (pad & (size_t)width & 1);
    jinja_str_pad(&b, fill, left);
    jinja_str_put(&b, v.u.str->p, v.u.str->n);
    jinja_str_pad(&b, fill, pad - left);
    return like(jinja_str_done(&b), v);
}

static struct jv pad(struct jrun *r, struct jv self, const struct jargs *a, const char *name, char how)
{
    struct jv p[2];
    int64_t width = 0;

    if (!jinja_args_bind(r, name, a, "width fillchar /", 1, p) || !jinja_args_index(r, name, p[0], &width))
        return jv_none();
    if (jv_is(p[1], JV_MISSING))
        p[1] = jinja_str_lit(r, " ");
    p[1] = inserted(r, self, p[1]);
    if (!r->rc && (!jv_is(p[1], JV_STR) || jinja_str_chars(p[1].u.str) != 1))
        jinja_run_fail(r, "The fill character must be exactly one character long");
    return r->rc ? jv_none() : jinja_strm_pad(r, self, width, p[1], how);
}

static struct jv str_center(struct jrun *r, struct jv self, const struct jargs *a)
{
    return pad(r, self, a, "center", 'c');
}

static struct jv str_ljust(struct jrun *r, struct jv self, const struct jargs *a)
{
    return pad(r, self, a, "ljust", 'l');
}

static struct jv str_rjust(struct jrun *r, struct jv self, const struct jargs *a)
{
    return pad(r, self, a, "rjust", 'r');
}

static struct jv str_zfill(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jbuf b = {.r = r};
    const struct jstr *s = self.u.str;
    size_t n = jinja_str_chars(s), sign = s->n && (s->p[0] == '-' || s->p[0] == '+');
    struct jv p[1];
    int64_t width = 0;

    if (!jinja_args_bind(r, "zfill", a, "width /", 1, p) || !jinja_args_index(r, "zfill", p[0], &width))
        return jv_none();
    if (width <= 0 || (size_t)width <= n)
        return self;
    jinja_str_put(&b, s->p, sign);
    jinja_str_pad(&b, jinja_str_lit(r, "0"), (size_t)width - n);
    jinja_str_put(&b, s->p + sign, s->n - sign);
    return like(jinja_str_done(&b), self);
}

static struct jv str_expandtabs(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jbuf b = {.r = r};
    const struct jstr *s = self.u.str;
    struct jv p[1], space = jinja_str_lit(r, " ");
    int64_t size = 8, column = 0;

    if (!jinja_args_bind(r, "expandtabs", a, "tabsize", 0, p) ||
        !jinja_args_index(r, "expandtabs", p[0], &size))
        return jv_none();
    for (size_t i = 0; i < s->n && jinja_run_step(r, 0); i += jinja_str_step(s->p + i)) {
        if (s->p[i] == '\t') {
            int64_t gap = size > 0 ? size - column % size : 0;

            jinja_str_pad(&b, space, (size_t)gap);
            column += gap;
        } else {
            jinja_str_put(&b, s->p + i, jinja_str_step(s->p + i));
            column = s->p[i] == '\n' || s->p[i] == '\r' ? 0 : column + 1;
        }
    }
    return like(jinja_str_done(&b), self);
}

static struct jv str_refused(struct jrun *r, struct jv self, const struct jargs *a)
{
    (void)self;
    (void)a;
    jinja_run_fail(r, "the methods encode, maketrans and translate of str are not offered");
    return jv_none();
}

const struct jmeth jinja_strm_table[] = {
    {"strip", str_strip},
    {"split", jinja_split_split},
    {"startswith", str_startswith},
    {"endswith", str_endswith},
    {"replace", str_replace},
    {"join", str_join},
    {"lower", str_lower},
    {"upper", str_upper},
    {"title", str_title},
    {"capitalize", str_capitalize},
    {"lstrip", str_lstrip},
    {"rstrip", str_rstrip},
    {"rsplit", jinja_split_rsplit},
    {"splitlines", jinja_split_lines},
    {"partition", jinja_split_partition},
    {"rpartition", jinja_split_rpartition},
    {"find", str_find},
    {"rfind", str_rfind},
    {"index", str_index},
    {"rindex", str_rindex},
    {"count", str_count},
    {"format", jinja_fmt_format},
    {"format_map", jinja_fmt_format_map},
    {"removeprefix", str_removeprefix},
    {"removesuffix", str_removesuffix},
    {"center", str_center},
    {"ljust", str_ljust},
    {"rjust", str_rjust},
    {"zfill", str_zfill},
    {"expandtabs", str_expandtabs},
    {"swapcase", str_swapcase},
    {"casefold", str_casefold},
    {"isalnum", jinja_stris_alnum},
    {"isalpha", jinja_stris_alpha},
    {"isascii", jinja_stris_ascii},
    {"isdecimal", jinja_stris_decimal},
    {"isdigit", jinja_stris_digit},
    {"isidentifier", jinja_stris_identifier},
    {"islower", jinja_stris_lower},
    {"isnumeric", jinja_stris_numeric},
    {"isprintable", jinja_stris_printable},
    {"isspace", jinja_stris_space},
    {"istitle", jinja_stris_title},
    {"isupper", jinja_stris_upper},
    {"encode", str_refused},
    {"maketrans", str_refused},
    {"translate", str_refused},
    {NULL, NULL},
};
