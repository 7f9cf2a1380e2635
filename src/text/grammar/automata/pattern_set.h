/* pattern_set.h - sets of characters (code points) as ranges: what a class of a regular expression stands for.
 */
#ifndef GALLOP_TEXT_GRAMMAR_PATTERN_SET_H
#define GALLOP_TEXT_GRAMMAR_PATTERN_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/regex.h"

enum { PATTERN_LAST_CHARACTER = 0x10ffff };

/* How one character of [LOW, HIGH] is written in the texts that an expression describes: regex_characters()
 * for plain texts, another function for the contents of JSON strings. Surrogates are in no text. */
typedef uint32_t pattern_alphabet(struct regex_store *s, uint32_t low, uint32_t high);

struct pattern_range {
    uint32_t low, high;
};

/* Zeroed = empty. */
struct pattern_set {
    struct pattern_range *range; /* [n] in the order in which they were added; sorted by functions below */
    size_t n, cap;
    bool no_memory; /* an allocation failed: the set is not what was asked for */
};

void pattern_set_fini(struct pattern_set *set);
void pattern_set_add(struct pattern_set *set, uint32_t low, uint32_t high);
void pattern_set_join(struct pattern_set *set, const struct pattern_set *other);

/* Sorts the ranges and joins those that touch. */
void pattern_set_sort(struct pattern_set *set);
void pattern_set_negate(struct pattern_set *set);
bool pattern_set_has(const struct pattern_set *set, uint32_t c); /* sorted sets only */

/* The characters that have another case, found when they are first needed. Zeroed = not yet. */
struct pattern_cases {
    struct pattern_case *of; /* [n] */
    size_t n, cap;
    size_t n_folded; /* sets that the table was searched for */
};

void pattern_cases_fini(struct pattern_cases *cases);

/* Adds the characters that differ from one of SET in case only. False: the table was searched too often. */
bool pattern_set_fold(struct pattern_set *set, struct pattern_cases *cases);

/* Adds the characters of a Unicode property: a general category (Lu, Letter, gc=Lu), Any, ASCII or Assigned.
 * False: NAME is none of these. */
bool pattern_set_add_property(struct pattern_set *set, const char *name, size_t n);

/* Adds what \d, \w or \s stand for in ASCII: KIND is that letter. WIDE: in Unicode, in any version of it. */
void pattern_set_add_kind(struct pattern_set *set, char kind, bool wide);

/* Adds the characters of some general categories: bits of utf8proc's numbers. */
void pattern_set_add_categories(struct pattern_set *set, uint32_t categories);

/* One character of SET. */
uint32_t pattern_set_regex(struct pattern_set *set, struct regex_store *s, pattern_alphabet *alphabet);

#endif
