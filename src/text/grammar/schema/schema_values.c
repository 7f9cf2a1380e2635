/* schema_values.c - finds the values of `enum`, `const` and small types, and compares values. */
#include "text/grammar/schema/schema_values.h"

#include <string.h>

#include "text/grammar/schema/schema_refs.h"

enum { MOST_DEPTH = 16 };

static bool is_equal(struct schema_compiler *c, const json_t *a, const json_t *b)
{
    struct json_decimal x, y;
    const char *key;
    size_t i, n;
    json_t *v;

    if (schema_decimal(c, &x, a))
        return schema_decimal(c, &y, b) && json_decimal_is_equal(&x, &y);
    if (json_typeof(a) != json_typeof(b) || schema_decimal(c, &y, b))
        return false;
    if (json_is_string(a))
        return json_string_length(a) == json_string_length(b) &&
               memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        json_array_foreach((json_t *)a, i, v) if (!is_equal(c, v, json_array_get(b, i))) return false;
    }
    if (json_is_object(a)) {
        if (json_object_size(a) != json_object_size(b))
            return false;
        json_object_keylen_foreach((json_t *)a, key, n, v)
        {
            const json_t *w = json_object_getn(b, key, n);

            if (!w || !is_equal(c, v, w))
                return false;
        }
    }
    return true;
}

static bool value_put(struct schema_compiler *c, struct schema_values *list, const json_t *v)
{
    for (size_t i = 0; i < list->n; i++)
        if (is_equal(c, list->value[i], v))
            return true;
    if (list->n == SCHEMA_MOST_VALUES)
        return false;
    list->value[list->n++] = v;
    return true;
}

/* Adds the values of TYPE: a value of `type`, or one element of it. False: a type has too many values. */
static bool add_types(struct schema_compiler *c, struct schema_values *list, const json_t *type)
{
    const char *name = json_string_value(type);
    json_t *one;
    size_t i;

    if (json_is_array(type)) {
        json_array_foreach((json_t *)type, i,
                           one) if (json_is_array(one) || !add_types(c, list, one)) return false;
        return true;
    }
    if (name && strcmp(name, "null") == 0)
        return value_put(c, list, json_null());
    return name && strcmp(name, "boolean") == 0 && value_put(c, list, json_true()) &&
           value_put(c, list, json_false());
}

static bool add_all(struct schema_compiler *c, struct schema_values *list, const json_t *schemas,
                    bool of_values, uint32_t resource, int depth)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)schemas, i,
                       one) if (of_values ? !value_put(c, list, one)
                                          : !schema_values_add(c, list, schema_subschema(c, one, resource),
                                                               depth + 1)) return false;
    return true;
}

/* Adds the values of the schema X, taken from the first keyword that lists all of them. If a keyword fails,
 * the values that it added are removed. */
static bool add_raw(struct schema_compiler *c, struct schema_values *list, const struct schema_term *x,
                    int depth)
{
    static const char *const of_schemas[] = {"anyOf", "oneOf"};
    const json_t *json = x->json, *v;
    struct schema_values before = *list;
    bool only_ref = c->draft <= SCHEMA_DRAFT_7 && json_object_get(json, "$ref");

    if (!only_ref) {
        if ((v = json_object_get(json, "const")))
            return value_put(c, list, v);
        if ((v = json_object_get(json, "enum")) && add_all(c, list, v, true, 0, 0))
            return true;
        *list = before;
        if ((v = json_object_get(json, "type")) && add_types(c, list, v))
            return true;
        *list = before;
        for (int i = 0; i < 2; i++) {
            if ((v = json_object_get(json, of_schemas[i])) && add_all(c, list, v, false, x->resource, depth))
                return true;
            *list = before;
        }
        json_t *one;
        size_t i;

        json_array_foreach(json_object_get(json, "allOf"), i, one)
        {
            if (schema_values_add(c, list, schema_subschema(c, one, x->resource), depth + 1))
                return true;
            *list = before;
        }
    }
    return json_object_get(json, "$ref") &&
           schema_values_add(c, list, schema_reference(c, json, "$ref", x->resource), depth + 1);
}

bool schema_values_add(struct schema_compiler *c, struct schema_values *v, uint32_t term, int depth)
{
    struct schema_term x = c->term[term];
    struct schema_values before = *v;

    if (depth > MOST_DEPTH || !schema_work(c, 1))
        return false;
    switch (x.kind) {
    case SCHEMA_TERM_NONE: return true;
    case SCHEMA_TERM_VALUE: return value_put(c, v, x.json);
    case SCHEMA_TERM_RAW: return add_raw(c, v, &x, depth);
    case SCHEMA_TERM_AND:
        for (size_t i = 0; i < x.n; i++) {
            if (schema_values_add(c, v, x.of[i], depth + 1))
                return true;
            *v = before;
        }
        return false;
    case SCHEMA_TERM_OR:
        for (size_t i = 0; i < x.n; i++)
            if (!schema_values_add(c, v, x.of[i], depth + 1))
                return false;
        return true;
    case SCHEMA_TERM_ANY:
    case SCHEMA_TERM_HAS:
    case SCHEMA_TERM_LACKS:
    case SCHEMA_TERM_NOT:
    case SCHEMA_TERM_OUTSIDE: break;
    }
    return false;
}
