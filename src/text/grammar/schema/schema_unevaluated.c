/* schema_unevaluated.c - for `unevaluatedProperties` and `unevaluatedItems`, lists the cases of a schema: which
 * properties and elements are evaluated, under which condition on the value.
 *
 * Each case of a schema combines its own keywords (`properties`, `items` ...) with one case of every branch (allOf,
 * anyOf, oneOf, if, $ref, dependentSchemas): the Cartesian product of the branches' lists of cases.
 */
#include "text/grammar/schema/schema_unevaluated.h"

#include <string.h>

#include "text/grammar/schema/schema_formats.h"
#include "text/grammar/schema/schema_refs.h"

enum { MOST_CASES = 64, MOST_DEPTH = 64 };

struct cases {
    struct schema_case of[MOST_CASES];
    size_t n;
};

static struct cases *new_cases(struct schema_compiler *c)
{
    return schema_alloc(c, 1, sizeof(struct cases));
}

static bool looks_at_nothing(const struct schema_case *x)
{
    return x->n_keys == 0 && x->names == REGEX_NOTHING && !x->all_properties && x->n_elements == 0 &&
           x->elements == SCHEMA_NONE && !x->all_elements;
}

static void case_put(struct schema_compiler *c, struct cases *list, const struct schema_case *x)
{
    if (list->n == MOST_CASES)
        schema_over_limit(c, "", "unevaluated properties or items depend on too many alternatives");
    else if (x->condition != SCHEMA_NONE)
        list->of[list->n++] = *x;
}

/* Returns the intersection of the conditions of A and B, with the union of their evaluated properties and elements. */
static struct schema_case both_cases(struct schema_compiler *c, const struct schema_case *a,
                                     const struct schema_case *b)
{
    struct schema_case r = *a;
    uint32_t *key = schema_alloc(c, a->n_keys + b->n_keys, sizeof(*key));

    r.condition = schema_and(c, a->condition, b->condition);
    r.names = regex_or(c->s, a->names, b->names);
    r.all_properties = a->all_properties || b->all_properties;
    r.n_elements = a->n_elements > b->n_elements ? a->n_elements : b->n_elements;
    r.elements = schema_or(c, a->elements, b->elements);
    r.all_elements = a->all_elements || b->all_elements;
    if (!key)
        return r;
    if (a->n_keys)
        memcpy(key, a->key, a->n_keys * sizeof(*key));
    if (b->n_keys)
        memcpy(key + a->n_keys, b->key, b->n_keys * sizeof(*key));
    r.key = key;
    r.n_keys = a->n_keys + b->n_keys;
    return r;
}

/* Replaces the list A by the Cartesian product of A and B. */
static void multiply(struct schema_compiler *c, struct cases *a, const struct cases *b)
{
    struct cases *r = new_cases(c);

    for (size_t i = 0; r && b && i < a->n; i++)
        for (size_t k = 0; k < b->n && schema_work(c, 1); k++) {
            struct schema_case both = both_cases(c, &a->of[i], &b->of[k]);

            case_put(c, r, &both);
        }
    if (r && b)
        *a = *r;
}

static bool has_nothing(const struct cases *x)
{
    for (size_t i = 0; x && i < x->n; i++)
        if (!looks_at_nothing(&x->of[i]))
            return false;
    return true;
}

static const struct schema_case nothing = {
    .condition = SCHEMA_ANY, .names = REGEX_NOTHING, .elements = SCHEMA_NONE};

static struct cases *cases_of(struct schema_compiler *c, const json_t *json, uint32_t resource,
                              bool is_outermost, int depth);

/* Returns the cases of the subschema TERM, each restricted to values that satisfy CONDITION. */
static struct cases *cases_of_term(struct schema_compiler *c, uint32_t term, uint32_t condition, int depth)
{
    struct cases *r;

    if (c->term[term].kind == SCHEMA_TERM_RAW) {
        r = cases_of(c, c->term[term].json, c->term[term].resource, false, depth + 1);
    } else {
        r = new_cases(c);
        if (r)
            case_put(c, r, &nothing);
    }
    for (size_t i = 0; r && i < r->n; i++)
        r->of[i].condition = schema_and(c, r->of[i].condition, condition);
    return r;
}

static void append(struct schema_compiler *c, struct cases *to, const struct cases *from)
{
    for (size_t i = 0; to && from && i < from->n; i++)
        case_put(c, to, &from->of[i]);
}

/* Adds a case to the list YES: the condition NO holds, and nothing is evaluated. Returns YES. */
static struct cases *or_nothing(struct schema_compiler *c, struct cases *yes, uint32_t no)
{
    struct schema_case x = nothing;

    x.condition = no;
    if (yes)
        case_put(c, yes, &x);
    return yes;
}

/* Sets *X to the properties and elements that JSON's own keywords evaluate, apart from its branches. */
static void own_case(struct schema_compiler *c, const json_t *json, uint32_t resource, bool is_outermost,
                     struct schema_case *x)
{
    const json_t *properties = json_object_get(json, "properties"), *items = json_object_get(json, "items"),
                 *prefix = json_object_get(json, "prefixItems"),
                 *contains = json_object_get(json, "contains");
    uint32_t *key = schema_alloc(c, json_object_size(properties), sizeof(*key)), set;
    const char *name;
    size_t n;
    json_t *v;

    *x = nothing;
    if (!key)
        return;
    json_object_keylen_foreach((json_t *)properties, name, n, v) key[x->n_keys++] = schema_key(c, name, n);
    x->key = key;
    json_object_keylen_foreach((json_t *)json_object_get(json, "patternProperties"), name, n,
                               v) if (schema_pattern_text(c, json, "patternProperties", name, n, &set))
        x->names = regex_or(c->s, x->names, set);
    x->all_properties = json_object_get(json, "additionalProperties") ||
                        (!is_outermost && json_object_get(json, "unevaluatedProperties"));
    if (json_is_array(items)) {
        prefix = items;
        items = json_object_get(json, "additionalItems");
    }
    x->n_elements = json_array_size(prefix);
    x->all_elements = items || (!is_outermost && json_object_get(json, "unevaluatedItems"));
    if (contains && c->draft >= SCHEMA_2020_12)
        x->elements = schema_subschema(c, contains, resource);
}

/* Replaces X by its Cartesian product with the cases of LIST, the value of `anyOf` or (IS_ONE_OF) `oneOf`. */
static void multiply_list(struct schema_compiler *c, struct cases *x, const json_t *list, uint32_t resource,
                          bool is_one_of, int depth)
{
    struct cases *one_of = new_cases(c), *one;
    bool is_trivial = true;
    json_t *v;
    size_t i;

    json_array_foreach((json_t *)list, i, v)
    {
        uint32_t term = schema_subschema(c, v, resource);

        one = cases_of_term(c, term, term, depth);
        is_trivial = is_trivial && has_nothing(one);
        if (is_one_of)
            append(c, one_of, one);
        else if (!has_nothing(one))
            multiply(c, x, or_nothing(c, one, schema_not(c, term)));
    }
    if (is_one_of && !is_trivial && !c->rc)
        multiply(c, x, one_of);
}

static void multiply_conditions(struct schema_compiler *c, struct cases *x, const json_t *json,
                                uint32_t resource, int depth)
{
    const json_t *if_ = json_object_get(json, "if"), *then_ = json_object_get(json, "then"),
                 *else_ = json_object_get(json, "else");
    struct cases *yes, *no;
    uint32_t term;

    if (!if_)
        return;
    term = schema_subschema(c, if_, resource);
    yes = cases_of_term(c, term, term, depth);
    if (yes && then_)
        multiply(c, yes, cases_of_term(c, schema_subschema(c, then_, resource), SCHEMA_ANY, depth));
    no = cases_of_term(c, else_ ? schema_subschema(c, else_, resource) : SCHEMA_ANY, schema_not(c, term),
                       depth);
    if (has_nothing(yes) && has_nothing(no))
        return;
    append(c, yes, no);
    multiply(c, x, yes);
}

static void multiply_references(struct schema_compiler *c, struct cases *x, const json_t *json,
                                uint32_t resource, int depth)
{
    static const char *const keyword[] = {"$ref", "$dynamicRef", "$recursiveRef"};

    for (size_t i = 0; i < sizeof(keyword) / sizeof(*keyword); i++)
        if (json_object_get(json, keyword[i]))
            multiply(c, x,
                     cases_of_term(c, schema_reference(c, json, keyword[i], resource), SCHEMA_ANY, depth));
}

static struct cases *cases_of(struct schema_compiler *c, const json_t *json, uint32_t resource,
                              bool is_outermost, int depth)
{
    struct cases *x = new_cases(c);
    struct schema_case own;
    const char *name;
    json_t *v;
    size_t i;

    if (depth > MOST_DEPTH)
        schema_over_limit(c, "", "unevaluated properties or items depend on too many schemas");
    if (!x || !schema_work(c, 1))
        return NULL;
    own_case(c, json, resource, is_outermost, &own);
    case_put(c, x, &own);
    multiply_references(c, x, json, resource, depth);
    json_array_foreach(json_object_get(json, "allOf"), i, v)
        multiply(c, x, cases_of_term(c, schema_subschema(c, v, resource), SCHEMA_ANY, depth));
    multiply_list(c, x, json_object_get(json, "anyOf"), resource, false, depth);
    multiply_list(c, x, json_object_get(json, "oneOf"), resource, true, depth);
    multiply_conditions(c, x, json, resource, depth);
    json_object_keylen_foreach(json_object_get(json, "dependentSchemas"), name, i, v)
    {
        uint32_t lacks = schema_property_term(c, SCHEMA_TERM_LACKS, schema_key(c, name, i));
        struct cases *one = cases_of_term(c, schema_subschema(c, v, resource), schema_not(c, lacks), depth);

        if (!has_nothing(one))
            multiply(c, x, or_nothing(c, one, lacks));
    }
    return c->rc ? NULL : x;
}

size_t schema_cases(struct schema_compiler *c, const json_t *json, uint32_t resource,
                    const struct schema_case **out)
{
    const struct cases *x = cases_of(c, json, resource, true, 0);

    *out = x ? x->of : NULL;
    return x ? x->n : 0;
}
