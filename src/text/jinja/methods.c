/* methods.c - looks up attributes and elements of values, and the methods of lists and dicts.
 *
 * The look-up of a missing element does not fail: it gives an undefined value, which records the look-up for
 * a later error. x.y looks for an attribute before an element, x['y'] for an element before an attribute, as
 * in Jinja. A method of Python that is not in the tables here is refused by name when it is called.
 */
#include "text/jinja/methods.h"

#include <string.h>

#include "text/jinja/builtin.h"
#include "text/jinja/frame.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/tree.h"
#include "text/jinja/value/characters.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"
#include "text/jinja/value/walk.h"

/* The list methods index() and, if g->how is set, count(). */
static struct value search_list(struct rendering *r, struct value self, const struct builtin_call *g)
{
    int64_t n = 0;

    for (size_t i = 0; i < self.size && jinja_step(r, 0); i++)
        if (jinja_equal(r, self.items[i], g->p[0])) {
            if (!g->how)
                return jinja_integer((int64_t)i);
            n++;
        }
    if (g->how)
        return jinja_integer(n);
    return jinja_fail(r, "%s is not in list", jinja_brief(r, g->p[0]));
}

static struct value key_get(struct rendering *r, struct value self, const struct builtin_call *g)
{
    struct value v;
    uint32_t hash;

    if (!jinja_hash(r, g->p[0], &hash))
        jinja_fail(r, "unhashable type: '%s'", jinja_type(g->p[0]));
    if (jinja_dict_get(r, self.dict, g->p[0], &v))
        return v;
    return g->p[1].kind == VALUE_MISSING ? value_none : g->p[1];
}

/* The dict methods keys(), values() and items(), chosen by g->how. Returns a list that prints as the view of
 * that name. */
static struct value view(struct rendering *r, struct value self, const struct builtin_call *g)
{
    struct value v = jinja_list(r, VALUE_LIST, NULL, self.dict->count);

    for (uint32_t i = 0; i < self.dict->count && !r->rc; i++) {
        const struct value_pair *p = &self.dict->pairs[i];

        v.items[i] = g->how == VALUE_DICT_KEYS     ? p->key
                     : g->how == VALUE_DICT_VALUES ? p->value
                                                   : jinja_list(r, VALUE_TUPLE, (const struct value *)p, 2);
    }
    v.mark = r->rc ? VALUE_PLAIN : (uint8_t)g->how;
    return v;
}

static const struct builtin list_methods[] = {
    {"count", search_list, "value", 1, true, true},
    {"index", search_list, "value", 1, false, true},
    {.name = NULL},
};

static const struct builtin dict_methods[] = {
    {"get", key_get, "key default", 1, 0, true},
    {"items", view, "", 0, VALUE_DICT_ITEMS, 0},
    {"keys", view, "", 0, VALUE_DICT_KEYS, 0},
    {"values", view, "", 0, VALUE_DICT_VALUES, 0},
    {.name = NULL},
};

/* Methods that would change a list or dict, which the sandbox forbids. */
static const char changing_list[] = "append clear extend insert pop remove reverse sort";

static const char changing_dict[] = "clear pop popitem setdefault update";

static struct value unsafe(struct rendering *r, struct value object, struct value name)
{
    struct text t = {.r = r};

    jinja_put_literal(&t, "access to attribute ");
    jinja_print_repr(&t, name);
    jinja_put_format(&t, " of '%s' object is unsafe.", jinja_type(object));
    return jinja_undefined(jinja_finish_terminated(&t));
}

/* Returns a method of OBJECT, or MISSING. A method that would change OBJECT is undefined in the sandbox. */
static struct value find_method(struct rendering *r, struct value object, struct value name)
{
    bool string = object.kind == VALUE_STRING, dict = object.kind == VALUE_DICT;
    const struct builtin *row = string ? jinja_string_methods : dict ? dict_methods : list_methods;
    struct builtin_method *b;

    row = jinja_find_row(row, name);
    if (row) {
        b = jinja_allocate(r, sizeof(*b));
        if (!b)
            return value_none;
        *b = (struct builtin_method){object, row};
        return (struct value){.kind = VALUE_METHOD, .method = b};
    }
    if (!string && jinja_is_among(name, dict ? changing_dict : changing_list))
        return unsafe(r, object, name);
    return value_missing;
}

static struct value macro_attribute(struct rendering *r, const struct tree_macro *m, struct value name)
{
    struct value v;

    if (jinja_is(name, "name"))
        return m->name;
    if (!jinja_is(name, "arguments"))
        return value_missing;
    v = jinja_list(r, VALUE_TUPLE, NULL, m->parameters.n);
    for (size_t i = 0; v.kind == VALUE_TUPLE && i < m->parameters.n; i++)
        v.items[i] = m->parameters.v[i]->variable.name;
    return v;
}

/* Returns the attribute that Python's getattr() finds, or MISSING. */
static struct value own_attribute(struct rendering *r, struct value object, struct value name)
{
    struct value v = value_missing;

    if (name.size == 0)
        return v;
    if (object.kind == VALUE_STRING || object.kind == VALUE_DICT || jinja_is_sequence(object))
        v = find_method(r, object, name);
    else if (object.kind == VALUE_LOOP)
        v = jinja_loop_attribute(r, object.loop, name);
    else if (object.kind == VALUE_MACRO)
        v = macro_attribute(r, object.macro->node, name);
    else if (object.kind == VALUE_NAMESPACE && !jinja_dict_get(r, object.dict, name, &v))
        v = value_missing;
    if (object.kind == VALUE_LOOP && jinja_is_among(name, "changed cycle depth depth0"))
        jinja_fail(r, "loop.%.*s is not supported", (int)name.size, name.bytes);
    if (v.kind == VALUE_MISSING && name.size > 4 && memcmp(name.bytes, "__", 2) == 0 &&
        memcmp(name.bytes + name.size - 2, "__", 2) == 0)
        v = unsafe(r, object, name);
    return v;
}

/* Returns object[key], or MISSING if Python raises TypeError or LookupError. */
static struct value subscript(struct rendering *r, struct value object, struct value key)
{
    struct value v;
    int64_t i;
    size_t n;

    if (object.kind == VALUE_DICT)
        return jinja_dict_get(r, object.dict, key, &v) ? v : value_missing;
    if (!jinja_is_sequence(object) && object.kind != VALUE_STRING && object.kind != VALUE_RANGE)
        return value_missing;
    if (!jinja_is_integer(key) || !jinja_length(r, object, &n))
        return value_missing;
    i = jinja_to_integer(key);
    i += i < 0 ? (int64_t)n : 0;
    if (i < 0 || (size_t)i >= n)
        return value_missing;
    if (object.kind == VALUE_STRING) {
        n = jinja_offset(object, (size_t)i);
        return jinja_step(r, n / 16) ? jinja_part(object, n, n + jinja_width(object.bytes + n)) : value_none;
    }
    return jinja_element(object, (size_t)i);
}

struct value jinja_member(struct rendering *r, struct value object, struct value key, bool attribute)
{
    struct value v;

    if (object.kind == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, object);
    v = attribute ? own_attribute(r, object, key) : subscript(r, object, key);
    if (v.kind == VALUE_MISSING && attribute)
        v = subscript(r, object, key);
    else if (v.kind == VALUE_MISSING && key.kind == VALUE_STRING)
        v = own_attribute(r, object, key);
    return v.kind == VALUE_MISSING ? jinja_undefined_item(r, object, key) : v;
}
