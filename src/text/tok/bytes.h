/* bytes.h - bytes written as text: the GPT-2 alphabet and base64 (RFC 4648).
 *
 * In the GPT-2 alphabet each byte stands as one printable letter, so that vocabularies of bytes can be
 * written as text. Printable ASCII and Latin-1 stand for themselves, the other 68 bytes for U+0100 and up, in
 * order.
 */
#ifndef GALLOP_TEXT_TOK_BYTES_H
#define GALLOP_TEXT_TOK_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t bytes_letter(unsigned char b); /* the letter that stands for byte B */
int bytes_byte(uint32_t letter);        /* the byte that LETTER stands for, or -1 */

/* Writes N bytes as letters, at most 2 N bytes of UTF-8; returns how many. */
size_t bytes_spell(const char *bytes, size_t n, char *out);

/* Reads letters (N bytes of good UTF-8) back into at most N bytes. false: some character is no letter of the
 * alphabet, and OUT holds nothing of use. */
bool bytes_read(const char *letters, size_t n, char *out, size_t *n_out);

/* Writes the bytes of S to OUT, which has room for N; false: that is no base64. Padding may be missing. */
bool bytes_from_base64(const char *s, size_t n, char *out, size_t *n_out);

#endif
