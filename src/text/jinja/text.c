/* text.c - strings: building and searching them, characters as Python classifies them, their methods and the
 * filters that do the same, and numbers read from them.
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

#include "base/json_tree.h"
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
    grown = jinja_allocate_text(t->r, room);
    if (!grown)
        return false;
    jinja_copy(t->r, grown, t->bytes, t->size, 0);
    t->bytes = grown;
    t->room = room;
    return true;
}

void jinja_put(struct text *t, const char *bytes, size_t n)
{
    if (!make_room(t, n) || n == 0 || (n >= 64 && !jinja_step(t->r, n / 64)))
        return;
    jinja_copy(t->r, t->bytes + t->size, bytes, n, t->origin);
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
    if (!make_room(t, n) || !jinja_step(t->r, n / 64 + times / 4))
        return;
    for (size_t i = 0; i < times; i++)
        jinja_copy(t->r, t->bytes + t->size + i * s.size, s.bytes, s.size, 0);
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

size_t jinja_search_cost(size_t n, size_t k)
{
    return n / 8 + n / 512 * (k < 256 ? k / 8 : 32);
}

size_t jinja_find(const char *s, size_t n, const char *what, size_t k)
{
    const char *hit = k ? memmem(s, n, what, k) : s;

    return hit ? (size_t)(hit - s) : SIZE_MAX;
}

static size_t find_last(struct rendering *r, const char *s, size_t n, const char *what, size_t k)
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
            jinja_copy(r, tail->end, b.bytes, b.size, 0);
            tail->end += b.size;
            tail->room -= b.size;
            return jinja_string(a.bytes, n);
        }
    room = n < 256 ? n : 2 * n;
    grown = jinja_allocate_text(r, room);
    if (!grown)
        return empty;
    jinja_copy(r, grown, a.bytes, a.size, 0);
    jinja_copy(r, grown + a.size, b.bytes, b.size, 0);
    if (room > n)
        r->tails[r->next_tail++ % N_TAILS] = (struct tail){grown + n, room - n};
    return jinja_string(grown, n);
}

struct value jinja_escape(struct rendering *r, struct value v)
{
    struct text t = {.r = r};

    v = jinja_to_string(r, v);
    if (r->rc || v.mark == ESCAPED || !jinja_step(r, v.size / 8))
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

/* Filters and methods of strings. What a filter is given becomes a string first. */

struct value jinja_change_case(struct rendering *r, struct value v, const struct given *g)
{
    struct value s = jinja_to_string(r, v);
    enum letters how = (enum letters)g->how;
    struct text t = {.r = r};
    bool first = true;

    jinja_step(r, s.size / 2);
    for (size_t i = 0; i < s.size && !r->rc; i += jinja_width(s.bytes + i)) {
        uint32_t c = jinja_character(s.bytes + i);
        enum letters to = how == UPPER || how == LOWER ? how : !first ? LOWER : how == WORDS ? UPPER : TITLE;

        t.origin = jinja_origin(r, s.bytes + i);
        jinja_put_character(&t, changed(c, to));
        /* str.title() begins a word behind anything but a letter, the filter behind these characters */
        first = how == TITLE
                    ? !is_lower(c) && !is_upper(c)
                    : how == WORDS && (jinja_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c)));
    }
    v = jinja_finish(&t);
    v.mark = how == WORDS ? PLAIN : s.mark;
    return v;
}

static bool to_strip(struct value characters, const char *s)
{
    if (characters.kind != STRING)
        return jinja_is_space(jinja_character(s));
    return jinja_find(characters.bytes, characters.size, s, jinja_width(s)) != SIZE_MAX;
}

/* Without the white space, or the characters given, at the ends that HOW names. */
struct value jinja_strip(struct rendering *r, struct value v, const struct given *g)
{
    struct value s = jinja_to_string(r, v), characters = g->p[0];
    size_t from = 0, to = s.size, cost = characters.kind == STRING ? characters.size : 0;

    while (g->how & LEFT && from < to && to_strip(characters, s.bytes + from) &&
           (!cost || jinja_step(r, cost / 8)))
        from += jinja_width(s.bytes + from);
    while (g->how & RIGHT && to > from) {
        size_t k = jinja_width_before(s.bytes + from, to - from);

        if (!to_strip(characters, s.bytes + to - k) || (cost && !jinja_step(r, cost / 8)))
            break;
        to -= k;
    }
    return jinja_step(r, (s.size - (to - from)) / 4) ? jinja_part(s, from, to) : empty;
}

/* HOW: it is the filter. */
struct value jinja_replace(struct rendering *r, struct value s, const struct given *g)
{
    struct value from = g->p[0], to = g->p[1];
    size_t at = 0, hit, step;
    struct text t = {.r = r};
    int64_t most = jinja_given_integer(g, 2, -1);

    if (g->how) {
        s = jinja_to_string(r, s);
        s.mark = PLAIN;
        from = jinja_to_string(r, from);
        to = jinja_to_string(r, to);
    }
    if (!jinja_step(r, jinja_search_cost(s.size, from.size)))
        return empty;
    to = s.mark == ESCAPED ? jinja_escape(r, to) : to;
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

static struct value split_lines(struct rendering *r, struct value s, bool keep_ends)
{
    struct growing g = {.r = r};
    size_t from = 0, i = 0, end;
    uint32_t c;

    jinja_step(r, s.size / 4);
    while (i < s.size && !r->rc) {
        end = i;
        c = jinja_character(s.bytes + i);
        i += jinja_width(s.bytes + i);
        if (c < 10 || (c > 13 && c < 28) || (c > 30 && c != 0x85 && c != 0x2028 && c != 0x2029))
            continue;
        if (s.bytes[end] == '\r' && i < s.size && s.bytes[i] == '\n')
            i++;
        jinja_push(&g, jinja_part(s, from, keep_ends ? i : end));
        from = i;
    }
    if (from < s.size)
        jinja_push(&g, jinja_part(s, from, s.size));
    return jinja_grown(&g);
}

static struct value splitlines(struct rendering *r, struct value self, const struct given *g)
{
    return split_lines(r, self, jinja_true(g->p[0]));
}

struct value jinja_indent(struct rendering *r, struct value v, const struct given *g)
{
    struct text t = {.r = r};
    struct value by, lines;

    if (v.kind == UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.kind != STRING)
        return jinja_fail(r, "indent: the value must be a string");
    by = jinja_blanks(r, g, 0, 4);
    if (r->rc)
        return none;
    lines = split_lines(r, jinja_join(r, v, jinja_literal("\n")), false); /* its last line break counts */
    for (size_t i = 0; !r->rc && i < lines.size; i++) {
        struct value line = lines.items[i];

        jinja_put(&t, "\n", i > 0);
        if (i == 0 ? jinja_true(g->p[1]) : jinja_true(g->p[2]) || line.size)
            jinja_put(&t, by.bytes, by.size);
        jinja_put(&t, line.bytes, line.size);
    }
    by = jinja_finish(&t);
    by.mark = v.mark;
    return by;
}

/* By runs of white space; leading ones give nothing. */
static void split_blank(struct growing *g, struct value s, int64_t most)
{
    size_t i = 0, from;

    while (!g->r->rc) {
        while (i < s.size && jinja_is_space(jinja_character(s.bytes + i)))
            i += jinja_width(s.bytes + i);
        if (i >= s.size)
            return;
        if (most-- == 0)
            break;
        from = i;
        while (i < s.size && !jinja_is_space(jinja_character(s.bytes + i)))
            i += jinja_width(s.bytes + i);
        jinja_push(g, jinja_part(s, from, i));
    }
    jinja_push(g, jinja_part(s, i, s.size));
}

/* Parts from the end come in reverse. */
static void split_at(struct growing *g, struct value s, struct value by, int64_t most, bool back)
{
    size_t from = 0, to = s.size, hit;

    while (most-- != 0 && !g->r->rc) {
        hit = back ? find_last(g->r, s.bytes, to, by.bytes, by.size)
                   : jinja_find(s.bytes + from, to - from, by.bytes, by.size);
        if (hit == SIZE_MAX || !jinja_step(g->r, 0))
            break;
        jinja_push(g, back ? jinja_part(s, hit + by.size, to) : jinja_part(s, from, from + hit));
        from += back ? 0 : hit + by.size;
        to = back ? hit : to;
    }
    jinja_push(g, jinja_part(s, from, to));
}

/* The parts of a string; HOW: from the right. */
static struct value split(struct rendering *r, struct value self, const struct given *given)
{
    struct value by = given->p[0], v;
    bool blank = by.kind == MISSING, back = given->how;
    int64_t most = jinja_given_integer(given, 1, -1);
    struct growing g = {.r = r};

    if (!blank && by.size == 0)
        jinja_fail(r, "empty separator");
    if (!jinja_step(r, jinja_search_cost(self.size, blank ? 0 : by.size)))
        return none;
    most = most < 0 ? INT64_MAX : most;
    if (blank)
        split_blank(&g, self, back ? INT64_MAX : most);
    else
        split_at(&g, self, by, most, back);
    v = jinja_grown(&g);
    if (r->rc || !back)
        return v;
    if (!blank)
        return jinja_slice(r, v, none, none, jinja_integer(-1));
    if (most < v.size) { /* the parts in front of the last MOST stay together, with the blanks before them */
        v.items += v.size - most - 1;
        v.items[0] = jinja_part(self, 0, (size_t)(v.items[0].bytes - self.bytes) + v.items[0].size);
        v.size = (uint32_t)most + 1;
    }
    return v;
}

enum { FIND, INDEX, COUNT };

/* The place of a string in another, which INDEX wants to be there, or how often it is there. */
static struct value search(struct rendering *r, struct value self, const struct given *g)
{
    struct value sub = g->p[0];
    size_t from = 0, hit;
    int64_t n = 0;

    if (!jinja_step(r, jinja_search_cost(self.size, sub.size)))
        return none;
    if (g->how == COUNT && sub.size == 0)
        return jinja_integer((int64_t)jinja_count(self.bytes, self.size) + 1);
    for (; (hit = jinja_find(self.bytes + from, self.size - from, sub.bytes, sub.size)) != SIZE_MAX; n++) {
        if (g->how != COUNT)
            return jinja_integer((int64_t)jinja_count(self.bytes, hit));
        if (!jinja_step(r, 0))
            return none;
        from += hit + sub.size;
    }
    return g->how == INDEX ? jinja_fail(r, "substring not found") : jinja_integer(g->how == FIND ? -1 : n);
}

static bool is_string(struct rendering *r, const struct given *g, struct value v)
{
    if (v.kind != STRING)
        jinja_fail(r, "%s(): the argument must be str, not %s", g->name, jinja_type(v));
    return v.kind == STRING;
}

static bool has_end(struct rendering *r, struct value s, struct value with, int side)
{
    return with.size <= s.size && jinja_step(r, with.size / 64) &&
           memcmp(side == LEFT ? s.bytes : s.bytes + s.size - with.size, with.bytes, with.size) == 0;
}

/* startswith() and endswith() take one string or a tuple of them. */
static struct value ends(struct rendering *r, struct value self, const struct given *g)
{
    struct value with = g->p[0];
    bool found = false;

    if (with.kind != TUPLE)
        return jinja_boolean(is_string(r, g, with) && has_end(r, self, with, g->how));
    for (size_t i = 0; i < with.size && !found && jinja_step(r, 0); i++)
        found = is_string(r, g, with.items[i]) && has_end(r, self, with.items[i], g->how);
    return jinja_boolean(found);
}

static struct value remove_end(struct rendering *r, struct value self, const struct given *g)
{
    if (!has_end(r, self, g->p[0], g->how))
        return self;
    return g->how == LEFT ? jinja_part(self, g->p[0].size, self.size)
                          : jinja_part(self, 0, self.size - g->p[0].size);
}

static struct value join(struct rendering *r, struct value self, const struct given *given)
{
    struct text t = {.r = r};
    bool first = true;
    struct value v;

    for (struct generator *g = jinja_walk(r, given->p[0]); jinja_next(r, g, &v); first = false) {
        if (self.mark == ESCAPED)
            v = jinja_escape(r, v);
        if (!is_string(r, given, v))
            break;
        if (!first)
            jinja_put(&t, self.bytes, self.size);
        jinja_put(&t, v.bytes, v.size);
    }
    v = jinja_finish(&t);
    v.mark = v.kind == STRING ? self.mark : PLAIN;
    return v;
}

/* clang-format off */
const struct row jinja_string_methods[] = {
    {"capitalize", jinja_change_case, "", 0, CAPITALIZED, 0}, {"count", search, "sub$", 1, COUNT, true},
    {"endswith", ends, "suffix", 1, RIGHT, true}, {"find", search, "sub$", 1, FIND, true},
    {"index", search, "sub$", 1, INDEX, true}, {"join", join, "iterable", 1, 0, true},
    {"lower", jinja_change_case, "", 0, LOWER, 0}, {"lstrip", jinja_strip, "chars?$", 0, LEFT, true},
    {"removeprefix", remove_end, "prefix$", 1, LEFT, true},
    {"removesuffix", remove_end, "suffix$", 1, RIGHT, true},
    {"replace", jinja_replace, "old$ new$ count#", 2, 0, true},
    {"rsplit", split, "sep?$ maxsplit#", 0, true, 0}, {"rstrip", jinja_strip, "chars?$", 0, RIGHT, true},
    {"split", split, "sep?$ maxsplit#", 0, false, 0}, {"splitlines", splitlines, "keepends", 0, 0, false},
    {"startswith", ends, "prefix", 1, LEFT, true},
    {"strip", jinja_strip, "chars?$", 0, LEFT | RIGHT, true}, {"title", jinja_change_case, "", 0, TITLE, 0},
    {"upper", jinja_change_case, "", 0, UPPER, 0}, {.name = NULL}
};
/* clang-format on */

/* Numbers */

static unsigned digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? (unsigned)((c | 32) - 'a' + 10) : 99;
}

static unsigned prefix_base(char c)
{
    c |= 32;
    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

/* What int(text, base) reads of a text without white space around it; base 0 goes by the prefix. False: no
 * integer, or one of more than 64 bits. */
bool jinja_parse_integer(const char *s, size_t n, unsigned base, int64_t *out, bool *overflow)
{
    bool negative = n && *s == '-', prefixed = false, only_zeros, over = false;
    uint64_t sum = 0;

    *overflow = false;
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

struct value jinja_parse_large(struct rendering *r, struct value s)
{
    char *digits = jinja_allocate(r, s.size + (size_t)1);
    size_t n = 0;

    if (!digits)
        return none;
    for (uint32_t i = 0; i < s.size; i++) {
        bool leading = s.bytes[i] == '0' && (n == 0 || (n == 1 && *digits == '-'));

        if (s.bytes[i] == '-' || (digit(s.bytes[i]) < 10 && !leading))
            digits[n++] = s.bytes[i];
        else if (digit(s.bytes[i]) >= 10 && s.bytes[i] != '_' && s.bytes[i] != '+')
            return jinja_fail(r, "an integer grows beyond 64 bits"); /* of base 2, 8 or 16 */
    }
    digits[n] = 0;
    if (n > JSON_LARGE_DIGITS)
        return jinja_fail(r, "an integer of %zu digits; at most %d are read", n, (int)JSON_LARGE_DIGITS);
    return jinja_large(digits, n);
}

/* What float(text) reads: digits with single underscores between them, or a word. strtod() would also take
 * hexadecimal digits. */
bool jinja_parse_float(const char *s, size_t n, double *out)
{
    bool word = n && strchr("nNfFyY", s[n - 1]) && s[n - 1];
    char text[NUMBER_MAX], *end;
    size_t used = 0;

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
