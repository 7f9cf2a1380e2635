/* schema_formats.h - `pattern` and `format`: sets of strings that schemas describe by regular expressions. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_FORMATS_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_FORMATS_H

#include "text/grammar/schema/schema_compiler.h"

/* The strings in which the regular expression V, of KEYWORD in the schema AT, is found. False: it is not served,
 * and the keyword is left out. */
bool schema_pattern(struct schema_compiler *c, const json_t *at, const char *keyword, const json_t *v,
                    uint32_t *set);
bool schema_pattern_text(struct schema_compiler *c, const json_t *at, const char *keyword, const char *text,
                         size_t n, uint32_t *set);

/* Strings of the format V, which the schema AT asks for: *SET are some of them, and *BOUND has all of them. False:
 * the format is an annotation. */
bool schema_format(struct schema_compiler *c, const json_t *at, const json_t *v, uint32_t *set,
                   uint32_t *bound);

#endif
