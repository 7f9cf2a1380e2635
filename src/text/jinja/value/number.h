/* number.h - parses numbers from text, as Python's int() and float() do. */
#ifndef GALLOP_TEXT_JINJA_NUMBER_H
#define GALLOP_TEXT_JINJA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

/* Parses an integer as int(text, base) does, but without white space around it; BASE 0: the prefix gives the
 * base. False: S is not an integer, or (*OVERFLOW) an integer of more than 64 bits. */
bool jinja_parse_integer(const char *s, size_t n, unsigned base, int64_t *out, bool *overflow);

/* Returns the integer S, whose decimal digits exceed 64 bits, without underscores and leading zeros. */
struct value jinja_parse_large(struct rendering *r, struct value s);

/* Parses a float as float(text) does: digits with single underscores between them, "inf" or "nan". strtod()
 * alone would also accept hexadecimal digits. */
bool jinja_parse_float(const char *s, size_t n, double *out);

#endif
