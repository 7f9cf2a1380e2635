/* characters.h - finds the characters of strings, and classifies them as Python does.
 *
 * Sizes and offsets are in bytes, counts and indices in characters.
 */
#ifndef GALLOP_TEXT_JINJA_CHARACTERS_H
#define GALLOP_TEXT_JINJA_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

/* Returns the code point of the character at S. */
uint32_t jinja_character(const char *s);

/* Returns the size of the character at S. */
size_t jinja_width(const char *s);

/* Returns the size of the last character of s[0, n). */
size_t jinja_width_before(const char *s, size_t n);

/* Returns the offset of the character INDEX, or the size of S if S has fewer characters. */
size_t jinja_offset(struct value s, size_t index);

/* Returns the offset of the first occurrence of WHAT[k] in S[n], or SIZE_MAX. */
size_t jinja_find(const char *s, size_t n, const char *what, size_t k);

/* Returns the cost in steps of a search for K bytes in N bytes. memmem() compares up to 256 bytes at each
 * offset; for longer strings its time is linear. */
size_t jinja_search_cost(size_t n, size_t k);

/* Returns the bytes FROM to TO of S; the result shares its memory with S. */
struct value jinja_part(struct value s, size_t from, size_t to);

bool jinja_is_space(uint32_t c);
bool jinja_is_printable(uint32_t c);

/* True if C may be a part of a name. */
bool jinja_is_name(uint32_t c);
bool jinja_is_lower(uint32_t c);
bool jinja_is_upper(uint32_t c);

/* True if S has letters with case, and all of them are upper case (UPPER) or lower case. */
bool jinja_has_case(struct value s, bool upper);

#endif
