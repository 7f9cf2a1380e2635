/* print.h - values as text: Python's str() and repr(), and the same writer for JSON (json.h). */
#ifndef GALLOP_TEXT_JINJA_PRINT_H
#define GALLOP_TEXT_JINJA_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "text/jinja/value/text.h"
#include "text/jinja/value/value.h"

/* How values are written: as repr() does, or as JSON. */
struct print_writer {
    struct text *text;
    bool json, ascii, pretty;
    struct value indent; /* the string of one level */
    struct value comma, colon;
    /* Sorts the pairs of dicts (jinja_sort()); NULL: they keep their order. */
    void (*sort)(struct rendering *r, struct value_pair *p, struct value_pair *scratch, size_t n,
                 bool descending);
};

void jinja_write(const struct print_writer *w, struct value v);

void jinja_print(struct text *t, struct value v);      /* str() */
void jinja_print_repr(struct text *t, struct value v); /* repr() */

/* V as a string; a string keeps its mark. */
struct value jinja_to_string(struct rendering *r, struct value v);

/* V as a string that is escaped for HTML, unless it is already. */
struct value jinja_escape(struct rendering *r, struct value v);

/* repr() for messages, cut where it is long. */
const char *jinja_brief(struct rendering *r, struct value v);

/* Fails with the sentence of jinja2's Undefined, which names what is missing. */
struct value jinja_fail_undefined(struct rendering *r, struct value v);

#endif
