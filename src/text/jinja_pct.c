/* jinja_pct.c - the operator % on strings ("printf-style String Formatting" of Python's library
 * reference). */
#include "text/jinja_pct.h"

#include <ctype.h>
#include <string.h>

#include "text/jinja_dict.h"
#include "text/jinja_html.h"
#include "text/jinja_int.h"
#include "text/jinja_num.h"
#include "text/jinja_repr.h"
#include "text/jinja_spec.h"
#include "text/jinja_str.h"

struct pct {
    struct jrun *r;
    const char *p, *end;
    struct jv values;
    size_t next;  /* of a tuple; or 1 once a single value is used */
    bool mapping; /* a value looked up by %(name) and never counted */
    bool escape;
};

static struct jv next_value(struct pct *f)
{
    if (jv_is(f->values, JV_TUPLE)) {
        if (f->next < f->values.u.list->n)
            return f->values.u.list->v[f->next++];
    } else if (f->next == 0) {
        f->next = 1;
        return f->values;
    }
    jinja_run_fail(f->r, "not enough arguments for format string");
    return jv_none();
}

/* %(name): the value the mapping has for it. */
static struct jv named_value(struct pct *f)
{
    const char *from = f->p;
    size_t depth = 1;
    struct jv key, v;

    while (f->p < f->end && depth) {
        depth += *f->p == '(';
        depth -= *f->p == ')';
        f->p++;
    }
    if (depth) {
        jinja_run_fail(f->r, "incomplete format key");
        return jv_none();
    }
    key = jinja_str_ref(f->r, from, (size_t)(f->p - from) - 1);
    if (jv_is(f->values, JV_DICT) && !f->r->rc && jinja_dict_get(f->r, f->values.u.dict, key, &v))
        return v;
    if (jv_is(f->values, JV_DICT))
        jinja_run_fail(f->r, "the mapping has no key %s", jinja_repr_brief(f->r, key));
    else
        jinja_run_fail(f->r, "format requires a mapping");
    return jv_none();
}

/* A width or precision: digits, or * for the next value. */
static int64_t size_of(struct pct *f)
{
    int64_t v = 0;
    struct jv star;

    if (f->p < f->end && *f->p == '*') {
        f->p++;
        star = next_value(f);
        if (!f->r->rc && (!jv_is_int(star) || jv_index(star) > INT32_MAX || jv_index(star) < -INT32_MAX))
            jinja_run_fail(f->r, "* wants int");
        return f->r->rc ? 0 : jv_index(star);
    }
    while (f->p < f->end && isdigit((unsigned char)*f->p)) {
        v = v * 10 + (*f->p++ - '0');
        if (v > INT32_MAX) {
            jinja_run_fail(f->r, "width or precision too big");
            return 0;
        }
    }
    return v;
}

static void read_flags(struct pct *f, struct jspec *s, bool *zero)
{
    for (; f->p < f->end; f->p++)
        switch (*f->p) {
        case '-': s->align = '<'; break;
        case '+': s->sign = '+'; break;
        case ' ':
            if (s->sign != '+')
                s->sign = ' ';
            break;
        case '#': s->alternate = true; break;
        case '0': *zero = true; break;
        default: return;
        }
}

static void put_text(struct pct *f, struct jbuf *out, const struct jspec *s, struct jv v, char type)
{
    struct jbuf b = {.r = f->r};
    struct jspec plain = *s;

    if (type == 's')
        jinja_repr_put_str(&b, v);
    else if (type == 'r')
        jinja_repr_put(&b, v);
    else
        jinja_repr_put_ascii(&b, v);
    if (f->escape && !(type == 's' && jv_is_markup(v))) {
        struct jbuf escaped = {.r = f->r};

        jinja_html_put(&escaped, b.p, b.n);
        b = escaped;
    }
    plain.align = s->align == '<' ? '<' : '>';
    plain.fill = jv_missing();
    v = jinja_str_done(&b);
    if (!f->r->rc)
        jinja_spec_put_str(out, &plain, v);
}

/* Digits at least as many as the precision says: zeros in front. */
static void put_int(struct pct *f, struct jbuf *out, struct jspec *s, struct jv v)
{
    struct jbuf b = {.r = f->r};
    struct jspec digits = *s;

    if (s->precision < 0) {
        jinja_spec_put_int(out, s, v);
        return;
    }
    digits.width = s->precision + jinja_int_negative(v) + (s->alternate && strchr("oxX", s->type) ? 2 : 0) +
                   (s->sign && !jinja_int_negative(v));
    if (s->align == '0' && s->width > digits.width)
        digits.width = s->width; /* the flag 0 fills what the width asks for beyond the precision */
    digits.align = '0';
    digits.fill = jinja_str_lit(f->r, "0");
    digits.precision = -1;
    jinja_spec_put_int(&b, &digits, v);
    s->precision = -1;
    s->align = s->align == '<' ? '<' : '>';
    s->fill = jv_missing();
    v = jinja_str_done(&b);
    if (!f->r->rc)
        jinja_spec_put_str(out, s, v);
}

static void put_number(struct pct *f, struct jbuf *out, struct jspec *s, struct jv v)
{
    bool whole = strchr("diuoxX", s->type) != NULL;

    if (jv_is(v, JV_UNDEF)) {
        jinja_val_undef_fail(f->r, v);
        return;
    }
    if (!jinja_num_is(v) || (strchr("oxX", s->type) && jv_is(v, JV_FLOAT))) {
        jinja_run_fail(f->r, "%%%c format: a real number is required, not %s", s->type, jinja_val_type(v));
        return;
    }
    if (!whole) {
        jinja_spec_put_float(out, s, jinja_num_double(f->r, v));
        return;
    }
    if (jv_is(v, JV_FLOAT))
        v = jinja_num_truncate(f->r, v.u.f);
    if (s->type == 'i' || s->type == 'u')
        s->type = 'd';
    if (!f->r->rc)
        put_int(f, out, s, v);
}

static void put_char(struct pct *f, struct jbuf *out, struct jspec *s, struct jv v)
{
    s->align = s->align == '<' ? '<' : '>';
    s->fill = jv_missing();
    s->precision = -1;
    if (jv_is(v, JV_STR) && jinja_str_chars(v.u.str) == 1)
        jinja_spec_put_str(out, s, v);
    else if (jinja_num_is_int(v))
        jinja_spec_put_int(out, s, v);
    else
        jinja_run_fail(f->r, "%%c requires int or char");
}

/* The conversion that begins behind a %. */
static void put_conversion(struct pct *f, struct jbuf *out)
{
    struct jspec s = {.precision = -1, .fill = jv_missing()};
    bool zero = false, named = false;
    struct jv v = jv_none();

    if (f->p < f->end && *f->p == '(') {
        f->p++;
        v = named_value(f);
        named = true;
    }
    read_flags(f, &s, &zero);
    s.width = size_of(f);
    if (s.width < 0) {
        s.align = '<';
        s.width = -s.width;
    }
    if (f->p < f->end && *f->p == '.') {
        f->p++;
        s.precision = size_of(f);
        if (s.precision < 0)
            s.precision = 0;
    }
    while (f->p < f->end && (*f->p == 'h' || *f->p == 'l' || *f->p == 'L'))
        f->p++;
    if (f->p == f->end)
        jinja_run_fail(f->r, "incomplete format");
    if (f->r->rc)
        return;
    s.type = *f->p++;
    if (s.type == '%' && f->p[-2] == '%') {
        jinja_str_putc(out, '%');
        return;
    }
    if (!named)
        v = next_value(f);
    if (zero && s.align != '<') {
        s.align = '0';
        s.fill = jinja_str_lit(f->r, "0");
    }
    if (f->r->rc)
        return;
    if (s.type && strchr("sra", s.type))
        put_text(f, out, &s, v, s.type);
    else if (s.type && strchr("diuoxXeEfFgG", s.type))
        put_number(f, out, &s, v);
    else if (s.type == 'c')
        put_char(f, out, &s, v);
    else
        jinja_run_fail(f->r, "unsupported format character '%c' (0x%x)",
                       isprint((unsigned char)s.type) ? s.type : '?', (unsigned char)s.type);
}

struct jv jinja_pct_format(struct jrun *r, struct jv format, struct jv values)
{
    struct pct f = {.r = r, .p = format.u.str->p, .end = format.u.str->p + format.u.str->n, .values = values};
    struct jbuf out = {.r = r};
    struct jv v;

    f.escape = jv_is_markup(format);
    f.mapping = jv_is(values, JV_DICT) || jv_is(values, JV_LIST) || jv_is(values, JV_UNDEF) ||
                jv_is(values, JV_RANGE);
    while (f.p < f.end && jinja_run_step(r, 0)) {
        const char *stop = memchr(f.p, '%', (size_t)(f.end - f.p));

        if (!stop)
            stop = f.end;
        jinja_str_put(&out, f.p, (size_t)(stop - f.p));
        f.p = stop;
        if (f.p < f.end) {
            f.p++;
            put_conversion(&f, &out);
        }
    }
    if (!f.mapping && (jv_is(values, JV_TUPLE) ? f.next < values.u.list->n : f.next == 0))
        jinja_run_fail(r, "not all arguments converted during string formatting");
    v = jinja_str_done(&out);
    v.flags = jv_is(v, JV_STR) ? format.flags : 0;
    return v;
}
