/* free_text.h - regular expressions for text without certain marks (delimiters such as <tool_call>). */
#ifndef GALLOP_TEXT_GRAMMAR_FREE_TEXT_H
#define GALLOP_TEXT_GRAMMAR_FREE_TEXT_H

#include <stdint.h>

#include "text/grammar/automata/regex.h"

/* Matches every text (UTF-8) without a match of MARKS, which is REGEX_NOTHING or not nullable. */
uint32_t free_text(struct regex_store *s, uint32_t marks);

/* Matches a text that ends with MARK, one of MARKS, and has no earlier match of MARKS or of EXCLUDED. */
uint32_t free_text_until(struct regex_store *s, uint32_t mark, uint32_t marks, uint32_t excluded);

#endif
