/* utf8.h - reads and checks UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF), and
 * classifies hexadecimal digits and white space independently of the locale. */
#ifndef GALLOP_BASE_UTF8_H
#define GALLOP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length of the character at S [n], n > 0, and sets *GOOD. If the bytes are ill-formed, *GOOD is false, and
 * the function returns the length of the maximal subpart (Unicode 15, table 3-8), which one U+FFFD replaces. */
size_t utf8_sequence(const char *s, size_t n, bool *good);

/* Returns the value of the hexadecimal digit C of either case; -1: C is not a digit. */
static inline int utf8_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Returns whether C is white space in JSON. */
static inline bool utf8_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Decodes the well-formed character at S. Sets *LEN to its bytes. */
uint32_t utf8_decode(const char *s, size_t *len);

/* Returns the offset of the character before offset AT > 0. The bytes before AT must be well-formed. */
static inline size_t utf8_before(const char *s, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80);
    return at;
}

/* Returns the number of characters of S [n], which is well-formed. */
static inline size_t utf8_count(const char *s, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

/* Writes the scalar value C to OUT [4]. Returns the number of bytes. */
size_t utf8_encode(uint32_t c, char *out);

/* Returns the length of the longest well-formed beginning of S [n]; N if all of S is well-formed. */
size_t utf8_valid_prefix(const char *s, size_t n);

/* Makes untrusted text safe for a terminal. Replaces by '?': control characters (except newline and tab),
 * characters that change the direction of writing, other invisible format characters, and bytes that are not
 * UTF-8. Drops an incomplete character at the end. Returns the new length, which is never larger. */
size_t utf8_printable(char *s);

/* Like utf8_printable(), and replaces newlines and tabs by spaces. */
size_t utf8_one_line(char *s);

/* Returns whether S [n], n > 0, is an incomplete character that more bytes could complete. */
bool utf8_is_partial(const char *s, size_t n);

#endif
