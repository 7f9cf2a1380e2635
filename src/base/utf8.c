/* utf8.c - the well-formed byte sequences of Unicode 15, table 3-7. */
#include "base/utf8.h"

#include <string.h>

/* Returns the length of a character that begins with byte B, and the range [*LO, *HI] of its second byte. 0:
 * no character begins with B. */
static size_t lead(unsigned char b, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (b < 0x80)
        return 1;
    if (b < 0xc2 || b > 0xf4)
        return 0;
    if (b < 0xe0)
        return 2;
    if (b < 0xf0) {
        if (b == 0xe0)
            *lo = 0xa0;
        if (b == 0xed)
            *hi = 0x9f;
        return 3;
    }
    if (b == 0xf0)
        *lo = 0x90;
    if (b == 0xf4)
        *hi = 0x8f;
    return 4;
}

/* Returns the length of the longest beginning of S [n] that is a well-formed character or the beginning of
 * one. Sets *WHOLE to whether that character is complete. */
static size_t agree(const char *s, size_t n, bool *whole)
{
    unsigned char lo, hi;
    size_t want = lead((unsigned char)s[0], &lo, &hi), i;

    *whole = false;
    if (want == 0)
        return 0;
    for (i = 1; i < want && i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < lo || c > hi)
            return i;
        lo = 0x80;
        hi = 0xbf;
    }
    *whole = i == want;
    return i;
}

size_t utf8_sequence(const char *s, size_t n, bool *good)
{
    size_t len = agree(s, n, good);

    return len ? len : 1;
}

bool utf8_is_partial(const char *s, size_t n)
{
    bool whole;

    return agree(s, n, &whole) == n && !whole;
}

uint32_t utf8_decode(const char *s, size_t *len)
{
    const unsigned char *u = (const unsigned char *)s;

    if (u[0] < 0x80) {
        *len = 1;
        return u[0];
    }
    if (u[0] < 0xe0) {
        *len = 2;
        return (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3f);
    }
    if (u[0] < 0xf0) {
        *len = 3;
        return (uint32_t)(u[0] & 0x0f) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
    }
    *len = 4;
    return (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 | (uint32_t)(u[2] & 0x3f) << 6 |
           (u[3] & 0x3f);
}

size_t utf8_encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

size_t utf8_valid_prefix(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint64_t eight;
        bool good;
        size_t step;

        while (n - i >= 8) {
            memcpy(&eight, s + i, 8);
            if (eight & 0x8080808080808080u)
                break;
            i += 8;
        }
        if (i == n)
            break;
        step = utf8_sequence(s + i, n - i, &good);
        if (!good)
            return i;
        i += step;
    }
    return n;
}

/* Returns whether C is a control character or invisible on a terminal. The joiners U+200C and U+200D are
 * allowed, because scripts and emoji need them. */
static bool is_unprintable(uint32_t c)
{
    static const uint32_t range[][2] = {{0x00, 0x08},     {0x0b, 0x1f},     {0x7f, 0x9f},
                                        {0x061c, 0x061c}, {0x180e, 0x180e}, {0x200b, 0x200b},
                                        {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
                                        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};

    for (size_t i = 0; i < sizeof(range) / sizeof(range[0]); i++)
        if (c >= range[i][0] && c <= range[i][1])
            return true;
    return false;
}

size_t utf8_printable(char *s)
{
    size_t n = strlen(s), kept = 0;

    for (size_t i = 0, len; i < n && !utf8_is_partial(s + i, n - i); i += len) {
        size_t same;
        bool good;

        len = utf8_sequence(s + i, n - i, &good);
        if (good && !is_unprintable(utf8_decode(s + i, &same))) {
            memmove(s + kept, s + i, len);
            kept += len;
        } else {
            s[kept++] = '?';
        }
    }
    s[kept] = 0;
    return kept;
}

size_t utf8_one_line(char *s)
{
    size_t n = utf8_printable(s);

    for (size_t i = 0; i < n; i++)
        s[i] = s[i] == '\n' || s[i] == '\t' ? ' ' : s[i];
    return n;
}
