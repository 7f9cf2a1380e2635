/* jinja_num.c - arithmetic follows CPython's longobject.c and floatobject.c in results, not in code.
 *
 * Complex numbers do not exist here: a negative base with a fractional exponent is refused.
 */
#include "text/jinja_num.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_int.h"
#include "text/jinja_str.h"
#include "text/jinja_uni.h"

enum { NUMBER_TEXT_MAX = 400 };

bool jinja_num_is_int(struct jv v)
{
    return v.type == JV_BOOL || v.type == JV_INT || v.type == JV_BIG;
}

bool jinja_num_is(struct jv v)
{
    return v.type == JV_FLOAT || jinja_num_is_int(v);
}

double jinja_num_double(struct jrun *r, struct jv v)
{
    double f = v.type == JV_FLOAT ? v.u.f : jinja_int_to_double(v);

    if (v.type != JV_FLOAT && isinf(f)) {
        jinja_run_fail(r, "int too large to convert to float");
        return 0;
    }
    return f;
}

static struct jv zero_division(struct jrun *r, const char *what)
{
    jinja_run_fail(r, "%s", what);
    return jv_none();
}

/* Quotient and remainder of floats with the remainder's sign that of B. */
static void float_divmod(double a, double b, double *quotient, double *remainder)
{
    double m = fmod(a, b), d = (a - m) / b, whole;

    if (m != 0) {
        if ((b < 0) != (m < 0)) {
            m += b;
            d -= 1;
        }
    } else {
        m = copysign(0.0, b);
    }
    if (d != 0) {
        whole = floor(d);
        if (d - whole > 0.5)
            whole += 1;
    } else {
        whole = copysign(0.0, a / b);
    }
    *quotient = whole;
    *remainder = m;
}

static struct jv float_pow(struct jrun *r, double a, double b)
{
    double f;

    if (a == 0 && b < 0)
        return zero_division(r, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b)) {
        jinja_run_fail(
            r, "a negative number to a fractional power is complex, and complex numbers are not offered");
        return jv_none();
    }
    f = pow(a, b);
    if (isinf(f) && isfinite(a) && isfinite(b)) {
        jinja_run_fail(r, "the result of ** is too large for a float");
        return jv_none();
    }
    return jv_float(f);
}

static struct jv float_binary(struct jrun *r, enum jop op, double a, double b)
{
    double q, m;

    switch (op) {
    case JOP_ADD: return jv_float(a + b);
    case JOP_SUB: return jv_float(a - b);
    case JOP_MUL: return jv_float(a * b);
    case JOP_DIV: return b == 0 ? zero_division(r, "float division by zero") : jv_float(a / b);
    case JOP_FLOORDIV:
    case JOP_MOD:
        if (b == 0)
            return zero_division(r, op == JOP_MOD ? "float modulo" : "float floor division by zero");
        float_divmod(a, b, &q, &m);
        return jv_float(op == JOP_MOD ? m : q);
    case JOP_POW: return float_pow(r, a, b);
    }
    return jv_none();
}

static struct jv int_pow(struct jrun *r, struct jv a, struct jv b)
{
    if (jinja_int_negative(b)) {
        double x = jinja_num_double(r, a), y = jinja_num_double(r, b);

        return r->rc ? jv_none() : float_pow(r, x, y);
    }
    return jinja_int_pow(r, a, jv_is(b, JV_BIG) ? UINT64_MAX : (uint64_t)jv_index(b));
}

static struct jv int_binary(struct jrun *r, enum jop op, struct jv a, struct jv b)
{
    struct jv q, m;
    double x, y;

    switch (op) {
    case JOP_ADD: return jinja_int_add(r, a, b);
    case JOP_SUB: return jinja_int_sub(r, a, b);
    case JOP_MUL: return jinja_int_mul(r, a, b);
    case JOP_POW: return int_pow(r, a, b);
    default: break;
    }
    if (jinja_int_zero(b))
        return zero_division(r, op == JOP_DIV ? "division by zero" : "integer division or modulo by zero");
    if (op == JOP_DIV) {
        if (!jv_is(a, JV_BIG) && !jv_is(b, JV_BIG))
            return jv_float((double)((long double)jv_index(a) / (long double)jv_index(b)));
        x = jinja_num_double(r, a);
        y = jinja_num_double(r, b);
        return r->rc ? jv_none() : jv_float(x / y);
    }
    jinja_int_divmod(r, a, b, &q, &m);
    return op == JOP_MOD ? m : q;
}

struct jv jinja_num_binary(struct jrun *r, enum jop op, struct jv a, struct jv b)
{
    double x, y;

    if (jinja_num_is_int(a) && jinja_num_is_int(b))
        return int_binary(r, op, a, b);
    x = jinja_num_double(r, a);
    y = jinja_num_double(r, b);
    return r->rc ? jv_none() : float_binary(r, op, x, y);
}

struct jv jinja_num_negate(struct jrun *r, struct jv a)
{
    return jv_is(a, JV_FLOAT) ? jv_float(-a.u.f) : jinja_int_neg(r, a);
}

struct jv jinja_num_abs(struct jrun *r, struct jv a)
{
    if (jv_is(a, JV_FLOAT))
        return jv_float(fabs(a.u.f));
    return jinja_int_negative(a) ? jinja_int_neg(r, a) : jv_is(a, JV_BOOL) ? jv_int(a.u.b) : a;
}

/* Compares an integer with a double exactly. */
static int cmp_int_float(struct jv a, double f)
{
    double x = jinja_int_to_double(a);

    if (isinf(f))
        return f > 0 ? -1 : 1;
    if (x != f || fabs(f) < 9007199254740992.0)
        return x < f ? -1 : x > f;
    return jinja_int_cmp_double(a, f); /* equal after rounding */
}

int jinja_num_cmp(struct jv a, struct jv b)
{
    bool fa = jv_is(a, JV_FLOAT), fb = jv_is(b, JV_FLOAT);

    if (!fa && !fb)
        return jinja_int_cmp(a, b);
    if ((fa && isnan(a.u.f)) || (fb && isnan(b.u.f)))
        return 2;
    if (fa && fb)
        return a.u.f < b.u.f ? -1 : a.u.f > b.u.f;
    return fb ? cmp_int_float(a, b.u.f) : -cmp_int_float(b, a.u.f);
}

struct jv jinja_num_truncate(struct jrun *r, double f)
{
    if (isfinite(f))
        return jinja_int_from_double(r, trunc(f));
    jinja_run_fail(r, "cannot convert float %s to integer", isnan(f) ? "NaN" : "infinity");
    return jv_none();
}

/* An int rounded to a multiple of 10^-digits, half to even. */
static struct jv round_int(struct jrun *r, struct jv v, int64_t digits)
{
    struct jv unit, q, m, twice;
    int c;

    if (jv_is(v, JV_BOOL))
        v = jv_int(v.u.b);
    if (digits >= 0)
        return v;
    if (digits < -4000)
        return jv_int(0);
    unit = jinja_int_pow(r, jv_int(10), (uint64_t)-digits);
    if (r->rc)
        return jv_none();
    jinja_int_divmod(r, v, unit, &q, &m);
    twice = r->rc ? jv_none() : jinja_int_mul(r, m, jv_int(2));
    if (r->rc)
        return jv_none();
    c = jinja_int_cmp(twice, unit);
    if (c == 0) {
        struct jv half, odd;

        jinja_int_divmod(r, q, jv_int(2), &half, &odd);
        c = r->rc || jinja_int_zero(odd) ? -1 : 1;
    }
    if (c > 0 && !r->rc)
        q = jinja_int_add(r, q, jv_int(1));
    return r->rc ? jv_none() : jinja_int_mul(r, q, unit);
}

struct jv jinja_num_round(struct jrun *r, struct jv v, int64_t digits, bool with_digits)
{
    char text[NUMBER_TEXT_MAX + 400];
    double unit;

    if (!jv_is(v, JV_FLOAT))
        return round_int(r, v, with_digits ? digits : 0);
    if (!with_digits)
        return jinja_num_truncate(r, isfinite(v.u.f) ? rint(v.u.f) : v.u.f);
    if (!isfinite(v.u.f) || digits > 323)
        return v;
    if (digits < -308)
        return jv_float(copysign(0.0, v.u.f));
    if (digits >= 0) { /* printf rounds the exact binary value, half to even: what Python's round() does */
        snprintf(text, sizeof(text), "%.*f", (int)digits, v.u.f);
        return jv_float(strtod(text, NULL));
    }
    unit = pow(10.0, (double)-digits);
    return jv_float(rint(v.u.f / unit) * unit);
}

static void strip(const char **p, size_t *n)
{
    while (*n && jinja_uni_space(jinja_str_char(*p))) {
        size_t k = jinja_str_step(*p);
        *p += k;
        *n -= k;
    }
    while (*n) {
        size_t k = jinja_str_back(*p, *n);
        if (!jinja_uni_space(jinja_str_char(*p + *n - k)))
            break;
        *n -= k;
    }
}

static bool is_digit(char c, unsigned base)
{
    unsigned d = c >= '0' && c <= '9'                 ? (unsigned)(c - '0')
                 : (c | 32) >= 'a' && (c | 32) <= 'z' ? (unsigned)((c | 32) - 'a' + 10)
                                                      : 99;
    return d < base;
}

static unsigned prefix_base(char c)
{
    switch (c | 32) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 0;
    }
}

bool jinja_num_parse_int(struct jrun *r, const char *p, size_t n, unsigned base, struct jv *out)
{
    struct jbuf digits = {.r = r};
    bool negative, prefixed = false, zero_only;

    strip(&p, &n);
    negative = n && *p == '-';
    if (n && (*p == '-' || *p == '+')) {
        p++;
        n--;
    }
    if (n > 2 && p[0] == '0' && prefix_base(p[1]) && (base == 0 || base == prefix_base(p[1]))) {
        base = prefix_base(p[1]);
        p += 2;
        n -= 2;
        prefixed = true;
    }
    zero_only = base == 0 && n && *p == '0';
    if (base == 0)
        base = 10;
    if (n > JINT_MAX_BITS || !n || !jinja_run_step(r, n / 16))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '_' && i + 1 < n && p[i + 1] != '_' && (i > 0 || prefixed))
            continue;
        if (!is_digit(p[i], base) || (zero_only && p[i] != '0'))
            return false;
        jinja_str_putc(&digits, p[i]);
    }
    *out = jinja_int_parse(r, digits.p, digits.n, base, negative);
    return r->rc == 0;
}

static size_t skip_digits(const char *p, size_t n, size_t i)
{
    while (i < n && (is_digit(p[i], 10) ||
                     (p[i] == '_' && i > 0 && is_digit(p[i - 1], 10) && i + 1 < n && is_digit(p[i + 1], 10))))
        i++;
    return i;
}

static bool is_word(const char *p, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(p, word, n) == 0;
}

bool jinja_num_parse_float(const char *p, size_t n, double *out)
{
    char text[NUMBER_TEXT_MAX];
    size_t i, from, used = 0;
    bool negative, some;

    strip(&p, &n);
    negative = n && *p == '-';
    i = n && (*p == '-' || *p == '+');
    if (is_word(p + i, n - i, "inf") || is_word(p + i, n - i, "infinity")) {
        *out = negative ? -INFINITY : INFINITY;
        return true;
    }
    if (is_word(p + i, n - i, "nan")) {
        *out = NAN;
        return true;
    }
    from = i;
    i = skip_digits(p, n, i);
    some = i > from;
    if (i < n && p[i] == '.') {
        from = ++i;
        i = skip_digits(p, n, i);
        some |= i > from;
    }
    if (some && i < n && (p[i] | 32) == 'e') {
        i++;
        i += i < n && (p[i] == '-' || p[i] == '+');
        from = i;
        i = skip_digits(p, n, i);
        some = i > from;
    }
    if (!some || i != n || n >= sizeof(text))
        return false;
    for (i = 0; i < n; i++)
        if (p[i] != '_')
            text[used++] = p[i];
    text[used] = 0;
    *out = strtod(text, NULL);
    return true;
}

void jinja_num_put_float(struct jbuf *b, double f)
{
    char text[40], digits[24];
    int precision = fabs(f) < DBL_MIN ? 1 : 15, exponent,
        n = 0; /* 15 digits always survive, but of subnormals */

    if (!isfinite(f)) {
        jinja_str_puts(b, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    for (; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision - 1, f);
        if (strtod(text, NULL) == f)
            break;
    }
    if (signbit(f))
        jinja_str_putc(b, '-');
    exponent = atoi(strchr(text, 'e') + 1);
    for (const char *p = text; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (exponent < -4 || exponent >= 16) {
        jinja_str_putc(b, digits[0]);
        if (n > 1)
            jinja_str_putc(b, '.');
        jinja_str_put(b, digits + 1, (size_t)n - 1);
        jinja_str_putf(b, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0)
        jinja_str_puts(b, "0.");
    for (int i = exponent < 0 ? exponent + 1 : 0; i < n || i <= exponent; i++) {
        jinja_str_putc(b, i < 0 || i >= n ? '0' : digits[i]);
        if (i == exponent)
            jinja_str_puts(b, i + 1 < n ? "." : ".0");
    }
}
