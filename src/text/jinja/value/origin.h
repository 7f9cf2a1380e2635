/* origin.h - records for each byte of a string whether it comes from the template or from the context.
 *
 * Strings of a marked rendering lie in chunks. Each byte of a chunk has an origin byte: 0 template, 1
 * context, which is copied whenever the byte is copied. Strings outside the chunks come from the template.
 */
#ifndef GALLOP_TEXT_JINJA_ORIGIN_H
#define GALLOP_TEXT_JINJA_ORIGIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "text/jinja/value/value.h"

enum { ORIGIN_CHUNKS = 32 }; /* maximum number of chunks of a rendering */

struct origin_map {
    /* A chunk is at least twice as large as the previous one. */
    struct origin_chunk {
        char *bytes, *origin;
        size_t room, used;
    } chunk[ORIGIN_CHUNKS];
    size_t n;
    /* values by the names of variables: a variable of the context that equals its value here counts as text of the
     * template; may be NULL */
    const json_t *own;
    bool trusted; /* the value that is being loaded counts as text of the template */
};

/* Allocates N bytes of a string. Returns NULL after an error. */
char *jinja_allocate_text(struct rendering *r, size_t n);

/* Copies N bytes of a string and their origins. OTHERWISE is the origin of bytes outside the chunks. */
void jinja_copy(struct rendering *r, char *to, const char *from, size_t n, char otherwise);

/* Returns the origin of the byte AT. */
char jinja_origin(const struct rendering *r, const char *at);

/* Returns a copy of the string S with the origin "context", or S itself if origins are not recorded. */
struct value jinja_from_context(struct rendering *r, struct value s);
void jinja_origins_fini(struct origin_map *o);

#endif
