/* near.h - finds the name that is most similar to a mistyped word.
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

enum { NEAR_MAX_BYTES = 40 }; /* longer words match no name */

struct near {
    const char *word;  /* borrowed */
    size_t len, edits; /* edits: distance of NAME in insertions, deletions, replacements and swaps */
    /* [name_len] The most similar name so far, borrowed. NULL: no name is similar enough. */
    const char *name;
    size_t name_len;
};

/* Begins a search for names similar to WORD [len]. */
void near_begin(struct near *n, const char *word, size_t len);

/* Compares NAME [len]. Of equally similar names the first one is kept. */
void near_offer(struct near *n, const char *name, size_t len);

/* Compares each name of a list "a|b|c". */
void near_offer_list(struct near *n, const char *names);

#endif
