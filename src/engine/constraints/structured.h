/* structured.h - reads what an answer must look like from the fields of a JSON request, named as in vLLM and
 * OpenAI's API: response_format, structured_outputs, and the older guided_json, guided_regex, guided_choice,
 * guided_grammar and guided_whitespace_pattern.
 */
#ifndef GALLOP_ENGINE_STRUCTURED_H
#define GALLOP_ENGINE_STRUCTURED_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "gallop.h"

/* True if NAME is one of the fields. */
bool structured_is_field(const char *name);

/* Adds the field NAME with VALUE to S, whose texts are allocated in A. null means not given. ERR_INPUT names
 * the field, what was found and what was expected, also where S has a constraint already; ERR_NOMEM. */
int structured_set_json(struct gallop_structured_outputs *s, const char *name, const json_t *value,
                        struct arena *a, struct err *e);

/* True if S constrains the text of an answer. Tool calls do not count. */
bool structured_is_given(const struct gallop_structured_outputs *s);

#endif
