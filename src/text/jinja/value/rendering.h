/* rendering.h - one rendering of a template: its memory, its limits and its first error.
 *
 * jinja_fail() records the first error with the template's line and ignores later errors. Loops end after an error
 * because jinja_step() returns false, and the function that started the work checks rc once. Limits apply to nesting
 * (jinja_enter()), work (jinja_step()) and memory (jinja_allocate()). Parsing uses a struct rendering, too.
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
    size_t bytes;   /* memory allocated so far */
    uint64_t steps; /* steps taken so far */
    int depth;      /* the current level of nesting */
    int rc;         /* ERR_OK, or the code of the first error */
    struct err *e;
    const char *name; /* the template's name, for messages */
    uint32_t line;    /* the current line of the template */
    const struct tm *now;
    const struct jinja *template;
    struct value *outside; /* [name number] the context's variable or the function of that name */
    struct frame *frame;   /* the innermost frame */
    /* Receives the output: the result, or the text of the current macro, set or filter block. */
    struct text *out;
    struct value block; /* the text of a set block or filter block, the input of its first filter */
    /* The latest joined strings with unused memory after their end; see jinja_join(). */
    struct rendering_tail {
        char *end;
        size_t room;
    } tails[RENDERING_TAILS];
    unsigned next_tail;
    struct origin_map *origins; /* NULL: origins are not recorded */
};

/* Records an error, unless there is one already. Returns None. */
struct value jinja_fail(struct rendering *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Counts 1 + COST steps. False: there is an error, so the caller must stop. */
bool jinja_step(struct rendering *r, size_t cost);

/* Enters one more level of nesting. False: an error; the level was not entered, and the caller stops. */
bool jinja_enter(struct rendering *r);
void jinja_leave(struct rendering *r);

/* Counts BYTES, which the caller allocates elsewhere, against the limit. False: there is an error. */
bool jinja_charge(struct rendering *r, size_t bytes);

/* Allocates BYTES in the arena. Returns NULL after an error. */
void *jinja_allocate(struct rendering *r, size_t bytes);

/* Allocates a zeroed array of N elements of SIZE bytes. Returns NULL after an error. */
void *jinja_allocate_array(struct rendering *r, size_t n, size_t size);

/* Returns the array V of N elements, or a larger copy if *ROOM is used up. Returns NULL after an error. */
void *jinja_room(struct rendering *r, void *v, size_t n, size_t *room, size_t size);

#endif
