/* json_names.h - the values of names of properties: decodes the contents of JSON strings byte by byte, and counts the
 * names that a regular expression allows.
 *
 * A name has one value and often several spellings, such as e and an accent as UTF-8 or as \u00e9. A name is
 * canonical if a character that may be written as itself is, a control character with a short escape has this one,
 * and hexadecimal digits are in lower case. The regular expressions of json_text.h match either all spellings of a
 * name or none, so that their canonical names are their values. */
#ifndef GALLOP_TEXT_GRAMMAR_JSON_NAMES_H
#define GALLOP_TEXT_GRAMMAR_JSON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/regex.h"

/* The state of decoding the contents of a string. Zeroed: at the start. */
struct json_names_decoder {
    uint8_t part;   /* 0: between characters; 1: behind a backslash; 2 to 5: behind \u and 0 to 3 digits */
    uint16_t value; /* the number of the digits so far */
    uint16_t high;  /* the high surrogate before this escape; 0: none */
    /* The contents since a point between two characters are not canonical. */
    bool is_odd;
};

/* True if D is between two characters. */
static inline bool json_names_is_whole(const struct json_names_decoder *d)
{
    return d->part == 0 && d->high == 0;
}

/* True if BYTE can follow in the contents of a string, as far as an escape that has begun tells. */
bool json_names_fits(const struct json_names_decoder *d, uint8_t byte);

/* Decodes BYTE. Writes the bytes of the value (UTF-8) that it completes to OUT [4] and returns their number. */
size_t json_names_decode(struct json_names_decoder *d, uint8_t byte, char *out);

/* The most bytes of a name, from a given place on, that the search for names follows. */
enum { JSON_NAMES_LONGEST = 512 };

/* Returns the number of names that CONTENTS, a regular expression of strings without quotes, matches. Returns
 * MOST + 1 if there are more than MOST, or if finding out takes too much work. The work counts as steps of S. */
size_t json_names_count(struct regex_store *s, uint32_t contents, size_t most);

#endif
