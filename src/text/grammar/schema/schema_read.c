/* schema_read.c - computes the form of a schema as the intersection of the sets that its keywords describe:
 * assertions about numbers, strings, arrays and objects, and in-place applicators such as `allOf`. */
#include "text/grammar/schema/schema_read.h"

#include <string.h>

#include "base/buf.h"
#include "base/json/json_tree.h"
#include "text/grammar/schema/schema_formats.h"
#include "text/grammar/schema/schema_refs.h"
#include "text/grammar/schema/schema_unevaluated.h"

/* The state of reading a schema. */
struct reading {
    struct schema_compiler *c;
    const json_t *json;
    uint32_t resource;
    struct schema_form *form;
    unsigned types; /* the types that the schema allows: bits of enum type */
};

enum type { NULLS = 1, BOOLEANS = 2, INTEGERS = 4, NUMBERS = 8, STRINGS = 16, ARRAYS = 32, OBJECTS = 64 };

static const struct {
    const char *name;
    enum type type;
} type_name[] = {{"null", NULLS},     {"boolean", BOOLEANS}, {"integer", INTEGERS}, {"number", NUMBERS},
                 {"string", STRINGS}, {"array", ARRAYS},     {"object", OBJECTS}};

static const json_t *keyword_get(const struct reading *r, const char *keyword)
{
    return json_object_get(r->json, keyword);
}

/* ---- values of keywords ---- */

/* Reads the count of KEYWORD into *OUT. False: the keyword is missing or malformed. */
static bool get_count(struct reading *r, const char *keyword, uint32_t *out)
{
    const json_t *v = keyword_get(r, keyword);
    struct json_decimal d;
    uint64_t n = 0;

    if (!v)
        return false;
    if (!schema_decimal(r->c, &d, v) || d.is_negative || (int64_t)d.n > d.point) {
        schema_wrong(r->c, r->json, keyword, "expected a non-negative integer");
        return false;
    }
    for (int64_t i = 0; i < d.point && n < SCHEMA_NO_LIMIT; i++)
        n = 10 * n + (i < (int64_t)d.n ? (uint64_t)(d.digit[i] - '0') : 0);
    *out = n < SCHEMA_NO_LIMIT ? (uint32_t)n : SCHEMA_NO_LIMIT;
    return true;
}

static const json_t *get_object(struct reading *r, const char *keyword)
{
    const json_t *v = keyword_get(r, keyword);

    if (v && !json_is_object(v))
        schema_wrong(r->c, r->json, keyword, "expected an object");
    return json_is_object(v) ? v : NULL;
}

static const json_t *get_array(struct reading *r, const char *keyword)
{
    const json_t *v = keyword_get(r, keyword);

    if (v && !json_is_array(v))
        schema_wrong(r->c, r->json, keyword, "expected an array");
    return json_is_array(v) ? v : NULL;
}

/* Returns the term of the subschema V. */
static uint32_t subschema(struct reading *r, const json_t *v)
{
    r->c->at = r->json;
    return schema_subschema(r->c, v, r->resource);
}

/* ---- draft 3 ---- */

/* Refuses keywords that only draft 3 defines, if their values have the types that draft 3 requires. Such
 * keywords would otherwise be ignored silently. */
static void refuse_draft_3(struct reading *r)
{
    enum { OBJECT = 1 << JSON_OBJECT, ARRAY = 1 << JSON_ARRAY, STRING = 1 << JSON_STRING };
    static const struct {
        const char *keyword, *now;
        unsigned types; /* bits: 1 << type of jansson */
    } old[] = {{"divisibleBy", "use multipleOf", 1 << JSON_INTEGER | 1 << JSON_REAL},
               {"disallow", "use not", STRING | ARRAY | OBJECT},
               {"extends", "use allOf", ARRAY | OBJECT},
               {"required", "list the name in `required` beside `properties`", 1 << JSON_TRUE}};

    for (size_t i = 0; i < sizeof(old) / sizeof(*old); i++) {
        const json_t *v = keyword_get(r, old[i].keyword);

        if (v && old[i].types >> json_typeof(v) & 1)
            schema_unserved(r->c, r->json, old[i].keyword, "draft 3 is not supported; %s", old[i].now);
    }
}

/* ---- types ---- */

static unsigned type_of(struct reading *r, const json_t *name)
{
    const char *text = json_string_value(name);

    for (size_t i = 0; text && i < sizeof(type_name) / sizeof(*type_name); i++)
        if (strcmp(type_name[i].name, text) == 0)
            return type_name[i].type;
    schema_wrong(r->c, r->json, "type", "expected null, boolean, integer, number, string, array or object");
    return 0;
}

static void read_types(struct reading *r)
{
    const json_t *v = keyword_get(r, "type");
    json_t *one;
    size_t i;

    r->types = v ? 0 : UINT32_MAX;
    if (json_is_array(v))
        json_array_foreach((json_t *)v, i, one)
        {
            if (json_is_object(one))
                schema_unserved(r->c, r->json, "type",
                                "a schema among the types: draft 3 is not supported; use anyOf");
            r->types |= json_is_object(one) ? UINT32_MAX : type_of(r, one);
        }
    else if (v)
        r->types = type_of(r, v);
}

/* ---- numbers ---- */

static bool get_decimal(struct reading *r, const char *keyword, struct json_decimal *d)
{
    const json_t *v = keyword_get(r, keyword);

    if (!v || (json_is_boolean(v) && strncmp(keyword, "exclusive", 9) == 0)) /* draft 4 */
        return false;
    if (!schema_decimal(r->c, d, v)) {
        schema_wrong(r->c, r->json, keyword, "expected a number");
        return false;
    }
    if (d->point > JSON_NUMBER_MOST_POINT || d->point < -JSON_NUMBER_MOST_POINT) {
        schema_unserved(r->c, r->json, keyword, "numbers beyond 1e%d are not supported",
                        JSON_NUMBER_MOST_POINT);
        return false;
    }
    return true;
}

static void limit_number(struct reading *r, uint32_t to)
{
    struct schema_form *f = r->form;
    bool is_free = f->written_number == f->number;

    f->number = schema_regex_and(r->c, f->number, to, r->c->number.all);
    f->written_number = is_free ? f->number : schema_regex_and(r->c, f->written_number, to, r->c->number.all);
}

static void read_numbers(struct reading *r)
{
    struct json_number *j = &r->c->number;
    struct json_decimal d;
    uint32_t multiple;

    r->form->number = r->types & NUMBERS              ? j->all
                      : !(r->types & INTEGERS)        ? REGEX_NOTHING
                      : r->c->draft <= SCHEMA_DRAFT_4 ? j->numeral /* 1.0 is an integer since draft 6 */
                                                      : j->integer;
    r->form->written_number = r->form->number == j->integer ? j->numeral : r->form->number;
    if (r->form->number == REGEX_NOTHING)
        return;
    if (get_decimal(r, "minimum", &d))
        limit_number(r, json_number_at_least(j, &d, json_is_true(keyword_get(r, "exclusiveMinimum"))));
    if (get_decimal(r, "maximum", &d))
        limit_number(r, json_number_at_most(j, &d, json_is_true(keyword_get(r, "exclusiveMaximum"))));
    if (get_decimal(r, "exclusiveMinimum", &d))
        limit_number(r, json_number_at_least(j, &d, true));
    if (get_decimal(r, "exclusiveMaximum", &d))
        limit_number(r, json_number_at_most(j, &d, true));
    if (!get_decimal(r, "multipleOf", &d))
        return;
    if (d.n == 0 || d.is_negative) {
        schema_wrong(r->c, r->json, "multipleOf", "expected a number above 0");
        return;
    }
    multiple = json_number_multiple(j, &d);
    if (multiple == REGEX_NOTHING)
        schema_unserved(r->c, r->json, "multipleOf",
                        "a divisor whose digits, without the point, exceed %d is not supported",
                        REGEX_MAX_DIVISOR);
    else
        limit_number(r, multiple);
}

/* ---- strings ---- */

static void limit_string(struct reading *r, uint32_t to, uint32_t bound)
{
    r->form->string = schema_regex_and(r->c, r->form->string, to, r->c->text.string);
    r->form->string_bound = schema_regex_and(r->c, r->form->string_bound, bound, r->c->text.string);
    r->form->written_string = r->form->string;
}

static void read_strings(struct reading *r)
{
    struct schema_compiler *c = r->c;
    uint32_t least = 0, most = SCHEMA_NO_LIMIT, set, bound;
    const json_t *v;

    if (!(r->types & STRINGS))
        return;
    r->form->string = r->form->string_bound = r->form->written_string = c->text.string;
    get_count(r, "minLength", &least);
    get_count(r, "maxLength", &most);
    if (least > most || least == SCHEMA_NO_LIMIT)
        limit_string(r, REGEX_NOTHING, REGEX_NOTHING);
    else if (least > 0 || most < SCHEMA_NO_LIMIT) {
        set = regex_repeat(c->s, c->text.character, least, most);
        limit_string(r, set, set);
    }
    if ((v = keyword_get(r, "pattern")) && schema_pattern(c, r->json, "pattern", v, &set))
        limit_string(r, set, set);
    if ((v = keyword_get(r, "format")) && schema_format(c, r->json, v, &set, &bound))
        limit_string(r, set, bound);
}

/* ---- arrays ---- */

/* Reads the terms of the first elements and the term of all further elements. False: there is an error. */
static bool read_items(struct reading *r, struct schema_array *a)
{
    const json_t *items = keyword_get(r, "items"), *list = get_array(r, "prefixItems"), *rest = items;
    uint32_t *prefix;

    if (json_is_array(items) && !list) {
        list = items;
        rest = keyword_get(r, "additionalItems");
    } else if (json_is_array(items)) {
        schema_wrong(r->c, r->json, "items", "expected a schema beside `prefixItems`");
        return false;
    }
    a->n_prefix = json_array_size(list);
    prefix = schema_alloc(r->c, a->n_prefix, sizeof(*prefix));
    if (!prefix)
        return false;
    for (size_t i = 0; i < a->n_prefix; i++)
        prefix[i] = subschema(r, json_array_get(list, i));
    a->prefix = prefix;
    if (rest)
        a->rest = subschema(r, rest);
    return true;
}

static void read_contains(struct reading *r, struct schema_array *a)
{
    const json_t *v = keyword_get(r, "contains");
    struct schema_contains *x;

    if (!v)
        return;
    x = schema_alloc(r->c, 1, sizeof(*x));
    if (!x)
        return;
    *x = (struct schema_contains){.term = subschema(r, v), .least = 1, .most = SCHEMA_NO_LIMIT};
    if (!r->c->has_draft || r->c->draft >= SCHEMA_2019_09) {
        get_count(r, "minContains", &x->least);
        get_count(r, "maxContains", &x->most);
    }
    a->contains = x;
    a->n_contains = x->least > 0 || x->most < SCHEMA_NO_LIMIT;
    if (x->most == SCHEMA_NO_LIMIT && x->least > a->least)
        a->least = x->least;
}

static void read_arrays(struct reading *r)
{
    struct schema_array *a;
    uint32_t n;

    if (!(r->types & ARRAYS) || !(a = schema_array_any(r->c)) || !read_items(r, a))
        return;
    get_count(r, "minItems", &a->least);
    get_count(r, "maxItems", &a->most);
    read_contains(r, a);
    if (json_is_true(keyword_get(r, "uniqueItems")))
        a->unique = r->json;
    for (n = 0; n < a->n_prefix && a->prefix[n] != SCHEMA_NONE; n++)
        ;
    if ((n < a->n_prefix || a->rest == SCHEMA_NONE) && n < a->most)
        a->most = n;
    if (a->least <= a->most && a->least < SCHEMA_NO_LIMIT)
        r->form->arrays = schema_arrays_of(r->c, a);
}

/* ---- objects ---- */

/* An entry of `patternProperties`: the names that match the pattern, and the term of their properties. */
struct name_pattern {
    uint32_t keys, term;
};

static struct name_pattern *read_patterns(struct reading *r, size_t *n)
{
    const json_t *v = get_object(r, "patternProperties");
    struct name_pattern *p = schema_alloc(r->c, json_object_size(v), sizeof(*p));
    const char *key;
    size_t n_key;
    json_t *one;

    *n = 0;
    if (v && p)
        json_object_keylen_foreach((json_t *)v, key, n_key, one)
        {
            if (!schema_pattern_text(r->c, r->json, "patternProperties", key, n_key, &p[*n].keys))
                continue;
            p[(*n)++].term = subschema(r, one);
        }
    return p;
}

static bool fits(struct reading *r, const struct name_pattern *p, uint32_t key)
{
    const struct schema_key *k = &r->c->key[key];

    return regex_matches(r->c->s, p->keys, k->spelling, k->n_spelling);
}

enum { MOST_OTHERS = 512, MOST_COMMON = 24 };

/* Partitions the names that are not members by the patterns that they match. */
static void read_others(struct reading *r, struct schema_object *o, const struct name_pattern *p, size_t n)
{
    struct schema_compiler *c = r->c;
    const json_t *v = keyword_get(r, "additionalProperties");
    uint32_t rest = v ? subschema(r, v) : SCHEMA_ANY, unmatched = c->text.string;
    size_t n_others = 0, n_common = 0;
    struct schema_names *other = schema_alloc(c, MOST_OTHERS + 1, sizeof(*other));

    if (!other)
        return;
    for (size_t i = 0; i < n; i++) {
        size_t before = n_others;

        for (size_t k = 0; k < before && schema_work(c, 1); k++) {
            uint32_t both = regex_and(c->s, other[k].keys, p[i].keys);

            if (regex_is_empty(c->s, both) || ++n_common > MOST_COMMON || n_others >= MOST_OTHERS)
                continue;
            other[n_others++] = (struct schema_names){both, schema_and(c, other[k].term, p[i].term), true};
            other[k].keys = regex_and(c->s, other[k].keys, regex_not(c->s, p[i].keys));
        }
        if (n_common > MOST_COMMON || n_others >= MOST_OTHERS) {
            schema_over_limit(c, "patternProperties", "too many patterns match the same names");
            return;
        }
        other[n_others++] =
            (struct schema_names){schema_regex_and(c, unmatched, p[i].keys, c->text.string), p[i].term, true};
        unmatched = regex_and(c->s, unmatched, regex_not(c->s, p[i].keys));
    }
    other[n_others++] = (struct schema_names){unmatched, rest, v != NULL};
    o->other = other;
    o->n_others = n_others;
}

static size_t read_named_members(struct reading *r, struct schema_object *o, struct schema_member *member,
                                 const struct name_pattern *p, size_t n_patterns)
{
    const json_t *v = get_object(r, "properties");
    const char *key;
    size_t n_key, n = 0;
    json_t *one;

    if (v)
        json_object_keylen_foreach((json_t *)v, key, n_key, one)
        {
            member[n].key = schema_key(r->c, key, n_key);
            member[n].is_free = false;
            member[n].term = subschema(r, one);
            for (size_t i = 0; i < n_patterns && !r->c->rc; i++)
                if (fits(r, &p[i], member[n].key))
                    member[n].term = schema_and(r->c, member[n].term, p[i].term);
            n++;
        }
    o->member = member;
    return o->n_members = n;
}

/* Marks the required members, and adds members for required names that `properties` does not list. */
static void read_required(struct reading *r, struct schema_object *o, struct schema_member *member)
{
    const json_t *v = keyword_get(r, "required");
    const struct schema_object before = *o;
    json_t *one;
    size_t i;

    if (!v || json_is_boolean(v)) /* refuse_draft_3() handles true; false has no effect */
        return;
    if (!json_is_array(v)) {
        schema_wrong(r->c, r->json, "required", "expected an array of strings");
        return;
    }
    json_array_foreach((json_t *)v, i, one)
    {
        const json_t *known;
        uint32_t key;
        size_t at = 0;

        if (!json_is_string(one)) {
            schema_wrong(r->c, r->json, "required", "expected an array of strings");
            return;
        }
        key = schema_key(r->c, json_string_value(one), json_string_length(one));
        known =
            json_object_getn(keyword_get(r, "properties"), json_string_value(one), json_string_length(one));
        if (!schema_work(r->c, 1))
            return;
        if (known)
            for (at = 0; at < before.n_members && member[at].key != key; at++)
                ;
        else
            for (at = before.n_members; at < o->n_members && member[at].key != key; at++)
                ;
        if (at == o->n_members)
            member[o->n_members++] =
                (struct schema_member){key, schema_property(r->c, &before, key), true, true};
        member[at].is_required = true;
    }
}

static void read_objects(struct reading *r)
{
    size_t n_patterns,
        n = json_object_size(keyword_get(r, "properties")) + json_array_size(keyword_get(r, "required"));
    struct schema_member *member = schema_alloc(r->c, n, sizeof(*member));
    struct name_pattern *p;
    struct schema_object *o;

    if (!(r->types & OBJECTS) || !member || !(o = schema_object_any(r->c)) ||
        !(p = read_patterns(r, &n_patterns)))
        return;
    read_others(r, o, p, n_patterns);
    read_named_members(r, o, member, p, n_patterns);
    read_required(r, o, member);
    o->is_closed = keyword_get(r, "properties") || keyword_get(r, "patternProperties");
    get_count(r, "minProperties", &o->least);
    get_count(r, "maxProperties", &o->most);
    if (o->least <= o->most && o->least < SCHEMA_NO_LIMIT)
        r->form->objects = schema_objects_of(r->c, o);
}

/* ---- in-place applicators: subschemas for the same value ---- */

/* Intersects r->form with F. F_FIRST: the names of F come first. */
static void limit_form(struct reading *r, const struct schema_form *f, bool f_first)
{
    const struct schema_form *both = schema_form_and(r->c, r->form, f, f_first);

    if (both)
        *r->form = *both;
}

static void limit_term(struct reading *r, uint32_t term, bool is_first)
{
    const struct schema_form *f;

    if (term == SCHEMA_ANY || r->c->rc)
        return;
    f = schema_form_of(r->c, term);
    if (f)
        limit_form(r, f, is_first);
}

/* Sets *OUT to the terms of the subschemas in the list KEYWORD, and returns their number. */
static size_t read_schemas(struct reading *r, const char *keyword, uint32_t **out)
{
    const json_t *v = get_array(r, keyword);
    size_t n = json_array_size(v);

    *out = v ? schema_alloc(r->c, n, sizeof(**out)) : NULL;
    if (v && n == 0)
        schema_wrong(r->c, r->json, keyword, "expected a non-empty array");
    if (!*out)
        return 0;
    for (size_t i = 0; i < n; i++)
        (*out)[i] = subschema(r, json_array_get(v, i));
    return n;
}

enum { MOST_ONE_OF = 300, MOST_ALTERNATIVES = 50 };

/* Returns an upper bound of the number of object clauses in the complement of TERM. */
static double n_alternatives(struct schema_compiler *c, uint32_t term)
{
    const struct schema_form *f = schema_form_of(c, term);
    double product = 1;

    for (size_t i = 0; f && i < f->objects.n; i++) {
        const struct schema_object *o = f->objects.of[i];
        size_t n = o->n_some + (size_t)(o->least > 0) + (size_t)(o->most < SCHEMA_NO_LIMIT);

        for (size_t k = 0; k < o->n_members; k++)
            n += (size_t)(o->member[k].term != SCHEMA_ANY) + (size_t)o->member[k].is_required;
        for (size_t k = 0; k < o->n_others; k++)
            n += o->other[k].term != SCHEMA_ANY;
        product *= n > 1 ? (double)n : 1;
    }
    return product;
}

/* Returns the values of OF[i] that are in no OF[k] for which OVERLAPS[k] is true. */
static uint32_t without(struct schema_compiler *c, const uint32_t *of, size_t n, size_t i,
                        const bool *overlaps)
{
    double product = 1;
    uint32_t r = of[i];

    for (size_t k = 0; k < n; k++)
        product *= overlaps[k] ? n_alternatives(c, of[k]) : 1;
    for (size_t k = 0; k < n && schema_work(c, 1); k++)
        if (overlaps[k])
            r = schema_and(c, r,
                           product > MOST_ALTERNATIVES ? schema_outside(c, of[k]) : schema_not(c, of[k]));
    return r;
}

/* Returns the values that are in exactly one of the terms OF [n]. */
static uint32_t exactly_one(struct reading *r, const uint32_t *of, size_t n)
{
    struct schema_compiler *c = r->c;
    uint32_t *only;
    bool *overlaps;

    if (n > MOST_ONE_OF) {
        schema_over_limit(c, "oneOf", "more than %d alternatives are not supported", MOST_ONE_OF);
        return SCHEMA_NONE;
    }
    only = schema_alloc(c, n, sizeof(*only));
    overlaps = schema_alloc(c, n * n, sizeof(*overlaps));
    if (!only || !overlaps)
        return SCHEMA_NONE;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i && schema_work(c, 1); k++)
            overlaps[i * n + k] = overlaps[k * n + i] =
                !schema_is_empty(c, schema_and(c, of[i], of[k]), SCHEMA_EMPTY_DEPTH);
    for (size_t i = 0; i < n && !c->rc; i++)
        only[i] = without(c, of, n, i, overlaps + i * n);
    return c->rc ? SCHEMA_NONE : schema_join(c, SCHEMA_TERM_OR, only, n);
}

static void read_conditions(struct reading *r)
{
    struct schema_compiler *c = r->c;
    const json_t *if_ = keyword_get(r, "if"), *then_ = keyword_get(r, "then"),
                 *else_ = keyword_get(r, "else");
    uint32_t condition, yes, no;

    if (!if_ || (!then_ && !else_))
        return;
    condition = subschema(r, if_);
    schema_form_of(c, condition); /* interns its property names first, which determines the order */
    yes = then_ ? subschema(r, then_) : SCHEMA_ANY;
    no = else_ ? subschema(r, else_) : SCHEMA_ANY;
    if (!else_)
        limit_term(r, schema_or(c, schema_not(c, condition), schema_and(c, condition, yes)), false);
    else if (!then_)
        limit_term(r, schema_or(c, condition, schema_and(c, schema_not(c, condition), no)), false);
    else
        limit_term(r,
                   schema_or(c, schema_and(c, condition, yes), schema_and(c, schema_not(c, condition), no)),
                   false);
}

/* Sets the strings of F to LIST [n], which are sorted. */
static void set_strings(struct schema_compiler *c, struct schema_form *f, struct json_string *list, size_t n)
{
    f->string = f->string_bound = json_text_one_of(&c->text, list, n, JSON_EVERY_SPELLING);
    f->written_string = json_text_one_of(&c->text, list, n, c->spelling);
}

/* Sets the numbers of F to the number JSON, whose spellings SPELLINGS matches. Answers have the spelling of
 * JSON, unless json_number.h does not contain it. */
static void set_number(struct schema_compiler *c, struct schema_form *f, const json_t *json,
                       uint32_t spellings)
{
    struct buf text = {.tag = MEM_TEXT};

    buf_json_tree(&text, json, false);
    if (text.oom)
        schema_no_memory(c);
    f->number = f->written_number = spellings;
    if (!text.oom && c->spelling == JSON_PLAIN_SPELLING &&
        regex_matches(c->s, spellings, text.data, text.len))
        f->written_number = regex_literal(c->s, text.data, text.len);
    buf_fini(&text);
}

/* Returns the objects with all properties named in LIST, and all values that are not objects. */
static uint32_t has_all(struct reading *r, const char *keyword, const json_t *list)
{
    uint32_t term = SCHEMA_ANY;
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)list, i, one)
    {
        if (!json_is_string(one)) {
            schema_wrong(r->c, r->json, keyword, "expected arrays of strings");
            return SCHEMA_NONE;
        }
        term = schema_and(
            r->c, term,
            schema_property_term(r->c, SCHEMA_TERM_HAS,
                                 schema_key(r->c, json_string_value(one), json_string_length(one))));
    }
    return term;
}

/* Reads KEYWORD, an object that maps property names to an array of names or to a schema. An object that has
 * such a property must have the properties in the array, or be valid under the schema. */
static void read_dependencies(struct reading *r, const char *keyword)
{
    const json_t *v = get_object(r, keyword);
    const char *key;
    size_t n;
    json_t *one;

    if (v)
        json_object_keylen_foreach((json_t *)v, key, n, one)
        {
            uint32_t lacks = schema_property_term(r->c, SCHEMA_TERM_LACKS, schema_key(r->c, key, n)), then_;

            if (json_is_array(one))
                then_ = has_all(r, keyword, one);
            else if (json_is_string(one)) /* draft 3: a single name */
                then_ = schema_property_term(
                    r->c, SCHEMA_TERM_HAS, schema_key(r->c, json_string_value(one), json_string_length(one)));
            else
                then_ = subschema(r, one);
            limit_term(r, schema_or(r->c, lacks, then_), false);
        }
}

/* Returns the form of the number V. If the other keywords of the schema do not allow the spelling that V has, as 1.0
 * beside the type `integer`, the form has every spelling. */
static const struct schema_form *form_of_number(struct reading *r, const json_t *v)
{
    struct schema_compiler *c = r->c;
    const struct schema_form *f = schema_form_of(c, schema_value_term(c, v));
    struct schema_form *x;

    if (!f || f->written_number == f->number ||
        !regex_is_empty(c->s, regex_and(c->s, f->written_number, r->form->written_number)))
        return f;
    x = schema_form_none(c);
    if (x)
        x->number = x->written_number = f->number;
    return x;
}

/* Returns a form that accepts exactly the N values of the array LIST (`enum`). */
static const struct schema_form *form_of_values(struct reading *r, json_t *const *list, size_t n)
{
    struct schema_compiler *c = r->c;
    const struct schema_form **of = schema_alloc(c, n + 1, sizeof(*of));
    struct json_string *string = schema_alloc(c, n, sizeof(*string));
    struct schema_form *strings;
    size_t n_strings = 0, n_forms = 0;

    if (!of || !string || !(strings = schema_form_none(c)))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (json_is_string(list[i]))
            string[n_strings++] =
                (struct json_string){json_string_value(list[i]), json_string_length(list[i])};
        else if (!(of[n_forms++] = form_of_number(r, list[i]))) {
            return NULL;
        }
    set_strings(c, strings, string, n_strings);
    of[n_forms++] = strings;
    return schema_form_or(c, of, n_forms);
}

static void read_values(struct reading *r)
{
    const json_t *v = get_array(r, "enum"), *constant = keyword_get(r, "const");
    const struct schema_form *f;
    json_t **list;

    if (constant) {
        f = form_of_values(r, (json_t *const *)&constant, 1);
        if (f)
            limit_form(r, f, false);
    }
    list = v ? schema_alloc(r->c, json_array_size(v), sizeof(*list)) : NULL;
    if (!list)
        return;
    for (size_t i = 0; i < json_array_size(v); i++)
        list[i] = json_array_get(v, i);
    f = form_of_values(r, list, json_array_size(v));
    if (f)
        limit_form(r, f, false);
}

/* Reads KEYWORD, a reference or a list of schemas for the same value. IS_FIRST: their names come first. */
static void read_applicator(struct reading *r, const char *keyword, bool is_first)
{
    struct schema_compiler *c = r->c;
    uint32_t *of;
    size_t n;

    if (keyword[0] == '$') {
        limit_term(r, schema_reference(c, r->json, keyword, r->resource), is_first);
        return;
    }
    n = read_schemas(r, keyword, &of);
    if (n > 0 && strcmp(keyword, "oneOf") == 0)
        limit_term(r, exactly_one(r, of, n), is_first);
    else if (n > 0 && strcmp(keyword, "anyOf") == 0)
        limit_term(r, schema_join(c, SCHEMA_TERM_OR, of, n), is_first);
    else
        for (size_t i = 0; i < n; i++)
            limit_term(r, of[is_first ? n - 1 - i : i], is_first);
}

/* Reads the in-place applicators (subschemas for the same value). Property names of an applicator that is
 * written before `properties` come before the names of `properties`; names of a reference come after. */
static void read_applicators(struct reading *r)
{
    static const char *const keyword[] = {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf"};
    enum { N = sizeof(keyword) / sizeof(*keyword) };
    const char *found[N], *key;
    size_t n = 0, n_first = 0;
    json_t *v;

    json_object_foreach((json_t *)r->json, key, v)
    {
        for (size_t i = 0; i < N; i++)
            if (strcmp(keyword[i], key) == 0)
                found[n++] = keyword[i];
        if (strcmp(key, "properties") == 0)
            n_first = n;
    }
    for (size_t i = n_first; i > 0; i--)
        if (found[i - 1][0] != '$')
            read_applicator(r, found[i - 1], true);
    for (size_t i = 0; i < n; i++)
        if (i >= n_first || found[i][0] == '$')
            read_applicator(r, found[i], false);
    if (keyword_get(r, "not"))
        limit_term(r, schema_not(r->c, subschema(r, keyword_get(r, "not"))), false);
    read_conditions(r);
    read_dependencies(r, "dependentRequired");
    read_dependencies(r, "dependentSchemas");
    read_dependencies(r, "dependencies");
}

static void read_names(struct reading *r)
{
    const json_t *v = keyword_get(r, "propertyNames");
    const struct schema_form *names;
    struct schema_names *other;
    struct schema_object *o;
    struct schema_form *f;

    if (!v || !(names = schema_form_of(r->c, subschema(r, v))) || names->string == r->c->text.string)
        return;
    o = schema_object_any(r->c);
    other = schema_alloc(r->c, 2, sizeof(*other));
    f = schema_form_any(r->c);
    if (!o || !other || !f)
        return;
    other[0] = (struct schema_names){.keys = names->string, .term = SCHEMA_ANY};
    other[1] = (struct schema_names){.keys = schema_regex_not(r->c, names->string, r->c->text.string),
                                     .term = SCHEMA_NONE};
    o->other = other;
    o->n_others = 2;
    f->objects = schema_objects_of(r->c, o);
    /* it is unknown whether the strings beyond names->string are valid names */
    f->is_partial = names->string != names->string_bound;
    limit_form(r, f, false);
}

/* Returns the clause for arrays whose unevaluated elements are in TERM, in the case X
 * (schema_unevaluated.h). */
static struct schema_array *unevaluated_items(struct reading *r, const struct schema_case *x, uint32_t term)
{
    struct schema_array *a = schema_array_any(r->c);
    uint32_t *prefix = schema_alloc(r->c, x->n_elements, sizeof(*prefix));

    if (!a || !prefix)
        return NULL;
    for (size_t i = 0; i < x->n_elements; i++)
        prefix[i] = SCHEMA_ANY;
    a->prefix = prefix;
    a->n_prefix = x->n_elements;
    a->rest = schema_or(r->c, term, x->elements);
    if (a->rest == SCHEMA_NONE)
        a->most = (uint32_t)a->n_prefix;
    return a;
}

/* Returns the clause for objects whose unevaluated properties are in TERM, in the case X
 * (schema_unevaluated.h). */
static struct schema_object *unevaluated_properties(struct reading *r, const struct schema_case *x,
                                                    uint32_t term)
{
    struct schema_compiler *c = r->c;
    struct schema_object *o = schema_object_any(c);
    struct schema_member *member = schema_alloc(c, x->n_keys, sizeof(*member));
    struct schema_names *other = schema_alloc(c, 2, sizeof(*other));
    size_t at;

    if (!o || !member || !other)
        return NULL;
    for (size_t i = 0; i < x->n_keys && schema_work(c, 1); i++) {
        for (at = 0; at < o->n_members && member[at].key != x->key[i]; at++)
            ;
        if (at == o->n_members)
            member[o->n_members++] = (struct schema_member){x->key[i], SCHEMA_ANY, false, true};
    }
    o->member = member;
    other[0] = (struct schema_names){schema_regex_not(c, x->names, c->text.string), term, true};
    other[1] = (struct schema_names){.keys = x->names, .term = SCHEMA_ANY};
    o->other = other;
    o->n_others = x->names == REGEX_NOTHING ? 1 : 2;
    return o;
}

/* Returns the values of the case X (schema_unevaluated.h) for which `unevaluatedProperties` and
 * `unevaluatedItems` hold. */
static const struct schema_form *form_of_case(struct reading *r, const struct schema_case *x,
                                              const json_t *properties, const json_t *items)
{
    struct schema_form *f = schema_form_any(r->c);

    if (!f)
        return NULL;
    if (items && !x->all_elements)
        f->arrays = schema_arrays_of(r->c, unevaluated_items(r, x, subschema(r, items)));
    if (properties && !x->all_properties)
        f->objects = schema_objects_of(r->c, unevaluated_properties(r, x, subschema(r, properties)));
    return schema_form_and(r->c, f, schema_form_of(r->c, x->condition), false);
}

static void read_unevaluated(struct reading *r)
{
    const json_t *properties = keyword_get(r, "unevaluatedProperties"),
                 *items = keyword_get(r, "unevaluatedItems");
    const struct schema_case *x;
    const struct schema_form **of, *any;
    size_t n;

    if ((!properties && !items) || r->c->draft < SCHEMA_2019_09)
        return;
    n = schema_cases(r->c, r->json, r->resource, &x);
    of = schema_alloc(r->c, n, sizeof(*of));
    for (size_t i = 0; of && i < n; i++)
        of[i] = form_of_case(r, &x[i], properties, items);
    any = of && n && !r->c->rc ? schema_form_or(r->c, of, n) : NULL;
    if (any)
        limit_form(r, any, false);
}

/* Computes the form of TERM, which is a schema (kind SCHEMA_TERM_RAW). */
static const struct schema_form *read_raw(struct schema_compiler *c, const struct schema_term *term)
{
    struct reading r = {.c = c, .json = term->json, .resource = term->resource};
    struct schema_form *f = schema_form_none(c);
    const json_t *outer = c->at;

    if (!f)
        return NULL;
    c->at = term->json;
    if (c->draft <= SCHEMA_DRAFT_7 && keyword_get(&r, "$ref")) {
        const struct schema_form *target = schema_form_of(c, schema_reference(c, r.json, "$ref", r.resource));

        c->at = outer;
        return target;
    }
    r.form = f;
    refuse_draft_3(&r);
    read_types(&r);
    f->literals = (r.types & NULLS ? SCHEMA_NULL : 0) | (r.types & BOOLEANS ? SCHEMA_TRUE | SCHEMA_FALSE : 0);
    read_numbers(&r);
    read_strings(&r);
    read_arrays(&r);
    read_objects(&r);
    read_values(&r);
    read_names(&r);
    read_applicators(&r);
    read_unevaluated(&r);
    c->at = outer;
    return c->rc ? NULL : f;
}

/* ---- values ---- */

/* Returns the clause for objects that equal JSON. */
static const struct schema_object *object_of_value(struct schema_compiler *c, const json_t *json)
{
    struct schema_object *o = schema_object_any(c);
    struct schema_member *member = schema_alloc(c, json_object_size(json), sizeof(*member));
    struct schema_names *other = schema_alloc(c, 1, sizeof(*other));
    const char *key;
    size_t n;
    json_t *one;

    if (!o || !member || !other)
        return NULL;
    json_object_keylen_foreach((json_t *)json, key, n, one) member[o->n_members++] =
        (struct schema_member){schema_key(c, key, n), schema_value_term(c, one), true, true};
    *other = (struct schema_names){.keys = c->text.string, .term = SCHEMA_NONE};
    o->member = member;
    o->other = other;
    return o;
}

/* Returns the clause for arrays that equal JSON. */
static const struct schema_array *array_of_value(struct schema_compiler *c, const json_t *json)
{
    struct schema_array *a = schema_array_any(c);
    uint32_t *prefix = schema_alloc(c, json_array_size(json), sizeof(*prefix));

    if (!a || !prefix)
        return NULL;
    for (size_t i = 0; i < json_array_size(json); i++)
        prefix[i] = schema_value_term(c, json_array_get(json, i));
    a->prefix = prefix;
    a->n_prefix = json_array_size(json);
    a->rest = SCHEMA_NONE;
    a->least = a->most = (uint32_t)a->n_prefix;
    return a;
}

/* Returns the form that has only the value JSON. */
static const struct schema_form *form_of_value(struct schema_compiler *c, const json_t *json)
{
    struct schema_form *f = schema_form_none(c);
    struct json_decimal d;

    if (!f)
        return NULL;
    if (schema_decimal(c, &d, json)) {
        if (d.point > JSON_NUMBER_MOST_POINT || d.point < -JSON_NUMBER_MOST_POINT)
            schema_unserved(c, c->at, json_object_get(c->at, "const") ? "const" : "enum",
                            "numbers beyond 1e%d are not supported", JSON_NUMBER_MOST_POINT);
        else
            set_number(c, f, json, json_number_equal(&c->number, &d));
    } else if (json_is_object(json)) {
        f->objects = schema_objects_of(c, object_of_value(c, json));
    } else if (json_is_array(json)) {
        f->arrays = schema_arrays_of(c, array_of_value(c, json));
    } else if (json_is_string(json)) {
        struct json_string one = {json_string_value(json), json_string_length(json)};

        set_strings(c, f, &one, 1);
    }
    f->literals = json_is_null(json)    ? SCHEMA_NULL
                  : json_is_true(json)  ? SCHEMA_TRUE
                  : json_is_false(json) ? SCHEMA_FALSE
                                        : 0;
    return f;
}

/* ---- terms ---- */

/* Returns the form of X, a HAS or LACKS term. All values that are not objects are in the form. */
static const struct schema_form *form_of_property(struct schema_compiler *c, const struct schema_term *x)
{
    struct schema_object *o = schema_object_any(c);
    struct schema_member *member = schema_alloc(c, 1, sizeof(*member));
    struct schema_form *f = schema_form_any(c);

    if (!o || !member || !f)
        return NULL;
    *member = x->kind == SCHEMA_TERM_HAS ? (struct schema_member){x->key, SCHEMA_ANY, true, true}
                                         : (struct schema_member){x->key, SCHEMA_NONE, false, true};
    o->member = member;
    o->n_members = 1;
    f->objects = schema_objects_of(c, o);
    return f;
}

static const struct schema_form *form_of_join(struct schema_compiler *c, const struct schema_term *x)
{
    const struct schema_form *r = NULL, **of = schema_alloc(c, x->n, sizeof(*of));

    for (size_t i = 0; of && i < x->n; i++) {
        of[i] = schema_form_of(c, x->of[i]);
        if (!of[i])
            return NULL;
        if (x->kind == SCHEMA_TERM_AND)
            r = i ? schema_form_and(c, r, of[i], false) : of[i];
    }
    return x->kind == SCHEMA_TERM_OR && of ? schema_form_or(c, of, x->n) : r;
}

static const struct schema_form *work_out(struct schema_compiler *c, const struct schema_term *x)
{
    switch (x->kind) {
    case SCHEMA_TERM_NONE: return schema_form_none(c);
    case SCHEMA_TERM_ANY: return schema_form_any(c);
    case SCHEMA_TERM_RAW: return read_raw(c, x);
    case SCHEMA_TERM_VALUE: return form_of_value(c, x->json);
    case SCHEMA_TERM_HAS:
    case SCHEMA_TERM_LACKS: return form_of_property(c, x);
    case SCHEMA_TERM_AND:
    case SCHEMA_TERM_OR: return form_of_join(c, x);
    case SCHEMA_TERM_NOT:
    case SCHEMA_TERM_OUTSIDE: break;
    }
    return schema_form_not(c, schema_form_of(c, x->of[0]), x->kind == SCHEMA_TERM_NOT);
}

const struct schema_form *schema_form_of(struct schema_compiler *c, uint32_t term)
{
    struct schema_term x = c->term[term]; /* a copy, because the array may move */

    if (x.progress == SCHEMA_DONE || !schema_work(c, 1))
        return c->rc ? NULL : x.form;
    if (x.progress == SCHEMA_BEGUN && c->probing > 0) {
        c->has_loop = true;
        return NULL;
    }
    if (x.progress == SCHEMA_BEGUN) {
        schema_wrong(c, c->at, "$ref", "the schema refers to itself without going to an element or property");
        return NULL;
    }
    if (c->depth >= SCHEMA_MOST_DEPTH) {
        schema_over_limit(c, "", "more than %d schemas apply to the same value", SCHEMA_MOST_DEPTH);
        return NULL;
    }
    c->term[term].progress = SCHEMA_BEGUN;
    c->depth++;
    x.form = work_out(c, &x);
    c->depth--;
    if (c->rc || c->has_loop || !x.form) {
        c->term[term].progress = SCHEMA_NOT_BEGUN;
        return NULL;
    }
    c->term[term].form = x.form;
    c->term[term].progress = SCHEMA_DONE;
    return x.form;
}

/* ---- emptiness ---- */

static bool array_is_empty(struct schema_compiler *c, const struct schema_array *a, int depth)
{
    for (uint32_t i = 0; i < a->least && i <= a->n_prefix; i++)
        if (schema_is_empty(c, schema_element(a, i), depth - 1))
            return true;
    return false;
}

static bool object_is_empty(struct schema_compiler *c, const struct schema_object *o, int depth)
{
    for (size_t i = 0; i < o->n_members; i++)
        if (o->member[i].is_required && schema_is_empty(c, o->member[i].term, depth - 1))
            return true;
    return false;
}

static bool form_is_empty(struct schema_compiler *c, const struct schema_form *f, int depth)
{
    if (!f || f->is_partial || f->literals || !regex_is_empty(c->s, f->number) ||
        !regex_is_empty(c->s, f->string_bound))
        return false;
    for (size_t i = 0; i < f->arrays.n; i++)
        if (!array_is_empty(c, f->arrays.of[i], depth))
            return false;
    for (size_t i = 0; i < f->objects.n; i++)
        if (!object_is_empty(c, f->objects.of[i], depth))
            return false;
    return true;
}

bool schema_is_empty(struct schema_compiler *c, uint32_t term, int depth)
{
    bool had_loop = c->has_loop, is_empty;

    if (term <= SCHEMA_ANY || depth == 0 || !schema_work(c, 1))
        return term == SCHEMA_NONE;
    c->probing++;
    c->has_loop = false;
    is_empty = form_is_empty(c, schema_form_of(c, term), depth) && !c->has_loop;
    c->probing--;
    c->has_loop = had_loop;
    return is_empty && !c->rc;
}
