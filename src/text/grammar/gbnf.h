/* gbnf.h - reads grammars in the notations of llama.cpp (GBNF) and xgrammar (EBNF).
 *
 * # a comment
 * root ::= "x" ([0-9]{1,3} | other)* "
 * "
 * other ::= root "," | [^a-z]
 *
 * White space and line ends have no meaning: a rule ends where the next name with ::= begins, so an | may end
 * a line or begin the next one. Rules may refer to each other in any order and recursively, also
 * left-recursively. Rules that do not recur become regular expressions.
 *
 * An error names each construct that is not supported: tokens (<token>, <[7]>), options of rules, look-ahead,
 * macros other than Regex("..."), and \x with more than two digits, which the two programs read differently.
 */
#ifndef GALLOP_TEXT_GRAMMAR_GBNF_H
#define GALLOP_TEXT_GRAMMAR_GBNF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/grammar.h"

enum { GBNF_MOST_BYTES = 1 << 20, GBNF_MOST_RULES = 10000, GBNF_MOST_DEPTH = 250, GBNF_MOST_COUNT = 1000000 };

/* Adds the rules of TEXT[n] to G, and sets *START to the expression of the rule "root". ERR_INPUT: TEXT is
 * malformed. ERR_UNSUPPORTED: TEXT uses an unsupported construct. Both messages have line and column, what
 * was found and what was expected. ERR_NOSPACE: a limit is reached. */
int gbnf_read(struct grammar *g, const char *text, size_t n, uint32_t *start, struct err *e);

#endif
