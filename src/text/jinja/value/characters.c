/* characters.c - finds characters in UTF-8 and classifies them as Python does. */
#include "text/jinja/value/characters.h"

#include <ctype.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

uint32_t jinja_character(const char *s)
{
    size_t n;

    return (unsigned char)*s < 0x80 ? (unsigned char)*s : utf8_decode(s, &n);
}

size_t jinja_width(const char *s)
{
    unsigned char c = (unsigned char)*s;

    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

size_t jinja_width_before(const char *s, size_t n)
{
    return n - utf8_before(s, n);
}

size_t jinja_offset(struct value s, size_t index)
{
    size_t at = 0;

    while (index-- > 0 && at < s.size)
        at += jinja_width(s.bytes + at);
    return at;
}

size_t jinja_search_cost(size_t n, size_t k)
{
    return n / 8 + n / 512 * (k < 256 ? k / 8 : 32);
}

size_t jinja_find(const char *s, size_t n, const char *what, size_t k)
{
    const char *hit = k ? memmem(s, n, what, k) : s;

    return hit ? (size_t)(hit - s) : SIZE_MAX;
}

struct value jinja_part(struct value s, size_t from, size_t to)
{
    struct value part = jinja_string(s.bytes + from, to - from);

    part.mark = s.mark;
    return part;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool jinja_is_space(uint32_t c)
{
    if (c < 0x80)
        return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool jinja_is_printable(uint32_t c)
{
    /* Separators and control characters have the highest category numbers. */
    utf8proc_category_t k = category(c);

    return c < 0x7f ? c >= 0x20 : k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool jinja_is_name(uint32_t c)
{
    return c < 0x80 ? isalnum((int)c) || c == '_' : !jinja_is_space(c);
}

bool jinja_is_lower(uint32_t c)
{
    return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL;
}

bool jinja_is_upper(uint32_t c)
{
    return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU;
}

bool jinja_has_case(struct value s, bool upper)
{
    bool found = false;

    for (size_t i = 0; i < s.size; i += jinja_width(s.bytes + i)) {
        uint32_t c = jinja_character(s.bytes + i);

        if (upper ? jinja_is_lower(c) : jinja_is_upper(c))
            return false;
        found |= upper ? jinja_is_upper(c) : jinja_is_lower(c);
    }
    return found;
}
