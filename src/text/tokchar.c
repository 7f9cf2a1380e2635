/* tokchar.c - ASCII by comparison, the rest by utf8proc's category. */
#include "text/tokchar.h"

#include <utf8proc.h>

#include "text/tokcharage.h"

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool tokchar_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool tokchar_is_numeric(uint32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return c >= '0' && c <= '9';
    k = category(c);
    return (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO) !=
           tokcharage_differs(TOKCHARAGE_NUMERIC, c);
}

bool tokchar_is_punctuation(uint32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    k = category(c);
    return (k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO) !=
           tokcharage_differs(TOKCHARAGE_PUNCTUATION, c);
}

/* Alphabetic beyond letters and letter numbers: marks count anyway, so only the circled and squared Latin
 * letters are left. */
static bool is_other_alphabetic(uint32_t c)
{
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189);
}

bool tokchar_is_word(uint32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    k = category(c);
    return ((k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC ||
            c == 0x200c || c == 0x200d || is_other_alphabetic(c)) != tokcharage_differs(TOKCHARAGE_WORD, c);
}

bool tokchar_is_mark(uint32_t c)
{
    utf8proc_category_t k = c < 0x300 ? UTF8PROC_CATEGORY_CN : category(c);

    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
}

bool tokchar_is_nonspacing(uint32_t c)
{
    return c >= 0x300 &&
           (category(c) == UTF8PROC_CATEGORY_MN) != tokcharage_differs(TOKCHARAGE_NONSPACING, c);
}

bool tokchar_is_control(uint32_t c)
{
    utf8proc_category_t k;

    if (c == '\t' || c == '\n' || c == '\r')
        return false;
    k = category(c);
    return (k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO) !=
           tokcharage_differs(TOKCHARAGE_CONTROL, c);
}

bool tokchar_is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}
