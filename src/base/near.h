/* near.h - finds the name that a mistyped word probably stands for.
 *
 *     struct near n;
 *
 *     near_begin(&n, "tempreature");
 *     near_offer(&n, "temperature", 11);
 *     if (n.name) ... did you mean n.name?
 */
#ifndef GALLOP_BASE_NEAR_H
#define GALLOP_BASE_NEAR_H

#include <stddef.h>

enum { NEAR_MAX_BYTES = 40 }; /* longer words resemble nothing */

struct near {
    const char *word;  /* borrowed */
    size_t len, edits; /* of the best name so far: insertions, deletions, replacements and swaps */
    const char *name;  /* [name_len] the best so far; NULL: no name is close enough. Borrowed */
    size_t name_len;
};

/* WORD is LEN bytes. */
void near_begin(struct near *n, const char *word, size_t len);

/* Considers the LEN bytes of NAME. Of two that are equally close the first one stays. */
void near_offer(struct near *n, const char *name, size_t len);

/* Considers each of the names of "a|b|c". */
void near_offer_list(struct near *n, const char *names);

#endif
