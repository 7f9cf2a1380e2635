/* number.h - numbers that are read from text, as Python's int() and float() read them. */
#ifndef GALLOP_TEXT_JINJA_NUMBER_H
#define GALLOP_TEXT_JINJA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

/* Reads what int(text, base) reads from a text without white space around it; base 0: the prefix says which.
 * False: the text is no integer, or one of more than 64 bits, which *overflow tells apart. */
bool jinja_parse_integer(const char *s, size_t n, unsigned base, int64_t *out, bool *overflow);

/* The integer S, whose decimal digits do not fit 64 bits, without underscores and leading zeros. */
struct value jinja_parse_large(struct rendering *r, struct value s);

/* Reads what float(text) reads: digits with single underscores between them, or a word. strtod() alone would
 * also take hexadecimal digits. */
bool jinja_parse_float(const char *s, size_t n, double *out);

#endif
