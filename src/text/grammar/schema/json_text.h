/* json_text.h - the parts of JSON texts as regular expressions: white space between tokens, and the characters of
 * strings in their spellings.
 *
 * A character has one spelling or several: itself as UTF-8, a short escape, and \u with four digits (twice, for
 * characters beyond U+FFFF). ASCII letters, digits and most of the punctuation have only the first one: writers
 * of JSON do not escape them, and a key whose bytes are certain can be guessed as a whole.
 */
#ifndef GALLOP_TEXT_GRAMMAR_JSON_TEXT_H
#define GALLOP_TEXT_GRAMMAR_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/regex.h"

enum { JSON_TEXT_BLANKS = 40 };

struct json_text {
    struct regex_store *s;
    uint32_t character; /* one character of a string */
    uint32_t string;    /* the contents of all strings */
    uint32_t space;     /* what may stand between tokens */
};

/* The store S is borrowed, and its faults count. WITHOUT_SPACE: nothing stands between tokens. */
void json_text_init(struct json_text *j, struct regex_store *s, bool without_space);

/* One character in [low, high], without surrogates, in every spelling. */
uint32_t json_text_characters(struct regex_store *s, uint32_t low, uint32_t high);

/* The string TEXT [n], which is UTF-8, without quotes, in every spelling. */
uint32_t json_text_literal(struct json_text *j, const char *text, size_t n);

struct json_string {
    const char *text; /* [n] */
    size_t n;
};

/* One of the strings LIST [n], which is sorted by it, without quotes, in every spelling. */
uint32_t json_text_one_of(struct json_text *j, struct json_string *list, size_t n);

/* The string whose contents are CONTENTS, with quotes. */
uint32_t json_text_quoted(struct json_text *j, uint32_t contents);

#endif
