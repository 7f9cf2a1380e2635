/* free_text.h - regular expressions for text that anything may stand in but certain marks. */
#ifndef GALLOP_TEXT_GRAMMAR_FREE_TEXT_H
#define GALLOP_TEXT_GRAMMAR_FREE_TEXT_H

#include <stdint.h>

#include "text/grammar/automata/regex.h"

/* Every text (UTF-8) in which no text of MARKS stands. REGEX_NOTHING: no mark is forbidden. MARKS does not match
 * the empty text. */
uint32_t free_text(struct regex_store *s, uint32_t marks);

/* Every text that ends with MARK, one of MARKS, and in which no mark stands before that; nor, anywhere, a text of
 * EXCLUDED. */
uint32_t free_text_until(struct regex_store *s, uint32_t mark, uint32_t marks, uint32_t excluded);

#endif
