/* print.c - values as text: str() and repr() of Python, and JSON as transformers' tojson writes it; and
 * values from JSON.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_tree.h"
#include "text/jinja/tree.h"

enum { BRIEF_MAX = 200 }; /* bytes of a value in a message */

/* How values are written: as repr() does, or as JSON. */
struct writer {
    struct text *text;
    bool json, ascii, sorted, pretty;
    struct value indent; /* the string of one level */
    struct value comma, colon;
};

/* The shortest digits that read back as the same float, with an exponent where Python writes one. */
static void put_float(const struct writer *w, double f)
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

/* In quotes, with escapes for quotes, backslashes, controls, and what lies beyond ASCII if that is not taken
 * as it is. */
static void put_string(const struct writer *w, struct value s)
{
    bool two =
        w->json || (memchr(s.bytes, '\'', s.size) && !memchr(s.bytes, '"', s.size)); /* spares escapes */
    bool marked = s.mark == ESCAPED && !w->json, high = w->ascii || !w->json;
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

static void new_line(const struct writer *w, size_t level)
{
    if (!w->pretty)
        return;
    jinja_put_byte(w->text, '\n');
    jinja_put_times(w->text, w->indent, level);
}

static void put_value(const struct writer *w, struct value v, size_t level);

/* Keys that are no strings become some in JSON: "true", "null", "1.5". */
static void put_key(const struct writer *w, struct value key, size_t level)
{
    const char *quote = w->json && key.kind != STRING ? "\"" : "";

    if (*quote && key.kind != NONE && !jinja_is_number(key))
        jinja_fail(w->text->r, "keys must be str, int, float, bool or None, not %s", jinja_type(key));
    jinja_put_literal(w->text, quote);
    put_value(w, key, level);
    jinja_put_literal(w->text, quote);
    jinja_put(w->text, w->colon.bytes, w->colon.size);
}

/* The items of a list or tuple, or the pairs of a dict. */
static void put_items(const struct writer *w, struct value v, size_t level)
{
    struct rendering *r = w->text->r;
    bool list = jinja_is_sequence(v);
    size_t n = list ? v.size : v.dict->count;
    const struct pair *pairs = list ? NULL : v.dict->pairs;
    struct pair *order;

    if (!list && w->sorted && n) {
        order = jinja_allocate_array(r, 2 * n, sizeof(*order));
        if (!order)
            return;
        memcpy(order, pairs, n * sizeof(*order));
        jinja_sort(r, order, order + n, n, false);
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

static void put_container(const struct writer *w, struct value v, size_t level)
{
    static const char *const view[] = {
        [PLAIN] = "", [KEYS] = "dict_keys(", [VALUES] = "dict_values(", [ITEMS] = "dict_items("};
    bool tuple = v.kind == TUPLE && !w->json;
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
        jinja_put_literal(t, v.kind == NAMESPACE ? "<Namespace {" : "{");
        put_items(w, v, level);
        jinja_put_literal(t, v.kind == NAMESPACE ? "}>" : "}");
    }
    jinja_leave(t->r);
}

static void put_range(struct text *t, const struct range *g)
{
    jinja_put_format(t, "range(%lld, %lld", (long long)g->start, (long long)g->stop);
    if (g->step != 1)
        jinja_put_format(t, ", %lld", (long long)g->step);
    jinja_put_byte(t, ')');
}

static void put_value(const struct writer *w, struct value v, size_t level)
{
    static const char *const words[] = {"None", "False", "True"}, *const json[] = {"null", "false", "true"};
    const char *const *word = w->json ? json : words;
    struct text *t = w->text;

    if (!jinja_step(t->r, 0))
        return;
    if (v.kind == NONE || v.kind == BOOLEAN)
        jinja_put_literal(t, word[v.kind == NONE ? 0 : 1 + v.boolean]);
    else if (v.kind == INTEGER)
        jinja_put_format(t, "%lld", (long long)v.integer);
    else if (v.kind == LARGE)
        jinja_put(t, v.bytes, v.size);
    else if (v.kind == FLOAT)
        put_float(w, v.number);
    else if (v.kind == STRING)
        put_string(w, v);
    else if (jinja_is_sequence(v) || v.kind == DICT || (v.kind == NAMESPACE && !w->json))
        put_container(w, v, level);
    else if (w->json)
        jinja_fail(t->r, "Object of type %s is not JSON serializable", jinja_type(v));
    else if (v.kind == RANGE)
        put_range(t, v.range);
    else /* what has no literal; an undefined value in a list is "Undefined" */
        jinja_put_format(t, v.kind == UNDEFINED ? "%s" : "<%s>", jinja_type(v));
}

void jinja_print_repr(struct text *t, struct value v)
{
    struct writer w = {.text = t, .comma = jinja_literal(", "), .colon = jinja_literal(": ")};

    put_value(&w, v, 0);
}

void jinja_print(struct text *t, struct value v)
{
    if (v.kind == STRING)
        jinja_put(t, v.bytes, v.size);
    else if (v.kind != UNDEFINED)
        jinja_print_repr(t, v);
}

struct value jinja_to_string(struct rendering *r, struct value v)
{
    struct text t = {.r = r};

    if (v.kind == STRING)
        return v;
    jinja_print(&t, v);
    v = jinja_finish(&t);
    return v.kind == STRING ? v : jinja_literal("");
}

const char *jinja_brief(struct rendering *r, struct value v)
{
    struct text t = {.r = r};

    jinja_print_repr(&t, v);
    if (t.size > BRIEF_MAX) /* cut between characters */
        for (t.size = BRIEF_MAX; t.size > 0 && ((unsigned char)t.bytes[t.size] & 0xc0) == 0x80;)
            t.size--;
    return jinja_finish_terminated(&t);
}

/* JSON */

static bool read_separators(struct writer *w, struct value v)
{
    w->comma = jinja_literal(w->pretty ? "," : ", ");
    w->colon = jinja_literal(": ");
    if (v.kind == MISSING)
        return true;
    if (!jinja_is_sequence(v) || v.size != 2 || v.items[0].kind != STRING || v.items[1].kind != STRING) {
        jinja_fail(w->text->r, "tojson(): separators must be two strings");
        return false;
    }
    w->comma = v.items[0];
    w->colon = v.items[1];
    return true;
}

struct value jinja_to_json(struct rendering *r, struct value v, const struct given *g)
{
    struct text t = {.r = r};
    struct writer w = {.text = &t, .json = true, .ascii = jinja_true(g->p[0]), .sorted = jinja_true(g->p[3])};

    w.pretty = g->p[1].kind != MISSING;
    w.indent = w.pretty ? jinja_blanks(r, g, 1, 0) : none;
    if (r->rc || !read_separators(&w, g->p[2]))
        return none;
    put_value(&w, v, 0);
    return jinja_finish(&t);
}

/* Values from JSON */

static struct value load_string(struct rendering *r, const char *s, size_t n)
{
    if (n <= UINT32_MAX)
        return jinja_from_context(r, jinja_string(s, n));
    return jinja_fail(r, "a string of %zu bytes is too long", n);
}

static struct value load_list(struct rendering *r, const json_t *j)
{
    struct value v = jinja_list(r, LIST, NULL, json_array_size(j));

    for (size_t i = 0; v.kind == LIST && i < v.size; i++)
        v.items[i] = jinja_load(r, json_array_get(j, i));
    return v;
}

/* A member of an object. A role that every template knows is the template's, which may write it inside of a
 * special token. */
static struct value load_member(struct rendering *r, struct value name, const json_t *j)
{
    struct value v = jinja_load(r, j);

    if (v.kind == STRING && jinja_is(name, "role") &&
        jinja_is_among(v, "system user assistant tool function developer ipython model"))
        v.bytes = json_string_value(j);
    return v;
}

static struct value load_dict(struct rendering *r, const json_t *j)
{
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterators do not take const, but do not change it */
    struct dict *d = jinja_dict(r);

    for (void *i = json_object_iter(object); d && i && !r->rc; i = json_object_iter_next(object, i)) {
        struct value name = load_string(r, json_object_iter_key(i), json_object_iter_key_len(i));

        jinja_dict_set(r, d, name, load_member(r, name, json_object_iter_value(i)));
    }
    return jinja_dict_value(d, DICT);
}

struct value jinja_load(struct rendering *r, const json_t *j)
{
    struct value v = none;
    const char *digits;
    size_t n;

    if (!jinja_step(r, 0) || !jinja_enter(r))
        return v;
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        digits = json_large_text(j, &n);
        v = digits ? jinja_large(digits, n) : load_dict(r, j);
        break;
    case JSON_ARRAY: v = load_list(r, j); break;
    case JSON_STRING: v = load_string(r, json_string_value(j), json_string_length(j)); break;
    case JSON_INTEGER: v = jinja_integer(json_integer_value(j)); break;
    case JSON_REAL: v = jinja_float(json_real_value(j)); break;
    case JSON_TRUE: v = jinja_boolean(true); break;
    case JSON_FALSE: v = jinja_boolean(false); break;
    case JSON_NULL: break;
    }
    jinja_leave(r);
    return v;
}
