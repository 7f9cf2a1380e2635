/* text.h - strings under construction. */
#ifndef GALLOP_TEXT_JINJA_TEXT_H
#define GALLOP_TEXT_JINJA_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

struct text {
    struct rendering *r;
    char *bytes;
    size_t size, room;
    size_t most; /* the largest size; 0: only the memory limit of the rendering counts */
    char origin; /* the origin of bytes that are not copied from a string (origin.h) */
};

void jinja_put(struct text *t, const char *bytes, size_t n);
void jinja_put_literal(struct text *t, const char *s);
void jinja_put_byte(struct text *t, char c);
void jinja_put_character(struct text *t, uint32_t c);
void jinja_put_format(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void jinja_put_times(struct text *t, struct value s, size_t times);

/* The finished string. */
struct value jinja_finish(struct text *t);

/* The finished text for a message, terminated; never NULL. */
const char *jinja_finish_terminated(struct text *t);

/* A followed by B, as a plain string. */
struct value jinja_join(struct rendering *r, struct value a, struct value b);

#endif
