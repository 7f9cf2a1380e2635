/* grammar.h - a context-free grammar, whose rules are expressions over regular expressions (terminals) and
 * rules.
 *
 * An expression is a number, as in regex.h, and equal expressions have equal numbers. A position in a rule is
 * the expression for the rest of the rule. Its heads are the symbols that can come next.
 *
 * A grammar is made in three steps: grammar_open(); expressions and rules in any order; grammar_finish(),
 * after which only the functions of the last section may be called. Limits and faults are those of the store
 * of regular expressions. Not thread-safe.
 */
#ifndef GALLOP_TEXT_GRAMMAR_GRAMMAR_H
#define GALLOP_TEXT_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/regex.h"
#include "text/grammar/automata/tuples.h"

/* Predefined expressions. */
enum {
    GRAMMAR_END,   /* matches the empty text only */
    GRAMMAR_NEVER, /* matches no text */
};

#define GRAMMAR_NO_LIMIT UINT32_MAX

enum grammar_symbol { GRAMMAR_TERM, GRAMMAR_RULE };

/* A symbol that can come next at a position, and the position after it (a partial derivative). */
struct grammar_head {
    uint32_t symbol; /* enum grammar_symbol */
    uint32_t number; /* the number of the regular expression or of the rule */
    uint32_t rest;   /* the position after the symbol */
};

struct grammar_node;
struct grammar_rule;

/* A grammar. */
struct grammar {
    struct regex_store regex;
    struct grammar_node *node; /* [n] */
    size_t n, cap;
    uint32_t *list; /* [n_list] members of choices */
    size_t n_list, cap_list;
    uint32_t *slot; /* [n_slots] hash table of nodes: 1 + index of the node; 0: free slot */
    size_t n_slots;
    struct grammar_rule *rule; /* [n_rules] */
    size_t n_rules, cap_rules;
    struct grammar_head *head; /* [n_heads] heads of the positions whose heads were computed */
    size_t n_heads, cap_heads;
    uint32_t *spine; /* [n_spine] stack: parts of a sequence under construction */
    size_t n_spine, cap_spine;
    struct tuples work; /* pending pairs of an expression and the position after it, to be split into heads */
    uint32_t start;     /* the start rule */
};

/* Opens an empty grammar. The limits are those of regex_open(), for the whole grammar. ERR_NOMEM. */
int grammar_open(struct grammar *g, size_t max_bytes, size_t max_steps);
void grammar_close(struct grammar *g); /* G may be zeroed */

/* ---- constructors ---- */

uint32_t grammar_term(struct grammar *g, uint32_t regex);   /* matches the regular expression */
uint32_t grammar_text(struct grammar *g, const char *text); /* matches TEXT */
uint32_t grammar_sequence(struct grammar *g, uint32_t a, uint32_t b);
uint32_t grammar_choice(struct grammar *g, const uint32_t *of, size_t n);
uint32_t grammar_either(struct grammar *g, uint32_t a, uint32_t b);
uint32_t grammar_repeat(struct grammar *g, uint32_t a, uint32_t least, uint32_t most);

/* Adds a rule without a body, and returns its number. Expressions can call it before its body is defined. */
uint32_t grammar_rule(struct grammar *g);
void grammar_define(struct grammar *g, uint32_t rule, uint32_t body);
uint32_t grammar_call(struct grammar *g, uint32_t rule); /* matches the texts of RULE */

/* Completes the grammar with START as its start expression. ERR_UNSUPPORTED: the grammar matches no text. A
 * fault of the store becomes ERR_NOMEM or ERR_NOSPACE, with a message that names the limit. */
int grammar_finish(struct grammar *g, uint32_t start, struct err *e);

/* Returns the error code and the message for a fault of the store; 0: there is no fault. */
int grammar_fault(const struct grammar *g, struct err *e);

/* ---- reading a finished grammar ---- */

/* Returns the position at the start of RULE. */
uint32_t grammar_body(const struct grammar *g, uint32_t rule);

/* Sets *HEADS to the heads of POSITION, borrowed until the next call. Returns their number. */
size_t grammar_heads(struct grammar *g, uint32_t position, const struct grammar_head **heads);

/* True if POSITION is nullable: the rule may end there. */
bool grammar_may_end(const struct grammar *g, uint32_t position);

/* Returns POSITION without the repetition bounds that a text of MOST bytes cannot reach: see regex_clamp(). */
uint32_t grammar_clamp(struct grammar *g, uint32_t position, uint32_t most);

#endif
