/* lex.h - splits a template into tokens. */
#ifndef GALLOP_TEXT_JINJA_LEX_H
#define GALLOP_TEXT_JINJA_LEX_H

#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

/* clang-format off */
/* The kinds of tokens. The kind of a token of one character is that character. */
enum {
    LEX_END_OF_TEMPLATE = 256, LEX_DATA, LEX_PRINT_BEGIN, LEX_PRINT_END, LEX_TAG_BEGIN, LEX_TAG_END,
    LEX_NAME, LEX_STRING, LEX_INTEGER, LEX_FLOAT, LEX_FLOOR_DIVIDE, LEX_POWER, LEX_EQUAL, LEX_UNEQUAL,
    LEX_GREATER_EQUAL, LEX_LESS_EQUAL
};
/* clang-format on */

struct lex_token {
    int kind;
    uint32_t line;
    struct value value; /* the text of DATA, the name, or the value of a literal */
};

/* Returns the tokens of a template, in the arena of R; *N is 0 after an error. */
struct lex_token *jinja_lex(struct rendering *r, const char *src, size_t len, size_t *n);

/* Returns the name of T's kind for messages. */
const char *jinja_token_name(const struct lex_token *t);

#endif
