/* json.h - values to JSON, as transformers' tojson writes it, and values from JSON. */
#ifndef GALLOP_TEXT_JINJA_JSON_H
#define GALLOP_TEXT_JINJA_JSON_H

#include <jansson.h>

#include "text/jinja/builtin.h"
#include "text/jinja/value/value.h"

/* The filter tojson. */
struct value jinja_to_json(struct rendering *r, struct value v, const struct builtin_call *g);

/* The value of J. Its strings are borrowed, or copied where their origin is recorded. */
struct value jinja_load(struct rendering *r, const json_t *j);

#endif
