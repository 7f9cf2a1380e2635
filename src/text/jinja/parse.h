/* parse.h - tokens to a parsed template. */
#ifndef GALLOP_TEXT_JINJA_PARSE_H
#define GALLOP_TEXT_JINJA_PARSE_H

#include <stddef.h>

#include "text/jinja/lex.h"
#include "text/jinja/tree.h"

/* Fills the body and the names of J, with memory of R. */
void jinja_parse_tokens(struct rendering *r, struct jinja *j, const struct lex_token *tokens, size_t n);

#endif
