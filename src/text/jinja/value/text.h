/* text.h - builds strings. */
#ifndef GALLOP_TEXT_JINJA_TEXT_H
#define GALLOP_TEXT_JINJA_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

struct text {
    struct rendering *r;
    char *bytes;
    size_t size, room;
    size_t most; /* the largest size in bytes; 0: only the memory limit of the rendering applies */
    char origin; /* the origin of bytes that do not come from a string in a chunk (origin.h) */
};

void jinja_put(struct text *t, const char *bytes, size_t n);
void jinja_put_literal(struct text *t, const char *s);
void jinja_put_byte(struct text *t, char c);
void jinja_put_character(struct text *t, uint32_t c);
void jinja_put_format(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void jinja_put_times(struct text *t, struct value s, size_t times);

/* Returns the finished string. */
struct value jinja_finish(struct text *t);

/* Returns the finished text with a NUL at the end, for messages; never NULL. */
const char *jinja_finish_terminated(struct text *t);

/* Returns A followed by B, as a plain string. */
struct value jinja_join(struct rendering *r, struct value a, struct value b);

#endif
