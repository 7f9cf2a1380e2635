/* unicode.h - the classes of characters that tokenizers use, by the versions of the Unicode tables that the
 * Hugging Face library uses; and GPT-2's letters for bytes. */
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
bool unicode_is_nonspacing(uint32_t c);  /* general category Mn */
bool unicode_is_control(uint32_t c);     /* Cc, Cf, Co, except tab, LF, CR */
bool unicode_is_ideograph(uint32_t c);   /* CJK ideographs, as BERT's tokenizer lists them */

/* True if C got its normalization properties after Unicode 9, the version of the Hugging Face library's
 * normalizer, so that normal forms do not change C. */
bool unicode_is_young(uint32_t c);

/* True if S (valid UTF-8) has a character that PCRE2's older Unicode version considers unassigned. */
bool unicode_is_newer(const char *s, size_t n);

/* Replaces, in place, each character of S that PCRE2's older Unicode version lacks by an older character of
 * the same class and number of bytes. */
void unicode_make_older(char *s, size_t n);

/* Returns the letter for byte B in GPT-2's byte alphabet, which writes vocabularies of bytes as text.
 * Printable ASCII and Latin-1 represent themselves; the other 68 bytes are U+0100 and up, in order. */
uint32_t unicode_letter_of(unsigned char b);

/* Writes N bytes as letters, at most 2 N bytes of UTF-8. Returns the number of bytes written. */
size_t unicode_spell(const char *bytes, size_t n, char *out);

/* Turns N bytes of letters (valid UTF-8) into at most N bytes. False: some character is outside GPT-2's byte
 * alphabet, and the contents of OUT are undefined. */
bool unicode_unspell(const char *letters, size_t n, char *out, size_t *n_out);

#endif
