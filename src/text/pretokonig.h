/* pretokonig.h - rewrites a pattern of the Oniguruma dialect (what a tokenizer.json holds) into one for
 * PCRE2. */
#ifndef GALLOP_TEXT_PRETOKONIG_H
#define GALLOP_TEXT_PRETOKONIG_H

#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"

/* The single characters that \s and \w mean there, as PCRE2 class contents without the brackets. */
#define PRETOKONIG_SPACE \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define PRETOKONIG_WORD "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"

/* Appends the PCRE2 form of PATTERN (good UTF-8) to OUT. ERR_UNSUPPORTED names the construct that is not
 * understood, ERR_INPUT a pattern that is no pattern. */
int pretokonig_translate(const char *pattern, size_t n, struct buf *out, struct err *e);

#endif
