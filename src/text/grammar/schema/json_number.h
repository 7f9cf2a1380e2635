/* json_number.h - regular expressions for sets of numbers, compared by value.
 *
 * A number has two kinds of spelling. Without an exponent, as in -12.50: at most JSON_NUMBER_PLACES digits after the
 * point, so that a model cannot write zeros for ever. With an exponent, as in -1.25e+1: one digit other than 0 before
 * the point, at most JSON_NUMBER_FRACTION digits after it, of which the last is not 0, and an exponent of at most
 * JSON_NUMBER_EXPONENT. A set contains both kinds for each of its numbers, so complements within `all` are exact. Sets
 * of multiples contain no exponents: if they are used, has_exponents must be false.
 */
#ifndef GALLOP_TEXT_GRAMMAR_JSON_NUMBER_H
#define GALLOP_TEXT_GRAMMAR_JSON_NUMBER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "text/grammar/automata/regex.h"

enum {
    JSON_NUMBER_PLACES = 32,
    JSON_NUMBER_FRACTION = 17,
    JSON_NUMBER_EXPONENT = 307,
    JSON_NUMBER_MOST_POINT = 400
};

struct json_number {
    struct regex_store *s;
    bool has_exponents;
    uint32_t all, integer;  /* all numbers; all numbers with an integer value */
    uint32_t numeral;       /* integers without a point and an exponent */
    uint32_t digit, digits; /* one digit; any number of digits */
};

/* The number 0.DIGITS x 10^POINT. DIGITS neither begin nor end with 0. The number zero has no digits. */
struct json_decimal {
    bool is_negative;
    const char *digit; /* [n] */
    size_t n;
    int64_t point;
};

void json_number_init(struct json_number *j, struct regex_store *s, bool has_exponents);

/* Reads the JSON number V. The digits are allocated in A. False: V is not a number, or memory ran out. */
bool json_decimal_read(struct json_decimal *d, const json_t *v, struct arena *a);

bool json_decimal_is_equal(const struct json_decimal *a, const struct json_decimal *b);

/* Match the numbers >= D (STRICT: > D), <= D (STRICT: < D), and equal to D. D->point is at most
 * JSON_NUMBER_MOST_POINT in absolute value. */
uint32_t json_number_at_least(struct json_number *j, const struct json_decimal *d, bool strict);
uint32_t json_number_at_most(struct json_number *j, const struct json_decimal *d, bool strict);
uint32_t json_number_equal(struct json_number *j, const struct json_decimal *d);

/* Matches the multiples of D, which is positive. Returns REGEX_NOTHING if D has too many digits. */
uint32_t json_number_multiple(struct json_number *j, const struct json_decimal *d);

#endif
