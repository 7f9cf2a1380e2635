/* unicode.h - what kind of character a code point is, as the tokenizers' rules ask, by the ages of the
 * Unicode tables that the Hugging Face library uses; and the letters that stand for bytes.
 */
#ifndef GALLOP_TEXT_TOK_UNICODE_H
#define GALLOP_TEXT_TOK_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool unicode_is_space(uint32_t c);       /* White_Space */
bool unicode_is_numeric(uint32_t c);     /* Nd, Nl, No */
bool unicode_is_punctuation(uint32_t c); /* P*, and ASCII symbols as well */
bool unicode_is_word(uint32_t c);        /* Alphabetic, marks, Nd, Pc, joiners (Rust's \w) */
bool unicode_is_mark(uint32_t c);        /* Mn, Mc, Me */
bool unicode_is_nonspacing(uint32_t c);  /* Mn */
bool unicode_is_control(uint32_t c);     /* Cc, Cf, Co; not the blanks \t \n \r */
bool unicode_is_ideograph(uint32_t c);   /* the blocks BERT sets apart */

/* A character that came after Unicode 9, by whose tables texts are normalized: no normal form touches it. */
bool unicode_is_young(uint32_t c);

/* True when S (good UTF-8) has a character that PCRE2 takes for unassigned although it is not any more. */
bool unicode_is_newer(const char *s, size_t n);

/* Replaces each of them in place by an older one of the same kind; lengths stay. */
void unicode_make_older(char *s, size_t n);

/* GPT-2's alphabet of bytes: each byte stands as one printable letter, so that vocabularies of bytes can be
 * written as text. Printable ASCII and Latin-1 stand for themselves, the other 68 bytes for U+0100 and up, in
 * order. */
uint32_t unicode_letter_of(unsigned char b); /* the letter that stands for byte B */

/* Writes N bytes as letters, at most 2 N bytes of UTF-8; returns how many. */
size_t unicode_spell(const char *bytes, size_t n, char *out);

/* Reads letters (N bytes of good UTF-8) back into at most N bytes. false: some character is no letter of the
 * alphabet, and OUT holds nothing of use. */
bool unicode_unspell(const char *letters, size_t n, char *out, size_t *n_out);

#endif
