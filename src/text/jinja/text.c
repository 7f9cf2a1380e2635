/* text.c - strings: building and searching them, characters as Python classifies them, letters and numbers.
 *
 * Letters change case by Unicode's simple mapping (utf8proc), one character for one: Python's longer ones
 * (an upper case sharp s is "SS") are not followed.
 */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/value.h"

enum { NUMBER_MAX = 400 }; /* bytes of a number that is read */

/* What every string comes to once an error is set: callers may look into it. */
static const struct value empty = {.kind = STRING, .bytes = ""};

/* Building texts */

static bool make_room(struct text *t, size_t n)
{
    size_t room = t->room * 2;
    char *grown;

    if (t->r->rc)
        return false;
    if (t->most && n > t->most - t->size) {
        jinja_fail(t->r, "the text grows over the %zu bytes it may have", t->most);
        return false;
    }
    if (n <= t->room - t->size)
        return true;
    if (n > UINT32_MAX - t->size) {
        jinja_fail(t->r, "the template needs more than the %zu bytes of memory it may use",
                   t->r->limit.bytes);
        return false;
    }
    room = room < t->size + n ? t->size + n : room;
    room = room < 64 ? 64 : room;
    grown = jinja_allocate(t->r, room);
    if (!grown)
        return false;
    if (t->size)
        memcpy(grown, t->bytes, t->size);
    t->bytes = grown;
    t->room = room;
    return true;
}

void jinja_put(struct text *t, const char *bytes, size_t n)
{
    if (!make_room(t, n) || n == 0 || (n >= 64 && !jinja_step(t->r, n / 64)))
        return;
    memcpy(t->bytes + t->size, bytes, n);
    t->size += n;
}

void jinja_put_literal(struct text *t, const char *s)
{
    jinja_put(t, s, strlen(s));
}

void jinja_put_byte(struct text *t, char c)
{
    jinja_put(t, &c, 1);
}

void jinja_put_character(struct text *t, uint32_t c)
{
    char bytes[4];

    jinja_put(t, bytes, utf8_encode(c, bytes));
}

void jinja_put_format(struct text *t, const char *format, ...)
{
    char bytes[200];
    va_list ap;

    va_start(ap, format);
    vsnprintf(bytes, sizeof(bytes), format, ap);
    va_end(ap);
    jinja_put_literal(t, bytes);
}

void jinja_put_times(struct text *t, struct value s, size_t times)
{
    size_t n;

    if (s.size == 0 || times == 0)
        return;
    if (__builtin_mul_overflow(s.size, times, &n))
        n = SIZE_MAX / 2;
    if (!make_room(t, n) || !jinja_step(t->r, n / 64))
        return;
    for (size_t i = 0; i < times; i++)
        memcpy(t->bytes + t->size + i * s.size, s.bytes, s.size);
    t->size += n;
}

struct value jinja_finish(struct text *t)
{
    return t->r->rc ? empty : jinja_string(t->bytes ? t->bytes : "", t->size);
}

const char *jinja_finish_terminated(struct text *t)
{
    jinja_put_byte(t, 0);
    return t->r->rc ? "?" : t->bytes;
}

/* Places and pieces */

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
    size_t i = n - 1;

    while (i > 0 && ((unsigned char)s[i] & 0xc0) == 0x80)
        i--;
    return n - i;
}

size_t jinja_count(const char *s, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

size_t jinja_offset(struct value s, size_t index)
{
    size_t at = 0;

    while (index-- > 0 && at < s.size)
        at += jinja_width(s.bytes + at);
    return at;
}

size_t jinja_find(const char *s, size_t n, const char *what, size_t k)
{
    const char *hit = k ? memmem(s, n, what, k) : s;

    return hit ? (size_t)(hit - s) : SIZE_MAX;
}

size_t jinja_find_last(struct rendering *r, const char *s, size_t n, const char *what, size_t k)
{
    for (size_t i = k > n ? 0 : n - k + 1; i-- > 0;)
        if (s[i] == *what && jinja_step(r, k / 64) && memcmp(s + i, what, k) == 0)
            return i;
    return SIZE_MAX;
}

struct value jinja_part(struct value s, size_t from, size_t to)
{
    struct value part = jinja_string(s.bytes + from, to - from);

    part.mark = s.mark;
    return part;
}

/* The joined string gets room behind its end, so that a text which grows piece by piece is not copied each
 * time: if A ends where such room begins, B goes there. */
struct value jinja_join(struct rendering *r, struct value a, struct value b)
{
    size_t n = (size_t)a.size + b.size, room;
    struct tail *tail;
    char *grown;

    if (a.size == 0 || b.size == 0) {
        a = a.size ? a : b;
        a.mark = PLAIN;
        return a;
    }
    if (n > UINT32_MAX)
        jinja_fail(r, "a string of %zu bytes is too long", n);
    if (!jinja_step(r, b.size / 64))
        return empty;
    for (tail = r->tails; tail < r->tails + N_TAILS; tail++)
        if (tail->end == a.bytes + a.size && tail->room >= b.size) {
            memcpy(tail->end, b.bytes, b.size);
            tail->end += b.size;
            tail->room -= b.size;
            return jinja_string(a.bytes, n);
        }
    room = n < 256 ? n : 2 * n;
    grown = jinja_allocate(r, room);
    if (!grown)
        return empty;
    memcpy(grown, a.bytes, a.size);
    memcpy(grown + a.size, b.bytes, b.size);
    if (room > n)
        r->tails[r->next_tail++ % N_TAILS] = (struct tail){grown + n, room - n};
    return jinja_string(grown, n);
}

struct value jinja_escape(struct rendering *r, struct value v)
{
    struct text t = {.r = r};

    v = jinja_to_string(r, v);
    if (r->rc || v.mark == ESCAPED)
        return v;
    for (size_t i = 0, kept = 0; i <= v.size; i++) {
        const char *to = i == v.size          ? ""
                         : v.bytes[i] == '&'  ? "&amp;"
                         : v.bytes[i] == '<'  ? "&lt;"
                         : v.bytes[i] == '>'  ? "&gt;"
                         : v.bytes[i] == '"'  ? "&#34;"
                         : v.bytes[i] == '\'' ? "&#39;"
                                              : NULL;

        if (to) {
            jinja_put(&t, v.bytes + kept, i - kept);
            jinja_put_literal(&t, to);
            kept = i + 1;
        }
    }
    v = jinja_finish(&t);
    v.mark = v.kind == STRING ? ESCAPED : PLAIN;
    return v;
}

static bool to_strip(struct value characters, const char *s)
{
    if (characters.kind != STRING)
        return jinja_is_space(jinja_character(s));
    return jinja_find(characters.bytes, characters.size, s, jinja_width(s)) != SIZE_MAX;
}

struct value jinja_strip(struct rendering *r, struct value s, struct value characters, bool left, bool right)
{
    size_t from = 0, to = s.size, cost = characters.kind == STRING ? characters.size : 0;

    while (left && from < to && to_strip(characters, s.bytes + from) && (!cost || jinja_step(r, cost / 8)))
        from += jinja_width(s.bytes + from);
    while (right && to > from) {
        size_t k = jinja_width_before(s.bytes + from, to - from);

        if (!to_strip(characters, s.bytes + to - k) || (cost && !jinja_step(r, cost / 8)))
            break;
        to -= k;
    }
    return jinja_step(r, (s.size - (to - from)) / 16) ? jinja_part(s, from, to) : empty;
}

struct value jinja_replace(struct rendering *r, struct value s, struct value from, struct value to,
                           int64_t most)
{
    struct text t = {.r = r};
    size_t at = 0, hit, step;

    if (!jinja_step(r, s.size / 8))
        return empty;
    for (most = most < 0 ? INT64_MAX : most; most > 0 && !r->rc; most--) {
        hit = jinja_find(s.bytes + at, s.size - at, from.bytes, from.size);
        if (hit == SIZE_MAX)
            break;
        jinja_put(&t, s.bytes + at, hit);
        jinja_put(&t, to.bytes, to.size);
        at += hit + from.size;
        if (from.size == 0) { /* the empty string is found before each character and at the end */
            step = at < s.size ? jinja_width(s.bytes + at) : 0;
            jinja_put(&t, s.bytes + at, step);
            at += step;
            if (step == 0)
                break;
        }
        if (!jinja_step(r, 0))
            break;
    }
    jinja_put(&t, s.bytes + at, s.size - at);
    to = jinja_finish(&t);
    to.mark = s.mark;
    return to;
}

void jinja_split_lines(struct growing *g, struct value s, bool keep_ends)
{
    size_t from = 0, i = 0, end;
    uint32_t c;

    if (!jinja_step(g->r, s.size / 16))
        return;
    while (i < s.size && !g->r->rc) {
        end = i;
        c = jinja_character(s.bytes + i);
        i += jinja_width(s.bytes + i);
        if (c < 10 || (c > 13 && c < 28) || (c > 30 && c != 0x85 && c != 0x2028 && c != 0x2029))
            continue;
        if (s.bytes[end] == '\r' && i < s.size && s.bytes[i] == '\n')
            i++;
        jinja_push(g, jinja_part(s, from, keep_ends ? i : end));
        from = i;
    }
    if (from < s.size)
        jinja_push(g, jinja_part(s, from, s.size));
}

/* Characters */

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
    utf8proc_category_t k = category(c); /* separators and the other ones come last */

    return c < 0x7f ? c >= 0x20 : k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool jinja_is_name(uint32_t c)
{
    return c < 0x80 ? isalnum((int)c) || c == '_' : !jinja_is_space(c);
}

static bool is_lower(uint32_t c)
{
    return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL;
}

static bool is_upper(uint32_t c)
{
    return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU;
}

static uint32_t changed(uint32_t c, enum letters how)
{
    if (c < 0x80)
        return how == LOWER ? c + 32 * is_upper(c) : c - 32 * is_lower(c);
    if (how == LOWER)
        return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    if (c == 0xdf) /* sharp s, whose upper case is two letters; utf8proc offers another one */
        return c;
    return (uint32_t)(how == UPPER ? utf8proc_toupper((utf8proc_int32_t)c)
                                   : utf8proc_totitle((utf8proc_int32_t)c));
}

struct value jinja_change_case(struct rendering *r, struct value s, enum letters how)
{
    struct text t = {.r = r};
    bool first = true;

    for (size_t i = 0; i < s.size && !r->rc; i += jinja_width(s.bytes + i)) {
        uint32_t c = jinja_character(s.bytes + i);
        enum letters to = how == UPPER || how == LOWER ? how : !first ? LOWER : how == WORDS ? UPPER : TITLE;

        jinja_put_character(&t, changed(c, to));
        /* str.title() begins a word behind anything but a letter, the filter behind these characters */
        first = how == TITLE
                    ? !is_lower(c) && !is_upper(c)
                    : how == WORDS && (jinja_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c)));
    }
    jinja_step(r, s.size / 16);
    s.bytes = t.bytes ? t.bytes : "";
    s.size = (uint32_t)t.size;
    return r->rc ? empty : s;
}

bool jinja_has_case(struct value s, bool upper)
{
    bool found = false;

    for (size_t i = 0; i < s.size; i += jinja_width(s.bytes + i)) {
        uint32_t c = jinja_character(s.bytes + i);

        if (upper ? is_lower(c) : is_upper(c))
            return false;
        found |= upper ? is_upper(c) : is_lower(c);
    }
    return found;
}

/* Numbers */

static struct value without_space(const char *s, size_t n)
{
    while (n && jinja_is_space(jinja_character(s))) {
        size_t k = jinja_width(s);

        s += k;
        n -= k;
    }
    while (n && jinja_is_space(jinja_character(s + n - jinja_width_before(s, n))))
        n -= jinja_width_before(s, n);
    return jinja_string(s, n);
}

static unsigned digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? (unsigned)((c | 32) - 'a' + 10) : 99;
}

static unsigned prefix_base(char c)
{
    switch (c | 32) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 0;
    }
}

/* What int(text, base) reads; base 0 goes by the prefix. False: no integer, or one of more than 64 bits. */
bool jinja_parse_integer(const char *s, size_t n, unsigned base, int64_t *out, bool *overflow)
{
    struct value v = without_space(s, n);
    bool negative, prefixed = false, only_zeros, over = false;
    uint64_t sum = 0;

    *overflow = false;
    s = v.bytes;
    n = v.size;
    negative = n && *s == '-';
    if (n && (*s == '-' || *s == '+'))
        s++, n--;
    if (n > 2 && s[0] == '0' && prefix_base(s[1]) && (base == 0 || base == prefix_base(s[1]))) {
        base = prefix_base(s[1]);
        s += 2, n -= 2;
        prefixed = true;
    }
    only_zeros = base == 0 && n && *s == '0';
    base = base ? base : 10;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '_' && i + 1 < n && s[i + 1] != '_' && (i > 0 || prefixed))
            continue;
        if (digit(s[i]) >= base || (only_zeros && s[i] != '0'))
            return false;
        over |= __builtin_mul_overflow(sum, base, &sum) || __builtin_add_overflow(sum, digit(s[i]), &sum);
    }
    *overflow = over || sum > (uint64_t)INT64_MAX + negative;
    *out = (int64_t)(negative ? 0 - sum : sum);
    return n > 0 && !*overflow;
}

/* What float(text) reads: digits with single underscores between them, or a word. strtod() would also take
 * hexadecimal digits. */
bool jinja_parse_float(const char *s, size_t n, double *out)
{
    struct value v = without_space(s, n);
    char text[NUMBER_MAX], *end;
    size_t used = 0;
    bool word;

    s = v.bytes;
    n = v.size;
    word = n &&
           (digit(s[n - 1]) == digit('n') || digit(s[n - 1]) == digit('f') || digit(s[n - 1]) == digit('y'));
    for (size_t i = 0; i < n; i++) {
        bool between = i > 0 && i + 1 < n && digit(s[i - 1]) < 10 && digit(s[i + 1]) < 10;

        if (s[i] == '_' && between)
            continue;
        if (used + 1 == sizeof(text) || (!word && digit(s[i]) >= 10 && !memchr("+-.eE", s[i], 5)))
            return false;
        text[used++] = s[i];
    }
    text[used] = 0;
    *out = strtod(text, &end);
    return used > 0 && end == text + used && !isspace((unsigned char)*text) && (!word || !isfinite(*out));
}
