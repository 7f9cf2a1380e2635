/* parse.h - parses tokens into a tree. */
#ifndef GALLOP_TEXT_JINJA_PARSE_H
#define GALLOP_TEXT_JINJA_PARSE_H

#include <stddef.h>

struct jinja;
struct rendering;

struct lex_token;

/* Parses TOKENS [n] into the body and the names of the template J, which are allocated in R. */
void jinja_parse_tokens(struct rendering *r, struct jinja *j, const struct lex_token *tokens, size_t n);

#endif
