/* unicode.c - classifies ASCII by comparison, and other characters by utf8proc's category with corrections
 * where the versions of the Unicode tables differ.
 *
 * The Hugging Face library, which defines the right results, uses several versions: Unicode 8 for
 * punctuation, marks and control characters, Unicode 9 for normal forms, Unicode 16 for numbers, word
 * characters and patterns. utf8proc 2.8 has Unicode 15, and PCRE2 10.42 has Unicode 14. The table below has
 * the differences, found by comparing both for every code point.
 */
#include "text/tok/unicode.h"

#include <utf8proc.h>

#include "base/utf8.h"

/* Classes of characters in which the versions of Unicode differ. For PUNCT to WORD, the result of utf8proc's
 * tables is inverted. */
enum {
    PUNCT = 1,   /* punctuation */
    MARK = 2,    /* a nonspacing mark */
    CONTROL = 4, /* a control character */
    NUMBER = 8,  /* a number */
    WORD = 16,   /* a word character */
    /* The character got a combining class or a decomposition after Unicode 9: normal forms do not move or
     * change it, and nothing composes across it. */
    YOUNG = 32,
};

/* A range of characters that PCRE2 classifies differently. DIFFERS: the classes in question. OLDER: for characters that
 * PCRE2 does not know, a character of the same category and number of bytes that it knows, of the same script if
 * possible; matching runs on a copy of the text with OLDER in their place. 0: PCRE2 knows the characters. */
struct age {
    uint32_t lo, hi, differs, older;
};

/* clang-format off */
static const struct age ages[] = {
    {0x61d, 0x61d, PUNCT, 0}, {0x7fd, 0x7fd, MARK | YOUNG, 0}, {0x890, 0x891, CONTROL, 0},
    {0x897, 0x897, WORD, 0x900}, {0x898, 0x89f, MARK | YOUNG, 0}, {0x8ca, 0x8d3, MARK | YOUNG, 0},
    {0x8d4, 0x8e1, MARK, 0}, {0x8e2, 0x8e2, CONTROL, 0}, {0x9fd, 0x9fd, PUNCT, 0},
    {0x9fe, 0x9fe, MARK | YOUNG, 0}, {0xa76, 0xa76, PUNCT, 0}, {0xafa, 0xaff, MARK, 0}, {0xb55, 0xb55, MARK, 0},
    {0xc04, 0xc04, MARK, 0}, {0xc3c, 0xc3c, MARK | YOUNG, 0}, {0xc77, 0xc77, PUNCT, 0},
    {0xc84, 0xc84, PUNCT, 0}, {0xcf3, 0xcf3, 0, 0x903}, {0xd00, 0xd00, MARK, 0},
    {0xd3b, 0xd3c, MARK | YOUNG, 0}, {0xd81, 0xd81, MARK, 0}, {0xeba, 0xeba, MARK | YOUNG, 0},
    {0xece, 0xece, MARK, 0x900}, {0x166d, 0x166d, PUNCT, 0}, {0x1715, 0x1715, YOUNG, 0},
    {0x1734, 0x1734, MARK, 0}, {0x180f, 0x180f, MARK, 0}, {0x1885, 0x1886, MARK, 0},
    {0x1abf, 0x1ace, MARK | YOUNG, 0}, {0x1b4e, 0x1b4f, 0, 0x964}, {0x1b7d, 0x1b7e, PUNCT, 0},
    {0x1b7f, 0x1b7f, 0, 0x964}, {0x1c89, 0x1c89, WORD, 0x1e00}, {0x1c8a, 0x1c8a, WORD, 0x1e01},
    {0x1df6, 0x1dfa, MARK | YOUNG, 0}, {0x1dfb, 0x1dfb, MARK, 0}, {0x2427, 0x2429, 0, 0x2300},
    {0x2e43, 0x2e4f, PUNCT, 0}, {0x2e52, 0x2e5d, PUNCT, 0}, {0x2ffc, 0x2fff, 0, 0x2300},
    {0x31e4, 0x31e5, 0, 0x2300}, {0x31ef, 0x31ef, 0, 0x2300}, {0x32ff, 0x32ff, YOUNG, 0},
    {0xa7cb, 0xa7cc, WORD, 0x1e00}, {0xa7cd, 0xa7cd, WORD, 0x1e01}, {0xa7da, 0xa7da, WORD, 0x1e00},
    {0xa7db, 0xa7db, WORD, 0x1e01}, {0xa7dc, 0xa7dc, WORD, 0x1e00}, {0xa7f2, 0xa7f4, YOUNG, 0},
    {0xa82c, 0xa82c, MARK | YOUNG, 0}, {0xa8c5, 0xa8c5, MARK, 0}, {0xa8ff, 0xa8ff, MARK, 0},
    {0xa9bd, 0xa9bd, MARK, 0}, {0xab69, 0xab69, YOUNG, 0}, {0x105c0, 0x105f3, WORD, 0x10000},
    {0x10781, 0x10785, YOUNG, 0}, {0x10787, 0x107b0, YOUNG, 0}, {0x107b2, 0x107ba, YOUNG, 0},
    {0x10d24, 0x10d27, MARK | YOUNG, 0}, {0x10d40, 0x10d49, NUMBER | WORD, 0x104a0},
    {0x10d4a, 0x10d4d, WORD, 0x10000}, {0x10d4e, 0x10d4e, WORD, 0x16b40}, {0x10d4f, 0x10d4f, WORD, 0x10000},
    {0x10d50, 0x10d65, WORD, 0x10400}, {0x10d69, 0x10d6d, WORD, 0x101fd}, {0x10d6e, 0x10d6e, 0, 0x10ead},
    {0x10d6f, 0x10d6f, WORD, 0x16b40}, {0x10d70, 0x10d85, WORD, 0x10428}, {0x10d8e, 0x10d8f, 0, 0x1d6c1},
    {0x10eab, 0x10eac, MARK | YOUNG, 0}, {0x10ead, 0x10ead, PUNCT, 0}, {0x10ec2, 0x10ec4, WORD, 0x1ee00},
    {0x10efc, 0x10efc, WORD, 0x101fd}, {0x10efd, 0x10eff, MARK | YOUNG, 0x101fd},
    {0x10f46, 0x10f50, MARK | YOUNG, 0}, {0x10f55, 0x10f59, PUNCT, 0}, {0x10f82, 0x10f85, MARK | YOUNG, 0},
    {0x10f86, 0x10f89, PUNCT, 0}, {0x11070, 0x11070, MARK | YOUNG, 0}, {0x11073, 0x11074, MARK, 0},
    {0x110c2, 0x110c2, MARK, 0}, {0x110cd, 0x110cd, CONTROL, 0}, {0x111c9, 0x111c9, PUNCT | MARK, 0},
    {0x111cf, 0x111cf, MARK, 0}, {0x1123e, 0x1123e, MARK, 0}, {0x1123f, 0x11240, 0, 0x10000},
    {0x11241, 0x11241, MARK, 0x101fd}, {0x1133b, 0x1133b, MARK | YOUNG, 0}, {0x11380, 0x11389, WORD, 0x10000},
    {0x1138b, 0x1138b, WORD, 0x10000}, {0x1138e, 0x1138e, WORD, 0x10000}, {0x11390, 0x113b5, WORD, 0x10000},
    {0x113b7, 0x113b7, WORD, 0x10000}, {0x113b8, 0x113ba, WORD, 0x11002}, {0x113bb, 0x113c0, WORD, 0x101fd},
    {0x113c2, 0x113c2, WORD, 0x11002}, {0x113c5, 0x113c5, WORD, 0x11002}, {0x113c7, 0x113ca, WORD, 0x11002},
    {0x113cc, 0x113cd, WORD, 0x11002}, {0x113ce, 0x113ce, WORD, 0x101fd}, {0x113cf, 0x113cf, WORD, 0x11002},
    {0x113d0, 0x113d0, WORD, 0x101fd}, {0x113d1, 0x113d1, WORD, 0x10000}, {0x113d2, 0x113d2, WORD, 0x101fd},
    {0x113d3, 0x113d3, WORD, 0x10000}, {0x113d4, 0x113d5, 0, 0x10100}, {0x113d7, 0x113d8, 0, 0x10100},
    {0x113e1, 0x113e2, WORD, 0x101fd}, {0x11438, 0x1143f, MARK, 0}, {0x11442, 0x11444, MARK, 0},
    {0x11446, 0x11446, MARK, 0}, {0x1144b, 0x1144f, PUNCT, 0}, {0x1145a, 0x1145b, PUNCT, 0},
    {0x1145d, 0x1145d, PUNCT, 0}, {0x1145e, 0x1145e, MARK | YOUNG, 0}, {0x11660, 0x1166c, PUNCT, 0},
    {0x116b9, 0x116b9, PUNCT, 0}, {0x116d0, 0x116e3, NUMBER | WORD, 0x104a0}, {0x1171e, 0x1171e, 0, 0x11002},
    {0x1182f, 0x11837, MARK, 0}, {0x11839, 0x1183a, MARK | YOUNG, 0}, {0x1183b, 0x1183b, PUNCT, 0},
    {0x11930, 0x11930, YOUNG, 0}, {0x11938, 0x11938, YOUNG, 0}, {0x1193b, 0x1193c, MARK, 0},
    {0x1193d, 0x1193d, YOUNG, 0}, {0x1193e, 0x1193e, MARK | YOUNG, 0}, {0x11943, 0x11943, MARK | YOUNG, 0},
    {0x11944, 0x11946, PUNCT, 0}, {0x119d4, 0x119d7, MARK, 0}, {0x119da, 0x119db, MARK, 0},
    {0x119e0, 0x119e0, MARK | YOUNG, 0}, {0x119e2, 0x119e2, PUNCT, 0}, {0x11a01, 0x11a0a, MARK, 0},
    {0x11a33, 0x11a38, MARK | YOUNG, 0}, {0x11a3b, 0x11a3e, MARK, 0}, {0x11a3f, 0x11a46, PUNCT, 0},
    {0x11a47, 0x11a47, MARK | YOUNG, 0}, {0x11a51, 0x11a56, MARK, 0}, {0x11a59, 0x11a5b, MARK, 0},
    {0x11a8a, 0x11a96, MARK, 0}, {0x11a98, 0x11a99, MARK | YOUNG, 0}, {0x11a9a, 0x11a9c, PUNCT, 0},
    {0x11a9e, 0x11aa2, PUNCT, 0}, {0x11b00, 0x11b09, PUNCT, 0x10100}, {0x11bc0, 0x11be0, WORD, 0x10000},
    {0x11be1, 0x11be1, 0, 0x10100}, {0x11bf0, 0x11bf9, NUMBER | WORD, 0x104a0}, {0x11c30, 0x11c36, MARK, 0},
    {0x11c38, 0x11c3d, MARK, 0}, {0x11c3f, 0x11c3f, MARK, 0}, {0x11c41, 0x11c45, PUNCT, 0},
    {0x11c70, 0x11c71, PUNCT, 0}, {0x11c92, 0x11ca7, MARK, 0}, {0x11caa, 0x11cb0, MARK, 0},
    {0x11cb2, 0x11cb3, MARK, 0}, {0x11cb5, 0x11cb6, MARK, 0}, {0x11d31, 0x11d36, MARK, 0},
    {0x11d3a, 0x11d3a, MARK, 0}, {0x11d3c, 0x11d3d, MARK, 0}, {0x11d3f, 0x11d45, MARK | YOUNG, 0},
    {0x11d47, 0x11d47, MARK, 0}, {0x11d90, 0x11d91, MARK, 0}, {0x11d95, 0x11d95, MARK, 0},
    {0x11d97, 0x11d97, MARK | YOUNG, 0}, {0x11de0, 0x11de9, NUMBER, 0}, {0x11ef3, 0x11ef4, MARK, 0},
    {0x11ef7, 0x11ef8, PUNCT, 0}, {0x11f00, 0x11f01, MARK, 0x101fd}, {0x11f02, 0x11f02, 0, 0x10000},
    {0x11f03, 0x11f03, 0, 0x11002}, {0x11f04, 0x11f10, 0, 0x10000}, {0x11f12, 0x11f33, 0, 0x10000},
    {0x11f34, 0x11f35, 0, 0x11002}, {0x11f36, 0x11f3a, MARK, 0x101fd}, {0x11f3e, 0x11f3f, 0, 0x11002},
    {0x11f40, 0x11f40, MARK, 0x101fd}, {0x11f41, 0x11f41, YOUNG, 0x11002},
    {0x11f42, 0x11f42, MARK | YOUNG, 0x101fd}, {0x11f43, 0x11f4f, PUNCT, 0x10100},
    {0x11f50, 0x11f59, 0, 0x104a0}, {0x11f5a, 0x11f5a, WORD, 0x101fd}, {0x11fff, 0x11fff, PUNCT, 0},
    {0x12ff1, 0x12ff2, PUNCT, 0}, {0x1342f, 0x1342f, 0, 0x10000}, {0x13430, 0x13438, CONTROL, 0},
    {0x13439, 0x1343f, CONTROL, 0x110bd}, {0x13440, 0x13440, MARK, 0x101fd}, {0x13441, 0x13446, 0, 0x10000},
    {0x13447, 0x13455, MARK, 0x101fd}, {0x13460, 0x143fa, WORD, 0x10000}, {0x16100, 0x1611d, WORD, 0x10000},
    {0x1611e, 0x16129, WORD, 0x101fd}, {0x1612a, 0x1612c, WORD, 0x11002}, {0x1612d, 0x1612f, WORD, 0x101fd},
    {0x16130, 0x16139, NUMBER | WORD, 0x104a0}, {0x16d40, 0x16d42, WORD, 0x16b40},
    {0x16d43, 0x16d6a, WORD, 0x10000}, {0x16d6b, 0x16d6c, WORD, 0x16b40}, {0x16d6d, 0x16d6f, 0, 0x10100},
    {0x16d70, 0x16d79, NUMBER | WORD, 0x104a0}, {0x16e97, 0x16e9a, PUNCT, 0}, {0x16f4f, 0x16f4f, MARK, 0},
    {0x16fe2, 0x16fe2, PUNCT, 0}, {0x16fe4, 0x16fe4, MARK, 0}, {0x16ff0, 0x16ff1, YOUNG, 0},
    {0x16ff4, 0x16ff6, NUMBER, 0}, {0x18cff, 0x18cff, WORD, 0x10000}, {0x1b132, 0x1b132, 0, 0x1b150},
    {0x1b155, 0x1b155, 0, 0x1b164}, {0x1cc00, 0x1ccef, 0, 0x1f300}, {0x1ccf0, 0x1ccf9, NUMBER | WORD, 0x104a0},
    {0x1cd00, 0x1ceb3, 0, 0x1f300}, {0x1cf00, 0x1cf2d, MARK, 0}, {0x1cf30, 0x1cf46, MARK, 0},
    {0x1d2c0, 0x1d2d3, 0, 0x10107}, {0x1df25, 0x1df2a, 0, 0x1df00}, {0x1e000, 0x1e006, MARK, 0},
    {0x1e008, 0x1e018, MARK, 0}, {0x1e01b, 0x1e021, MARK, 0}, {0x1e023, 0x1e024, MARK, 0},
    {0x1e026, 0x1e02a, MARK, 0}, {0x1e030, 0x1e06d, YOUNG, 0x16b40}, {0x1e08f, 0x1e08f, MARK | YOUNG, 0x101fd},
    {0x1e130, 0x1e136, MARK | YOUNG, 0}, {0x1e2ae, 0x1e2ae, MARK | YOUNG, 0},
    {0x1e2ec, 0x1e2ef, MARK | YOUNG, 0}, {0x1e4d0, 0x1e4ea, 0, 0x10000}, {0x1e4eb, 0x1e4eb, 0, 0x16b40},
    {0x1e4ec, 0x1e4ef, MARK | YOUNG, 0x101fd}, {0x1e4f0, 0x1e4f9, 0, 0x104a0},
    {0x1e5d0, 0x1e5ed, WORD, 0x10000}, {0x1e5ee, 0x1e5ef, WORD, 0x101fd}, {0x1e5f0, 0x1e5f0, WORD, 0x10000},
    {0x1e5f1, 0x1e5fa, NUMBER | WORD, 0x104a0}, {0x1e5ff, 0x1e5ff, 0, 0x10100}, {0x1e944, 0x1e94a, MARK, 0},
    {0x1e95e, 0x1e95f, PUNCT, 0}, {0x1f16c, 0x1f16c, YOUNG, 0}, {0x1f6dc, 0x1f6dc, 0, 0x1f300},
    {0x1f774, 0x1f776, 0, 0x1f300}, {0x1f77b, 0x1f77f, 0, 0x1f300}, {0x1f7d9, 0x1f7d9, 0, 0x1f300},
    {0x1f8b2, 0x1f8bb, 0, 0x1f300}, {0x1f8c0, 0x1f8c1, 0, 0x1f300}, {0x1fa75, 0x1fa77, 0, 0x1f300},
    {0x1fa87, 0x1fa89, 0, 0x1f300}, {0x1fa8f, 0x1fa8f, 0, 0x1f300}, {0x1faad, 0x1faaf, 0, 0x1f300},
    {0x1fabb, 0x1fabf, 0, 0x1f300}, {0x1fac6, 0x1fac6, 0, 0x1f300}, {0x1face, 0x1facf, 0, 0x1f300},
    {0x1fada, 0x1fadc, 0, 0x1f300}, {0x1fadf, 0x1fadf, 0, 0x1f300}, {0x1fae8, 0x1fae9, 0, 0x1f300},
    {0x1faf7, 0x1faf8, 0, 0x1f300}, {0x1fbcb, 0x1fbef, 0, 0x1f300}, {0x1fbf0, 0x1fbf9, YOUNG, 0},
    {0x2b739, 0x2b739, 0, 0x20000}, {0x2ebf0, 0x2ee5d, WORD, 0x20000}, {0x31350, 0x323af, 0, 0x20000},
};
/* clang-format on */

static const struct age *age_of(uint32_t c)
{
    size_t lo = 0, hi = sizeof(ages) / sizeof(*ages);

    /* Most texts are in these gaps of the table: up to Cyrillic, General Punctuation, kana, CJK, Hangul. */
    if (c < 0x61d || (c > 0x1dfb && c < 0x2427) || (c > 0x2fff && c < 0x31e4) || (c > 0x32ff && c < 0xa7cb) ||
        (c > 0xab69 && c < 0x10000))
        return NULL;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (c > ages[mid].hi)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < sizeof(ages) / sizeof(*ages) && c >= ages[lo].lo ? &ages[lo] : NULL;
}

static bool differs(uint32_t what, uint32_t c)
{
    const struct age *a = age_of(c);

    return a && a->differs & what;
}

bool unicode_is_young(uint32_t c)
{
    return differs(YOUNG, c);
}

/* Returns the older character for the character at S, whose length is *LEN; 0: PCRE2 knows the character. */
static uint32_t older(const char *s, size_t *len)
{
    const struct age *a;

    *len = 1;
    if ((unsigned char)*s < 0xe0)
        return 0;
    a = age_of(utf8_decode(s, len));
    return a ? a->older : 0;
}

bool unicode_is_newer(const char *s, size_t n)
{
    for (size_t i = 0, len; i < n; i += len)
        if (older(s + i, &len))
            return true;
    return false;
}

void unicode_make_older(char *s, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c = older(s + i, &len);

        if (c)
            utf8_encode(c, s + i);
    }
}

/* Sets of categories, one bit each. */
enum {
    NUMBERS = 1 << UTF8PROC_CATEGORY_ND | 1 << UTF8PROC_CATEGORY_NL | 1 << UTF8PROC_CATEGORY_NO,
    MARKS = 1 << UTF8PROC_CATEGORY_MN | 1 << UTF8PROC_CATEGORY_MC | 1 << UTF8PROC_CATEGORY_ME,
    PUNCTUATION = 1 << UTF8PROC_CATEGORY_PC | 1 << UTF8PROC_CATEGORY_PD | 1 << UTF8PROC_CATEGORY_PS |
                  1 << UTF8PROC_CATEGORY_PE | 1 << UTF8PROC_CATEGORY_PI | 1 << UTF8PROC_CATEGORY_PF |
                  1 << UTF8PROC_CATEGORY_PO,
    LETTERS = 1 << UTF8PROC_CATEGORY_LU | 1 << UTF8PROC_CATEGORY_LL | 1 << UTF8PROC_CATEGORY_LT |
              1 << UTF8PROC_CATEGORY_LM | 1 << UTF8PROC_CATEGORY_LO,
    CONTROLS = 1 << UTF8PROC_CATEGORY_CC | 1 << UTF8PROC_CATEGORY_CF | 1 << UTF8PROC_CATEGORY_CO,
    WORDS =
        LETTERS | MARKS | 1 << UTF8PROC_CATEGORY_ND | 1 << UTF8PROC_CATEGORY_NL | 1 << UTF8PROC_CATEGORY_PC
};

static bool is_in(uint32_t categories, uint32_t c)
{
    return (categories >> utf8proc_category((utf8proc_int32_t)c)) & 1;
}

bool unicode_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool unicode_is_numeric(uint32_t c)
{
    if (c < 0x80)
        return c >= '0' && c <= '9';
    return is_in(NUMBERS, c) != differs(NUMBER, c);
}

bool unicode_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    return is_in(PUNCTUATION, c) != differs(PUNCT, c);
}

/* True for alphabetic characters outside the categories of WORDS: the circled and squared Latin letters. */
static bool is_other_alphabetic(uint32_t c)
{
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189);
}

bool unicode_is_word(uint32_t c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    return (is_in(WORDS, c) || c == 0x200c || c == 0x200d || is_other_alphabetic(c)) != differs(WORD, c);
}

bool unicode_is_mark(uint32_t c)
{
    return c >= 0x300 && is_in(MARKS, c);
}

bool unicode_is_nonspacing(uint32_t c)
{
    return c >= 0x300 && is_in(1 << UTF8PROC_CATEGORY_MN, c) != differs(MARK, c);
}

bool unicode_is_control(uint32_t c)
{
    return c != '\t' && c != '\n' && c != '\r' && is_in(CONTROLS, c) != differs(CONTROL, c);
}

bool unicode_is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* The letters are those of GPT-2's bytes_to_unicode(): bytes 33..126, 161..172 and 174..255 are the code
 * points of the same number; 0..32 are 256..288, 127..160 are 289..322 and 173 is 323. */
uint32_t unicode_letter_of(unsigned char b)
{
    if (b <= 32)
        return 256u + b;
    if (b >= 127 && b <= 160)
        return 289u + (b - 127u);
    return b == 173 ? 323u : b;
}

/* Returns the byte that LETTER represents, or -1. */
static int byte_of(uint32_t letter)
{
    if (letter < 256)
        return letter <= 32 || (letter >= 127 && letter <= 160) || letter == 173 ? -1 : (int)letter;
    if (letter <= 288)
        return (int)(letter - 256);
    if (letter <= 322)
        return (int)(letter - 289 + 127);
    return letter == 323 ? 173 : -1;
}

size_t unicode_spell(const char *bytes, size_t n, char *out)
{
    char *o = out;

    for (size_t i = 0; i < n; i++)
        o += utf8_encode(unicode_letter_of((unsigned char)bytes[i]), o);
    return (size_t)(o - out);
}

bool unicode_unspell(const char *letters, size_t n, char *out, size_t *n_out)
{
    size_t i = 0, m = 0;

    while (i < n) {
        size_t step;
        int b = byte_of(utf8_decode(letters + i, &step));

        if (b < 0)
            return false;
        out[m++] = (char)b;
        i += step;
    }
    *n_out = m;
    return true;
}
