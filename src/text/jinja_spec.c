/* jinja_spec.c - parsing a format specification, digits, grouping and padding. */
#include "text/jinja_spec.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_int.h"
#include "text/jinja_num.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"

enum { PRECISION_MAX = 5000, DOUBLE_DIGITS_MAX = 320 };

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool number(struct jrun *r, const char **p, const char *end, int64_t *out)
{
    int64_t v = 0;

    while (*p < end && isdigit((unsigned char)**p)) {
        if (v > INT_MAX / 10 - 1) {
            jinja_run_fail(r, "too many decimal digits in a format string");
            return false;
        }
        v = v * 10 + (*(*p)++ - '0');
    }
    *out = v;
    return true;
}

bool jinja_spec_parse(struct jrun *r, struct jv text, struct jspec *s)
{
    const char *p = text.u.str->p, *end = p + text.u.str->n;
    size_t first = p < end ? jinja_str_step(p) : 0;

    *s = (struct jspec){.precision = -1, .fill = jv_missing()};
    if (p + first < end && is_align(p[first])) {
        s->fill = jinja_str_sub(r, text, 0, first);
        s->align = p[first];
        p += first + 1;
    } else if (p < end && is_align(*p)) {
        s->align = *p++;
    }
    if (p < end && (*p == '+' || *p == '-' || *p == ' '))
        s->sign = *p++;
    if (p < end && *p == '#') {
        s->alternate = true;
        p++;
    }
    if (p < end && *p == '0') {
        if (jv_is(s->fill, JV_MISSING))
            s->fill = jinja_str_lit(r, "0");
        if (!s->align)
            s->align = '0'; /* '=' for numbers, nothing for strings */
        p++;
    }
    if (!number(r, &p, end, &s->width))
        return false;
    if (p < end && (*p == ',' || *p == '_'))
        s->group = *p++;
    if (p + 1 < end && *p == '.' && isdigit((unsigned char)p[1])) {
        p++;
        if (!number(r, &p, end, &s->precision))
            return false;
    }
    if (p < end && (unsigned char)*p < 0x80)
        s->type = *p++;
    if (p != end)
        jinja_run_fail(r, "Invalid format specifier %s", jinja_repr_brief(r, text));
    return r->rc == 0;
}

static struct jv fill_of(struct jrun *r, const struct jspec *s)
{
    return jv_is(s->fill, JV_STR) ? s->fill : jinja_str_lit(r, " ");
}

/* PREFIX (sign, 0x) and BODY, padded to the width. */
static void lay_out(struct jbuf *b, const struct jspec *s, char align, struct jv prefix, struct jv body)
{
    size_t n, pad, left;
    struct jv fill = fill_of(b->r, s);

    if (b->r->rc)
        return;
    n = jinja_str_chars(prefix.u.str) + jinja_str_chars(body.u.str);
    pad = s->width > 0 && (size_t)s->width > n ? (size_t)s->width - n : 0;
    left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    jinja_str_pad(b, fill, left);
    jinja_str_put(b, prefix.u.str->p, prefix.u.str->n);
    if (align == '=')
        jinja_str_pad(b, fill, pad);
    jinja_str_put(b, body.u.str->p, body.u.str->n);
    jinja_str_pad(b, fill, align == '=' ? 0 : pad - left);
}

void jinja_spec_put_str(struct jbuf *b, const struct jspec *s, struct jv v)
{
    char align = s->align == 0 || s->align == '0' ? '<' : s->align;

    if (s->precision >= 0 && (size_t)s->precision < jinja_str_chars(v.u.str))
        v = jinja_str_sub(b->r, v, 0, jinja_str_offset(v.u.str, (size_t)s->precision));
    if (!b->r->rc)
        lay_out(b, s, align, jinja_str_lit(b->r, ""), v);
}

/* Sets groups of SIZE digits apart in the N digits at P, behind as many zeros as reach WIDTH characters. */
static void put_grouped(struct jbuf *out, const char *p, size_t n, char separator, size_t size, size_t width)
{
    size_t total = n;

    while (separator && total + (total - 1) / size < width)
        total++;
    if (!separator && total < width)
        total = width;
    if (!jinja_run_step(out->r, total / 8))
        return;
    for (size_t i = 0; i < total && !out->r->rc; i++) {
        jinja_str_putc(out, i < total - n ? '0' : p[i - (total - n)]);
        if (separator && i + 1 < total && (total - 1 - i) % size == 0)
            jinja_str_putc(out, separator);
    }
}

/* Lays out a number of which WHOLE are the digits before the point and REST what follows them. */
static void put_number(struct jbuf *b, const struct jspec *s, bool negative, const char *radix,
                       const char *whole, size_t n_whole, const char *rest, size_t n_rest)
{
    struct jbuf prefix = {.r = b->r}, body = {.r = b->r};
    bool zeros = s->align == '0' || (s->align == '=' && jinja_str_is(s->fill, "0"));
    char align = s->align == '0' ? '=' : s->align == 0 ? '>' : s->align;
    size_t size = *radix ? 4 : 3, used, width = 0;
    struct jv before, after;

    if (negative)
        jinja_str_putc(&prefix, '-');
    else if (s->sign == '+' || s->sign == ' ')
        jinja_str_putc(&prefix, s->sign);
    if (s->alternate && *radix)
        jinja_str_putf(&prefix, "0%s", radix);
    used = prefix.n + n_rest;
    if (zeros && s->group && s->width > 0 && (size_t)s->width > used && n_whole)
        width = (size_t)s->width - used;
    if (!jinja_run_step(b->r, width))
        return;
    put_grouped(&body, whole, n_whole, s->group, size, width);
    jinja_str_put(&body, rest, n_rest);
    before = jinja_str_done(&prefix);
    after = jinja_str_done(&body);
    if (!b->r->rc)
        lay_out(b, s, align, before, after);
}

void jinja_spec_put_int(struct jbuf *b, const struct jspec *s, struct jv v)
{
    struct jbuf digits = {.r = b->r};
    const char *radix = "";
    unsigned base = 10;

    if (s->type == 'c') {
        struct jbuf one = {.r = b->r};
        int64_t c = jv_is(v, JV_BIG) ? -1 : jv_index(v);

        if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
            jinja_run_fail(b->r, "%%c arg not in range(0x110000)");
            return;
        }
        jinja_str_putu(&one, (uint32_t)c);
        jinja_spec_put_str(b, s, jinja_str_done(&one));
        return;
    }
    switch (s->type) {
    case 'b':
        base = 2;
        radix = "b";
        break;
    case 'o':
        base = 8;
        radix = "o";
        break;
    case 'x':
        base = 16;
        radix = "x";
        break;
    case 'X':
        base = 16;
        radix = "X";
        break;
    default: break;
    }
    jinja_int_put(&digits, v, base);
    for (size_t i = 0; s->type == 'X' && i < digits.n; i++)
        digits.p[i] = (char)toupper((unsigned char)digits.p[i]);
    if (!b->r->rc)
        put_number(b, s, jinja_int_negative(v), radix, digits.p, digits.n, "", 0);
}

/* Without a type: like g, but always with a point or an exponent, and never in more digits than PRECISION. */
static void general(char *text, size_t size, int precision, double f)
{
    char digits[PRECISION_MAX + 16];
    int exponent;
    char *e, *end;

    precision = precision < 1 ? 1 : precision;
    snprintf(digits, sizeof(digits), "%.*e", precision - 1, f);
    e = strchr(digits, 'e');
    exponent = atoi(e + 1);
    if (exponent + 1 <= -4 || exponent + 1 > precision - 1) {
        end = e;
        if (memchr(digits, '.', (size_t)(e - digits)))
            while (end > digits && (end[-1] == '0' || end[-1] == '.'))
                if (*--end == '.')
                    break;
        snprintf(text, size, "%.*se%c%02d", (int)(end - digits), digits, exponent < 0 ? '-' : '+',
                 abs(exponent));
        return;
    }
    snprintf(text, size, "%.*f", precision - 1 - exponent > 0 ? precision - 1 - exponent : 1, f);
    end = text + strlen(text);
    while (end[-1] == '0' && end[-2] != '.')
        *--end = 0;
}

void jinja_spec_put_float(struct jbuf *b, const struct jspec *s, double f)
{
    char text[PRECISION_MAX + DOUBLE_DIGITS_MAX + 16], conversion[8];
    struct jbuf shortest = {.r = b->r};
    bool negative = signbit(f) && !isnan(f), percent = s->type == '%';
    const char *rest;
    size_t n;

    f = fabs(percent ? f * 100 : f);
    if (s->precision > PRECISION_MAX) {
        jinja_run_fail(b->r, "precision too big");
        return;
    }
    if (!isfinite(f)) {
        snprintf(text, sizeof(text), "%s", isnan(f) ? "nan" : "inf");
        if (s->type && isupper((unsigned char)s->type))
            memcpy(text, isnan(f) ? "NAN" : "INF", 3);
    } else if (!s->type && s->precision < 0) {
        jinja_num_put_float(&shortest, f);
        snprintf(text, sizeof(text), "%.*s", (int)shortest.n, shortest.p ? shortest.p : "");
    } else if (!s->type) {
        general(text, sizeof(text), (int)s->precision, f);
    } else {
        snprintf(conversion, sizeof(conversion), "%%%s.*%c", s->alternate ? "#" : "",
                 percent          ? 'f'
                 : s->type == 'n' ? 'g'
                                  : s->type);
        snprintf(text, sizeof(text), conversion, s->precision < 0 ? 6 : (int)s->precision, f);
    }
    n = strspn(text, "0123456789");
    rest = text + n;
    if (percent)
        strcat(text, "%");
    put_number(b, s, negative, "", text, n, rest, strlen(rest));
}

static void refuse(struct jrun *r, const struct jspec *s, struct jv v)
{
    jinja_run_fail(r, "Unknown format code '%c' for object of type '%s'", s->type, jinja_val_type(v));
}

void jinja_spec_put(struct jbuf *b, struct jv v, struct jv text)
{
    struct jspec s;

    if (text.u.str->n == 0) {
        jinja_repr_put_str(b, v);
        return;
    }
    if (!jv_is(v, JV_STR) && !jinja_num_is(v)) {
        jinja_run_fail(b->r, "unsupported format string passed to %s.__format__", jinja_val_type(v));
        return;
    }
    if (!jinja_spec_parse(b->r, text, &s))
        return;
    if (jv_is(v, JV_STR)) {
        if (s.type && s.type != 's')
            refuse(b->r, &s, v);
        else if (s.sign || s.alternate || s.group || s.align == '=')
            jinja_run_fail(b->r, "this format specification is not allowed for a string: %s",
                           jinja_repr_brief(b->r, text));
        else
            jinja_spec_put_str(b, &s, v);
    } else if (jv_is(v, JV_FLOAT) || (s.type && strchr("eEfFgG%", s.type))) {
        double f = jinja_num_double(b->r, v);

        if (s.type && !strchr("eEfFgGn%", s.type))
            refuse(b->r, &s, v);
        else if (!b->r->rc)
            jinja_spec_put_float(b, &s, f);
    } else if (s.type && !strchr("bcdoxXn", s.type)) {
        refuse(b->r, &s, v);
    } else if (s.precision >= 0) {
        jinja_run_fail(b->r, "Precision not allowed in integer format specifier");
    } else {
        jinja_spec_put_int(b, &s, v);
    }
}
