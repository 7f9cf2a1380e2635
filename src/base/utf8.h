/* utf8.h - reading and proving UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF),
 * and two kinds of its bytes that many formats have, in any locale. */
#ifndef GALLOP_BASE_UTF8_H
#define GALLOP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the sequence at S (N > 0 bytes are there). *good says whether it is a whole character; if not,
 * the length is that of the maximal ill-formed part (Unicode 15, table 3-8), which one U+FFFD replaces. */
size_t utf8_sequence(const char *s, size_t n, bool *good);

/* The value of the hexadecimal digit C, of either case; -1: it is none. */
static inline int utf8_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* C is white space of JSON. */
static inline bool utf8_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Decodes one character known to be good. */
uint32_t utf8_decode(const char *s, size_t *len);

/* Where the character in front of s[at] begins; AT > 0, and what lies before it is good. */
static inline size_t utf8_before(const char *s, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80);
    return at;
}

/* Writes C (a scalar value) to out[4]; returns the number of bytes. */
size_t utf8_encode(uint32_t c, char *out);

/* Offset of the first byte that is not part of a good character, or N when all is well. */
size_t utf8_valid_prefix(const char *s, size_t n);

/* Makes S, which may hold what strangers wrote, fit to be shown: control characters of both kinds (newline
 * and tab stay), what turns the direction of writing, other format characters that are not seen, and bytes
 * that are no UTF-8 become '?', one for each; a character that is cut off at the end goes. Returns the new
 * length, which is never larger. */
size_t utf8_printable(char *s);

/* True when S (N > 0 bytes) is the beginning of a character that more bytes could complete. */
bool utf8_is_partial(const char *s, size_t n);

#endif
