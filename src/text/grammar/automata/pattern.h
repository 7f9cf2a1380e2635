/* pattern.h - reads regular expressions, as people write them, into a store of regex.h.
 *
 * PATTERN_SEARCH is what a JSON Schema's `pattern` means: ECMA-262 with Unicode, found anywhere in a text.
 * Escapes of punctuation that the `u` flag would not allow are read as that character, as browsers do without
 * the flag. PATTERN_WHOLE is what the `regex` of a request means: Python's syntax, and the whole text matches.
 * There, \d \w \s stand for what they mean in ASCII and \D \W \S for what they mean in Unicode, so that a text
 * is accepted only where readers of both kinds agree.
 *
 * Everything that describes a regular language is read exactly: anchors and word boundaries anywhere outside
 * repetitions (^ and $ inside them, too), and look-ahead, which is intersection and complement. Groups capture
 * nothing, and a quantifier is as good as its lazy form. Refused by name: back references, look-behind,
 * atomic groups and possessive quantifiers, conditions, properties other than general categories, and word
 * boundaries and look-ahead inside a repetition.
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

/* Sets *OUT to the whole texts that the regular expression TEXT[n] accepts, as ALPHABET writes them. They are
 * made of ALPHABET's characters only. ERR_INPUT: TEXT is no regular expression; ERR_UNSUPPORTED: it cannot be
 * served; both with the offset in TEXT, what was found and what was expected. ERR_NOSPACE: a limit of the
 * store is reached. ERR_NOMEM. */
int pattern_read(struct regex_store *s, const char *text, size_t n, pattern_alphabet *alphabet,
                 enum pattern_dialect dialect, uint32_t *out, struct err *e);

#endif
