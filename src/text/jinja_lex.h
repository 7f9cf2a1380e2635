/* jinja_lex.h - template text to tokens: data between tags, and names, literals and operators within them.
 *
 * Environment as chat templates have it: {{ }}, {% %}, {# #}; trim_blocks (a line break behind a block tag
 * goes), lstrip_blocks (blanks before a block tag on its line go), - and + at the tags, {% raw %}; line ends
 * become \n and one trailing line break of the template goes.
 */
#ifndef GALLOP_TEXT_JINJA_LEX_H
#define GALLOP_TEXT_JINJA_LEX_H

#include "text/jinja_val.h"

enum jtok_type {
    JT_EOF,
    JT_DATA,
    JT_VAR_BEGIN,
    JT_VAR_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_INTEGER,
    JT_FLOAT,
    JT_ADD,
    JT_SUB,
    JT_MUL,
    JT_DIV,
    JT_FLOORDIV,
    JT_MOD,
    JT_POW,
    JT_TILDE,
    JT_LBRACKET,
    JT_RBRACKET,
    JT_LPAREN,
    JT_RPAREN,
    JT_LBRACE,
    JT_RBRACE,
    JT_EQ,
    JT_NE,
    JT_GT,
    JT_GE,
    JT_LT,
    JT_LE,
    JT_ASSIGN,
    JT_DOT,
    JT_COLON,
    JT_PIPE,
    JT_COMMA,
    JT_SEMICOLON,
};

struct jtok {
    enum jtok_type type;
    uint32_t line;
    struct jv value; /* of data, names and literals */
};

struct jtoks {
    struct jtok *v; /* the last one is JT_EOF */
    size_t n;
};

/* Tokens of the well-formed UTF-8 SRC, in R's arena; an error in R when the text is no template. */
void jinja_lex_run(struct jrun *r, const char *src, size_t len, struct jtoks *out);

/* How messages call a token of this type. */
const char *jinja_lex_name(enum jtok_type t);

#endif
