/* format.c - writes format strings: {FIELD!CONVERSION:SPECIFICATION}, as str.format() of Python does in
 * Jinja's sandbox.
 *
 * A field is looked up as the template itself looks up attributes and elements, so attributes that the
 * sandbox hides stay hidden. A specification may have fields, but those may not have specifications with
 * fields. Widths are limited by the memory of the rendering, precisions by MOST_DIGITS.
 */
#include "text/jinja/format.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json_tree.h"
#include "base/utf8.h"
#include "text/jinja/builtin.h"
#include "text/jinja/methods.h"
#include "text/jinja/value/characters.h"
#include "text/jinja/value/number.h"
#include "text/jinja/value/origin.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

enum { MOST_DIGITS = 1000, NUMBER_BYTES = MOST_DIGITS + 400 };

/* One call of the method. */
struct format {
    struct rendering *r;
    const struct builtin_call *g;
    bool escapes; /* the format string is escaped, so values that are put into it are escaped, too */
    int64_t next; /* the next number of a field without name */
    bool counts, is_manual; /* a field without name, or with a number, was seen */
};

/* ---- the specification of a format ---- */

struct spec {
    uint32_t fill;
    char align, sign, grouping, type; /* 0: not given */
    bool alternate;
    int64_t width, precision; /* -1: not given */
};

/* Reads a decimal number at *S. -1: there is none. */
static int64_t read_number(struct rendering *r, const char **s, const char *end)
{
    int64_t n = -1;

    for (; *s < end && isdigit((unsigned char)**s); ++*s) {
        n = (n < 0 ? 0 : n) * 10 + (**s - '0');
        if (n > INT32_MAX) {
            jinja_fail(r, "Too many decimal digits in format string");
            return -1;
        }
    }
    return n;
}

static bool is_alignment(const char *s, const char *end)
{
    return s < end && strchr("<>=^", *s) && *s;
}

/* Reads the specification S of the value V, a number if IS_NUMBER. False: an error. */
static bool read_spec(struct rendering *r, struct value s, struct value v, bool is_number, struct spec *out)
{
    const char *at = s.bytes, *end = at + s.size;
    size_t first = s.size ? jinja_width(at) : 0;
    bool has_fill = s.size && is_alignment(at + first, end);

    *out = (struct spec){.fill = ' ', .width = -1, .precision = -1};
    if (has_fill) {
        out->fill = jinja_character(at);
        at += first;
    }
    if (is_alignment(at, end))
        out->align = *at++;
    if (at < end && (*at == '+' || *at == '-' || *at == ' '))
        out->sign = *at++;
    if (at < end && *at == '#') {
        out->alternate = true;
        at++;
    }
    if (!has_fill && at < end && *at == '0') {
        out->fill = '0';
        out->align = out->align ? out->align : is_number ? '=' : 0;
        at++;
    }
    out->width = read_number(r, &at, end);
    while (at < end && (*at == ',' || *at == '_')) {
        if (out->grouping)
            jinja_fail(r,
                       out->grouping == *at ? "Cannot specify '%c' with '%c'."
                                            : "Cannot specify both ',' and '_'.",
                       out->grouping, *at);
        out->grouping = *at++;
    }
    if (at < end && *at == '.') {
        at++;
        if ((out->precision = read_number(r, &at, end)) < 0)
            jinja_fail(r, "Format specifier missing precision");
    }
    if (end - at > 1)
        jinja_fail(r, "Invalid format specifier %s for object of type '%s'", jinja_brief(r, s),
                   jinja_type(v));
    else if (at < end)
        out->type = *at;
    return r->rc == 0;
}

/* Fails because TYPE of the specification does not suit V. */
static void fail_type(struct rendering *r, char type, struct value v)
{
    jinja_fail(r, "Unknown format code '%c' for object of type '%s'", type, jinja_type(v));
}

static void put_fill(struct text *t, uint32_t fill, int64_t n)
{
    char bytes[5] = "";
    struct text one = {.r = t->r};
    struct value c;

    if (n <= 0)
        return;
    if (fill < 0x80) {
        bytes[0] = (char)fill;
        c = jinja_string(bytes, 1);
    } else {
        jinja_put_character(&one, fill);
        c = jinja_finish(&one);
    }
    if (!t->r->rc)
        jinja_put_times(t, c, (size_t)n);
}

/* ---- strings ---- */

static void put_string(struct text *t, struct value s, const struct spec *p, struct value v)
{
    size_t n = utf8_count(s.bytes, s.size);
    int64_t blank;

    if (p->sign || p->alternate || p->align == '=') {
        jinja_fail(t->r, "%s not allowed in string format specifier",
                   p->sign        ? p->sign == ' ' ? "Space" : "Sign"
                   : p->alternate ? "Alternate form (#)"
                                  : "'=' alignment");
        return;
    }
    if (p->grouping)
        jinja_fail(t->r, "Cannot specify '%c' with 's'.", p->grouping);
    if (p->type && p->type != 's')
        fail_type(t->r, p->type, v);
    if (p->precision >= 0 && (size_t)p->precision < n) {
        n = (size_t)p->precision;
        s = jinja_part(s, 0, jinja_offset(s, n));
    }
    blank = p->width - (int64_t)n;
    blank = blank > 0 ? blank : 0;
    put_fill(t, p->fill, p->align == '>' ? blank : p->align == '^' ? blank / 2 : 0);
    jinja_put(t, s.bytes, s.size);
    put_fill(t, p->fill, p->align == '>' ? 0 : p->align == '^' ? blank - blank / 2 : blank);
}

/* ---- numbers ---- */

/* A number as text: SIGN PREFIX DIGITS REST, where REST follows the digits before the point. */
struct number {
    const char *sign, *prefix, *digits, *rest;
    size_t n_digits, n_rest, group; /* GROUP: digits between separators */
};

/* Writes the digits in groups that are separated by p->grouping, with zeros in front up to WIDTH characters. */
static void put_groups(struct text *t, const struct number *x, const struct spec *p, int64_t width)
{
    size_t left = x->n_digits, room = 2 * left + 2 + (width > 0 ? (size_t)width : 0);
    char *out = jinja_step(t->r, room / 4) ? jinja_allocate(t->r, room) : NULL, *at = out ? out + room : NULL;

    /* the characters are written from the last one to the first one */
    for (size_t i = 0; out && (left || width > 0); i++) {
        if (i && i % x->group == 0) {
            *--at = p->grouping;
            width--;
        }
        *--at = left ? x->digits[--left] : '0';
        width--;
    }
    if (out)
        jinja_put(t, at, (size_t)(out + room - at));
}

static void put_number(struct text *t, const struct number *x, const struct spec *p)
{
    size_t n_signs = strlen(x->sign) + strlen(x->prefix),
           commas = p->grouping && x->n_digits ? (x->n_digits - 1) / x->group : 0;
    int64_t blank = p->width - (int64_t)(n_signs + x->n_digits + commas + x->n_rest);
    bool zeros = p->fill == '0' && p->align == '=' && p->grouping && x->n_digits;
    char align = p->align ? p->align : '>';

    blank = blank > 0 && !zeros ? blank : 0;
    put_fill(t, p->fill, align == '>' ? blank : align == '^' ? blank / 2 : 0);
    jinja_put_literal(t, x->sign);
    jinja_put_literal(t, x->prefix);
    put_fill(t, p->fill, align == '=' ? blank : 0);
    if (p->grouping)
        put_groups(t, x, p, zeros ? p->width - (int64_t)(n_signs + x->n_rest) : 0);
    else
        jinja_put(t, x->digits, x->n_digits);
    jinja_put(t, x->rest, x->n_rest);
    put_fill(t, p->fill, align == '<' ? blank : align == '^' ? blank - blank / 2 : 0);
}

/* Returns the text of the sign of a number. */
static const char *sign_of(bool negative, const struct spec *p)
{
    return negative ? "-" : p->sign == '+' ? "+" : p->sign == ' ' ? " " : "";
}

/* Writes F, finite and not negative, with an exponent and PRECISION significant digits, without zeros at the end. */
static void shorten_exponent(char *out, size_t size, double f, int precision)
{
    char *e, *last;

    snprintf(out, size, "%.*e", precision - 1, f);
    e = strchr(out, 'e');
    for (last = e; strchr(out, '.') && last[-1] == '0'; last--)
        ;
    last -= last[-1] == '.';
    memmove(last, e, strlen(e) + 1);
}

/* Writes F, not negative, without a type of format: the shortest digits, or PRECISION significant ones, and
 * at least one after the point. ALTERNATE: with a point in any case, and with zeros at the end. */
static void write_general(char *out, size_t size, double f, int64_t precision, bool alternate)
{
    char scientific[NUMBER_BYTES], *e;
    int digits = precision == 0 ? 1 : (int)precision;
    long exponent;

    if (!isfinite(f)) {
        snprintf(out, size, "%s", isnan(f) ? "nan" : "inf");
        return;
    }
    if (precision < 0) {
        json_real_text(f, out);
    } else {
        snprintf(scientific, sizeof(scientific), "%.*e", digits - 1, f);
        exponent = strtol(strchr(scientific, 'e') + 1, NULL, 10);
        if (exponent >= -4 && exponent < digits - 1)
            snprintf(out, size, alternate ? "%#.*g" : "%.*g", digits, f);
        else if (alternate)
            snprintf(out, size, "%#.*e", digits - 1, f);
        else
            shorten_exponent(out, size, f, digits);
    }
    e = strchr(out, 'e');
    if (!strchr(out, '.') && !e)
        strncat(out, ".0", size - strlen(out) - 1);
    else if (!strchr(out, '.') && alternate) {
        memmove(e + 1, e, strlen(e) + 1);
        *e = '.';
    }
}

static void put_float(struct text *t, double f, const struct spec *p, struct value v)
{
    bool negative = signbit(f) && !isnan(f), percent = p->type == '%';
    int precision = p->precision < 0 ? 6 : (int)p->precision;
    char out[NUMBER_BYTES], form[8];
    struct number x = {.sign = sign_of(negative, p), .prefix = "", .digits = out, .group = 3};

    if (p->type && !strchr("eEfFgGn%", p->type)) {
        fail_type(t->r, p->type, v);
        return;
    }
    if (p->type == 'n' && p->grouping)
        jinja_fail(t->r, "Cannot specify '%c' with 'n'.", p->grouping);
    if (p->precision > MOST_DIGITS)
        jinja_fail(t->r, "a precision of %lld is not supported, at most %d", (long long)p->precision,
                   MOST_DIGITS);
    if (!jinja_step(t->r, 64 + (size_t)precision / 4))
        return;
    f = fabs(percent ? f * 100 : f);
    if (!p->type) {
        write_general(out, sizeof(out), f, p->precision, p->alternate);
    } else if (!isfinite(f)) {
        bool upper = isupper((unsigned char)p->type);

        snprintf(out, sizeof(out), "%s%s",
                 isnan(f) ? (upper ? "NAN" : "nan")
                 : upper  ? "INF"
                          : "inf",
                 percent ? "%" : "");
    } else {
        snprintf(form, sizeof(form), "%%%s.*%c", p->alternate ? "#" : "",
                 percent          ? 'f'
                 : p->type == 'n' ? 'g'
                                  : p->type);
        snprintf(out, sizeof(out), form, precision, f);
        if (percent)
            strcat(out, "%");
    }
    x.n_digits = strspn(out, "0123456789");
    x.rest = out + x.n_digits;
    x.n_rest = strlen(x.rest);
    put_number(t, &x, p);
}

/* Writes the digits of N in BASE to the end of OUT [size]. Returns the first. */
static const char *write_digits(uint64_t n, unsigned base, bool upper, char *out, size_t size)
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char *at = out + size - 1;

    *at = 0;
    do
        *--at = digits[n % base];
    while ((n /= base) > 0);
    return at;
}

static void put_code_point(struct text *t, int64_t c, const struct spec *p, struct value v)
{
    struct text one = {.r = t->r};
    struct spec s = *p;

    if (p->sign || p->alternate || p->grouping)
        jinja_fail(t->r, "%s not allowed with integer format specifier 'c'",
                   p->sign        ? "Sign"
                   : p->alternate ? "Alternate form (#)"
                                  : "Grouping");
    if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
        jinja_fail(t->r, "%%c arg not in range(0x110000)");
        return;
    }
    jinja_put_character(&one, (uint32_t)c);
    s.type = 0;
    s.align = p->align == '=' || !p->align ? '>' : p->align;
    s.precision = -1;
    put_string(t, jinja_finish(&one), &s, v);
}

static void put_integer(struct text *t, struct value v, const struct spec *p)
{
    bool large = v.kind == VALUE_LARGE, upper = p->type == 'X';
    unsigned base = p->type == 'b' ? 2 : p->type == 'o' ? 8 : p->type == 'x' || upper ? 16 : 10;
    int64_t i = large ? 0 : jinja_to_integer(v);
    bool negative = large ? *v.bytes == '-' : i < 0;
    char out[72];
    struct number x = {.sign = sign_of(negative, p), .prefix = "", .rest = "", .group = base == 10 ? 3 : 4};

    if (p->type && strchr("eEfFgG%", p->type)) {
        put_float(t, jinja_to_float(v), p, v);
        return;
    }
    if (p->precision >= 0)
        jinja_fail(t->r, "Precision not allowed in integer format specifier");
    if (p->type && !strchr("bcdnoxX", p->type))
        fail_type(t->r, p->type, v);
    if (p->grouping && (p->type == 'n' || (p->grouping == ',' && base != 10)))
        jinja_fail(t->r, "Cannot specify '%c' with '%c'.", p->grouping, p->type);
    if (large && (base != 10 || p->type == 'c'))
        jinja_fail(t->r, "the format code '%c' is not supported for integers of more than 64 bits", p->type);
    if (t->r->rc)
        return;
    if (p->type == 'c') {
        put_code_point(t, i, p, v);
        return;
    }
    if (large) {
        x.digits = v.bytes + negative;
        x.n_digits = v.size - negative;
    } else {
        x.digits = write_digits(negative ? -(uint64_t)i : (uint64_t)i, base, upper, out, sizeof(out));
        x.n_digits = strlen(x.digits);
    }
    if (p->alternate && base != 10)
        x.prefix = base == 2 ? "0b" : base == 8 ? "0o" : upper ? "0X" : "0x";
    put_number(t, &x, p);
}

/* ---- fields ---- */

/* Writes V with the specification S. */
static void put_value(const struct format *f, struct text *t, struct value v, struct value s)
{
    bool is_number = jinja_is_number(v) || v.kind == VALUE_BOOLEAN;
    struct text own = {.r = f->r};
    struct text *to = f->escapes ? &own : t;
    struct spec p;

    if (f->escapes && v.mark == VALUE_ESCAPED && v.kind == VALUE_STRING) {
        jinja_put(t, v.bytes, v.size);
        return;
    }
    if (s.size == 0)
        jinja_print(to, v);
    else if (!is_number && v.kind != VALUE_STRING)
        jinja_fail(f->r, "unsupported format string passed to %s.__format__", jinja_type(v));
    else if (!read_spec(f->r, s, v, is_number, &p))
        return;
    else if (v.kind == VALUE_STRING)
        put_string(to, v, &p, v);
    else if (v.kind == VALUE_FLOAT)
        put_float(to, jinja_to_float(v), &p, v);
    else
        put_integer(to, v, &p);
    if (f->escapes && !f->r->rc) {
        v = jinja_escape(f->r, jinja_finish(&own));
        jinja_put(t, v.bytes, v.size);
    }
}

static bool is_index(const char *s, size_t n, int64_t *i)
{
    bool overflow;

    return n > 0 && strspn(s, "0123456789") >= n && jinja_parse_integer(s, n, 10, i, &overflow);
}

static struct value argument_at(const struct format *f, int64_t i)
{
    if (f->g->how)
        return jinja_fail(f->r, "Format string contains positional fields");
    if ((uint64_t)i >= f->g->all->count)
        return jinja_fail(f->r, "Replacement index %lld out of range for positional args tuple",
                          (long long)i);
    return f->g->all->values[i];
}

/* Returns the argument called NAME [n], the first part of a field. */
static struct value find_argument(struct format *f, const char *name, size_t n)
{
    const struct builtin_arguments *a = f->g->all;
    struct value key = jinja_string(name, n), v;
    int64_t i;

    if (is_index(name, n, &i))
        return argument_at(f, i);
    if (f->g->how && jinja_dict_get(f->r, a->values[0].dict, key, &v))
        return v;
    for (size_t k = 0; k < a->n_keywords; k++)
        if (jinja_same(a->keywords[k].name, key))
            return a->keywords[k].value;
    return jinja_fail(f->r, "format(): there is no argument %s", jinja_brief(f->r, key));
}

/* Returns the value of the field NAME [n], such as "0.name[key]"; "": the next argument. */
static struct value find_field(struct format *f, const char *name, size_t n)
{
    const char *at = name, *end = name + n, *from;
    struct value v;
    int64_t i;

    f->counts |= n == 0;
    f->is_manual |= is_index(name, n, &i);
    if (f->counts && f->is_manual)
        return jinja_fail(f->r, "cannot switch from %s",
                          n ? "automatic field numbering to manual field specification"
                            : "manual field specification to automatic field numbering");
    if (n == 0)
        return argument_at(f, f->next++);
    while (at < end && *at != '.' && *at != '[')
        at++;
    v = find_argument(f, name, (size_t)(at - name));
    while (at < end && jinja_step(f->r, 4)) {
        bool attribute = *at == '.';
        struct value key;

        if (!attribute && *at != '[')
            return jinja_fail(f->r, "Only '.' or '[' may follow ']' in format field specifier");
        from = ++at;
        while (at < end && (attribute ? *at != '.' && *at != '[' : *at != ']'))
            at++;
        if (!attribute && at == end)
            return jinja_fail(f->r, "Missing ']' in format string");
        if (at == from)
            return jinja_fail(f->r, "Empty attribute in format string");
        key = jinja_string(from, (size_t)(at - from));
        if (!attribute && is_index(from, key.size, &i))
            key = jinja_integer(i);
        v = jinja_member(f->r, v, key, attribute);
        at += !attribute;
    }
    return v;
}

/* Returns S with escapes in place of the characters beyond ASCII. */
static struct value escape_characters(struct rendering *r, struct value s)
{
    struct text t = {.r = r};

    jinja_step(r, s.size / 4);
    for (size_t i = 0, n; i < s.size && !r->rc; i += n) {
        uint32_t c = jinja_character(s.bytes + i);

        n = jinja_width(s.bytes + i);
        t.origin = jinja_origin(r, s.bytes + i);
        jinja_put_format(&t,
                         c < 0x80      ? "%c"
                         : c < 0x100   ? "\\x%02x"
                         : c < 0x10000 ? "\\u%04x"
                                       : "\\U%08x",
                         c);
    }
    return jinja_finish(&t);
}

/* Returns V after the conversion C: 0, 's', 'r' or 'a'. */
static struct value convert_field(struct rendering *r, struct value v, char c)
{
    struct text t = {.r = r};

    if (!c)
        return v;
    if (c == 's')
        return jinja_to_string(r, v);
    if (c != 'r' && c != 'a')
        return jinja_fail(r, "Unknown conversion specifier '%c'", c);
    jinja_print_repr(&t, v);
    return c == 'r' ? jinja_finish(&t) : escape_characters(r, jinja_finish(&t));
}

static struct value format_text(struct format *f, struct value s, int depth);

/* The parts of a field, {NAME!CONVERSION:SPEC}. */
struct field {
    const char *name;
    size_t n_name;
    char conversion; /* 0: there is none */
    struct value spec;
};

/* Reads the specification at S, up to its brace. Returns its length, or SIZE_MAX after an error. */
static size_t spec_length(struct rendering *r, const char *s, const char *end)
{
    size_t open = 1;

    for (const char *at = s; at < end; at++) {
        open += *at == '{';
        open -= *at == '}';
        if (open == 0)
            return (size_t)(at - s);
    }
    jinja_fail(r, "unmatched '{' in format spec");
    return SIZE_MAX;
}

/* Reads "!C" at S, the conversion of a field. Returns the byte after it, or NULL after an error. */
static const char *read_conversion(struct rendering *r, const char *s, const char *end, struct field *out)
{
    if (s + 1 >= end) {
        jinja_fail(r, "end of string while looking for conversion specifier");
        return NULL;
    }
    out->conversion = s[1];
    if (s + 2 < end && s[2] != ':' && s[2] != '}') {
        jinja_fail(r, "expected ':' after conversion specifier");
        return NULL;
    }
    return s + 2;
}

/* Reads the field at S, after its brace. Returns the byte after the field, or NULL after an error. */
static const char *read_replacement(struct rendering *r, const char *s, const char *end, struct field *out)
{
    const char *at = s, *close;
    size_t n;

    *out = (struct field){.name = s, .spec = value_empty};
    for (; at < end && *at != '}' && *at != ':' && *at != '!'; at++) {
        if (*at == '{') {
            jinja_fail(r, "unexpected '{' in field name");
            return NULL;
        }
        close = *at == '[' ? memchr(at, ']', (size_t)(end - at)) : at; /* a key may have any characters */
        at = close ? close : end - 1;
    }
    out->n_name = (size_t)(at - s);
    if (at < end && *at == '!' && !(at = read_conversion(r, at, end, out)))
        return NULL;
    if (at < end && *at == ':') {
        if ((n = spec_length(r, ++at, end)) == SIZE_MAX)
            return NULL;
        out->spec = jinja_string(at, n);
        at += n;
    }
    if (at == end)
        jinja_fail(r, "expected '}' before end of string");
    return at < end ? at + 1 : NULL;
}

/* Formats the field at S, which is after the opening brace, and appends it to T. Returns the byte after the field, or
 * NULL after an error. */
static const char *put_field(struct format *f, struct text *t, const char *s, const char *end, int depth)
{
    struct field x;
    const char *next = read_replacement(f->r, s, end, &x);
    struct value v = next ? find_field(f, x.name, x.n_name) : value_none;

    if (depth > 1)
        jinja_fail(f->r, "Max string recursion exceeded");
    if (f->r->rc)
        return NULL;
    v = convert_field(f->r, v, x.conversion);
    if (memchr(x.spec.bytes, '{', x.spec.size) || memchr(x.spec.bytes, '}', x.spec.size))
        x.spec = format_text(f, x.spec, depth + 1);
    if (!f->r->rc)
        put_value(f, t, v, x.spec);
    return next;
}

/* Formats the format string S. DEPTH: number of format specifications inside which S is. */
static struct value format_text(struct format *f, struct value s, int depth)
{
    const char *at = s.bytes, *end = at + s.size, *from = at;
    struct text t = {.r = f->r};

    for (; at && at < end && jinja_step(f->r, 0); from = at) {
        while (at < end && *at != '{' && *at != '}')
            at++;
        jinja_put(&t, from, (size_t)(at - from));
        if (at == end)
            break;
        if (at + 1 < end && at[1] == *at) {
            jinja_put(&t, at, 1);
            at += 2;
        } else if (*at == '}' || at + 1 == end) {
            return jinja_fail(f->r, "Single '%c' encountered in format string", *at);
        } else {
            at = put_field(f, &t, at + 1, end, depth);
        }
    }
    return jinja_finish(&t);
}

struct value jinja_format(struct rendering *r, struct value s, const struct builtin_call *g)
{
    struct format f = {.r = r, .g = g, .escapes = s.mark == VALUE_ESCAPED};
    struct value v;

    if (g->how && (g->all->count != 1 || g->all->n_keywords || g->all->values[0].kind != VALUE_DICT))
        return jinja_fail(r, "format_map(): expected one argument, a mapping");
    v = jinja_step(r, s.size / 4) ? format_text(&f, s, 0) : value_empty;
    v.mark = r->rc ? v.mark : s.mark;
    return v;
}
