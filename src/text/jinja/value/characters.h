/* characters.h - the characters of strings: their positions, and their classes as Python has them.
 *
 * Sizes and offsets are in bytes, counts and indices in characters.
 */
#ifndef GALLOP_TEXT_JINJA_CHARACTERS_H
#define GALLOP_TEXT_JINJA_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

/* The character at S. */
uint32_t jinja_character(const char *s);

/* The bytes of the character at S. */
size_t jinja_width(const char *s);

/* The bytes of the last character of s[0, n). */
size_t jinja_width_before(const char *s, size_t n);
size_t jinja_count(const char *s, size_t n);

/* The offset of character INDEX, or the size of S where it has fewer. */
size_t jinja_offset(struct value s, size_t index);

/* The offset of WHAT[k] in S[n], or SIZE_MAX. */
size_t jinja_find(const char *s, size_t n, const char *what, size_t k);

/* The steps of a search for K bytes in N: memmem() compares up to 256 bytes at each offset, and is linear
 * for more. */
size_t jinja_search_cost(size_t n, size_t k);

/* The bytes from FROM to TO of S, which are shared with S. */
struct value jinja_part(struct value s, size_t from, size_t to);

bool jinja_is_space(uint32_t c);
bool jinja_is_printable(uint32_t c);

/* True if a name may contain C. */
bool jinja_is_name(uint32_t c);
bool jinja_is_lower(uint32_t c);
bool jinja_is_upper(uint32_t c);

/* True if S has letters that have case, and all of them are UPPER case, or else lower case. */
bool jinja_has_case(struct value s, bool upper);

#endif
