/* jinja_json.h - JSON out (the filter tojson, which is Python's json.dumps) and JSON in (the variables of
 * a rendering). */
#ifndef GALLOP_TEXT_JINJA_JSON_H
#define GALLOP_TEXT_JINJA_JSON_H

#include <jansson.h>

#include "text/jinja_args.h"

/* The filter tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false) of the chat
 * template environment: plain text, nothing escaped for HTML. */
struct jv jinja_json_filter(struct jrun *r, struct jv v, const struct jargs *a);

/* The value of a jansson tree; strings are borrowed from it. */
struct jv jinja_json_load(struct jrun *r, const json_t *j);

/* The value of a JSON text, with integers of any size; strings are borrowed from it. WHERE names it in
 * messages. */
struct jv jinja_json_read(struct jrun *r, const char *text, size_t len, const char *where);

#endif
