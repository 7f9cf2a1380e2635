/* tokchar.h - what kind of character a code point is, as the tokenizers' rules ask (Unicode categories by
 * utf8proc). */
#ifndef GALLOP_TEXT_TOKCHAR_H
#define GALLOP_TEXT_TOKCHAR_H

#include <stdbool.h>
#include <stdint.h>

bool tokchar_is_space(uint32_t c);       /* White_Space */
bool tokchar_is_numeric(uint32_t c);     /* Nd, Nl, No */
bool tokchar_is_punctuation(uint32_t c); /* P*, and ASCII symbols as well */
bool tokchar_is_word(uint32_t c);        /* Alphabetic, marks, Nd, Pc, joiners (Rust's \w) */
bool tokchar_is_mark(uint32_t c);        /* Mn, Mc, Me */
bool tokchar_is_nonspacing(uint32_t c);  /* Mn */
bool tokchar_is_control(uint32_t c);     /* Cc, Cf, Co; not the blanks \t \n \r */
bool tokchar_is_ideograph(uint32_t c);   /* the blocks BERT sets apart */

#endif
