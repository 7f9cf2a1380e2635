/* json_text.h - regular expressions for parts of JSON texts: white space between tokens, and the characters
 * of strings in all their spellings.
 *
 * A character has up to three kinds of spelling: UTF-8, a short escape, and \u with four digits (twice for
 * characters beyond U+FFFF). ASCII letters, digits and most punctuation are only spelled as themselves,
 * because writers of JSON do not escape them. So the bytes of a key are known in advance.
 */
#ifndef GALLOP_TEXT_GRAMMAR_JSON_TEXT_H
#define GALLOP_TEXT_GRAMMAR_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/regex.h"

enum { JSON_TEXT_BLANKS = 40 }; /* maximum number of spaces and tabs between two tokens */

struct json_text {
    struct regex_store *s;
    uint32_t character; /* one character of a string */
    uint32_t string;    /* the contents of any string */
    uint32_t space;     /* the white space between tokens */
};

/* Initializes J. The store S is borrowed. WITHOUT_SPACE: there is no white space between tokens. */
void json_text_init(struct json_text *j, struct regex_store *s, bool without_space);

/* Matches one character in [low, high], without surrogates, in every spelling. */
uint32_t json_text_characters(struct regex_store *s, uint32_t low, uint32_t high);

/* The spellings of a string. JSON_PLAIN_SPELLING is a single one: characters are written as themselves if
 * they may be, control characters have their short escape if there is one, and hexadecimal digits are in
 * lower case. */
enum json_spelling { JSON_EVERY_SPELLING, JSON_PLAIN_SPELLING };

/* Matches the string TEXT [n] (UTF-8), without quotes, in SPELLING. */
uint32_t json_text_literal(struct json_text *j, const char *text, size_t n, enum json_spelling spelling);

struct json_string {
    const char *text; /* [n] */
    size_t n;
};

/* Matches one of the strings LIST [n], without quotes, in SPELLING. Sorts LIST. */
uint32_t json_text_one_of(struct json_text *j, struct json_string *list, size_t n,
                          enum json_spelling spelling);

/* Matches CONTENTS between double quotes. */
uint32_t json_text_quoted(struct json_text *j, uint32_t contents);

#endif
