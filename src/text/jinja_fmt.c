/* jinja_fmt.c - replacement fields in braces: {}, {0}, {name.attr[key]!r:>8}, fields within
 * specifications. */
#include "text/jinja_fmt.h"

#include <ctype.h>
#include <string.h>

#include "text/jinja_attr.h"
#include "text/jinja_dict.h"
#include "text/jinja_html.h"
#include "text/jinja_num.h"
#include "text/jinja_repr.h"
#include "text/jinja_spec.h"
#include "text/jinja_str.h"

enum { NEST_MAX = 2 };

struct fmt {
    struct jrun *r;
    const struct jargs *a;
    const struct jdict *map; /* of format_map, else NULL */
    size_t next;             /* automatic number */
    bool automatic, numbered;
    bool escape;
};

static struct jv positional(struct fmt *f, size_t i)
{
    if (!f->map && i < f->a->n)
        return f->a->v[i];
    jinja_run_fail(f->r, "Replacement index %zu out of range for positional args tuple", i);
    return jv_none();
}

static struct jv named(struct fmt *f, struct jv name)
{
    struct jv v;

    for (size_t i = 0; !f->map && i < f->a->n_kw; i++)
        if (jinja_val_same(f->a->kw[i].name, name))
            return f->a->kw[i].value;
    if (f->map && jinja_dict_get(f->r, f->map, name, &v))
        return v;
    jinja_run_fail(f->r, "format(): there is no argument %s", jinja_repr_brief(f->r, name));
    return jv_none();
}

static bool all_digits(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)p[i]))
            return false;
    return n > 0 && n < 9;
}

static size_t to_number(const char *p, size_t n)
{
    size_t v = 0;

    for (size_t i = 0; i < n; i++)
        v = v * 10 + (size_t)(p[i] - '0');
    return v;
}

/* The value of the bytes [FROM, TO) of S, a field name such as 0, name, name.attr or name[key]. */
static struct jv field_value(struct fmt *f, struct jv s, size_t from, size_t to)
{
    const char *p = s.u.str->p;
    size_t i = from, end;
    bool number;
    struct jv v;

    while (i < to && p[i] != '.' && p[i] != '[')
        i++;
    number = all_digits(p + from, i - from);
    if (i == from || number) {
        f->automatic |= i == from;
        f->numbered |= number;
        if (f->automatic && f->numbered)
            jinja_run_fail(f->r, "cannot switch between manual and automatic field numbering");
        v = f->r->rc ? jv_none() : positional(f, number ? to_number(p + from, i - from) : f->next++);
    } else {
        v = named(f, jinja_str_sub(f->r, s, from, i));
    }
    while (i < to && !f->r->rc) {
        bool item = p[i] == '[';

        end = ++i;
        while (end < to && (item ? p[end] != ']' : p[end] != '.' && p[end] != '['))
            end++;
        if (end == i || (item && end == to)) {
            jinja_run_fail(f->r, "Empty attribute in format string, or a missing ']'");
        } else if (item) {
            v = all_digits(p + i, end - i)
                    ? jinja_attr_item(f->r, v, jv_int((int64_t)to_number(p + i, end - i)))
                    : jinja_attr_item(f->r, v, jinja_str_sub(f->r, s, i, end));
            end++;
            if (end < to && p[end] != '.' && p[end] != '[')
                jinja_run_fail(f->r, "Only '.' or '[' may follow ']' in format field specifier");
        } else {
            v = jinja_attr_get(f->r, v, jinja_str_sub(f->r, s, i, end));
        }
        i = end;
    }
    return v;
}

static struct jv convert(struct fmt *f, struct jv v, char how)
{
    struct jbuf b = {.r = f->r};

    if (how == 's')
        return jinja_repr_str(f->r, v);
    if (how == 'r')
        jinja_repr_put(&b, v);
    else if (how == 'a')
        jinja_repr_put_ascii(&b, v);
    else
        jinja_run_fail(f->r, "Unknown conversion specifier '%c'", how);
    return jinja_str_done(&b);
}

static void expand(struct fmt *f, struct jbuf *out, struct jv s, size_t from, size_t to, int nest);

/* One field: the bytes [FROM, TO) of S are what stands between its braces. */
static void put_field(struct fmt *f, struct jbuf *out, struct jv s, size_t from, size_t to, int nest)
{
    const char *p = s.u.str->p;
    struct jbuf spec = {.r = f->r}, text = {.r = f->r};
    size_t name = from, brackets = 0;
    struct jv v;

    while (name < to && (brackets || (p[name] != '!' && p[name] != ':'))) {
        brackets += p[name] == '[';
        brackets -= p[name] == ']' && brackets;
        name++;
    }
    v = field_value(f, s, from, name);
    if (name < to && p[name] == '!') {
        if (name + 1 >= to || (name + 2 < to && p[name + 2] != ':')) {
            jinja_run_fail(f->r, "expected ':' after conversion specifier");
            return;
        }
        v = f->r->rc ? v : convert(f, v, p[name + 1]);
        name += 2;
    }
    if (name < to && p[name] == ':')
        expand(f, &spec, s, name + 1, to, nest + 1);
    if (f->r->rc)
        return;
    if (f->escape && jv_is_markup(v)) {
        jinja_str_put(out, v.u.str->p, v.u.str->n);
        return;
    }
    jinja_spec_put(f->escape ? &text : out, v, jinja_str_done(&spec));
    if (f->escape)
        jinja_html_put(out, text.p, text.n);
}

static void expand(struct fmt *f, struct jbuf *out, struct jv s, size_t from, size_t to, int nest)
{
    const char *p = s.u.str->p;
    size_t i = from;

    if (nest > NEST_MAX) {
        jinja_run_fail(f->r, "Max string recursion exceeded");
        return;
    }
    while (i < to && jinja_run_step(f->r, 0)) {
        size_t depth = 1, end = i + 1;

        if (p[i] != '{' && p[i] != '}') {
            while (end < to && p[end] != '{' && p[end] != '}')
                end++;
            jinja_str_put(out, p + i, end - i);
            i = end;
            continue;
        }
        if (end < to && p[end] == p[i] && nest == 0) {
            jinja_str_putc(out, p[i]);
            i += 2;
            continue;
        }
        if (p[i] == '}') {
            jinja_run_fail(f->r, "Single '}' encountered in format string");
            return;
        }
        while (end < to && depth) {
            depth += p[end] == '{';
            depth -= p[end] == '}';
            end++;
        }
        if (depth) {
            jinja_run_fail(f->r, end == i + 1 ? "Single '{' encountered in format string"
                                              : "expected '}' before end of string");
            return;
        }
        put_field(f, out, s, i + 1, end - 1, nest);
        i = end;
    }
}

static struct jv run(struct fmt *f, struct jv self)
{
    struct jbuf out = {.r = f->r};
    struct jv v;

    f->escape = jv_is_markup(self);
    expand(f, &out, self, 0, self.u.str->n, 0);
    v = jinja_str_done(&out);
    v.flags = jv_is(v, JV_STR) ? self.flags : 0;
    return v;
}

struct jv jinja_fmt_format(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct fmt f = {.r = r, .a = a};

    return run(&f, self);
}

struct jv jinja_fmt_format_map(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct fmt f = {.r = r, .a = a};
    struct jv p[1];

    if (!jinja_args_bind(r, "format_map", a, "mapping /", 1, p))
        return jv_none();
    if (!jv_is(p[0], JV_DICT)) {
        jinja_run_fail(r, "format_map() needs a mapping, not %s", jinja_val_type(p[0]));
        return jv_none();
    }
    f.map = p[0].u.dict;
    return run(&f, self);
}
