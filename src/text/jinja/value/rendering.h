/* rendering.h - one rendering of a template: its memory, its limits and its first error.
 *
 * The first error stays: jinja_fail() records it with the template's line and ignores later ones. Loops end
 * after an error because jinja_step() returns false, and the caller that started the work checks rc once.
 * Whatever a template can make deep, long or large is counted here: depth by jinja_enter(), work by
 * jinja_step(), bytes by jinja_allocate(). Parsing has such a record, too.
 */
#ifndef GALLOP_TEXT_JINJA_RENDERING_H
#define GALLOP_TEXT_JINJA_RENDERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/err.h"
#include "text/jinja/jinja.h"
#include "text/jinja/value/value.h"

enum { RENDERING_TAILS = 4 };

struct rendering {
    struct arena arena;
    struct jinja_limits limit;
    size_t bytes;
    uint64_t steps;
    int depth;
    int rc; /* ERR_OK, or the code of the first error */
    struct err *e;
    const char *name; /* of the template, for messages */
    uint32_t line;    /* of the template, at which the rendering is */
    const struct tm *now;
    const struct jinja *template;
    struct value *outside; /* variables of the context and functions, by the number of their name */
    struct frame *frame;   /* the innermost frame */
    struct text *out;      /* the output, or the text of the current macro, set block or filter block */
    struct value block;    /* the text of a set block or filter block, for its first filter */
    /* Texts that were made by joining and have room behind their end. */
    struct rendering_tail {
        char *end;
        size_t room;
    } tails[RENDERING_TAILS];
    unsigned next_tail;
    struct origin_map *origins; /* NULL: origins are not recorded */
};

/* Records an error and returns None. */
struct value jinja_fail(struct rendering *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Counts 1 + COST steps. False after an error: the caller stops. */
bool jinja_step(struct rendering *r, size_t cost);

/* Enters one more level of nesting. False: nothing was entered, and the caller stops. */
bool jinja_enter(struct rendering *r);
void jinja_leave(struct rendering *r);

/* Counts BYTES that the caller allocates elsewhere. False after an error. */
bool jinja_charge(struct rendering *r, size_t bytes);

/* NULL after an error. */
void *jinja_allocate(struct rendering *r, size_t bytes);

/* The same, zeroed. */
void *jinja_allocate_array(struct rendering *r, size_t n, size_t size);

/* The array V of N elements if it has ROOM for one more, or a larger copy. NULL after an error. */
void *jinja_room(struct rendering *r, void *v, size_t n, size_t *room, size_t size);

#endif
