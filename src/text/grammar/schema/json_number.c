/* json_number.c - compares numbers digit by digit from the first digit on: after the first digit that
 * differs, all continuations are on the same side. */
#include "text/grammar/schema/json_number.h"

#include <stdio.h>
#include <string.h>

#include "base/json/json_tree.h"

/* ---- decimals ---- */

/* Sets D to the digits DIGIT [n] with the point after POINT of them. Drops zeros at both ends. */
static void normalize(struct json_decimal *d, const char *digit, size_t n, int64_t point)
{
    while (n > 0 && digit[n - 1] == '0')
        n--;
    for (; n > 0 && *digit == '0'; n--, point--)
        digit++;
    d->digit = digit;
    d->n = n;
    d->point = n ? point : 0;
    d->is_negative = d->is_negative && n > 0;
}

static bool decimal_from_text(struct json_decimal *d, const char *text, struct arena *a)
{
    char *digit = arena_strndup(a, text, strlen(text));
    size_t n = 0;
    int64_t point = -1, exponent = 0;

    if (!digit)
        return false;
    d->is_negative = *text == '-';
    for (text += d->is_negative; *text && *text != 'e' && *text != 'E'; text++)
        if (*text == '.')
            point = (int64_t)n;
        else
            digit[n++] = *text;
    if (point < 0)
        point = (int64_t)n;
    if (*text) {
        bool is_negative = text[1] == '-';

        for (text += 1 + (text[1] == '-' || text[1] == '+'); *text && exponent < 100000; text++)
            exponent = 10 * exponent + *text - '0';
        exponent = is_negative ? -exponent : exponent;
    }
    normalize(d, digit, n, point + exponent);
    return true;
}

bool json_decimal_read(struct json_decimal *d, const json_t *v, struct arena *a)
{
    char text[JSON_REAL_TEXT];
    const char *large;
    size_t n;

    *d = (struct json_decimal){0};
    large = json_large_text(v, &n);
    if (large)
        return decimal_from_text(d, large, a);
    if (json_is_integer(v))
        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        json_real_text(json_real_value(v), text);
    else
        return false;
    return decimal_from_text(d, text, a);
}

bool json_decimal_is_equal(const struct json_decimal *a, const struct json_decimal *b)
{
    return a->is_negative == b->is_negative && a->n == b->n && a->point == b->point &&
           memcmp(a->digit, b->digit, a->n) == 0;
}

/* Returns the digit of D at position I: 0 is the first digit after the point, -1 is the last digit before it.
 * Returns 0 for positions outside D's digits. */
static unsigned digit_at(const struct json_decimal *d, int64_t i)
{
    i += d->point;
    return i >= 0 && i < (int64_t)d->n ? (unsigned)(d->digit[i] - '0') : 0;
}

/* ---- spellings ---- */

static uint32_t digit_range(struct json_number *j, unsigned low, unsigned high)
{
    return low > high ? REGEX_NOTHING : regex_range(j->s, (uint8_t)('0' + low), (uint8_t)('0' + high));
}

static uint32_t character(struct json_number *j, char c)
{
    return regex_literal(j->s, &c, 1);
}

/* Matches N to MOST digits. */
static uint32_t digits(struct json_number *j, int64_t n, uint32_t most)
{
    return regex_repeat(j->s, j->digit, (uint32_t)n, most);
}

static uint32_t optional(struct json_number *j, uint32_t a)
{
    return regex_repeat(j->s, a, 0, 1);
}

/* Matches the point and 1 to MOST digits. */
static uint32_t fraction(struct json_number *j, uint32_t most)
{
    return regex_concat(j->s, character(j, '.'), digits(j, 1, most));
}

/* Adds the texts of A followed by B to the matches of *R. */
static void also(struct json_number *j, uint32_t *r, uint32_t a, uint32_t b)
{
    *r = regex_or(j->s, *r, regex_concat(j->s, a, b));
}

/* Matches an optional minus sign and A. */
static uint32_t with_sign(struct json_number *j, uint32_t a)
{
    return regex_concat(j->s, optional(j, character(j, '-')), a);
}

/* Matches integers of at least LEAST digits, without a sign. */
static uint32_t naturals(struct json_number *j, int64_t least)
{
    uint32_t long_ones =
        regex_concat(j->s, digit_range(j, 1, 9), digits(j, least > 1 ? least - 1 : 0, REGEX_NO_LIMIT));

    return least > 1 ? long_ones : regex_or(j->s, character(j, '0'), long_ones);
}

/* ---- exponents ---- */

/* Matches the integers in [low, high], without a sign, with an optional leading zero. */
static uint32_t natural_range(struct json_number *j, int low, int high)
{
    uint32_t r = REGEX_NOTHING;

    for (int i = low; i <= high;) {
        /* The largest interval of the form [i, i + 10^n) that begins at I. */
        int size = 1;
        char text[16];
        unsigned n = 0;

        while (i % (10 * size) == 0 && i + 10 * size - 1 <= high && i > 0 && i / (10 * size) > 0) {
            size *= 10;
            n++;
        }
        if (size > 1 || i % 10 == 9 || i == high) {
            snprintf(text, sizeof(text), "%d", i / size);
            also(j, &r, regex_literal(j->s, text, strlen(text)), digits(j, n, n));
            i += size;
        } else { /* integers that differ from I in the last digit only */
            int last = i / 10 * 10 + 9 < high ? i / 10 * 10 + 9 : high;

            snprintf(text, sizeof(text), "%d", i / 10);
            also(j, &r, i < 10 ? REGEX_EMPTY : regex_literal(j->s, text, strlen(text)),
                 digit_range(j, (unsigned)(i % 10), (unsigned)(last % 10)));
            i = last + 1;
        }
    }
    return regex_concat(j->s, optional(j, character(j, '0')), r);
}

/* Matches e and an exponent in [low, high], limited to JSON_NUMBER_EXPONENT. */
static uint32_t exponents(struct json_number *j, int64_t low, int64_t high)
{
    struct regex_set sign = {{0}}, letter = {{0}};
    uint32_t r = REGEX_NOTHING;

    low = low < -JSON_NUMBER_EXPONENT ? -JSON_NUMBER_EXPONENT : low;
    high = high > JSON_NUMBER_EXPONENT ? JSON_NUMBER_EXPONENT : high;
    if (low > high)
        return REGEX_NOTHING;
    regex_set_add(&letter, 'e');
    regex_set_add(&letter, 'E');
    regex_set_add(&sign, '+');
    regex_set_add(&sign, '-');
    if (low <= 0 && high >= 0) /* -0 is allowed */
        also(j, &r, optional(j, regex_bytes(j->s, &sign)), natural_range(j, 0, 0));
    if (high >= 1)
        also(j, &r, optional(j, character(j, '+')), natural_range(j, low > 1 ? (int)low : 1, (int)high));
    if (low <= -1)
        also(j, &r, character(j, '-'), natural_range(j, high < -1 ? (int)-high : 1, (int)-low));
    return regex_concat(j->s, regex_bytes(j->s, &letter), r);
}

/* Matches a fraction whose last digit is not 0, of at most N digits or, if IS_EXACT, of exactly N digits. */
static uint32_t short_fraction(struct json_number *j, uint32_t n, bool is_exact)
{
    uint32_t r = regex_concat(j->s, digits(j, is_exact ? n - 1 : 0, n - 1), digit_range(j, 1, 9));

    return regex_concat(j->s, character(j, '.'), r);
}

static uint32_t point_zero(struct json_number *j)
{
    return regex_literal(j->s, ".0", 2);
}

/* Matches a digit other than 0, and an optional fraction that is .0 or does not end with 0. */
static uint32_t mantissa(struct json_number *j)
{
    uint32_t r = regex_or(j->s, point_zero(j), short_fraction(j, JSON_NUMBER_FRACTION, false));

    return regex_concat(j->s, digit_range(j, 1, 9), optional(j, r));
}

/* Matches integers with an exponent: the exponent is at least the number of digits in the fraction. */
static uint32_t integer_with_exponent(struct json_number *j)
{
    uint32_t r = regex_concat(j->s, optional(j, point_zero(j)), exponents(j, 0, JSON_NUMBER_EXPONENT));

    for (uint32_t n = 1; n <= JSON_NUMBER_FRACTION; n++)
        also(j, &r, short_fraction(j, n, true), exponents(j, n, JSON_NUMBER_EXPONENT));
    return regex_concat(j->s, digit_range(j, 1, 9), r);
}

void json_number_init(struct json_number *j, struct regex_store *s, bool has_exponents)
{
    uint32_t plain, zeros;

    *j = (struct json_number){.s = s, .has_exponents = has_exponents};
    j->digit = regex_range(s, '0', '9');
    j->digits = regex_repeat(s, j->digit, 0, REGEX_NO_LIMIT);
    plain = regex_concat(s, naturals(j, 1), optional(j, fraction(j, JSON_NUMBER_PLACES)));
    zeros = regex_concat(s, character(j, '.'), regex_repeat(s, character(j, '0'), 1, JSON_NUMBER_PLACES));
    j->integer = regex_concat(s, naturals(j, 1), optional(j, zeros));
    if (has_exponents) {
        also(j, &plain, mantissa(j), exponents(j, -JSON_NUMBER_EXPONENT, JSON_NUMBER_EXPONENT));
        j->integer = regex_or(s, j->integer, integer_with_exponent(j));
    }
    j->all = with_sign(j, plain);
    j->numeral = with_sign(j, naturals(j, 1));
    j->integer = with_sign(j, j->integer);
}

/* ---- comparison ---- */

enum { BELOW = -1, EQUAL, ABOVE };

/* Matches the rest of a number that is ABOVE, BELOW or EQUAL to D (SIDE). The digits before position I (see
 * digit_at()) are already written and equal those of D. BEGUN: the point is already written. */
static uint32_t rest_of_fraction(struct json_number *j, const struct json_decimal *d, int64_t i, int side,
                                 bool begun, uint32_t most)
{
    uint32_t zero = character(j, '0'), r = REGEX_NOTHING, more;
    int64_t n = (int64_t)d->n - d->point; /* number of digits of D after the point */
    uint32_t left = most == REGEX_NO_LIMIT ? most : i > most ? 0 : most - (uint32_t)i;

    if (!begun && i < n) /* a number without a fraction is below D */
        more = rest_of_fraction(j, d, i, side, true, most);
    else if (i < n) {
        unsigned at = digit_at(d, i);

        if (left == 0)
            return side == BELOW ? REGEX_EMPTY : REGEX_NOTHING;
        left = left == REGEX_NO_LIMIT ? left : left - 1;
        if (side == ABOVE && at < 9)
            also(j, &r, digit_range(j, at + 1, 9), digits(j, 0, left));
        if (side == BELOW && at > 0)
            also(j, &r, digit_range(j, 0, at - 1), digits(j, 0, left));
        also(j, &r, digit_range(j, at, at), rest_of_fraction(j, d, i + 1, side, true, most));
        return side == BELOW && i > 0 ? regex_or(j->s, REGEX_EMPTY, r) : r;
    } else if (side == BELOW) {
        return REGEX_NOTHING;
    } else if (side == EQUAL) {
        more = regex_repeat(j->s, zero, !begun && left > 0, left);
        return begun ? more : optional(j, regex_concat(j->s, character(j, '.'), more));
    } else {
        more = REGEX_NOTHING;
        if (left > 0) {
            uint32_t behind = left == REGEX_NO_LIMIT ? left : left - 1;

            more = regex_concat(j->s, regex_repeat(j->s, zero, 0, behind),
                                regex_concat(j->s, digit_range(j, 1, 9), digits(j, 0, behind)));
        }
        return begun ? more : regex_concat(j->s, character(j, '.'), more);
    }
    more = regex_concat(j->s, character(j, '.'), more);
    return side == BELOW ? regex_or(j->s, REGEX_EMPTY, more) : more;
}

/* Matches the numbers that are ABOVE, BELOW or EQUAL to |D| (SIDE), spelled without sign and exponent. */
static uint32_t plain_on_side(struct json_number *j, const struct json_decimal *d, int side)
{
    int64_t n = d->point > 0 ? d->point : 1; /* number of digits of D before the point */
    uint32_t any = optional(j, fraction(j, JSON_NUMBER_PLACES)),
             r = rest_of_fraction(j, d, 0, side, false, JSON_NUMBER_PLACES);

    for (int64_t i = n - 1; i >= 0; i--) {
        unsigned at = digit_at(d, i - n), least = i == 0 && n > 1;
        uint32_t rest = regex_concat(j->s, digits(j, n - 1 - i, (uint32_t)(n - 1 - i)), any);

        r = regex_concat(j->s, digit_range(j, at, at), r);
        if (side == ABOVE)
            also(j, &r, digit_range(j, at + 1, 9), rest);
        if (side == BELOW && at > least)
            also(j, &r, digit_range(j, least, at - 1), rest);
    }
    if (side == ABOVE)
        also(j, &r, naturals(j, n + 1), any);
    if (side == BELOW && n > 1) { /* numbers with fewer digits */
        uint32_t few = regex_concat(j->s, digit_range(j, 1, 9), digits(j, 0, (uint32_t)n - 2));

        also(j, &r, regex_or(j->s, character(j, '0'), few), any);
    }
    return r;
}

/* Matches the numbers ABOVE, BELOW or EQUAL to |D| (SIDE), spelled with an exponent, without sign. */
static uint32_t exponent_on_side(struct json_number *j, const struct json_decimal *d, int side)
{
    struct json_decimal m = *d;
    unsigned first = digit_at(d, -d->point);
    int64_t exponent = d->point - 1;
    uint32_t r, any = optional(j, fraction(j, JSON_NUMBER_FRACTION));

    if (d->n == 0) /* D is zero: every mantissa is above it */
        return side == ABOVE ? regex_concat(j->s, mantissa(j),
                                            exponents(j, -JSON_NUMBER_EXPONENT, JSON_NUMBER_EXPONENT))
                             : REGEX_NOTHING;
    m.point = 1;
    r = regex_concat(j->s, digit_range(j, first, first),
                     rest_of_fraction(j, &m, 0, side, false, JSON_NUMBER_FRACTION));
    if (side != EQUAL)
        also(j, &r, side == ABOVE ? digit_range(j, first + 1, 9) : digit_range(j, 1, first - 1), any);
    r = regex_concat(j->s, r, exponents(j, exponent, exponent));
    if (side == ABOVE)
        also(j, &r, mantissa(j), exponents(j, exponent + 1, JSON_NUMBER_EXPONENT));
    if (side == BELOW)
        also(j, &r, mantissa(j), exponents(j, -JSON_NUMBER_EXPONENT, exponent - 1));
    return r;
}

/* Matches the numbers ABOVE, BELOW or EQUAL to |D| (SIDE), in both spellings, without sign. */
static uint32_t on_side(struct json_number *j, const struct json_decimal *d, int side)
{
    uint32_t r = plain_on_side(j, d, side);

    return j->has_exponents ? regex_or(j->s, r, exponent_on_side(j, d, side)) : r;
}

static const struct json_decimal zero_decimal = {.digit = ""};

/* Matches the numbers greater than D if ABOVE, otherwise the smaller ones; unless STRICT, also D itself. */
static uint32_t beyond(struct json_number *j, const struct json_decimal *d, bool above, bool strict)
{
    uint32_t minus = character(j, '-'), r;
    bool is_further; /* the numbers on D's side of zero are further from zero than D */

    if (d->n == 0) {
        r = on_side(j, d, ABOVE);
        r = above ? r : regex_concat(j->s, minus, r);
        return strict ? r : regex_or(j->s, r, json_number_equal(j, d));
    }
    is_further = d->is_negative != above;
    r = on_side(j, d, is_further ? ABOVE : BELOW);
    r = strict ? r : regex_or(j->s, r, on_side(j, d, EQUAL));
    r = d->is_negative ? regex_concat(j->s, minus, r) : r;
    return is_further ? r : regex_or(j->s, r, beyond(j, &zero_decimal, above, false));
}

uint32_t json_number_at_least(struct json_number *j, const struct json_decimal *d, bool strict)
{
    return beyond(j, d, true, strict);
}

uint32_t json_number_at_most(struct json_number *j, const struct json_decimal *d, bool strict)
{
    return beyond(j, d, false, strict);
}

uint32_t json_number_equal(struct json_number *j, const struct json_decimal *d)
{
    uint32_t r = on_side(j, d, EQUAL);

    if (d->n == 0)
        return with_sign(j, r);
    return d->is_negative ? regex_concat(j->s, character(j, '-'), r) : r;
}

/* ---- multiples ---- */

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

uint32_t json_number_multiple(struct json_number *j, const struct json_decimal *d)
{
    int64_t places = (int64_t)d->n > d->point ? (int64_t)d->n - d->point : 0;
    uint64_t divisor = 0, power = 1;
    uint32_t zeros, r;

    for (int64_t i = 0; i < (int64_t)d->n || i < d->point; i++) {
        divisor = 10 * divisor + (i < (int64_t)d->n ? (uint64_t)(d->digit[i] - '0') : 0);
        if (divisor > REGEX_MAX_DIVISOR)
            return REGEX_NOTHING;
    }
    if (places > JSON_NUMBER_FRACTION)
        return REGEX_NOTHING;
    zeros = regex_repeat(j->s, character(j, '0'), 0, (uint32_t)(JSON_NUMBER_PLACES - places));
    /* Numbers with at least as many decimal places as the divisor; further places are zeros. */
    r = places ? regex_concat(j->s, character(j, '.'), digits(j, places, (uint32_t)places)) : REGEX_EMPTY;
    r = regex_and(j->s, with_sign(j, regex_concat(j->s, naturals(j, 1), r)),
                  regex_multiple(j->s, (uint32_t)divisor));
    r = regex_concat(
        j->s, r,
        places ? zeros
               : optional(j, regex_concat(j->s, character(j, '.'),
                                          regex_repeat(j->s, character(j, '0'), 1, JSON_NUMBER_PLACES))));
    /* Numbers with only N decimal places: their divisor has fewer factors of 10. */
    for (int64_t n = places - 1; n >= 0; n--) {
        uint32_t form = n ? regex_concat(j->s, character(j, '.'), digits(j, n, (uint32_t)n)) : REGEX_EMPTY;

        power *= 10;
        form = with_sign(j, regex_concat(j->s, naturals(j, 1), form));
        r = regex_or(j->s, r,
                     regex_and(j->s, form,
                               regex_multiple(j->s, (uint32_t)(divisor / common_divisor(divisor, power)))));
    }
    return r;
}
