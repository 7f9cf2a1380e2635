/* json.h - converts values to JSON, as transformers' tojson does, and JSON to values. */
#ifndef GALLOP_TEXT_JINJA_JSON_H
#define GALLOP_TEXT_JINJA_JSON_H

#include <jansson.h>

#include "text/jinja/value/value.h"

struct builtin_call;

/* Implements the filter tojson. */
struct value jinja_to_json(struct rendering *r, struct value v, const struct builtin_call *g);

/* Returns the value of J. Strings are borrowed, or copied if origins are recorded. */
struct value jinja_load(struct rendering *r, const json_t *j);

#endif
