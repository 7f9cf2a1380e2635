/* structured.h - reads the constraint on an answer from the fields of a JSON request, which are named as in vLLM and
 * OpenAI's API: response_format, structured_outputs, and the deprecated guided_json, guided_regex, guided_choice,
 * guided_grammar and guided_whitespace_pattern. */
#ifndef GALLOP_ENGINE_STRUCTURED_H
#define GALLOP_ENGINE_STRUCTURED_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

struct gallop_structured_outputs;

/* Returns true if NAME is the name of one of these fields. */
bool structured_is_field(const char *name);

/* Sets the members of S that correspond to the field NAME with VALUE; texts are allocated in A. A VALUE of
 * null is ignored. ERR_INPUT: the value is invalid, or S has a constraint already. ERR_NOMEM. */
int structured_set_json(struct gallop_structured_outputs *s, const char *name, const json_t *value,
                        struct arena *a, struct err *e);

/* Returns true if S constrains the text of an answer. Constraints on tool calls do not count. */
bool structured_is_given(const struct gallop_structured_outputs *s);

#endif
