/* origin.h - where the bytes of strings come from: the template or the context.
 *
 * Each byte of a chunk has a second byte, which is not 0 if the first came from the context. It is copied
 * whenever the first is. Strings outside the chunks are the template's.
 */
#ifndef GALLOP_TEXT_JINJA_ORIGIN_H
#define GALLOP_TEXT_JINJA_ORIGIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "text/jinja/value/value.h"

enum { ORIGIN_CHUNKS = 32 };

struct origin_map {
    /* A chunk is at least twice as large as the previous one. */
    struct origin_chunk {
        char *bytes, *origin;
        size_t room, used;
    } chunk[ORIGIN_CHUNKS];
    size_t n;
    const json_t *own; /* variables that count as the template's while the context has equal ones */
    bool trusted;      /* the value that is being loaded counts as the template's */
};

/* Room for N bytes of a string. NULL after an error. */
char *jinja_allocate_text(struct rendering *r, size_t n);

/* Copies N bytes of a string with their origin; OTHERWISE is the origin of bytes outside the chunks. */
void jinja_copy(struct rendering *r, char *to, const char *from, size_t n, char otherwise);

/* The origin of the byte AT. */
char jinja_origin(const struct rendering *r, const char *at);

/* The string S, marked as the context's. */
struct value jinja_from_context(struct rendering *r, struct value s);
void jinja_origins_fini(struct origin_map *o);

#endif
