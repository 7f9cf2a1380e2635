/* jinja_wrap.c - breaks a line into chunks (words, blanks, parts of hyphenated words) and fills lines with
 * them, by the rules of textwrap.wrap(expand_tabs=False, replace_whitespace=False).
 */
#include "text/jinja_wrap.h"

#include <string.h>

#include "text/jinja_repr.h"
#include "text/jinja_split.h"
#include "text/jinja_str.h"
#include "text/jinja_uni.h"

struct wrap {
    struct jrun *r;
    const uint32_t *c; /* the characters of the line */
    size_t n;
    int64_t width;
    bool break_long, break_hyphens;
    struct jbuf *out;
    struct jv separator;
    bool some; /* a line has been written */
};

struct chunk {
    size_t from, to;
};

static bool blank(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13);
}

static bool word(uint32_t c)
{
    return c == '_' || jinja_uni_alnum(c);
}

static bool letter(uint32_t c)
{
    return word(c) && !jinja_uni_decimal(c);
}

static bool punctuated(uint32_t c)
{
    return word(c) || (c < 0x80 && c && strchr("!\"'&.,?", (int)c));
}

/* How many hyphens stand at I, if at least two and before a word; else 0. */
static size_t dash(const struct wrap *w, size_t i)
{
    size_t k = i;

    while (k < w->n && w->c[k] == '-')
        k++;
    return k - i >= 2 && k < w->n && word(w->c[k]) ? k - i : 0;
}

/* A hyphen at I that ends a part of a hyphenated word. */
static bool soft_hyphen(const struct wrap *w, size_t i, size_t from)
{
    const uint32_t *c = w->c;
    bool behind = (i >= 2 && letter(c[i - 2]) && letter(c[i - 1])) ||
                  (i >= 3 && letter(c[i - 3]) && c[i - 2] == '-' && letter(c[i - 1]));
    size_t k = i + 1;

    if (i <= from || c[i] != '-' || !behind || k >= w->n || !letter(c[k]))
        return false;
    k++;
    k += k < w->n && c[k] == '-';
    return k < w->n && letter(c[k]);
}

/* Where the chunk that begins at I ends. */
static size_t chunk_end(const struct wrap *w, size_t i)
{
    size_t k = i;

    if (blank(w->c[i])) {
        while (k < w->n && blank(w->c[k]))
            k++;
        return k;
    }
    if (!w->break_hyphens) {
        while (k < w->n && !blank(w->c[k]))
            k++;
        return k;
    }
    if (i > 0 && punctuated(w->c[i - 1]) && dash(w, i))
        return i + dash(w, i);
    for (k = i + 1; k < w->n && !blank(w->c[k]); k++) {
        if (soft_hyphen(w, k, i))
            return k + 1;
        if (punctuated(w->c[k - 1]) && dash(w, k))
            return k;
    }
    return k;
}

static bool all_blank(const struct wrap *w, struct chunk c)
{
    for (size_t i = c.from; i < c.to; i++)
        if (!jinja_uni_space(w->c[i]))
            return false;
    return true;
}

static void put_line(struct wrap *w, size_t from, size_t to)
{
    if (w->some)
        jinja_str_put(w->out, w->separator.u.str->p, w->separator.u.str->n);
    w->some = true;
    for (size_t i = from; i < to; i++)
        jinja_str_putu(w->out, w->c[i]);
}

/* Where a chunk too long for a line is cut, LEFT characters being free. */
static size_t cut(const struct wrap *w, struct chunk c, size_t left)
{
    size_t end = c.from + left;

    if (!w->break_hyphens || c.to - c.from <= left)
        return end;
    for (size_t i = end; i-- > c.from + 1;)
        if (w->c[i] == '-') {
            for (size_t k = c.from; k < i; k++)
                if (w->c[k] != '-')
                    return i + 1;
            break;
        }
    return end;
}

static void fill_lines(struct wrap *w, struct chunk *chunk, size_t n)
{
    size_t at = 0, width = (size_t)w->width;
    bool first = true;

    while (at < n && jinja_run_step(w->r, 4)) {
        struct chunk line, last;

        if (!first && all_blank(w, chunk[at]) && ++at == n)
            break;
        line = (struct chunk){chunk[at].from, chunk[at].from};
        last = line;
        while (at < n && line.to - line.from + (chunk[at].to - chunk[at].from) <= width) {
            last = chunk[at++];
            line.to = last.to;
        }
        if (at < n && chunk[at].to - chunk[at].from > width) {
            if (w->break_long) {
                last = (struct chunk){line.to, cut(w, chunk[at], width - (line.to - line.from))};
                line.to = chunk[at].from = last.to;
            } else if (line.to == line.from) {
                last = chunk[at++];
                line.to = last.to;
            }
        }
        if (line.to > line.from && all_blank(w, last))
            line.to = last.from;
        if (line.to > line.from) {
            put_line(w, line.from, line.to);
            first = false;
        }
    }
}

static void wrap_line(struct wrap *w, struct jv line)
{
    const struct jstr *s = line.u.str;
    size_t n = jinja_str_chars(s), count = 0, k = 0;
    uint32_t *c = jinja_run_alloc(w->r, n * sizeof(*c));
    struct chunk *chunk = jinja_run_alloc(w->r, n * sizeof(*chunk));

    if (!c || !chunk || !jinja_run_step(w->r, n))
        return;
    for (size_t i = 0; i < s->n; i += jinja_str_step(s->p + i))
        c[k++] = jinja_str_char(s->p + i);
    w->c = c;
    w->n = n;
    for (size_t i = 0; i < n; i = chunk[count++].to)
        chunk[count] = (struct chunk){i, chunk_end(w, i)};
    w->some = false;
    fill_lines(w, chunk, count);
}

struct jv jinja_wrap_filter(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jbuf out = {.r = r};
    struct jgrow lines = {.r = r};
    struct wrap w = {.r = r, .width = 79, .out = &out};
    struct jv p[4];

    if (!jinja_args_bind(r, "wordwrap", a, "width break_long_words wrapstring break_on_hyphens", 0, p) ||
        !jinja_args_index(r, "wordwrap", p[0], &w.width))
        return jv_none();
    w.break_long = jinja_args_true(p[1], true);
    w.break_hyphens = jinja_args_true(p[3], true);
    w.separator = jv_is(p[2], JV_MISSING) || jv_is(p[2], JV_NONE) ? jinja_str_lit(r, "\n") : p[2];
    if (!jv_is(v, JV_STR) || !jv_is(w.separator, JV_STR)) {
        jinja_run_fail(r, "wordwrap wants strings, not %s",
                       jinja_val_type(jv_is(v, JV_STR) ? w.separator : v));
        return jv_none();
    }
    jinja_split_put_lines(&lines, v, false);
    for (size_t i = 0; i < lines.n && !r->rc; i++) {
        if (i)
            jinja_str_put(&out, w.separator.u.str->p, w.separator.u.str->n);
        if (w.width <= 0)
            jinja_run_fail(r, "invalid width %lld (must be > 0)", (long long)w.width);
        else
            wrap_line(&w, lines.v[i]);
    }
    return jinja_str_done(&out);
}
