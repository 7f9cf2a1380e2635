/* json_text.c - builds all spellings of characters from ranges of code points. */
#include "text/grammar/schema/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

/* Characters that have a short escape such as \n, and the letter of the escape. */
static const struct {
    uint8_t character, letter;
} short_escape[] = {{'\b', 'b'}, {'\t', 't'}, {'\n', 'n'}, {'\f', 'f'},
                    {'\r', 'r'}, {'"', '"'},  {'/', '/'},  {'\\', '\\'}};

/* ASCII characters that some writers of JSON spell with \u, as ranges. */
static const struct {
    uint8_t low, high;
} escaped[] = {{0, 0x1f},  {'"', '"'}, {'&', '\''},  {'+', '+'},  {'/', '/'},
               {'<', '>'}, {'`', '`'}, {'\\', '\\'}, {0x7f, 0x7f}};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Matches one hexadecimal digit in [low, high], in lower or upper case. */
static uint32_t hex_digit(struct regex_store *s, unsigned low, unsigned high)
{
    struct regex_set set = {{0}};

    for (unsigned d = low; d <= high; d++) {
        regex_set_add(&set, (uint8_t) "0123456789abcdef"[d]);
        regex_set_add(&set, (uint8_t) "0123456789ABCDEF"[d]);
    }
    return regex_bytes(s, &set);
}

/* Matches N hexadecimal digits of a number in [low, high]. */
static uint32_t hex_range(struct regex_store *s, uint32_t low, uint32_t high, unsigned n)
{
    uint32_t below = (UINT32_C(1) << 4 * (n - 1)) - 1, first = low >> 4 * (n - 1), last = high >> 4 * (n - 1),
             r = REGEX_NOTHING;

    if (n == 1)
        return hex_digit(s, low, high);
    if (first == last)
        return regex_concat(s, hex_digit(s, first, first), hex_range(s, low & below, high & below, n - 1));
    if (low & below) {
        r = regex_concat(s, hex_digit(s, first, first), hex_range(s, low & below, below, n - 1));
        first++;
    }
    if ((high & below) != below) {
        r = regex_or(s, r, regex_concat(s, hex_digit(s, last, last), hex_range(s, 0, high & below, n - 1)));
        last--;
    }
    if (first > last)
        return r;
    return regex_or(
        s, r, regex_concat(s, hex_digit(s, first, last), regex_repeat(s, hex_digit(s, 0, 15), n - 1, n - 1)));
}

/* Matches \u and four digits of a number in [low, high]. */
static uint32_t hex_escape(struct regex_store *s, uint32_t low, uint32_t high)
{
    return regex_concat(s, regex_literal(s, "\\u", 2), hex_range(s, low, high, 4));
}

/* Matches the surrogate pairs, as \u escapes, of the characters 0x10000 + [low, high]. */
static uint32_t surrogates(struct regex_store *s, uint32_t low, uint32_t high)
{
    uint32_t first = low >> 10, last = high >> 10, r = REGEX_NOTHING;

    if (first == last)
        return regex_concat(s, hex_escape(s, 0xd800 + first, 0xd800 + first),
                            hex_escape(s, 0xdc00 + (low & 0x3ff), 0xdc00 + (high & 0x3ff)));
    if (low & 0x3ff) {
        r = surrogates(s, low, low | 0x3ff);
        first++;
    }
    if ((high & 0x3ff) != 0x3ff) {
        r = regex_or(s, r, surrogates(s, high & ~UINT32_C(0x3ff), high));
        last--;
    }
    if (first > last)
        return r;
    return regex_or(
        s, r, regex_concat(s, hex_escape(s, 0xd800 + first, 0xd800 + last), hex_escape(s, 0xdc00, 0xdfff)));
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Matches the characters of [low, high] as UTF-8, except the characters that a JSON string must escape. */
static uint32_t unescaped(struct regex_store *s, uint32_t low, uint32_t high)
{
    static const struct {
        uint32_t low, high;
    } part[] = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10ffff}};
    uint32_t r = REGEX_NOTHING;

    for (size_t i = 0; i < COUNT(part); i++)
        if (larger(low, part[i].low) <= smaller(high, part[i].high))
            r = regex_or(s, r, regex_characters(s, larger(low, part[i].low), smaller(high, part[i].high)));
    return r;
}

uint32_t json_text_characters(struct regex_store *s, uint32_t low, uint32_t high)
{
    struct regex_set letters = {{0}};
    bool has_letter = false;
    uint32_t r = unescaped(s, low, high);

    for (size_t i = 0; i < COUNT(short_escape); i++)
        if (short_escape[i].character >= low && short_escape[i].character <= high) {
            regex_set_add(&letters, short_escape[i].letter);
            has_letter = true;
        }
    if (has_letter)
        r = regex_or(s, r, regex_concat(s, regex_range(s, '\\', '\\'), regex_bytes(s, &letters)));
    for (size_t i = 0; i < COUNT(escaped); i++)
        if (larger(low, escaped[i].low) <= smaller(high, escaped[i].high))
            r = regex_or(s, r, hex_escape(s, larger(low, escaped[i].low), smaller(high, escaped[i].high)));
    if (larger(low, 0x80) <= smaller(high, 0xd7ff))
        r = regex_or(s, r, hex_escape(s, larger(low, 0x80), smaller(high, 0xd7ff)));
    if (larger(low, 0xe000) <= smaller(high, 0xffff))
        r = regex_or(s, r, hex_escape(s, larger(low, 0xe000), smaller(high, 0xffff)));
    if (high >= 0x10000)
        r = regex_or(s, r, surrogates(s, larger(low, 0x10000) - 0x10000, high - 0x10000));
    return r;
}

static bool has_one_spelling(unsigned char c)
{
    for (size_t i = 0; i < COUNT(escaped); i++)
        if (c >= escaped[i].low && c <= escaped[i].high)
            return false;
    return c < 0x80;
}

/* Matches the control character, quotation mark or backslash C in its plain spelling. */
static uint32_t plain_escape(struct regex_store *s, unsigned char c)
{
    char text[8];
    int n = 0;

    for (size_t i = 0; i < COUNT(short_escape); i++)
        if (short_escape[i].character == c)
            n = snprintf(text, sizeof(text), "\\%c", short_escape[i].letter);
    if (n == 0)
        n = snprintf(text, sizeof(text), "\\u%04x", c);
    return regex_literal(s, text, (size_t)n);
}

/* True if the byte C stands for itself in every text of SPELLING. */
static bool is_verbatim(unsigned char c, enum json_spelling spelling)
{
    return spelling == JSON_PLAIN_SPELLING ? c >= 0x20 && c != '"' && c != '\\' : has_one_spelling(c);
}

/* Consecutive bytes that stand for themselves become one literal. */
uint32_t json_text_literal(struct json_text *j, const char *text, size_t n, enum json_spelling spelling)
{
    uint32_t r = REGEX_EMPTY;
    size_t end = n;

    while (end > 0 && j->s->fault == REGEX_FINE) {
        size_t begin = end - 1, size;

        if (is_verbatim((unsigned char)text[begin], spelling)) {
            while (begin > 0 && is_verbatim((unsigned char)text[begin - 1], spelling))
                begin--;
            r = regex_concat(j->s, regex_literal(j->s, text + begin, end - begin), r);
        } else if (spelling == JSON_PLAIN_SPELLING) {
            r = regex_concat(j->s, plain_escape(j->s, (unsigned char)text[begin]), r);
        } else {
            uint32_t c;

            while (begin > 0 && ((unsigned char)text[begin] & 0xc0) == 0x80)
                begin--;
            c = utf8_decode(text + begin, &size);
            r = regex_concat(j->s, json_text_characters(j->s, c, c), r);
        }
        end = begin;
    }
    return r;
}

static int compare_strings(const void *a, const void *b)
{
    const struct json_string *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->text, y->text, n) : 0;

    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static bool begins_character(const struct json_string *x, size_t at)
{
    return at >= x->n || ((unsigned char)x->text[at] & 0xc0) != 0x80;
}

enum { MOST_PREFIXES = 100 }; /* maximum nesting depth of common prefixes */

/* Matches the rest, from byte SKIP on, of one of the sorted strings LIST [n]. The bytes before SKIP are equal
 * in all strings. Common prefixes are written once, so that a state has few alternatives. */
static uint32_t one_of(struct json_text *j, const struct json_string *list, size_t n, size_t skip,
                       enum json_spelling spelling, int depth)
{
    uint32_t r = REGEX_NOTHING, *part;
    size_t same = skip, end, n_parts = 0, size;

    if (n == 1 || depth > MOST_PREFIXES) {
        for (size_t i = 0; i < n; i++)
            r = regex_or(j->s, r, json_text_literal(j, list[i].text + skip, list[i].n - skip, spelling));
        return r;
    }
    while (same < list[0].n && same < list[n - 1].n && list[0].text[same] == list[n - 1].text[same])
        same++;
    while (same > skip && (!begins_character(&list[0], same) || !begins_character(&list[n - 1], same)))
        same--;
    part = mem_alloc(n * sizeof(*part), MEM_TEXT);
    if (!part) {
        j->s->fault = j->s->fault ? j->s->fault : REGEX_NO_MEMORY;
        return REGEX_NOTHING;
    }
    for (size_t i = 0; i < n; i = end) {
        end = i + 1;
        if (list[i].n == same) {
            while (end < n && list[end].n == same)
                end++;
            part[n_parts++] = REGEX_EMPTY;
            continue;
        }
        utf8_decode(list[i].text + same, &size);
        while (end < n && list[end].n >= same + size &&
               memcmp(list[end].text + same, list[i].text + same, size) == 0)
            end++;
        part[n_parts++] = one_of(j, list + i, end - i, same, spelling, depth + 1);
    }
    r = regex_union(j->s, part, n_parts);
    mem_free(part);
    return regex_concat(j->s, json_text_literal(j, list[0].text + skip, same - skip, spelling), r);
}

uint32_t json_text_one_of(struct json_text *j, struct json_string *list, size_t n,
                          enum json_spelling spelling)
{
    if (n == 0)
        return REGEX_NOTHING;
    qsort(list, n, sizeof(*list), compare_strings);
    return one_of(j, list, n, 0, spelling, 0);
}

uint32_t json_text_quoted(struct json_text *j, uint32_t contents)
{
    uint32_t quote = regex_range(j->s, '"', '"');

    return regex_concat(j->s, quote, regex_concat(j->s, contents, quote));
}

void json_text_init(struct json_text *j, struct regex_store *s, bool without_space)
{
    struct regex_set blank = {{0}};
    uint32_t line_end;

    *j = (struct json_text){.s = s, .space = REGEX_EMPTY};
    j->character = json_text_characters(s, 0, 0x10ffff);
    j->string = regex_repeat(s, j->character, 0, REGEX_NO_LIMIT);
    if (without_space)
        return;
    regex_set_add(&blank, ' ');
    regex_set_add(&blank, '\t');
    line_end = regex_concat(s, regex_repeat(s, regex_range(s, '\r', '\r'), 0, 1), regex_range(s, '\n', '\n'));
    j->space = regex_concat(s, regex_repeat(s, line_end, 0, 1),
                            regex_repeat(s, regex_bytes(s, &blank), 0, JSON_TEXT_BLANKS));
}
