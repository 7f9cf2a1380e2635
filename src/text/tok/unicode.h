/* unicode.h - the classes of characters that tokenizers ask for, by the versions of the Unicode tables that
 * the Hugging Face library uses; and the letters that stand for bytes. */
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
bool unicode_is_control(uint32_t c);     /* Cc, Cf, Co; without \t
 * \r
 */
bool unicode_is_ideograph(uint32_t c);   /* the blocks BERT sets apart */

/* True for characters that are newer than Unicode 9, by whose tables texts are normalized: normal forms do
 * not change them. */
bool unicode_is_young(uint32_t c);

/* True if S (valid UTF-8) has a character that PCRE2 takes for unassigned although newer Unicode versions
 * assign it. */
bool unicode_is_newer(const char *s, size_t n);

/* Replaces each of them in place by an older character of the same class; lengths do not change. */
void unicode_make_older(char *s, size_t n);

/* The letter that stands for byte B in GPT-2's alphabet of bytes: each byte is one printable letter, so that
 * vocabularies of bytes can be written as text. Printable ASCII and Latin-1 stand for themselves, the other
 * 68 bytes for U+0100 and up, in order. */
uint32_t unicode_letter_of(unsigned char b);

/* Writes N bytes as letters, at most 2 N bytes of UTF-8. Returns the number of bytes written. */
size_t unicode_spell(const char *bytes, size_t n, char *out);

/* Turns letters (N bytes of valid UTF-8) into at most N bytes. False: some character is not a letter of the
 * alphabet, and the contents of OUT are undefined. */
bool unicode_unspell(const char *letters, size_t n, char *out, size_t *n_out);

#endif
