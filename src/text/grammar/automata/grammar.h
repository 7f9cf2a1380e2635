/* grammar.h - a grammar whose rules are expressions over regular expressions and rules.
 *
 * An expression is a number, as those of regex.h are, and equal expressions have equal numbers. A position in
 * a rule is an expression, too: what is still to come. Its heads say what can come next.
 *
 * Made in three steps: grammar_open(); expressions and rules in any order; grammar_finish(), after which only
 * the functions of the last section may be called. Limits and faults are those of the store of regular
 * expressions. Not thread-safe.
 */
#ifndef GALLOP_TEXT_GRAMMAR_GRAMMAR_H
#define GALLOP_TEXT_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/regex.h"
#include "text/grammar/automata/tuples.h"

/* Expressions that every grammar has. */
enum {
    GRAMMAR_END,   /* the empty text */
    GRAMMAR_NEVER, /* no text */
};

#define GRAMMAR_NO_LIMIT UINT32_MAX

enum grammar_symbol { GRAMMAR_TERM, GRAMMAR_RULE };

/* One way to go on from a position: with a text of a regular expression or of a rule, and then REST. */
struct grammar_head {
    uint32_t symbol; /* enum grammar_symbol */
    uint32_t number; /* of the regular expression or rule */
    uint32_t rest;   /* the position after it */
};

struct grammar_node;
struct grammar_rule;

struct grammar {
    struct regex_store regex;
    struct grammar_node *node; /* [n] */
    size_t n, cap;
    uint32_t *list; /* [n_list] members of alternatives */
    size_t n_list, cap_list;
    uint32_t *slot; /* [n_slots] hash table of nodes: 1 + a number, or 0 */
    size_t n_slots;
    struct grammar_rule *rule; /* [n_rules] */
    size_t n_rules, cap_rules;
    struct grammar_head *head; /* [n_heads] of the positions that were asked for */
    size_t n_heads, cap_heads;
    uint32_t *spine; /* [n_spine] the parts of a sequence that is being made, as a stack */
    size_t n_spine, cap_spine;
    struct tuples work; /* what is to be split into heads: expression, and what follows it */
    uint32_t start;     /* rule */
};

/* Limits as those of regex_open(); MAX_BYTES holds for all of the grammar. ERR_NOMEM. */
int grammar_open(struct grammar *g, size_t max_bytes, size_t max_steps);
void grammar_close(struct grammar *g); /* a zeroed one is fine */

/* ---- making a grammar ---- */

uint32_t grammar_term(struct grammar *g, uint32_t regex);   /* a text of the regular expression */
uint32_t grammar_text(struct grammar *g, const char *text); /* these bytes */
uint32_t grammar_sequence(struct grammar *g, uint32_t a, uint32_t b);
uint32_t grammar_choice(struct grammar *g, const uint32_t *of, size_t n);
uint32_t grammar_either(struct grammar *g, uint32_t a, uint32_t b);
uint32_t grammar_repeat(struct grammar *g, uint32_t a, uint32_t least, uint32_t most);

/* A new rule without a body, which may be used in expressions at once. */
uint32_t grammar_rule(struct grammar *g);
void grammar_define(struct grammar *g, uint32_t rule, uint32_t body);
uint32_t grammar_call(struct grammar *g, uint32_t rule); /* a text of RULE */

/* Ends the making: START is the expression of whole texts. ERR_UNSUPPORTED: no text matches. A fault of the
 * store becomes ERR_NOMEM or ERR_NOSPACE with a sentence that names the limit. */
int grammar_finish(struct grammar *g, uint32_t start, struct err *e);

/* The sentence and the code for a fault of the store; 0: there is none. */
int grammar_fault(const struct grammar *g, struct err *e);

/* ---- reading a finished grammar ---- */

/* The position where a text of RULE begins. */
uint32_t grammar_body(const struct grammar *g, uint32_t rule);

/* The ways to go on from POSITION, in *HEADS [n], borrowed until the next call. None leads into a dead end. */
size_t grammar_heads(struct grammar *g, uint32_t position, const struct grammar_head **heads);

/* True if the text may end at POSITION. */
bool grammar_may_end(const struct grammar *g, uint32_t position);

/* As regex_clamp(): POSITION with counts that no text of MOST bytes can tell from those it has. */
uint32_t grammar_clamp(struct grammar *g, uint32_t position, uint32_t most);

#endif
