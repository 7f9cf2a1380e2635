/* pattern.h - compiles the text of regular expressions to expressions of regex.h.
 *
 * PATTERN_SEARCH is the dialect of JSON Schema's `pattern`: ECMA-262 with Unicode, which matches anywhere in
 * a text. Escaped punctuation that the `u` flag would reject is read as that character, as browsers do
 * without the flag. PATTERN_WHOLE is the dialect of a request's `regex`: Python's syntax, which must match
 * the whole text. There, \d \w \s are ASCII sets, and \D \W \S are complements of Unicode sets, so that an
 * accepted text is accepted by ASCII and Unicode matchers alike.
 *
 * Every construct that describes a regular language is supported exactly: anchors and word boundaries outside
 * repetitions (^ and $ also inside them), and look-ahead, which becomes intersection and complement. Groups
 * do not capture, and lazy quantifiers equal greedy ones. An error names each construct that is not supported:
 * back references, look-behind, atomic groups, possessive quantifiers, conditionals, properties other than
 * general categories, and word boundaries or look-ahead inside a repetition.
 */
#ifndef GALLOP_TEXT_GRAMMAR_PATTERN_H
#define GALLOP_TEXT_GRAMMAR_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/pattern_set.h"
#include "text/grammar/automata/regex.h"

enum pattern_dialect { PATTERN_SEARCH, PATTERN_WHOLE };

enum { PATTERN_MOST_DEPTH = 250, PATTERN_MOST_COUNT = 1000000 };

/* Sets *OUT to an expression for the whole texts that the regular expression TEXT[n] accepts, in the
 * spellings of ALPHABET. ERR_INPUT: TEXT is not a regular expression. ERR_UNSUPPORTED: it uses an
 * unsupported construct. Both messages have the offset in TEXT, what was found and what was expected.
 * ERR_NOSPACE: a limit of the store is reached. */
int pattern_read(struct regex_store *s, const char *text, size_t n, pattern_alphabet *alphabet,
                 enum pattern_dialect dialect, uint32_t *out, struct err *e);

#endif
