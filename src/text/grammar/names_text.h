/* names_text.h - the text of an answer, and where the names of the objects in it are.
 *
 * Each name that must be distinct is recorded with the one before it in its object. The record of a new name is found
 * in the text: an item of the recognizer inside a name says that the text before it is the beginning of an object, so
 * that brackets and quotes alone lead to the name before it, whatever precedes the object.
 *
 * Strings that are distinct elements of an array (uniqueItems) are names in this sense, too.
 */
#ifndef GALLOP_TEXT_GRAMMAR_NAMES_TEXT_H
#define GALLOP_TEXT_GRAMMAR_NAMES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/schema/json_names.h"

/* A name: text[at, end), as it is spelled, without quotes. */
struct names_entry {
    uint32_t at, end;
    uint32_t older; /* 1 + index of the name before it in its object; 0: none */
    bool has_escape;
};

struct names_text {
    char *text; /* [cap] owned, unless CAP is 0 */
    size_t n, cap;
    struct names_entry *entry; /* [n_entries] in the order of the text */
    size_t n_entries, cap_entries;
    /* The last name before the one that begins at text[open]; 0: not known. As in names_entry. */
    uint32_t open, open_older;
    uint32_t *live; /* [cap_live] scratch of searches: 1 + indices of entries */
    size_t cap_live;
};

void names_text_close(struct names_text *t); /* T may be zeroed */

/* Makes room for N bytes of text behind t->n. False: out of memory. */
bool names_text_reserve(struct names_text *t, size_t n);

/* Returns the bytes that T has allocated. */
static inline size_t names_text_bytes(const struct names_text *t)
{
    return t->cap + t->cap_entries * sizeof(*t->entry) + t->cap_live * sizeof(*t->live);
}

/* Forgets the names that do not end in the first N bytes of the text, and sets t->n to N. */
void names_text_cut(struct names_text *t, size_t n);

/* True if an odd number of backslashes precedes byte AT. */
bool names_text_is_escaped(const struct names_text *t, size_t at);

/* Returns the offset behind the quote that begins the string to which byte END - 1 belongs. */
size_t names_text_begin(const struct names_text *t, size_t end);

/* Returns 1 + index of the last recorded name of the object of the name that begins at AT; 0: there is none. Adds to
 * *N_READ the number of bytes that were read. */
uint32_t names_text_before(struct names_text *t, size_t at, size_t *n_read);

/* Records the name text[at, end), which OLDER precedes. False: out of memory. */
bool names_text_add(struct names_text *t, size_t at, size_t end, uint32_t older);

/* ---- values of names ---- */

/* A position in the value of a name, which is decoded from its spelling. */
struct names_value {
    size_t at, end; /* the bytes of the text that are left */
    struct json_names_decoder decoder;
    char byte[4]; /* [n] decoded bytes, of which the first I are already returned */
    uint8_t n, i;
};

/* Returns the next byte of the value; -1: the text ends before there is one. */
int names_value_next(const struct names_text *t, struct names_value *v);

/* If the value of E begins with the value of text[at, end), sets *REST to the rest of it, and returns true. */
bool names_value_begins(const struct names_text *t, const struct names_entry *e, size_t at, size_t end,
                        struct names_value *rest);

/* True if the value of E or of an earlier name of its object is that of text[at, end). E is 1 + index of an entry; 0:
 * there is none. Adds the number of names that were compared to *N. */
bool names_value_occurs(const struct names_text *t, uint32_t e, size_t at, size_t end, size_t *n);

#endif
