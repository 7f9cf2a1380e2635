/* print.c - writes values as str() and repr() of Python do, and as JSON. */
#include "text/jinja/value/print.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json_tree.h"
#include "text/jinja/value/characters.h"
#include "text/jinja/value/origin.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

enum { BRIEF_MAX = 200 }; /* bytes of a value in a message */

/* Writes the shortest digits that read back as the same float, with an exponent where Python writes one. */
static void put_float(const struct print_writer *w, double f)
{
    char text[JSON_REAL_TEXT];

    if (!isfinite(f)) {
        jinja_put_literal(w->text, isnan(f) ? (w->json ? "NaN" : "nan") : f < 0 ? "-" : "");
        jinja_put_literal(w->text, isnan(f) ? "" : w->json ? "Infinity" : "inf");
        return;
    }
    if (!jinja_step(w->text->r, fabs(f) < DBL_MIN ? 64 : 16))
        return;
    json_real_text(f, text);
    jinja_put_literal(w->text, text);
}

static void put_quoted_character(struct text *t, uint32_t c, char quote)
{
    static const char *const known[] = {['\t'] = "\\t", ['\n'] = "\\n", ['\r'] = "\\r"};

    if (c == (unsigned char)quote || c == '\\')
        jinja_put_byte(t, '\\');
    if (c <= '\r' && known[c])
        jinja_put_literal(t, known[c]);
    else if (jinja_is_printable(c))
        jinja_put_character(t, c);
    else
        jinja_put_format(t, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static void put_json_character(struct text *t, uint32_t c)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *known = c && c < 0x80 ? strchr(from, (int)c) : NULL;

    if (known) {
        jinja_put_byte(t, '\\');
        jinja_put_byte(t, to[known - from]);
        return;
    }
    if (c >= 0x10000) {
        jinja_put_format(t, "\\u%04x", 0xd800 + ((c - 0x10000) >> 10));
        c = 0xdc00 + ((c - 0x10000) & 0x3ff);
    }
    jinja_put_format(t, "\\u%04x", c);
}

/* Writes S in quotes, with escapes. repr() also escapes unprintable characters; w->ascii escapes all
 * characters beyond ASCII. */
static void put_string(const struct print_writer *w, struct value s)
{
    bool two = w->json || (memchr(s.bytes, '\'', s.size) &&
                           !memchr(s.bytes, '"', s.size)); /* these quotes need no escapes */
    bool marked = s.mark == VALUE_ESCAPED && !w->json, high = w->ascii || !w->json;
    char quote = two ? '"' : '\'';
    struct text *t = w->text;
    size_t kept = 0;

    jinja_step(t->r, s.size / 16);
    jinja_put_literal(t, marked ? "Markup(" : "");
    jinja_put_byte(t, quote);
    for (size_t i = 0, n; i < s.size && !t->r->rc; i += n) {
        unsigned char c = (unsigned char)s.bytes[i];

        n = jinja_width(s.bytes + i);
        if (c >= 0x20 && c != '\\' && s.bytes[i] != quote && !(high && c >= 0x7f))
            continue;
        jinja_put(t, s.bytes + kept, i - kept);
        t->origin = jinja_origin(t->r, s.bytes + i);
        if (w->json)
            put_json_character(t, jinja_character(s.bytes + i));
        else
            put_quoted_character(t, jinja_character(s.bytes + i), quote);
        t->origin = 0;
        kept = i + n;
    }
    jinja_put(t, s.bytes + kept, s.size - kept);
    jinja_put_byte(t, quote);
    jinja_put_literal(t, marked ? ")" : "");
}

static void new_line(const struct print_writer *w, size_t level)
{
    if (!w->pretty)
        return;
    jinja_put_byte(w->text, '\n');
    jinja_put_times(w->text, w->indent, level);
}

static void put_value(const struct print_writer *w, struct value v, size_t level);

/* Writes a key of a dict. In JSON, keys that are not strings become strings: "true", "null", "1.5". */
static void put_key(const struct print_writer *w, struct value key, size_t level)
{
    const char *quote = w->json && key.kind != VALUE_STRING ? "\"" : "";

    if (*quote && key.kind != VALUE_NONE && !jinja_is_number(key))
        jinja_fail(w->text->r, "keys must be str, int, float, bool or None, not %s", jinja_type(key));
    jinja_put_literal(w->text, quote);
    put_value(w, key, level);
    jinja_put_literal(w->text, quote);
    jinja_put(w->text, w->colon.bytes, w->colon.size);
}

/* Writes the items of a list or tuple, or the pairs of a dict. */
static void put_items(const struct print_writer *w, struct value v, size_t level)
{
    struct rendering *r = w->text->r;
    bool list = jinja_is_sequence(v);
    size_t n = list ? v.size : v.dict->count;
    const struct value_pair *pairs = list ? NULL : v.dict->pairs;
    struct value_pair *order;

    if (!list && w->sort && n) {
        order = jinja_allocate_array(r, 2 * n, sizeof(*order));
        if (!order)
            return;
        memcpy(order, pairs, n * sizeof(*order));
        w->sort(r, order, order + n, n, false);
        pairs = order;
    }
    for (size_t i = 0; i < n && !r->rc; i++) {
        if (i)
            jinja_put(w->text, w->comma.bytes, w->comma.size);
        new_line(w, level + 1);
        if (!list)
            put_key(w, pairs[i].key, level);
        put_value(w, list ? v.items[i] : pairs[i].value, level + 1);
    }
    if (n)
        new_line(w, level);
}

static void put_container(const struct print_writer *w, struct value v, size_t level)
{
    static const char *const view[] = {[VALUE_PLAIN] = "",
                                       [VALUE_DICT_KEYS] = "dict_keys(",
                                       [VALUE_DICT_VALUES] = "dict_values(",
                                       [VALUE_DICT_ITEMS] = "dict_items("};
    bool tuple = v.kind == VALUE_TUPLE && !w->json;
    struct text *t = w->text;

    if (!jinja_enter(t->r))
        return;
    if (jinja_is_sequence(v)) {
        jinja_put_literal(t, w->json ? "" : view[v.mark]);
        jinja_put_byte(t, tuple ? '(' : '[');
        put_items(w, v, level);
        jinja_put_literal(t, !tuple ? "]" : v.size == 1 ? ",)" : ")");
        jinja_put_literal(t, v.mark && !w->json ? ")" : "");
    } else {
        jinja_put_literal(t, v.kind == VALUE_NAMESPACE ? "<Namespace {" : "{");
        put_items(w, v, level);
        jinja_put_literal(t, v.kind == VALUE_NAMESPACE ? "}>" : "}");
    }
    jinja_leave(t->r);
}

static void put_range(struct text *t, const struct value_range *g)
{
    jinja_put_format(t, "range(%lld, %lld", (long long)g->start, (long long)g->stop);
    if (g->step != 1)
        jinja_put_format(t, ", %lld", (long long)g->step);
    jinja_put_byte(t, ')');
}

static void put_value(const struct print_writer *w, struct value v, size_t level)
{
    static const char *const words[] = {"None", "False", "True"}, *const json[] = {"null", "false", "true"};
    const char *const *word = w->json ? json : words;
    struct text *t = w->text;

    if (!jinja_step(t->r, 0))
        return;
    if (v.kind == VALUE_NONE || v.kind == VALUE_BOOLEAN)
        jinja_put_literal(t, word[v.kind == VALUE_NONE ? 0 : 1 + v.boolean]);
    else if (v.kind == VALUE_INTEGER)
        jinja_put_format(t, "%lld", (long long)v.integer);
    else if (v.kind == VALUE_LARGE)
        jinja_put(t, v.bytes, v.size);
    else if (v.kind == VALUE_FLOAT)
        put_float(w, v.number);
    else if (v.kind == VALUE_STRING)
        put_string(w, v);
    else if (jinja_is_sequence(v) || v.kind == VALUE_DICT || (v.kind == VALUE_NAMESPACE && !w->json))
        put_container(w, v, level);
    else if (w->json)
        jinja_fail(t->r, "Object of type %s is not JSON serializable", jinja_type(v));
    else if (v.kind == VALUE_RANGE)
        put_range(t, v.range);
    else /* kinds that Python prints as <...>; an undefined value in a list prints as "Undefined" */
        jinja_put_format(t, v.kind == VALUE_UNDEFINED ? "%s" : "<%s>", jinja_type(v));
}

void jinja_write(const struct print_writer *w, struct value v)
{
    put_value(w, v, 0);
}

void jinja_print_repr(struct text *t, struct value v)
{
    struct print_writer w = {.text = t, .comma = jinja_literal(", "), .colon = jinja_literal(": ")};

    put_value(&w, v, 0);
}

void jinja_print(struct text *t, struct value v)
{
    if (v.kind == VALUE_STRING)
        jinja_put(t, v.bytes, v.size);
    else if (v.kind != VALUE_UNDEFINED)
        jinja_print_repr(t, v);
}

struct value jinja_to_string(struct rendering *r, struct value v)
{
    struct text t = {.r = r};

    if (v.kind == VALUE_STRING)
        return v;
    jinja_print(&t, v);
    v = jinja_finish(&t);
    return v.kind == VALUE_STRING ? v : jinja_literal("");
}

struct value jinja_escape(struct rendering *r, struct value v)
{
    struct text t = {.r = r};

    v = jinja_to_string(r, v);
    if (r->rc || v.mark == VALUE_ESCAPED || !jinja_step(r, v.size / 8))
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
    v.mark = v.kind == VALUE_STRING ? VALUE_ESCAPED : VALUE_PLAIN;
    return v;
}

const char *jinja_brief(struct rendering *r, struct value v)
{
    struct text t = {.r = r};

    jinja_print_repr(&t, v);
    if (t.size > BRIEF_MAX) /* cuts between characters */
        for (t.size = BRIEF_MAX; t.size > 0 && ((unsigned char)t.bytes[t.size] & 0xc0) == 0x80;)
            t.size--;
    return jinja_finish_terminated(&t);
}

struct value jinja_fail_undefined(struct rendering *r, struct value v)
{
    struct value object, key;
    const char *quote;

    if (v.mark == VALUE_BY_NAME)
        jinja_fail(r, "'%.*s' is undefined", (int)v.size, v.bytes);
    if (v.mark == VALUE_BY_HINT)
        jinja_fail(r, "%.*s", (int)v.size, v.bytes);
    if (r->rc)
        return value_none;
    object = v.lookup->object;
    key = v.lookup->key;
    quote = key.kind == VALUE_STRING ? "'" : "";
    return jinja_fail(r, "%s%s%s%s has no %s %s", quote,
                      object.kind == VALUE_NONE ? "None" : jinja_type(object),
                      object.kind == VALUE_NONE ? "" : " object", quote, *quote ? "attribute" : "element",
                      jinja_brief(r, key));
}
