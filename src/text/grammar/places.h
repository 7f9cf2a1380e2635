/* places.h - maps the rules of a grammar to the function and schema that they come from, for messages about limits. */
#ifndef GALLOP_TEXT_GRAMMAR_PLACES_H
#define GALLOP_TEXT_GRAMMAR_PLACES_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* Maximum bytes of the texts of all places. Beyond it, places of single rules are not stored. */
enum { PLACES_MOST_BYTES = 64 << 10 };

struct places_range;

struct places {
    struct places_range *range; /* [n] */
    size_t n, cap;
    size_t n_bytes;
};

/* Records that the rules [FIRST, END) come from the schema at the JSON pointer POINTER, of the function FUNCTION (NULL:
 * no function). Where ranges overlap, the range that was added last counts. ERR_NOMEM. */
int places_add(struct places *p, uint32_t first, uint32_t end, const char *function, const char *pointer,
               struct err *e);

/* Returns the place of RULE as the beginning of a message: `function "f": schema at /a/b`. NULL: it is not known. */
const char *places_of(const struct places *p, uint32_t rule);

/* Returns the place of all rules, if they come from one schema; else NULL. */
const char *places_only(const struct places *p);

void places_close(struct places *p); /* P may be zeroed */

#endif
