/* print.c - values as text: str() and repr() of Python, and JSON as transformers' tojson writes it; and
 * values from JSON.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_pull.h"
#include "text/jinja/tree.h"

enum { BRIEF_MAX = 200 }; /* bytes of a value in a message */

/* The shortest digits that read back as the same float, with an exponent where Python writes one. */
static void put_float(struct text *t, double f)
{
    int precision = fabs(f) < DBL_MIN ? 0 : 14, exponent; /* 15 digits survive, but of subnormals */
    char text[48];

    if (!isfinite(f)) {
        jinja_put_literal(t, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    do
        snprintf(text, sizeof(text), "%.*e", precision, f);
    while (strtod(text, NULL) != f && ++precision < 17);
    for (const char *end = strchr(text, 'e'); precision > 0 && end[-1] == '0'; end--)
        precision--;
    snprintf(text, sizeof(text), "%.*e", precision, f);
    exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, sizeof(text), "%.*f", precision - exponent > 1 ? precision - exponent : 1, f);
    jinja_put_literal(t, text);
}

/* The string with PUT for what must be escaped: QUOTE, backslashes, controls, and with HIGH beyond ASCII. */
static void put_escaped(struct text *t, struct value s, char quote, bool high,
                        void (*put)(struct text *t, uint32_t c, char quote))
{
    size_t kept = 0;

    jinja_put_byte(t, quote);
    for (size_t i = 0, n; i < s.size && !t->r->rc; i += n) {
        unsigned char c = (unsigned char)s.bytes[i];

        n = jinja_width(s.bytes + i);
        if (c >= 0x20 && c != '\\' && s.bytes[i] != quote && !(high && c >= 0x7f))
            continue;
        jinja_put(t, s.bytes + kept, i - kept);
        put(t, jinja_character(s.bytes + i), quote);
        kept = i + n;
    }
    jinja_put(t, s.bytes + kept, s.size - kept);
    jinja_put_byte(t, quote);
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
    else if (c < 0x100)
        jinja_put_format(t, "\\x%02x", c);
    else if (c < 0x10000)
        jinja_put_format(t, "\\u%04x", c);
    else
        jinja_put_format(t, "\\U%08x", c);
}

static void put_items(struct text *t, const struct list *l)
{
    for (size_t i = 0; i < l->count && !t->r->rc; i++) {
        if (i)
            jinja_put_literal(t, ", ");
        jinja_print_repr(t, l->items[i]);
    }
}

static void put_dict(struct text *t, const struct dict *d)
{
    jinja_put_byte(t, '{');
    for (uint32_t i = 0; i < d->count && !t->r->rc; i++) {
        if (i)
            jinja_put_literal(t, ", ");
        jinja_print_repr(t, d->pairs[i].key);
        jinja_put_literal(t, ": ");
        jinja_print_repr(t, d->pairs[i].value);
    }
    jinja_put_byte(t, '}');
}

static void put_container(struct text *t, struct value v)
{
    static const char *const view[] = {
        [PLAIN] = "", [KEYS] = "dict_keys(", [VALUES] = "dict_values(", [ITEMS] = "dict_items("};

    if (!jinja_enter(t->r))
        return;
    if (jinja_is_sequence(v)) {
        jinja_put_literal(t, view[v.mark]);
        jinja_put_byte(t, v.kind == LIST ? '[' : '(');
        put_items(t, v.list);
        jinja_put_literal(t, v.mark ? "])" : v.kind == LIST ? "]" : v.list->count == 1 ? ",)" : ")");
    } else {
        jinja_put_literal(t, v.kind == NAMESPACE ? "<Namespace " : "");
        put_dict(t, v.dict);
        jinja_put_literal(t, v.kind == NAMESPACE ? ">" : "");
    }
    jinja_leave(t->r);
}

void jinja_print_repr(struct text *t, struct value v)
{
    bool two;

    if (!jinja_step(t->r, 0))
        return;
    switch ((enum kind)v.kind) {
    case MISSING:
    case UNDEFINED: jinja_put_literal(t, "Undefined"); break;
    case NONE: jinja_put_literal(t, "None"); break;
    case BOOLEAN: jinja_put_literal(t, v.boolean ? "True" : "False"); break;
    case INTEGER: jinja_put_format(t, "%lld", (long long)v.integer); break;
    case FLOAT: put_float(t, v.number); break;
    case STRING:
        jinja_put_literal(t, v.mark == ESCAPED ? "Markup(" : "");
        two = memchr(v.bytes, '\'', v.size) && !memchr(v.bytes, '"', v.size); /* that spares escapes */
        put_escaped(t, v, two ? '"' : '\'', true, put_quoted_character);
        jinja_put_literal(t, v.mark == ESCAPED ? ")" : "");
        break;
    case LIST:
    case TUPLE:
    case DICT:
    case NAMESPACE: put_container(t, v); break;
    case RANGE:
        jinja_put_format(t, "range(%lld, %lld", (long long)v.range->start, (long long)v.range->stop);
        if (v.range->step != 1)
            jinja_put_format(t, ", %lld", (long long)v.range->step);
        jinja_put_byte(t, ')');
        break;
    case GENERATOR: jinja_put_literal(t, "<generator object>"); break;
    case FUNCTION: jinja_put_format(t, "<function %s>", v.function->name); break;
    case METHOD: jinja_put_format(t, "<built-in method %s>", v.bound->row->name); break;
    case MACRO:
        jinja_put_literal(t, "<Macro ");
        jinja_print_repr(t, v.macro->node->name);
        jinja_put_byte(t, '>');
        break;
    case LOOP: jinja_put_literal(t, "<LoopContext>"); break;
    }
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

struct json {
    struct text text;
    bool ascii, sorted, pretty;
    struct value indent; /* the string of one level */
    struct value comma, colon;
};

static void put_json_character(struct text *t, uint32_t c, char quote)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *known = c && c < 0x80 ? strchr(from, (int)c) : NULL;

    (void)quote;
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

static void new_line(struct json *j, size_t level)
{
    if (!j->pretty)
        return;
    jinja_put_byte(&j->text, '\n');
    jinja_put_times(&j->text, j->indent, level);
}

static void put_json(struct json *j, struct value v, size_t level);

static void put_json_list(struct json *j, const struct list *l, size_t level)
{
    jinja_put_byte(&j->text, '[');
    for (size_t i = 0; i < l->count && !j->text.r->rc; i++) {
        if (i)
            jinja_put(&j->text, j->comma.bytes, j->comma.size);
        new_line(j, level + 1);
        put_json(j, l->items[i], level + 1);
    }
    if (l->count)
        new_line(j, level);
    jinja_put_byte(&j->text, ']');
}

/* Keys that are no strings become some: "true", "null", "1.5". */
static void put_json_key(struct json *j, struct value key, size_t level)
{
    const char *quote = key.kind == STRING ? "" : "\"";

    if (key.kind != STRING && key.kind != NONE && !jinja_is_number(key))
        jinja_fail(j->text.r, "keys must be str, int, float, bool or None, not %s", jinja_type(key));
    jinja_put_literal(&j->text, quote);
    put_json(j, key, level);
    jinja_put_literal(&j->text, quote);
}

static void put_json_dict(struct json *j, const struct dict *d, size_t level)
{
    struct rendering *r = j->text.r;
    const struct pair *pairs = d->pairs;
    struct pair *order;

    if (j->sorted && d->count) {
        order = jinja_allocate_array(r, 2 * (size_t)d->count, sizeof(*order));
        if (!order)
            return;
        memcpy(order, d->pairs, d->count * sizeof(*order));
        jinja_sort(r, order, order + d->count, d->count, false);
        pairs = order;
    }
    jinja_put_byte(&j->text, '{');
    for (uint32_t i = 0; i < d->count && !r->rc; i++) {
        if (i)
            jinja_put(&j->text, j->comma.bytes, j->comma.size);
        new_line(j, level + 1);
        put_json_key(j, pairs[i].key, level);
        jinja_put(&j->text, j->colon.bytes, j->colon.size);
        put_json(j, pairs[i].value, level + 1);
    }
    if (d->count)
        new_line(j, level);
    jinja_put_byte(&j->text, '}');
}

static void put_json(struct json *j, struct value v, size_t level)
{
    struct text *t = &j->text;

    if (!jinja_step(t->r, 0) || !jinja_enter(t->r))
        return;
    switch ((enum kind)v.kind) {
    case NONE: jinja_put_literal(t, "null"); break;
    case BOOLEAN: jinja_put_literal(t, v.boolean ? "true" : "false"); break;
    case INTEGER: jinja_put_format(t, "%lld", (long long)v.integer); break;
    case FLOAT:
        if (isfinite(v.number))
            put_float(t, v.number);
        else
            jinja_put_literal(t, isnan(v.number) ? "NaN" : v.number < 0 ? "-Infinity" : "Infinity");
        break;
    case STRING: put_escaped(t, v, '"', j->ascii, put_json_character); break;
    case LIST:
    case TUPLE: put_json_list(j, v.list, level); break;
    case DICT: put_json_dict(j, v.dict, level); break;
    default: jinja_fail(t->r, "Object of type %s is not JSON serializable", jinja_type(v));
    }
    jinja_leave(t->r);
}

static bool read_separators(struct json *j, struct value v)
{
    j->comma = jinja_literal(j->pretty ? "," : ", ");
    j->colon = jinja_literal(": ");
    if (v.kind == MISSING || v.kind == NONE)
        return true;
    if (!jinja_is_sequence(v) || v.list->count != 2 || v.list->items[0].kind != STRING ||
        v.list->items[1].kind != STRING) {
        jinja_fail(j->text.r, "tojson(): separators must be two strings");
        return false;
    }
    j->comma = v.list->items[0];
    j->colon = v.list->items[1];
    return true;
}

struct value jinja_to_json(struct rendering *r, struct value v, const struct given *g)
{
    struct json j = {.text = {.r = r}, .ascii = jinja_true(g->p[0]), .sorted = jinja_true(g->p[3])};

    j.pretty = g->p[1].kind != MISSING && g->p[1].kind != NONE;
    j.indent = j.pretty ? jinja_blanks(r, g, 1, 0) : none;
    if (r->rc || !read_separators(&j, g->p[2]))
        return none;
    put_json(&j, v, 0);
    return jinja_finish(&j.text);
}

/* Reading */

static struct value load_string(struct rendering *r, const char *s, size_t n)
{
    if (n <= UINT32_MAX)
        return jinja_string(s, n);
    jinja_fail(r, "a string of %zu bytes is too long", n);
    return none;
}

static struct value load_list(struct rendering *r, const json_t *j)
{
    struct value v = jinja_list(r, LIST, NULL, json_array_size(j));

    for (size_t i = 0; v.kind == LIST && i < v.list->count; i++)
        v.list->items[i] = jinja_load(r, json_array_get(j, i));
    return v;
}

static struct value load_dict(struct rendering *r, const json_t *j)
{
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterators do not take const, but do not change it */
    struct dict *d = jinja_dict(r);

    for (void *i = json_object_iter(object); d && i && !r->rc; i = json_object_iter_next(object, i)) {
        struct value name = load_string(r, json_object_iter_key(i), json_object_iter_key_len(i));

        jinja_dict_set(r, d, name, jinja_load(r, json_object_iter_value(i)));
    }
    return jinja_dict_value(d, DICT);
}

struct value jinja_load(struct rendering *r, const json_t *j)
{
    struct value v = none;

    if (!jinja_step(r, 0) || !jinja_enter(r))
        return v;
    switch (json_typeof(j)) {
    case JSON_OBJECT: v = load_dict(r, j); break;
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

static struct value read_number(struct json_pull *j)
{
    struct json_str s = json_pull_raw(j);
    bool overflow = false;
    int64_t i;
    double f;

    if (json_pull_rc(j))
        return none;
    if (jinja_parse_integer(s.s, s.n, 10, &i, &overflow))
        return jinja_integer(i);
    if (overflow)
        json_pull_fail(j, "the integer %.*s has more than 64 bits", s.n < 60 ? (int)s.n : 60, s.s);
    else if (jinja_parse_float(s.s, s.n, &f))
        return jinja_float(f);
    else
        json_pull_fail(j, "this number is too long");
    return none;
}

static struct value read_value(struct rendering *r, struct json_pull *j)
{
    struct growing g = {.r = r};
    struct dict *d;
    struct json_str s;
    bool b = false;

    if (!jinja_step(r, 0))
        return none;
    switch (json_pull_peek(j)) {
    case JSON_PULL_OBJECT:
        d = jinja_dict(r);
        for (json_pull_enter_object(j); d && json_pull_key(j, &s);) {
            struct value name = load_string(r, s.s, s.n);

            if (!jinja_dict_set(r, d, name, read_value(r, j)))
                break;
        }
        return jinja_dict_value(d, DICT);
    case JSON_PULL_ARRAY:
        for (json_pull_enter_array(j); json_pull_elem(j) && jinja_push(&g, read_value(r, j));)
            ;
        return jinja_grown(&g, LIST);
    case JSON_PULL_STRING: return json_pull_string(j, &s) ? load_string(r, s.s, s.n) : none;
    case JSON_PULL_NUMBER: return read_number(j);
    case JSON_PULL_TRUE:
    case JSON_PULL_FALSE: return json_pull_bool(j, &b) ? jinja_boolean(b) : none;
    default: json_pull_null(j); return none;
    }
}

struct value jinja_read(struct rendering *r, const char *json, size_t n, const char *where)
{
    struct value v = none;
    struct json_pull j;

    if (json_pull_open(&j, json, n, where, &r->arena, r->e) == 0)
        v = read_value(r, &j);
    if (!r->rc)
        r->rc = json_pull_finish(&j);
    return r->rc ? none : v;
}
