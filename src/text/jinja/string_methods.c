/* string_methods.c - the methods of strings.
 *
 * Letters change case by Unicode's simple mapping (utf8proc), one character to one. Python's mappings to
 * several characters (an upper case sharp s is "SS") are not supported.
 */
#include "text/jinja/string_methods.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/format.h"
#include "text/jinja/value/characters.h"
#include "text/jinja/value/origin.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/slice.h"
#include "text/jinja/value/text.h"
#include "text/jinja/value/walk.h"

static uint32_t changed(uint32_t c, enum string_case how)
{
    if (c < 0x80)
        return how == STRING_LOWER ? c + 32 * jinja_is_upper(c) : c - 32 * jinja_is_lower(c);
    if (how == STRING_LOWER)
        return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    if (c == 0xdf) /* utf8proc maps the sharp s to one upper case letter, Python to two letters */
        return c;
    return (uint32_t)(how == STRING_UPPER ? utf8proc_toupper((utf8proc_int32_t)c)
                                          : utf8proc_totitle((utf8proc_int32_t)c));
}

struct value jinja_change_case(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct value s = jinja_to_string(r, v);
    enum string_case how = (enum string_case)g->how;
    struct text t = {.r = r};
    bool first = true;

    jinja_step(r, s.size / 2);
    for (size_t i = 0; i < s.size && !r->rc; i += jinja_width(s.bytes + i)) {
        uint32_t c = jinja_character(s.bytes + i);
        enum string_case to = how == STRING_UPPER || how == STRING_LOWER ? how
                              : !first                                   ? STRING_LOWER
                              : how == STRING_WORDS                      ? STRING_UPPER
                                                                         : STRING_TITLE;

        t.origin = jinja_origin(r, s.bytes + i);
        jinja_put_character(&t, changed(c, to));
        /* title() begins words after all characters but letters; the filter after white space and -({[<. */
        first = how == STRING_TITLE ? !jinja_is_lower(c) && !jinja_is_upper(c)
                                    : how == STRING_WORDS &&
                                          (jinja_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c)));
    }
    v = jinja_finish(&t);
    v.mark = how == STRING_WORDS ? VALUE_PLAIN : s.mark;
    return v;
}

static bool to_strip(struct value characters, const char *s)
{
    if (characters.kind != VALUE_STRING)
        return jinja_is_space(jinja_character(s));
    return jinja_find(characters.bytes, characters.size, s, jinja_width(s)) != SIZE_MAX;
}

struct value jinja_strip(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct value s = jinja_to_string(r, v), characters = g->p[0];
    size_t from = 0, to = s.size, cost = characters.kind == VALUE_STRING ? characters.size : 0;

    while (g->how & STRING_LEFT && from < to && to_strip(characters, s.bytes + from) &&
           (!cost || jinja_step(r, cost / 8)))
        from += jinja_width(s.bytes + from);
    while (g->how & STRING_RIGHT && to > from) {
        size_t k = jinja_width_before(s.bytes + from, to - from);

        if (!to_strip(characters, s.bytes + to - k) || (cost && !jinja_step(r, cost / 8)))
            break;
        to -= k;
    }
    return jinja_step(r, (s.size - (to - from)) / 4) ? jinja_part(s, from, to) : value_empty;
}

struct value jinja_replace(struct rendering *r, struct value s, const struct builtin_call *g)
{
    struct value from = g->p[0], to = g->p[1];
    size_t at = 0, hit, step;
    struct text t = {.r = r};
    int64_t most = jinja_given_integer(g, 2, -1);

    if (g->how) {
        s = jinja_to_string(r, s);
        s.mark = VALUE_PLAIN;
        from = jinja_to_string(r, from);
        to = jinja_to_string(r, to);
    }
    if (!jinja_step(r, jinja_search_cost(s.size, from.size)))
        return value_empty;
    to = s.mark == VALUE_ESCAPED ? jinja_escape(r, to) : to;
    for (most = most < 0 ? INT64_MAX : most; most > 0 && !r->rc; most--) {
        hit = jinja_find(s.bytes + at, s.size - at, from.bytes, from.size);
        if (hit == SIZE_MAX)
            break;
        jinja_put(&t, s.bytes + at, hit);
        jinja_put(&t, to.bytes, to.size);
        at += hit + from.size;
        if (from.size == 0) { /* the empty string occurs before each character and at the end */
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
    struct value_list_builder g = {.r = r};
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

static struct value splitlines(struct rendering *r, struct value self, const struct builtin_call *g)
{
    return split_lines(r, self, jinja_true(g->p[0]));
}

struct value jinja_indent(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct text t = {.r = r};
    struct value by, lines;

    if (v.kind == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.kind != VALUE_STRING)
        return jinja_fail(r, "indent: the value must be a string");
    by = jinja_blanks(r, g, 0, 4);
    if (r->rc)
        return value_none;
    /* A line break at the end of V begins an empty line. */
    lines = split_lines(r, jinja_join(r, v, jinja_literal("\n")), false);
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

/* Splits S at runs of white space. Leading white space does not make an empty part. */
static void split_blank(struct value_list_builder *g, struct value s, int64_t most)
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

static size_t find_last(struct rendering *r, const char *s, size_t n, const char *what, size_t k)
{
    for (size_t i = k > n ? 0 : n - k + 1; i-- > 0;)
        if (s[i] == *what && jinja_step(r, k / 64) && memcmp(s + i, what, k) == 0)
            return i;
    return SIZE_MAX;
}

/* Splits S at the separator BY. BACK: from the end, which gives the parts in reverse order. */
static void split_at(struct value_list_builder *g, struct value s, struct value by, int64_t most, bool back)
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

/* The method split() or, if given->how is set, rsplit(). */
static struct value split(struct rendering *r, struct value self, const struct builtin_call *given)
{
    struct value by = given->p[0], v;
    bool blank = by.kind == VALUE_MISSING, back = given->how;
    int64_t most = jinja_given_integer(given, 1, -1);
    struct value_list_builder g = {.r = r};

    if (!blank && by.size == 0)
        jinja_fail(r, "empty separator");
    if (!jinja_step(r, jinja_search_cost(self.size, blank ? 0 : by.size)))
        return value_none;
    most = most < 0 ? INT64_MAX : most;
    if (blank)
        split_blank(&g, self, back ? INT64_MAX : most);
    else
        split_at(&g, self, by, most, back);
    v = jinja_grown(&g);
    if (r->rc || !back)
        return v;
    if (!blank)
        return jinja_slice(r, v, value_none, value_none, jinja_integer(-1));
    /* All but the last MOST parts are one part, together with the white space between them. */
    if (most < v.size) {
        v.items += v.size - most - 1;
        v.items[0] = jinja_part(self, 0, (size_t)(v.items[0].bytes - self.bytes) + v.items[0].size);
        v.size = (uint32_t)most + 1;
    }
    return v;
}

enum { FIND, INDEX, COUNT };

/* The methods find(), index() (an error if the string does not occur) and count(), chosen by g->how. */
static struct value search(struct rendering *r, struct value self, const struct builtin_call *g)
{
    struct value sub = g->p[0];
    size_t from = 0, hit;
    int64_t n = 0;

    if (!jinja_step(r, jinja_search_cost(self.size, sub.size)))
        return value_none;
    if (g->how == COUNT && sub.size == 0)
        return jinja_integer((int64_t)utf8_count(self.bytes, self.size) + 1);
    for (; (hit = jinja_find(self.bytes + from, self.size - from, sub.bytes, sub.size)) != SIZE_MAX; n++) {
        if (g->how != COUNT)
            return jinja_integer((int64_t)utf8_count(self.bytes, hit));
        if (!jinja_step(r, 0))
            return value_none;
        from += hit + sub.size;
    }
    return g->how == INDEX ? jinja_fail(r, "substring not found") : jinja_integer(g->how == FIND ? -1 : n);
}

static bool is_string(struct rendering *r, const struct builtin_call *g, struct value v)
{
    if (v.kind != VALUE_STRING)
        jinja_fail(r, "%s(): the argument must be str, not %s", g->name, jinja_type(v));
    return v.kind == VALUE_STRING;
}

static bool has_end(struct rendering *r, struct value s, struct value with, int side)
{
    return with.size <= s.size && jinja_step(r, with.size / 64) &&
           memcmp(side == STRING_LEFT ? s.bytes : s.bytes + s.size - with.size, with.bytes, with.size) == 0;
}

/* The methods startswith() and endswith(), chosen by g->how. The argument is a string or tuple of strings. */
static struct value ends(struct rendering *r, struct value self, const struct builtin_call *g)
{
    struct value with = g->p[0];
    bool found = false;

    if (with.kind != VALUE_TUPLE)
        return jinja_boolean(is_string(r, g, with) && has_end(r, self, with, g->how));
    for (size_t i = 0; i < with.size && !found && jinja_step(r, 0); i++)
        found = is_string(r, g, with.items[i]) && has_end(r, self, with.items[i], g->how);
    return jinja_boolean(found);
}

static struct value remove_end(struct rendering *r, struct value self, const struct builtin_call *g)
{
    if (!has_end(r, self, g->p[0], g->how))
        return self;
    return g->how == STRING_LEFT ? jinja_part(self, g->p[0].size, self.size)
                                 : jinja_part(self, 0, self.size - g->p[0].size);
}

static struct value join(struct rendering *r, struct value self, const struct builtin_call *given)
{
    struct text t = {.r = r};
    bool first = true;
    struct value v;

    for (struct walk_generator *g = jinja_walk(r, given->p[0]); jinja_next(r, g, &v); first = false) {
        if (self.mark == VALUE_ESCAPED)
            v = jinja_escape(r, v);
        if (!is_string(r, given, v))
            break;
        if (!first)
            jinja_put(&t, self.bytes, self.size);
        jinja_put(&t, v.bytes, v.size);
    }
    v = jinja_finish(&t);
    v.mark = v.kind == VALUE_STRING ? self.mark : VALUE_PLAIN;
    return v;
}

/* clang-format off */
const struct builtin jinja_string_methods[] = {
    {"capitalize", jinja_change_case, "", 0, STRING_CAPITALIZED, 0},
    {"count", search, "sub$", 1, COUNT, true}, {"endswith", ends, "suffix", 1, STRING_RIGHT, true},
    {"find", search, "sub$", 1, FIND, true}, {"format", jinja_format, NULL, 0, false, 0},
    {"format_map", jinja_format, NULL, 0, true, 0}, {"index", search, "sub$", 1, INDEX, true},
    {"join", join, "iterable", 1, 0, true}, {"lower", jinja_change_case, "", 0, STRING_LOWER, 0},
    {"lstrip", jinja_strip, "chars?$", 0, STRING_LEFT, true},
    {"removeprefix", remove_end, "prefix$", 1, STRING_LEFT, true},
    {"removesuffix", remove_end, "suffix$", 1, STRING_RIGHT, true},
    {"replace", jinja_replace, "old$ new$ count#", 2, 0, true},
    {"rsplit", split, "sep?$ maxsplit#", 0, true, 0},
    {"rstrip", jinja_strip, "chars?$", 0, STRING_RIGHT, true},
    {"split", split, "sep?$ maxsplit#", 0, false, 0}, {"splitlines", splitlines, "keepends", 0, 0, false},
    {"startswith", ends, "prefix", 1, STRING_LEFT, true},
    {"strip", jinja_strip, "chars?$", 0, STRING_LEFT | STRING_RIGHT, true},
    {"title", jinja_change_case, "", 0, STRING_TITLE, 0},
    {"upper", jinja_change_case, "", 0, STRING_UPPER, 0}, {.name = NULL}
};
/* clang-format on */
