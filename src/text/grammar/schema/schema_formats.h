/* schema_formats.h - the keywords `pattern` and `format`: sets of strings as regular expressions. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_FORMATS_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_FORMATS_H

#include "text/grammar/schema/schema_compiler.h"

/* Sets *SET to the strings that contain a match of the regular expression V, the value of KEYWORD in the
 * schema AT. False: V is not supported, and the keyword is ignored or there is an error. */
bool schema_pattern(struct schema_compiler *c, const json_t *at, const char *keyword, const json_t *v,
                    uint32_t *set);
bool schema_pattern_text(struct schema_compiler *c, const json_t *at, const char *keyword, const char *text,
                         size_t n, uint32_t *set);

/* Sets *SET to strings of the format V in the schema AT (possibly not all), and *BOUND to a superset of all strings of
 * the format. False: the format is only an annotation. */
bool schema_format(struct schema_compiler *c, const json_t *at, const json_t *v, uint32_t *set,
                   uint32_t *bound);

#endif
