/* pretokprop.h - the names that \p{...} may hold in a tokenizer's pattern, and what PCRE2 calls them. */
#ifndef GALLOP_TEXT_PRETOKPROP_H
#define GALLOP_TEXT_PRETOKPROP_H

#include <stdbool.h>
#include <stddef.h>

/* Writes PCRE2 class contents for the property NAME (case, blanks, '_' and '-' do not count). false:
 * unknown. */
bool pretokprop_find(const char *name, size_t n, char *out, size_t size);

#endif
