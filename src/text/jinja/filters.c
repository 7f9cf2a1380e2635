/* filters.c - the filters and tests, except those of strings (string_methods.c) and tojson (json.c).
 *
 * map, select and the like are lazy, as in Jinja: they compute an element when it is read, and report wrong
 * arguments only then.
 */
#include "text/jinja/filters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/methods.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/value/calculate.h"
#include "text/jinja/value/characters.h"
#include "text/jinja/value/compare.h"
#include "text/jinja/value/json.h"
#include "text/jinja/value/number.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/slice.h"
#include "text/jinja/value/text.h"
#include "text/jinja/value/walk.h"

enum { DIGITS_MAX = 323 }; /* more decimal places do not change a float */

/* ---- attributes by path ---- */

/* Splits a path such as "a.b.0" into a list of names and numbers. Returns MISSING if there is no path. */
static struct value read_path(struct rendering *r, struct value text)
{
    struct value_list_builder g = {.r = r};
    size_t from = 0;
    bool over;

    if (text.kind == VALUE_MISSING || text.kind == VALUE_NONE || !jinja_step(r, text.size / 8))
        return value_missing;
    if (text.kind != VALUE_STRING)
        jinja_push(&g, text);
    for (size_t i = 0; text.kind == VALUE_STRING && i <= text.size && !r->rc; i++) {
        struct value part;
        int64_t number;

        if (i < text.size && text.bytes[i] != '.')
            continue;
        part = jinja_part(text, from, i);
        if (part.size && part.bytes[0] >= '0' && part.bytes[0] <= '9' &&
            jinja_parse_integer(part.bytes, part.size, 10, &number, &over))
            part = jinja_integer(number);
        jinja_push(&g, part);
        from = i + 1;
    }
    return jinja_grown(&g);
}

/* Follows PATH, a list of names and indices, from V, and returns the value at its end. OTHERWISE, unless it is MISSING
 * or None, replaces undefined values. */
static struct value follow(struct rendering *r, struct value v, struct value path, struct value otherwise)
{
    for (size_t i = 0; path.kind == VALUE_LIST && i < path.size && !r->rc; i++) {
        v = jinja_member(r, v, path.items[i], false);
        if (v.kind == VALUE_UNDEFINED && otherwise.kind != VALUE_MISSING && otherwise.kind != VALUE_NONE)
            v = otherwise;
    }
    return v;
}

/* Returns V, in lower case if it is a string that is compared without case. */
static struct value fold(struct rendering *r, struct value v, bool case_sensitive)
{
    return case_sensitive || v.kind != VALUE_STRING
               ? v
               : jinja_change_case(r, v, &(struct builtin_call){.how = STRING_LOWER});
}

/* ---- any value ---- */

static struct value do_default(struct rendering *r, struct value v, const struct builtin_call *g)
{
    (void)r;
    if (v.kind != VALUE_UNDEFINED && (jinja_true(v) || !jinja_true(g->p[1])))
        return v;
    return g->p[0].kind == VALUE_MISSING ? jinja_literal("") : g->p[0];
}

enum { STRINGED, SAFE, SAFELY }; /* the filters that do_string() implements: string, safe, and escape */

static struct value do_string(struct rendering *r, struct value v, const struct builtin_call *g)
{
    v = g->how == SAFELY ? jinja_escape(r, v) : jinja_to_string(r, v);
    v.mark = g->how == SAFE ? VALUE_ESCAPED : v.mark;
    return v;
}

/* ---- numbers ---- */

static const struct builtin_call both_ends = {.how = STRING_LEFT | STRING_RIGHT};

static struct value do_abs(struct rendering *r, struct value v, const struct builtin_call *g)
{
    (void)g;
    if (v.kind == VALUE_FLOAT)
        return jinja_float(fabs(v.number));
    if (v.kind == VALUE_LARGE)
        return *v.bytes == '-' ? jinja_negative(r, v) : v;
    if (jinja_is_integer(v))
        return jinja_calculate(r, jinja_to_integer(v) < 0 ? CALCULATE_SUBTRACT : CALCULATE_ADD,
                               jinja_integer(0), v);
    return jinja_fail(r, "bad operand type for abs(): '%s'", jinja_type(v));
}

static struct value do_int(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct value otherwise = g->p[0].kind == VALUE_MISSING ? jinja_integer(0) : g->p[0];
    int64_t base = jinja_given_integer(g, 1, 10), i;
    bool over = false;
    double f;

    if (v.kind == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.kind == VALUE_LARGE)
        return v;
    if (jinja_is_integer(v))
        return jinja_integer(jinja_to_integer(v));
    if (v.kind == VALUE_FLOAT)
        return isnan(v.number) ? otherwise : jinja_whole(r, v.number);
    if (v.kind != VALUE_STRING || !jinja_step(r, v.size / 4))
        return otherwise;
    v = jinja_strip(r, v, &both_ends);
    if ((base == 0 || (base >= 2 && base <= 36)) &&
        jinja_parse_integer(v.bytes, v.size, (unsigned)base, &i, &over))
        return jinja_integer(i);
    if (over)
        return base == 10 || base == 0 ? jinja_parse_large(r, v)
                                       : jinja_fail(r, "an integer grows beyond 64 bits");
    return jinja_parse_float(v.bytes, v.size, &f) && isfinite(f) ? jinja_whole(r, f) : otherwise;
}

static struct value do_float(struct rendering *r, struct value v, const struct builtin_call *g)
{
    double f;

    if (v.kind == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (jinja_is_number(v))
        return jinja_step(r, v.kind == VALUE_LARGE ? v.size / VALUE_LARGE_STEP : 0)
                   ? jinja_float(jinja_to_float(v))
                   : value_none;
    v = v.kind == VALUE_STRING ? jinja_strip(r, v, &both_ends) : v;
    if (v.kind == VALUE_STRING && jinja_step(r, v.size / 16) && jinja_parse_float(v.bytes, v.size, &f))
        return jinja_float(f);
    return g->p[0].kind == VALUE_MISSING ? jinja_float(0) : g->p[0];
}

/* Rounds I to a multiple of 10 ** -DIGITS, half to even. */
static struct value round_integer(struct rendering *r, int64_t i, int64_t digits)
{
    int64_t unit = 1, q, m;

    if (digits >= 0)
        return jinja_integer(i);
    if (digits < -18)
        return digits == -19 && (i > 5000000000000000000 || i < -5000000000000000000)
                   ? jinja_fail(r, "an integer grows beyond 64 bits")
                   : jinja_integer(0);
    while (digits++ < 0)
        unit *= 10;
    q = i / unit;
    m = i % unit;
    if (llabs(m) > unit / 2 || (llabs(m) == unit / 2 && (q & 1)))
        q += i < 0 ? -1 : 1;
    return jinja_calculate(r, CALCULATE_MULTIPLY, jinja_integer(q), jinja_integer(unit));
}

static struct value round_float(struct rendering *r, double f, int64_t digits)
{
    char text[DIGITS_MAX + 330];
    double unit;

    if (!isfinite(f) || digits > DIGITS_MAX)
        return jinja_float(f);
    if (digits < -308)
        return jinja_float(copysign(0.0, f));
    if (!jinja_step(r, digits > 0 || fabs(f) > 1e15 ? 64 + (size_t)(digits > 0 ? digits : 0) : 8))
        return value_none;
    if (digits >= 0) { /* printf() rounds the exact binary value half to even, as Python's round() does */
        snprintf(text, sizeof(text), "%.*f", (int)digits, f);
        return jinja_float(strtod(text, NULL));
    }
    unit = pow(10.0, (double)-digits);
    return jinja_float(rint(f / unit) * unit);
}

/* Rounds V up or down to DIGITS places, as Jinja does: ceil or floor of v * 10 ** n, divided by 10 ** n. */
static struct value round_towards(struct rendering *r, struct value v, int64_t digits, bool up)
{
    struct value unit = jinja_calculate(r, CALCULATE_POWER, jinja_integer(10), jinja_integer(digits));

    v = jinja_calculate(r, CALCULATE_MULTIPLY, v, unit);
    if (v.kind == VALUE_FLOAT)
        v = jinja_whole(r, up ? ceil(v.number) : floor(v.number));
    return jinja_calculate(r, CALCULATE_DIVIDE, v, unit);
}

static struct value do_round(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct value method = g->p[1].kind == VALUE_MISSING ? jinja_literal("common") : g->p[1];
    bool up = jinja_is(method, "ceil");
    int64_t digits = jinja_given_integer(g, 0, 0);

    if (!jinja_is(method, "common") && !up && !jinja_is(method, "floor"))
        return jinja_fail(r, "method must be common, ceil or floor");
    if (!jinja_is_number(v))
        return jinja_fail(r, "type %s doesn't define __round__ method", jinja_type(v));
    if (v.kind == VALUE_LARGE)
        return digits >= 0 ? v : jinja_fail(r, "arithmetic on integers beyond 64 bits is not supported");
    if (!jinja_is(method, "common"))
        return round_towards(r, v, digits, up);
    return v.kind == VALUE_FLOAT ? round_float(r, v.number, digits)
                                 : round_integer(r, jinja_to_integer(v), digits);
}

/* ---- sequences ---- */

static struct value do_length(struct rendering *r, struct value v, const struct builtin_call *g)
{
    size_t n = 0;

    (void)g;
    if (!jinja_length(r, v, &n))
        jinja_fail(r, "object of type '%s' has no len()", jinja_type(v));
    return jinja_integer((int64_t)n);
}

static struct value do_list(struct rendering *r, struct value v, const struct builtin_call *g)
{
    (void)g;
    return jinja_to_list(r, v);
}

static struct value do_first(struct rendering *r, struct value v, const struct builtin_call *g)
{
    (void)g;
    return jinja_next(r, jinja_walk(r, v), &v) ? v : jinja_undefined("No first item, sequence was empty.");
}

static struct value do_last(struct rendering *r, struct value v, const struct builtin_call *g)
{
    (void)g;
    if (v.kind == VALUE_GENERATOR)
        jinja_fail(r, "'generator' object is not reversible");
    v = jinja_to_list(r, v);
    if (r->rc || v.size == 0)
        return jinja_undefined("No last item, sequence was empty.");
    return v.items[v.size - 1];
}

static struct value do_reverse(struct rendering *r, struct value v, const struct builtin_call *g)
{
    (void)g;
    return jinja_slice(r, v.kind == VALUE_STRING ? v : jinja_to_list(r, v), value_none, value_none,
                       jinja_integer(-1));
}

static struct value do_join(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct value by = g->p[0].kind == VALUE_MISSING ? jinja_literal("") : jinja_to_string(r, g->p[0]);
    struct value path = read_path(r, g->p[1]);
    struct text t = {.r = r};
    bool first = true;

    for (struct walk_generator *walk = jinja_walk(r, v); jinja_next(r, walk, &v); first = false) {
        if (!first)
            jinja_put(&t, by.bytes, by.size);
        jinja_print(&t, follow(r, v, path, value_missing));
    }
    return jinja_finish(&t);
}

/* Returns the values of N pairs, sorted by key. PAIRS has room for N more pairs after them as scratch. */
static struct value sorted(struct rendering *r, struct value_pair *pairs, size_t n, bool descending)
{
    struct value v = jinja_list(r, VALUE_LIST, NULL, n);

    if (r->rc)
        return v;
    jinja_sort(r, pairs, pairs + n, n, descending);
    for (size_t i = 0; i < n; i++)
        v.items[i] = pairs[i].value;
    return v;
}

/* Makes the sort key of V: the list of the values that the comma-separated paths of ATTRIBUTE lead to. A
 * single path gives a list, too, as in Jinja: comparing lists skips equal elements without ordering them,
 * which some types do not support. */
static struct value sort_key(struct rendering *r, struct value v, struct value attribute, bool case_sensitive)
{
    struct value_list_builder key = {.r = r};
    size_t from = 0;

    for (size_t i = 0; i <= attribute.size && !r->rc; i++) {
        struct value part = attribute;

        if (attribute.kind == VALUE_STRING) {
            if (i < attribute.size && attribute.bytes[i] != ',')
                continue;
            part = jinja_part(attribute, from, i);
            from = i + 1;
        }
        part = follow(r, v, read_path(r, part), value_missing);
        jinja_push(&key, fold(r, part, case_sensitive));
    }
    return jinja_grown(&key);
}

static struct value do_sort(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct value_pair *pairs;
    size_t n;

    v = jinja_to_list(r, v);
    n = r->rc ? 0 : v.size;
    pairs = jinja_allocate_array(r, 2 * n, sizeof(*pairs));
    for (size_t i = 0; i < n && !r->rc; i++) {
        pairs[i].key = sort_key(r, v.items[i], g->p[2], jinja_true(g->p[1]));
        pairs[i].value = v.items[i];
    }
    return sorted(r, pairs, n, jinja_true(g->p[0]));
}

static struct value do_dictsort(struct rendering *r, struct value v, const struct builtin_call *g)
{
    bool by_value = jinja_is(g->p[1], "value");
    struct value_pair *pairs;
    uint32_t n;

    if (!by_value && g->p[1].kind != VALUE_MISSING && !jinja_is(g->p[1], "key"))
        return jinja_fail(r, "You can only sort by either \"key\" or \"value\"");
    if (v.kind == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.kind != VALUE_DICT)
        return jinja_fail(r, "'%s' object has no attribute 'items'", jinja_type(v));
    n = v.dict->count;
    pairs = jinja_allocate_array(r, 2 * (size_t)n, sizeof(*pairs));
    for (uint32_t i = 0; i < n && !r->rc; i++) {
        const struct value_pair *d = &v.dict->pairs[i];

        pairs[i].key = fold(r, by_value ? d->value : d->key, jinja_true(g->p[0]));
        pairs[i].value = jinja_list(r, VALUE_TUPLE, (const struct value *)d, 2);
    }
    return sorted(r, pairs, n, jinja_true(g->p[2]));
}

/* The filters max and min. g->how is the comparison (greater or less) of a better element with the best
 * element so far. */
static struct value do_extreme(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct value best = jinja_undefined("No aggregated item, sequence was empty."), best_key = value_missing,
                 key;
    struct value path = read_path(r, g->p[1]);

    for (struct walk_generator *walk = jinja_walk(r, v); jinja_next(r, walk, &v);) {
        key = fold(r, follow(r, v, path, value_missing), jinja_true(g->p[0]));
        if (best_key.kind != VALUE_MISSING && !jinja_compare(r, (enum compare_how)g->how, key, best_key))
            continue;
        best = v;
        best_key = key;
    }
    return best;
}

static struct value do_sum(struct rendering *r, struct value v, const struct builtin_call *g)
{
    struct value sum = g->p[1].kind == VALUE_MISSING ? jinja_integer(0) : g->p[1];
    struct value path = read_path(r, g->p[0]);

    if (sum.kind == VALUE_STRING)
        return jinja_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    for (struct walk_generator *walk = jinja_walk(r, v); jinja_next(r, walk, &v);)
        sum = jinja_calculate(r, CALCULATE_ADD, sum, follow(r, v, path, value_missing));
    return sum;
}

/* ---- generators ---- */

/* Flags for the elements that a generator yields. 0: elements that fail a test. KEEP: elements that pass the
 * test. BY_ATTRIBUTE: the test is applied to an attribute. MAPPED: the result of a filter or path for each
 * element. DIFFERENT: elements that did not occur before. */
enum { KEEP = 1, BY_ATTRIBUTE = 2, MAPPED = 4, DIFFERENT = 8 };

/* The state of a generator during its iteration. */
struct state {
    struct builtin_arguments arguments; /* the arguments of the filter */
    int how;
    struct walk_generator *source; /* NULL: the iteration has not started */
    struct value path, otherwise;
    /* The filter or test to apply, and its arguments. */
    const struct builtin *row;
    struct builtin_arguments rest;
    /* DIFFERENT: the elements that were yielded, and whether case matters. */
    struct value_dict *seen;
    bool case_sensitive;
};

/* Reads the arguments of map() that has an attribute instead of a filter. */
static void read_mapping(struct rendering *r, struct state *s)
{
    const struct builtin_arguments *a = &s->arguments;
    struct value attribute = value_missing;

    for (size_t i = 0; i < a->n_keywords; i++) {
        if (jinja_is(a->keywords[i].name, "attribute"))
            attribute = a->keywords[i].value;
        else if (jinja_is(a->keywords[i].name, "default"))
            s->otherwise = a->keywords[i].value;
        else
            jinja_fail(r, "Unexpected keyword argument %s", jinja_brief(r, a->keywords[i].name));
    }
    if (attribute.kind == VALUE_MISSING)
        jinja_fail(r, "map requires a filter argument");
    s->path = read_path(r, attribute);
}

/* Opens the source and reads the arguments: a path, then the filter or test and its own arguments. If the
 * source is false in Python's sense, map and select end without reading their arguments. */
static bool prepare(struct rendering *r, struct value over, struct state *s)
{
    const struct builtin_arguments *a = &s->arguments;
    size_t at = s->how & BY_ATTRIBUTE ? 1 : 0;

    if (s->source)
        return true;
    s->source = s->how & DIFFERENT || jinja_true(over) ? jinja_walk(r, over) : NULL;
    if (!s->source || s->how & DIFFERENT)
        return s->source != NULL;
    if (a->count < at)
        jinja_fail(r, "Missing parameter for attribute name");
    else if (at)
        s->path = read_path(r, a->values[0]);
    if (a->count > at) {
        s->row = jinja_find_row(s->how & MAPPED ? jinja_filters : jinja_tests, a->values[at]);
        s->rest =
            (struct builtin_arguments){a->values + at + 1, a->count - at - 1, a->keywords, a->n_keywords};
        if (!s->row)
            jinja_fail(r, "No %s named %s.", s->how & MAPPED ? "filter" : "test",
                       jinja_brief(r, a->values[at]));
    } else if (s->how & MAPPED) {
        read_mapping(r, s);
    }
    return r->rc == 0;
}

static bool next_lazy(struct rendering *r, struct walk_generator *g, struct value *out)
{
    struct state *s = g->state;
    struct value v;
    uint32_t before;

    if (!prepare(r, g->over, s))
        return false;
    while (jinja_next(r, s->source, out)) {
        v = follow(r, *out, s->path, s->otherwise);
        v = s->row ? jinja_apply(r, s->row, v, &s->rest) : v;
        if (s->how & MAPPED) {
            *out = v;
            return true;
        }
        if (s->how & DIFFERENT) {
            before = s->seen->count;
            if (!jinja_dict_set(r, s->seen, fold(r, v, s->case_sensitive), value_none))
                return false;
            v = jinja_boolean(s->seen->count > before);
        }
        if (jinja_true(v) == ((s->how & KEEP) != 0) && !r->rc)
            return true;
    }
    return false;
}

/* Makes the generator of map, select and the like; g->how has the flags above. */
static struct value do_lazy(struct rendering *r, struct value v, const struct builtin_call *g)
{
    const struct builtin_arguments *a = g->all;
    struct value *values = jinja_allocate_array(r, a->count + 1, sizeof(*values));
    struct builtin_keyword *keywords = jinja_allocate_array(r, a->n_keywords + 1, sizeof(*keywords));
    struct state *s = jinja_allocate_array(r, 1, sizeof(*s));

    if (!values || !keywords || !s)
        return value_none;
    memcpy(values, a->values, a->count * sizeof(*values));
    memcpy(keywords, a->keywords, a->n_keywords * sizeof(*keywords));
    s->arguments = (struct builtin_arguments){values, a->count, keywords, a->n_keywords};
    s->how = g->how;
    if (s->how & DIFFERENT) {
        s->case_sensitive = jinja_true(g->p[0]);
        s->path = read_path(r, g->p[1]);
        s->seen = jinja_dict(r);
    }
    return jinja_generator(r, v, s, next_lazy);
}

static bool next_item(struct rendering *r, struct walk_generator *g, struct value *out)
{
    const struct value_pair *p;

    if (g->over.kind != VALUE_DICT) {
        if (g->over.kind != VALUE_UNDEFINED)
            jinja_fail(r, "Can only get item pairs from a mapping.");
        return false;
    }
    if (g->at >= g->over.dict->count)
        return false;
    p = &g->over.dict->pairs[g->at++];
    *out = jinja_list(r, VALUE_TUPLE, (const struct value *)p, 2);
    return true;
}

static struct value do_items(struct rendering *r, struct value v, const struct builtin_call *g)
{
    (void)g;
    return jinja_generator(r, v, NULL, next_item);
}

/* clang-format off */
const struct builtin jinja_filters[] = {
    {"abs", do_abs, "", 0, 0, 0}, {"capitalize", jinja_change_case, "", 0, STRING_CAPITALIZED, 0},
    {"count", do_length, "", 0, 0, 0}, {"d", do_default, "default_value boolean", 0, 0, 0},
    {"default", do_default, "default_value boolean", 0, 0, 0},
    {"dictsort", do_dictsort, "case_sensitive by reverse", 0, 0, 0}, {"e", do_string, "", 0, SAFELY, 0},
    {"escape", do_string, "", 0, SAFELY, 0}, {"first", do_first, "", 0, 0, 0},
    {"float", do_float, "default", 0, 0, 0}, {"indent", jinja_indent, "width% first blank", 0, 0, 0},
    {"int", do_int, "default base#", 0, 0, 0}, {"items", do_items, "", 0, 0, 0},
    {"join", do_join, "d attribute", 0, 0, 0}, {"last", do_last, "", 0, 0, 0},
    {"length", do_length, "", 0, 0, 0}, {"list", do_list, "", 0, 0, 0},
    {"lower", jinja_change_case, "", 0, STRING_LOWER, 0}, {"map", do_lazy, NULL, 0, MAPPED, 0},
    {"max", do_extreme, "case_sensitive attribute", 0, COMPARE_GREATER, 0},
    {"min", do_extreme, "case_sensitive attribute", 0, COMPARE_LESS, 0}, {"reject", do_lazy, NULL, 0, 0, 0},
    {"rejectattr", do_lazy, NULL, 0, BY_ATTRIBUTE, 0},
    {"replace", jinja_replace, "old new count?#", 2, true, 0}, {"reverse", do_reverse, "", 0, 0, 0},
    {"round", do_round, "precision# method", 0, 0, 0}, {"safe", do_string, "", 0, SAFE, 0},
    {"select", do_lazy, NULL, 0, KEEP, 0}, {"selectattr", do_lazy, NULL, 0, KEEP | BY_ATTRIBUTE, 0},
    {"sort", do_sort, "reverse case_sensitive attribute", 0, 0, 0},
    {"string", do_string, "", 0, STRINGED, 0}, {"sum", do_sum, "attribute start", 0, 0, 0},
    {"title", jinja_change_case, "", 0, STRING_WORDS, 0},
    {"tojson", jinja_to_json, "ensure_ascii indent?% separators? sort_keys", 0, 0, 0},
    {"trim", jinja_strip, "chars?$", 0, STRING_LEFT | STRING_RIGHT, 0},
    {"unique", do_lazy, "case_sensitive attribute", 0, KEEP | DIFFERENT, 0},
    {"upper", jinja_change_case, "", 0, STRING_UPPER, 0}, {.name = NULL}
};
/* clang-format on */

/* ---- tests ---- */

/* The tests without arguments. `how` of a row is one of these constants or an enum value_kind. */
/* clang-format off */
enum {
    IS_DEFINED = 64, IS_TRUE, IS_FALSE, IS_NUMBER, IS_ITERABLE, IS_SEQUENCE, IS_CALLABLE, IS_LOWER, IS_UPPER
};
/* clang-format on */

static struct value is(struct rendering *r, struct value v, const struct builtin_call *g)
{
    bool iterable = jinja_iterable(v), yes;

    switch (g->how) {
    case IS_DEFINED: yes = v.kind != VALUE_UNDEFINED; break;
    case IS_TRUE: yes = v.kind == VALUE_BOOLEAN && v.boolean; break;
    case IS_FALSE: yes = v.kind == VALUE_BOOLEAN && !v.boolean; break;
    case IS_NUMBER: yes = jinja_is_number(v); break;
    case IS_ITERABLE: yes = iterable || v.kind == VALUE_LOOP; break;
    case IS_SEQUENCE: /* iterable, with a length and elements by index or key; includes undefined values */
        yes = iterable && v.kind != VALUE_GENERATOR;
        break;
    case IS_CALLABLE:
        yes = v.kind == VALUE_FUNCTION || v.kind == VALUE_METHOD || v.kind == VALUE_MACRO ||
              v.kind == VALUE_UNDEFINED;
        break;
    case IS_LOWER:
    case IS_UPPER:
        v = jinja_to_string(r, v);
        yes = jinja_step(r, v.size / 4) && jinja_has_case(v, g->how == IS_UPPER);
        break;
    case VALUE_INTEGER: yes = v.kind == VALUE_INTEGER || v.kind == VALUE_LARGE; break;
    default: yes = v.kind == g->how;
    }
    return jinja_boolean(yes);
}

/* The tests divisibleby, even and odd: true if V modulo the argument (default 2) equals g->how. */
static struct value leaves(struct rendering *r, struct value v, const struct builtin_call *g)
{
    v = jinja_calculate(r, CALCULATE_MODULO, v, g->p[0].kind == VALUE_MISSING ? jinja_integer(2) : g->p[0]);
    return jinja_boolean(r->rc == 0 && jinja_equal(r, v, jinja_integer(g->how)));
}

static struct value compares(struct rendering *r, struct value v, const struct builtin_call *g)
{
    return jinja_boolean(jinja_compare(r, (enum compare_how)g->how, v, g->p[0]));
}

/* clang-format off */
const struct builtin jinja_tests[] = {
    {"!=", compares, "b", 1, COMPARE_UNEQUAL, true}, {"<", compares, "b", 1, COMPARE_LESS, true},
    {"<=", compares, "b", 1, COMPARE_LESS_EQUAL, true}, {"==", compares, "b", 1, COMPARE_EQUAL, true},
    {">", compares, "b", 1, COMPARE_GREATER, true}, {">=", compares, "b", 1, COMPARE_GREATER_EQUAL, true},
    {"boolean", is, "", 0, VALUE_BOOLEAN, 0}, {"callable", is, "", 0, IS_CALLABLE, 0},
    {"defined", is, "", 0, IS_DEFINED, 0}, {"divisibleby", leaves, "num", 1, 0, 0},
    {"eq", compares, "b", 1, COMPARE_EQUAL, true}, {"equalto", compares, "b", 1, COMPARE_EQUAL, true},
    {"even", leaves, "", 0, 0, 0}, {"false", is, "", 0, IS_FALSE, 0}, {"float", is, "", 0, VALUE_FLOAT, 0},
    {"ge", compares, "b", 1, COMPARE_GREATER_EQUAL, true}, {"gt", compares, "b", 1, COMPARE_GREATER, true},
    {"in", compares, "seq", 1, COMPARE_IN, 0}, {"integer", is, "", 0, VALUE_INTEGER, 0},
    {"iterable", is, "", 0, IS_ITERABLE, 0}, {"le", compares, "b", 1, COMPARE_LESS_EQUAL, true},
    {"lower", is, "", 0, IS_LOWER, 0}, {"lt", compares, "b", 1, COMPARE_LESS, true},
    {"mapping", is, "", 0, VALUE_DICT, 0}, {"ne", compares, "b", 1, COMPARE_UNEQUAL, true},
    {"none", is, "", 0, VALUE_NONE, 0}, {"number", is, "", 0, IS_NUMBER, 0}, {"odd", leaves, "", 0, 1, 0},
    {"sameas", compares, "other", 1, COMPARE_SAME, 0}, {"sequence", is, "", 0, IS_SEQUENCE, 0},
    {"string", is, "", 0, VALUE_STRING, 0}, {"true", is, "", 0, IS_TRUE, 0},
    {"undefined", is, "", 0, VALUE_UNDEFINED, 0}, {"upper", is, "", 0, IS_UPPER, 0}, {.name = NULL}
};
/* clang-format on */
