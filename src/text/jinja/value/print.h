/* print.h - writes values as text: Python's str() and repr(), and JSON for json.h. */
#ifndef GALLOP_TEXT_JINJA_PRINT_H
#define GALLOP_TEXT_JINJA_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "text/jinja/value/value.h"

struct text;

/* The format of a written value: repr(), or JSON. */
struct print_writer {
    struct text *text;
    bool json, ascii, pretty;  /* ASCII: escape other characters; PRETTY: one element per line */
    struct value indent;       /* the indentation of one level */
    struct value comma, colon; /* separators, such as ", " and ": " */
    /* Sorts the pairs of a dict, as jinja_sort() does; NULL: pairs keep their order. */
    void (*sort)(struct rendering *r, struct value_pair *p, struct value_pair *scratch, size_t n,
                 bool descending);
};

void jinja_write(const struct print_writer *w, struct value v);

void jinja_print(struct text *t, struct value v);      /* writes V as Python's str() does */
void jinja_print_repr(struct text *t, struct value v); /* writes V as Python's repr() does */

/* Returns V as a string. A string keeps its mark. */
struct value jinja_to_string(struct rendering *r, struct value v);

/* Returns V as a string that is escaped for HTML; an escaped string does not change. */
struct value jinja_escape(struct rendering *r, struct value v);

/* Returns repr(V) for messages, cut to 200 bytes. */
const char *jinja_brief(struct rendering *r, struct value v);

/* Fails with the message of Jinja's Undefined, which names the missing variable, attribute or element. */
struct value jinja_fail_undefined(struct rendering *r, struct value v);

#endif
