/* utf8.h - reads and checks UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF), and
 * classifies hexadecimal digits and white space independently of the locale. */
#ifndef GALLOP_BASE_UTF8_H
#define GALLOP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the sequence at S, which has N > 0 bytes. *GOOD: it is a whole character. Otherwise the length is
 * that of the maximal ill-formed part (Unicode 15, table 3-8), which one U+FFFD replaces. */
size_t utf8_sequence(const char *s, size_t n, bool *good);

/* The value of the hexadecimal digit C, of either case; -1: C is no such digit. */
static inline int utf8_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* C is JSON white space. */
static inline bool utf8_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Decodes a character that is known to be well-formed. */
uint32_t utf8_decode(const char *s, size_t *len);

/* The offset of the character before s[at]. AT > 0, and the bytes before it are well-formed. */
static inline size_t utf8_before(const char *s, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80);
    return at;
}

/* Writes C (a scalar value) to out[4]. Returns the number of bytes. */
size_t utf8_encode(uint32_t c, char *out);

/* The offset of the first byte that is not part of a well-formed character; N if there is none. */
size_t utf8_valid_prefix(const char *s, size_t n);

/* Makes untrusted text fit for a terminal: replaces control characters (except newline and tab), characters
 * that change the direction of writing, other invisible format characters, and bytes that are not UTF-8 by
 * '?', and drops a character that is cut off at the end. Returns the new length, which is never larger. */
size_t utf8_printable(char *s);

/* True if S (N > 0 bytes) is the beginning of a character that more bytes could complete. */
bool utf8_is_partial(const char *s, size_t n);

#endif
