/* jinja_fstr.c - most filters on strings take any value and work on str(value), keeping Markup. */
#include "text/jinja_fstr.h"

#include <string.h>

#include "text/jinja_case.h"
#include "text/jinja_dict.h"
#include "text/jinja_html.h"
#include "text/jinja_pct.h"
#include "text/jinja_repr.h"
#include "text/jinja_split.h"
#include "text/jinja_str.h"
#include "text/jinja_strm.h"
#include "text/jinja_uni.h"

static struct jv like(struct jv v, struct jv model)
{
    if (jv_is(v, JV_STR))
        v.flags = model.flags;
    return v;
}

static struct jv map_case(struct jrun *r, struct jv v, const struct jargs *a, const char *name,
                          enum jcase how)
{
    if (!jinja_args_bind(r, name, a, "", 0, NULL))
        return jv_none();
    v = jinja_repr_soft(r, v);
    return r->rc ? jv_none() : jinja_case_map(r, v, how);
}

struct jv jinja_fstr_upper(struct jrun *r, struct jv v, const struct jargs *a)
{
    return map_case(r, v, a, "upper", JCASE_UPPER);
}

struct jv jinja_fstr_lower(struct jrun *r, struct jv v, const struct jargs *a)
{
    return map_case(r, v, a, "lower", JCASE_LOWER);
}

struct jv jinja_fstr_capitalize(struct jrun *r, struct jv v, const struct jargs *a)
{
    return map_case(r, v, a, "capitalize", JCASE_CAPITALIZE);
}

static bool before_word(uint32_t c)
{
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || jinja_uni_space(c);
}

/* Words begin behind blanks, hyphens and opening brackets; unlike str.title(), an apostrophe does not
 * begin one. */
struct jv jinja_fstr_title(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jbuf b = {.r = r};
    const struct jstr *s;
    size_t i = 0, from;

    if (!jinja_args_bind(r, "title", a, "", 0, NULL))
        return jv_none();
    v = jinja_repr_soft(r, v);
    if (r->rc)
        return jv_none();
    for (s = v.u.str; i < s->n && jinja_run_step(r, 0);) {
        struct jv rest;

        for (; i < s->n && before_word(jinja_str_char(s->p + i)); i += jinja_str_step(s->p + i))
            jinja_str_put(&b, s->p + i, jinja_str_step(s->p + i));
        if (i == s->n)
            break;
        jinja_case_put(&b, v, i, i + jinja_str_step(s->p + i), JCASE_UPPER);
        i += jinja_str_step(s->p + i);
        for (from = i; i < s->n && !before_word(jinja_str_char(s->p + i));)
            i += jinja_str_step(s->p + i);
        rest = jinja_str_sub(r, v, from, i);
        if (!r->rc)
            jinja_case_put(&b, rest, 0, rest.u.str->n, JCASE_LOWER);
    }
    return jinja_str_done(&b);
}

struct jv jinja_fstr_trim(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[1];

    if (!jinja_args_bind(r, "trim", a, "chars", 0, p))
        return jv_none();
    v = jinja_repr_soft(r, v);
    return r->rc ? jv_none() : jinja_strm_strip(r, v, p[0], JSTRM_LEFT | JSTRM_RIGHT);
}

struct jv jinja_fstr_center(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[1], blank = jinja_str_lit(r, " ");
    int64_t width = 80;

    if (!jinja_args_bind(r, "center", a, "width", 0, p) || !jinja_args_index(r, "center", p[0], &width))
        return jv_none();
    v = jinja_repr_soft(r, v);
    return r->rc ? jv_none() : jinja_strm_pad(r, v, width, blank, 'c');
}

struct jv jinja_fstr_string(struct jrun *r, struct jv v, const struct jargs *a)
{
    return jinja_args_bind(r, "string", a, "", 0, NULL) ? jinja_repr_soft(r, v) : jv_none();
}

struct jv jinja_fstr_pprint(struct jrun *r, struct jv v, const struct jargs *a)
{
    return jinja_args_bind(r, "pprint", a, "", 0, NULL) ? jinja_repr_pretty(r, v) : jv_none();
}

struct jv jinja_fstr_replace(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[3], from, to, s;
    int64_t count = -1;

    if (!jinja_args_bind(r, "replace", a, "old new count", 2, p))
        return jv_none();
    if (!jv_is(p[2], JV_NONE) && !jinja_args_index(r, "replace", p[2], &count))
        return jv_none();
    from = jinja_repr_str(r, p[0]);
    to = jinja_repr_str(r, p[1]);
    s = jinja_repr_str(r, v);
    if (r->autoescape) {
        bool escape = jv_is_markup(p[0]) || (jv_is_markup(p[1]) && !jv_is_markup(v));

        s = escape ? jinja_html_escape(r, v) : jinja_repr_soft(r, v);
        if (jv_is_markup(s))
            to = jinja_html_escape(r, p[1]);
    }
    return r->rc ? jv_none() : jinja_strm_replace(r, s, from, to, count);
}

/* "%..." | format(values): the positional ones as a tuple, or the named ones as a dict. */
struct jv jinja_fstr_format(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv values = jinja_val_tuple(r, a->v, a->n);
    struct jdict *d;

    if (a->n && a->n_kw) {
        jinja_run_fail(r, "can't handle positional and keyword arguments at the same time");
        return jv_none();
    }
    if (a->n_kw) {
        d = jinja_dict_new(r);
        for (size_t i = 0; d && i < a->n_kw; i++)
            jinja_dict_set(r, d, a->kw[i].name, a->kw[i].value);
        values = jinja_dict_value(d);
    }
    v = jinja_repr_soft(r, v);
    return r->rc ? jv_none() : jinja_pct_format(r, v, values);
}

static struct jv indentation(struct jrun *r, struct jv width)
{
    struct jbuf b = {.r = r};
    int64_t n = 4;

    if (jv_is(width, JV_STR))
        return width;
    if (!jinja_args_index(r, "indent", width, &n))
        return jv_none();
    jinja_str_pad(&b, jinja_str_lit(r, " "), n > 0 ? (size_t)n : 0);
    return jinja_str_done(&b);
}

struct jv jinja_fstr_indent(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jbuf b = {.r = r}, whole = {.r = r};
    struct jgrow lines = {.r = r};
    struct jv p[3], by;
    bool first, blank;

    if (!jinja_args_bind(r, "indent", a, "width first blank", 0, p))
        return jv_none();
    if (jv_is(v, JV_UNDEF))
        return jinja_val_undef_fail(r, v);
    by = indentation(r, p[0]);
    first = jinja_args_true(p[1], false);
    blank = jinja_args_true(p[2], false);
    if (!r->rc && !jv_is(v, JV_STR))
        jinja_run_fail(r, "unsupported operand type(s) for +=: '%s' and 'str'", jinja_val_type(v));
    if (r->rc)
        return jv_none();
    jinja_str_put(&whole, v.u.str->p, v.u.str->n);
    jinja_str_putc(&whole, '\n'); /* so that a text that ends in a line break keeps it */
    jinja_split_put_lines(&lines, jinja_str_done(&whole), false);
    for (size_t i = 0; i < lines.n && !r->rc; i++) {
        const struct jstr *line = lines.v[i].u.str;

        if (i)
            jinja_str_putc(&b, '\n');
        if (i == 0 ? first : blank || line->n)
            jinja_str_put(&b, by.u.str->p, by.u.str->n);
        jinja_str_put(&b, line->p, line->n);
    }
    return like(jinja_str_done(&b), v);
}

struct jv jinja_fstr_truncate(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jbuf b = {.r = r};
    struct jv p[4], cut;
    int64_t length = 255, leeway = 5, n;
    size_t to, blank, size;

    if (!jinja_args_bind(r, "truncate", a, "length killwords end leeway", 0, p) ||
        !jinja_args_index(r, "truncate", p[0], &length))
        return jv_none();
    if (!jv_is(p[3], JV_NONE) && !jinja_args_index(r, "truncate", p[3], &leeway))
        return jv_none();
    if (jv_is(p[2], JV_MISSING))
        p[2] = jinja_str_lit(r, "...");
    if (!jinja_val_len(r, v, &size) || !jv_is(p[2], JV_STR)) {
        jinja_run_fail(r, "truncate wants strings, not %s", jinja_val_type(jv_is(p[2], JV_STR) ? v : p[2]));
        return jv_none();
    }
    n = length - (int64_t)jinja_str_chars(p[2].u.str);
    if (n < 0 || leeway < 0) {
        jinja_run_fail(
            r, "truncate: the length must be that of the end mark at least, and the leeway not negative");
        return jv_none();
    }
    if (leeway > INT64_MAX - length || (int64_t)size <= length + leeway)
        return v;
    if (!jv_is(v, JV_STR)) {
        jinja_run_fail(r, "truncate wants a str, not %s", jinja_val_type(v));
        return jv_none();
    }
    to = jinja_str_offset(v.u.str, (size_t)n);
    if (!jinja_args_true(p[1], false)) {
        blank = jinja_str_rfind(r, v.u.str->p, to, " ", 1);
        to = blank == SIZE_MAX ? to : blank;
    }
    cut = jinja_str_sub(r, v, 0, to);
    if (jv_is_markup(v))
        p[2] = jinja_html_escape(r, p[2]);
    if (r->rc)
        return jv_none();
    jinja_str_put(&b, cut.u.str->p, cut.u.str->n);
    jinja_str_put(&b, p[2].u.str->p, p[2].u.str->n);
    return like(jinja_str_done(&b), v);
}

struct jv jinja_fstr_wordcount(struct jrun *r, struct jv v, const struct jargs *a)
{
    bool inside = false;
    int64_t n = 0;

    if (!jinja_args_bind(r, "wordcount", a, "", 0, NULL))
        return jv_none();
    v = jinja_repr_soft(r, v);
    if (r->rc || !jinja_run_step(r, v.u.str->n / 16))
        return jv_none();
    for (size_t i = 0; i < v.u.str->n; i += jinja_str_step(v.u.str->p + i)) {
        uint32_t c = jinja_str_char(v.u.str->p + i);
        bool word = c == '_' || jinja_uni_alnum(c);

        n += word && !inside;
        inside = word;
    }
    return jv_int(n);
}
