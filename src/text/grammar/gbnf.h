/* gbnf.h - reads grammars as llama.cpp (GBNF) and xgrammar (EBNF) write them.
 *
 *     # a comment
 *     root ::= "x" ([0-9]{1,3} | other)* "\n"
 *     other ::= root "," | [^a-z]
 *
 * White space and line ends mean nothing: a rule ends where the next name with ::= begins, so that both an |
 * at the end of a line and one at the beginning of the next are read. Rules may refer to each other in any
 * order and recursively, at the left as well. What does not recur becomes regular expressions.
 *
 * Refused by name: tokens (<token>, <[7]>), options of rules, look-ahead and macros but Regex("..."); and \x
 * with more than two digits, which the two programs read differently.
 */
#ifndef GALLOP_TEXT_GRAMMAR_GBNF_H
#define GALLOP_TEXT_GRAMMAR_GBNF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/grammar.h"

enum { GBNF_MOST_BYTES = 1 << 20, GBNF_MOST_RULES = 10000, GBNF_MOST_DEPTH = 250, GBNF_MOST_COUNT = 1000000 };

/* Adds the rules of TEXT[n] to G, and sets *START to the expression of rule "root". ERR_INPUT: TEXT is no
 * grammar; ERR_UNSUPPORTED: it cannot be served; both with line and column, what was found and what was
 * expected. ERR_NOSPACE: a limit is reached. ERR_NOMEM. */
int gbnf_read(struct grammar *g, const char *text, size_t n, uint32_t *start, struct err *e);

#endif
