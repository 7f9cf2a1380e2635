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

enum { NEAR_MAX_BYTES = 40 }; /* longer words match nothing */

struct near {
    const char *word;  /* borrowed */
    size_t len, edits; /* edits of the best name so far: insertions, deletions, replacements and swaps */
    /* [name_len] The best name so far, borrowed. NULL: no name is close enough. */
    const char *name;
    size_t name_len;
};

/* Begins a search for WORD, which has LEN bytes. */
void near_begin(struct near *n, const char *word, size_t len);

/* Considers NAME, which has LEN bytes. Of equally close names the first one stays. */
void near_offer(struct near *n, const char *name, size_t len);

/* Considers each of the names of "a|b|c". */
void near_offer_list(struct near *n, const char *names);

#endif
