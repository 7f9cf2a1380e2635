/* places.h - from which function and which schema the rules of a grammar come, for the messages of limits that an
 * answer reaches.
 */
#ifndef GALLOP_TEXT_GRAMMAR_PLACES_H
#define GALLOP_TEXT_GRAMMAR_PLACES_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* If the texts of all places take more bytes than this, further places of single rules are not kept. */
enum { PLACES_MOST_BYTES = 64 << 10 };

struct places_range;

struct places {
    struct places_range *range; /* [n] */
    size_t n, cap;
    size_t n_bytes;
};

/* Says that the rules from FIRST up to END, without END, come from the schema at the JSON pointer POINTER, of the
 * function FUNCTION (NULL: of none). Of ranges that overlap, the later one counts. ERR_NOMEM. */
int places_add(struct places *p, uint32_t first, uint32_t end, const char *function, const char *pointer,
               struct err *e);

/* Returns the place of RULE as the beginning of a message: `function "f": schema at /a/b`. NULL: it is not known. */
const char *places_of(const struct places *p, uint32_t rule);

/* Returns the place of all rules, if they come from one schema; else NULL. */
const char *places_only(const struct places *p);

void places_close(struct places *p); /* P may be zeroed */

#endif
