/* parse.h - parses tokens into a tree. */
#ifndef GALLOP_TEXT_JINJA_PARSE_H
#define GALLOP_TEXT_JINJA_PARSE_H

#include <stddef.h>

#include "text/jinja/lex.h"
#include "text/jinja/tree.h"

/* Sets the body and the names of J, in memory of R. */
void jinja_parse_tokens(struct rendering *r, struct jinja *j, const struct lex_token *tokens, size_t n);

#endif
