/* pattern_set.h - sets of characters (code points) as ranges, for character classes such as [a-z] or \w. */
#ifndef GALLOP_TEXT_GRAMMAR_PATTERN_SET_H
#define GALLOP_TEXT_GRAMMAR_PATTERN_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/regex.h"

enum { PATTERN_LAST_CHARACTER = 0x10ffff };

/* A function that returns an expression for the spellings of one character in [LOW, HIGH]: regex_characters()
 * for plain text, or json_text_characters() for the contents of JSON strings. Surrogates have no spelling. */
typedef uint32_t pattern_alphabet(struct regex_store *s, uint32_t low, uint32_t high);

struct pattern_range {
    uint32_t low, high;
};

/* A set of characters. Zeroed = empty. */
struct pattern_set {
    struct pattern_range *range; /* [n] in the order of insertion until the set is sorted */
    size_t n, cap;
    bool no_memory; /* an allocation failed, so the set is incomplete */
};

void pattern_set_fini(struct pattern_set *set);
void pattern_set_add(struct pattern_set *set, uint32_t low, uint32_t high);
void pattern_set_add_all(struct pattern_set *set, const struct pattern_range *of, size_t n);
void pattern_set_join(struct pattern_set *set, const struct pattern_set *other);

/* Sorts the ranges and joins ranges that overlap or touch. */
void pattern_set_sort(struct pattern_set *set);
void pattern_set_negate(struct pattern_set *set);
bool pattern_set_has(const struct pattern_set *set, uint32_t c); /* SET must be sorted */

/* A table of the characters that have another case, filled on first use. Zeroed = not filled. */
struct pattern_cases {
    struct pattern_case *of; /* [n] */
    size_t n, cap;
    size_t n_folded; /* number of pattern_set_fold() calls that searched the table */
};

void pattern_cases_fini(struct pattern_cases *cases);

/* Adds the characters that differ from a member of SET only in case. False: too many searches. */
bool pattern_set_fold(struct pattern_set *set, struct pattern_cases *cases);

/* Adds the characters of a Unicode property: a general category (Lu, Letter, gc=Lu), Any, ASCII or Assigned.
 * False: NAME is another property. */
bool pattern_set_add_property(struct pattern_set *set, const char *name, size_t n);

/* Adds the characters of \d, \w or \s (KIND is the letter): ASCII or, if WIDE, all of Unicode. */
void pattern_set_add_kind(struct pattern_set *set, char kind, bool wide);

/* Adds the characters of general categories, given as a bit for each utf8proc_category_t. */
void pattern_set_add_categories(struct pattern_set *set, uint32_t categories);

/* Returns an expression that matches one character of SET in the spellings of ALPHABET. */
uint32_t pattern_set_regex(struct pattern_set *set, struct regex_store *s, pattern_alphabet *alphabet);

#endif
