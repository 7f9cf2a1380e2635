/* number.c - parses numbers from text. */
#include "text/jinja/value/number.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_tree.h"
#include "text/jinja/value/rendering.h"

enum { NUMBER_MAX = 400 }; /* bytes of the text of a float */

static unsigned digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? (unsigned)((c | 32) - 'a' + 10) : 99;
}

static unsigned prefix_base(char c)
{
    c |= 32;
    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

bool jinja_parse_integer(const char *s, size_t n, unsigned base, int64_t *out, bool *overflow)
{
    bool negative = n && *s == '-', prefixed = false, only_zeros, over = false;
    uint64_t sum = 0;

    *overflow = false;
    if (n && (*s == '-' || *s == '+'))
        s++, n--;
    if (n > 2 && s[0] == '0' && prefix_base(s[1]) && (base == 0 || base == prefix_base(s[1]))) {
        base = prefix_base(s[1]);
        s += 2, n -= 2;
        prefixed = true;
    }
    only_zeros = base == 0 && n && *s == '0';
    base = base ? base : 10;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '_' && i + 1 < n && s[i + 1] != '_' && (i > 0 || prefixed))
            continue;
        if (digit(s[i]) >= base || (only_zeros && s[i] != '0'))
            return false;
        over |= __builtin_mul_overflow(sum, base, &sum) || __builtin_add_overflow(sum, digit(s[i]), &sum);
    }
    *overflow = over || sum > (uint64_t)INT64_MAX + negative;
    *out = (int64_t)(negative ? 0 - sum : sum);
    return n > 0 && !*overflow;
}

struct value jinja_parse_large(struct rendering *r, struct value s)
{
    char *digits = jinja_allocate(r, s.size + (size_t)1);
    size_t n = 0;

    if (!digits)
        return value_none;
    for (uint32_t i = 0; i < s.size; i++) {
        bool leading = s.bytes[i] == '0' && (n == 0 || (n == 1 && *digits == '-'));

        if (s.bytes[i] == '-' || (digit(s.bytes[i]) < 10 && !leading))
            digits[n++] = s.bytes[i];
        else if (digit(s.bytes[i]) >= 10 && s.bytes[i] != '_' && s.bytes[i] != '+')
            return jinja_fail(r, "an integer grows beyond 64 bits"); /* only decimal integers may be larger */
    }
    digits[n] = 0;
    if (n > JSON_LARGE_DIGITS)
        return jinja_fail(r, "an integer has %zu digits; the maximum is %d", n, (int)JSON_LARGE_DIGITS);
    return jinja_large(digits, n);
}

bool jinja_parse_float(const char *s, size_t n, double *out)
{
    bool word = n && strchr("nNfFyY", s[n - 1]) && s[n - 1];
    char text[NUMBER_MAX], *end;
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        bool between = i > 0 && i + 1 < n && digit(s[i - 1]) < 10 && digit(s[i + 1]) < 10;

        if (s[i] == '_' && between)
            continue;
        if (used + 1 == sizeof(text) || (!word && digit(s[i]) >= 10 && !memchr("+-.eE", s[i], 5)))
            return false;
        text[used++] = s[i];
    }
    text[used] = 0;
    *out = strtod(text, &end);
    return used > 0 && end == text + used && !isspace((unsigned char)*text) && (!word || !isfinite(*out));
}
