/* json_number.h - sets of numbers as regular expressions over their texts, compared by value.
 *
 * Numbers are written as -12.50, with at most JSON_NUMBER_PLACES digits behind the point, so that a model cannot
 * write zeros for ever; or with one digit other than 0 before the point, at most JSON_NUMBER_FRACTION digits behind
 * it, the last of which is not 0, and an exponent of at most JSON_NUMBER_EXPONENT, as -1.25e+1. Every set has all
 * these spellings of its numbers, so that complements within `all` are exact. Multiples have no second form:
 * has_exponents must be false where they are used.
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
    uint32_t all, integer;
    uint32_t numeral;       /* integers without a point and an exponent */
    uint32_t digit, digits; /* one, and any number of them */
};

/* The decimal number 0.DIGITS x 10^POINT, without zeros at the ends of DIGITS; zero has no digits. */
struct json_decimal {
    bool is_negative;
    const char *digit; /* [n] */
    size_t n;
    int64_t point;
};

void json_number_init(struct json_number *j, struct regex_store *s, bool has_exponents);

/* Reads the number V of a tree. Digits are stored in A. False: V is no number, or out of memory. */
bool json_decimal_read(struct json_decimal *d, const json_t *v, struct arena *a);

bool json_decimal_is_equal(const struct json_decimal *a, const struct json_decimal *b);

/* The numbers >= D (STRICT: > D), <= D, = D. D->point is within JSON_NUMBER_MOST_POINT. */
uint32_t json_number_at_least(struct json_number *j, const struct json_decimal *d, bool strict);
uint32_t json_number_at_most(struct json_number *j, const struct json_decimal *d, bool strict);
uint32_t json_number_equal(struct json_number *j, const struct json_decimal *d);

/* The multiples of D, which is positive. REGEX_NOTHING: D has too many digits. */
uint32_t json_number_multiple(struct json_number *j, const struct json_decimal *d);

#endif
