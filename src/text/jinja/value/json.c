/* json.c - the filter tojson, and the conversion of JSON to values. */
#include "text/jinja/value/json.h"

#include "base/json/json_tree.h"
#include "text/jinja/builtin.h"
#include "text/jinja/value/compare.h"
#include "text/jinja/value/origin.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

static bool read_separators(struct print_writer *w, struct value v)
{
    w->comma = jinja_literal(w->pretty ? "," : ", ");
    w->colon = jinja_literal(": ");
    if (v.kind == VALUE_MISSING)
        return true;
    if (!jinja_is_sequence(v) || v.size != 2 || v.items[0].kind != VALUE_STRING ||
        v.items[1].kind != VALUE_STRING) {
        jinja_fail(w->text->r, "tojson(): separators must be two strings");
        return false;
    }
    w->comma = v.items[0];
    w->colon = v.items[1];
    return true;
}

struct value jinja_to_json(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct text t = {.r = r};
    struct print_writer w = {.text = &t,
                             .json = true,
                             .ascii = jinja_true(g->p[0]),
                             .sort = jinja_true(g->p[3]) ? jinja_sort : NULL};

    w.pretty = g->p[1].kind != VALUE_MISSING;
    w.indent = w.pretty ? jinja_blanks(r, g, 1, 0) : value_none;
    if (r->rc || !read_separators(&w, g->p[2]))
        return value_none;
    jinja_write(&w, v);
    return jinja_finish(&t);
}

/* ---- values from JSON ---- */

static struct value load_string(struct rendering *r, const char *s, size_t n)
{
    if (n <= UINT32_MAX)
        return jinja_from_context(r, jinja_string(s, n));
    return jinja_fail(r, "a string has %zu bytes; the maximum is 4294967295", n);
}

static struct value load_list(struct rendering *r, const json_t *j)
{
    struct value v = jinja_list(r, VALUE_LIST, NULL, json_array_size(j));

    for (size_t i = 0; v.kind == VALUE_LIST && i < v.size; i++)
        v.items[i] = jinja_load(r, json_array_get(j, i));
    return v;
}

/* Loads the value of the member NAME. A well-known role of a message counts as text of the template, because templates
 * write it between special tokens. */
static struct value load_member(struct rendering *r, struct value name, const json_t *j)
{
    struct value v = jinja_load(r, j);

    if (v.kind == VALUE_STRING && jinja_is(name, "role") &&
        jinja_is_among(v, "system user assistant tool function developer ipython model"))
        v.bytes = json_string_value(j);
    return v;
}

static struct value load_dict(struct rendering *r, const json_t *j)
{
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterators take no const, but change nothing */
    struct value_dict *d = jinja_dict(r);

    for (void *i = json_object_iter(object); d && i && !r->rc; i = json_object_iter_next(object, i)) {
        struct value name = load_string(r, json_object_iter_key(i), json_object_iter_key_len(i));

        jinja_dict_set(r, d, name, load_member(r, name, json_object_iter_value(i)));
    }
    return jinja_dict_value(d, VALUE_DICT);
}

struct value jinja_load(struct rendering *r, const json_t *j)
{
    struct value v = value_none;
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
