/* value.c - makes, inspects and compares values, and implements dicts. */
#include "text/jinja/value/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "text/jinja/value/rendering.h"

/* ---- making values ---- */

struct value jinja_boolean(bool b)
{
    return (struct value){.kind = VALUE_BOOLEAN, .boolean = b};
}

struct value jinja_integer(int64_t i)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = i};
}

struct value jinja_float(double f)
{
    return (struct value){.kind = VALUE_FLOAT, .number = f};
}

struct value jinja_large(const char *digits, size_t size)
{
    return (struct value){.kind = VALUE_LARGE, .size = (uint32_t)size, .bytes = digits};
}

struct value jinja_whole(struct rendering *r, double f)
{
    enum { DIGITS = 320 }; /* digits of the largest float, a sign and a NUL */
    char *digits;
    int n;

    if (f >= -0x1p63 && f < 0x1p63)
        return jinja_integer((int64_t)f);
    if (!isfinite(f))
        return jinja_fail(r, "cannot convert float %s to integer", isnan(f) ? "NaN" : "infinity");
    if (!(digits = jinja_allocate(r, DIGITS)))
        return value_none;
    n = snprintf(digits, DIGITS, "%.0f", f);
    return jinja_large(digits, (size_t)n);
}

struct value jinja_string(const char *bytes, size_t size)
{
    ASSERT(size <= UINT32_MAX, "a string of %zu bytes", size);
    return (struct value){.kind = VALUE_STRING, .size = (uint32_t)size, .bytes = bytes};
}

struct value jinja_literal(const char *text)
{
    return jinja_string(text, strlen(text));
}

struct value jinja_undefined(const char *hint)
{
    return (struct value){
        .kind = VALUE_UNDEFINED, .mark = VALUE_BY_HINT, .size = (uint32_t)strlen(hint), .bytes = hint};
}

struct value jinja_undefined_name(struct value name)
{
    return (struct value){
        .kind = VALUE_UNDEFINED, .mark = VALUE_BY_NAME, .size = name.size, .bytes = name.bytes};
}

struct value jinja_undefined_item(struct rendering *r, struct value object, struct value key)
{
    struct value_lookup *l = jinja_allocate(r, sizeof(*l));

    if (!l)
        return value_none;
    *l = (struct value_lookup){object, key};
    return (struct value){.kind = VALUE_UNDEFINED, .mark = VALUE_BY_ITEM, .lookup = l};
}

struct value jinja_list(struct rendering *r, enum value_kind kind, const struct value *items, size_t n)
{
    struct value *copy = jinja_allocate(r, n < UINT32_MAX ? (n + !n) * sizeof(*items) : SIZE_MAX);

    if (!copy)
        return value_none;
    if (n && items)
        memcpy(copy, items, n * sizeof(*items));
    return (struct value){.kind = (uint8_t)kind, .size = (uint32_t)n, .items = copy};
}

bool jinja_push(struct value_list_builder *g, struct value v)
{
    struct value *items = jinja_room(g->r, g->items, g->count, &g->room, sizeof(*items));

    if (!items)
        return false;
    g->items = items;
    g->items[g->count++] = v;
    return g->r->rc == 0;
}

struct value jinja_grown(struct value_list_builder *g)
{
    if (!g->items || g->r->rc)
        return jinja_list(g->r, VALUE_LIST, NULL, 0);
    return (struct value){.kind = VALUE_LIST, .size = (uint32_t)g->count, .items = g->items};
}

/* ---- asking values ---- */

bool jinja_is(struct value v, const char *text)
{
    return v.kind == VALUE_STRING && strlen(text) == v.size && memcmp(v.bytes, text, v.size) == 0;
}

bool jinja_is_among(struct value v, const char *words)
{
    for (size_t n; v.kind == VALUE_STRING && *words; words += words[n] ? n + 1 : n) {
        n = strcspn(words, " ");
        if (n == v.size && memcmp(words, v.bytes, n) == 0)
            return true;
    }
    return false;
}

bool jinja_is_integer(struct value v)
{
    return v.kind == VALUE_INTEGER || v.kind == VALUE_BOOLEAN;
}

bool jinja_is_number(struct value v)
{
    return v.kind == VALUE_FLOAT || v.kind == VALUE_LARGE || jinja_is_integer(v);
}

bool jinja_is_sequence(struct value v)
{
    return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}

int64_t jinja_to_integer(struct value v)
{
    return v.kind == VALUE_BOOLEAN ? v.boolean : v.integer;
}

double jinja_to_float(struct value v)
{
    if (v.kind == VALUE_LARGE)
        return strtod(v.bytes, NULL);
    return v.kind == VALUE_FLOAT ? v.number : (double)jinja_to_integer(v);
}

struct value jinja_negative(struct rendering *r, struct value v)
{
    char *digits;

    if (*v.bytes == '-') /* only 2 ** 63 has a negative of 64 bits */
        return jinja_large(v.bytes + 1, v.size - 1);
    if (v.size == 19 && strcmp(v.bytes, "9223372036854775808") == 0)
        return jinja_integer(INT64_MIN);
    if (!(digits = jinja_allocate(r, v.size + (size_t)2)))
        return value_none;
    *digits = '-';
    memcpy(digits + 1, v.bytes, v.size + (size_t)1);
    return jinja_large(digits, v.size + (size_t)1);
}

bool jinja_true(struct value v)
{
    switch ((enum value_kind)v.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOLEAN: return v.boolean;
    case VALUE_INTEGER: return v.integer != 0;
    case VALUE_FLOAT: return v.number != 0;
    case VALUE_STRING:
    case VALUE_LIST:
    case VALUE_TUPLE: return v.size != 0;
    case VALUE_DICT: return v.dict->count != 0;
    case VALUE_RANGE: return v.range->count != 0;
    default: return true;
    }
}

const char *jinja_type(struct value v)
{
    static const char *const name[] = {
        [VALUE_MISSING] = "missing", [VALUE_UNDEFINED] = "Undefined", [VALUE_NONE] = "NoneType",
        [VALUE_BOOLEAN] = "bool",    [VALUE_INTEGER] = "int",         [VALUE_LARGE] = "int",
        [VALUE_FLOAT] = "float",     [VALUE_STRING] = "str",          [VALUE_LIST] = "list",
        [VALUE_TUPLE] = "tuple",     [VALUE_DICT] = "dict",           [VALUE_NAMESPACE] = "Namespace",
        [VALUE_RANGE] = "range",     [VALUE_GENERATOR] = "generator", [VALUE_FUNCTION] = "function",
        [VALUE_METHOD] = "method",   [VALUE_MACRO] = "Macro",         [VALUE_LOOP] = "LoopContext",
    };

    return v.kind == VALUE_STRING && v.mark == VALUE_ESCAPED ? "Markup" : name[v.kind];
}

bool jinja_same(struct value a, struct value b)
{
    if (a.kind != b.kind || a.kind == VALUE_UNDEFINED)
        return false;
    if (a.kind == VALUE_STRING || a.kind == VALUE_LARGE)
        return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
    if (a.kind == VALUE_BOOLEAN || a.kind == VALUE_NONE || a.kind == VALUE_MISSING)
        return a.boolean == b.boolean;
    return a.integer == b.integer && a.mark == b.mark; /* compares the pointers of other kinds */
}

/* ---- dicts ---- */

struct value_dict *jinja_dict(struct rendering *r)
{
    return jinja_allocate_array(r, 1, sizeof(struct value_dict));
}

struct value jinja_dict_value(struct value_dict *d, enum value_kind kind)
{
    return d ? (struct value){.kind = (uint8_t)kind, .dict = d} : value_none;
}

bool jinja_hash(struct rendering *r, struct value key, uint32_t *hash)
{
    uint32_t h = 31, part = 0;
    double f;

    switch ((enum value_kind)key.kind) {
    case VALUE_NONE:
    case VALUE_UNDEFINED: *hash = key.kind; return true;
    case VALUE_LARGE:
        if (!jinja_step(r, key.size / VALUE_LARGE_STEP))
            return false;
        __attribute__((fallthrough));
    case VALUE_BOOLEAN:
    case VALUE_INTEGER:
    case VALUE_FLOAT:                  /* equal numbers of different kinds must have the same hash */
        f = jinja_to_float(key) + 0.0; /* turns negative zero into zero */
        *hash = (uint32_t)XXH3_64bits(&f, sizeof(f));
        return true;
    case VALUE_STRING: *hash = (uint32_t)XXH3_64bits(key.bytes, key.size); return jinja_step(r, key.size / 8);
    case VALUE_TUPLE:
        if (!jinja_enter(r))
            return false;
        for (size_t i = 0; i < key.size; i++) {
            if (!jinja_step(r, 0) || !jinja_hash(r, key.items[i], &part))
                break;
            h = h * 31 + part;
        }
        jinja_leave(r);
        *hash = h;
        return r->rc == 0;
    default: return false;
    }
}

static void dict_place(struct value_dict *d, uint32_t hash, uint32_t number)
{
    uint32_t i = hash & (d->n_slots - 1);

    while (d->slots[i])
        i = (i + 1) & (d->n_slots - 1);
    d->slots[i] = number + 1;
}

/* Makes room for one more pair. The hash table has twice as many slots as the array of pairs has room. */
static bool dict_grow(struct rendering *r, struct value_dict *d)
{
    size_t before = d->room;
    struct value_pair *pairs = jinja_room(r, d->pairs, d->count, &d->room, sizeof(*pairs));
    uint32_t hash;

    if (!pairs)
        return false;
    d->pairs = pairs;
    if (d->room == before)
        return true;
    d->n_slots = 2 * (uint32_t)d->room;
    d->slots = jinja_allocate_array(r, d->n_slots, sizeof(*d->slots));
    for (uint32_t i = 0; d->slots && i < d->count; i++)
        if (jinja_hash(r, pairs[i].key, &hash))
            dict_place(d, hash, i);
    return r->rc == 0;
}

/* Returns the pair of KEY, or NULL. */
static struct value_pair *find_pair(struct rendering *r, const struct value_dict *d, struct value key,
                                    uint32_t hash)
{
    if (d->count == 0)
        return NULL;
    for (uint32_t i = hash & (d->n_slots - 1); d->slots[i] && jinja_step(r, 0);
         i = (i + 1) & (d->n_slots - 1))
        if (jinja_equal(r, d->pairs[d->slots[i] - 1].key, key))
            return &d->pairs[d->slots[i] - 1];
    return NULL;
}

bool jinja_dict_set(struct rendering *r, struct value_dict *d, struct value key, struct value v)
{
    struct value_pair *found;
    uint32_t hash;

    if (!jinja_hash(r, key, &hash)) {
        jinja_fail(r, "unhashable type: '%s'", jinja_type(key));
        return false;
    }
    found = find_pair(r, d, key, hash);
    if (found) {
        found->value = v;
        return true;
    }
    if (r->rc || !dict_grow(r, d))
        return false;
    d->pairs[d->count] = (struct value_pair){key, v};
    dict_place(d, hash, d->count++);
    return true;
}

bool jinja_dict_get(struct rendering *r, const struct value_dict *d, struct value key, struct value *out)
{
    struct value_pair *found;
    uint32_t hash = 0;

    if (!jinja_hash(r, key, &hash))
        return false;
    found = find_pair(r, d, key, hash);
    if (found)
        *out = found->value;
    return found && r->rc == 0;
}

/* ---- equality ---- */

/* Returns the order (-1, 0 or 1) of two integers, given as decimal digits with an optional '-'. */
static int compare_digits(const char *a, size_t n, const char *b, size_t m)
{
    int sign = *a == '-' ? -1 : 1, c;

    if ((*a == '-') != (*b == '-'))
        return sign;
    if (n != m)
        return n < m ? -sign : sign;
    c = memcmp(a, b, n);
    return c == 0 ? 0 : c < 0 ? -sign : sign;
}

/* Returns the order (-1, 0 or 1) of A, an integer beyond 64 bits, and the number B. 2: B is NaN. */
static int compare_large(struct value a, struct value b)
{
    char digits[320];
    int n;

    if (b.kind == VALUE_LARGE)
        return compare_digits(a.bytes, a.size, b.bytes, b.size);
    if (b.kind == VALUE_FLOAT && isnan(b.number))
        return 2;
    if (b.kind == VALUE_FLOAT && isinf(b.number))
        return b.number < 0 ? 1 : -1;
    if (b.kind != VALUE_FLOAT || fabs(b.number) < 0x1p63)
        return *a.bytes == '-' ? -1 : 1;
    n = snprintf(digits, sizeof(digits), "%.0f", b.number); /* a float of this size has no fraction */
    return compare_digits(a.bytes, a.size, digits, (size_t)n);
}

/* Returns the order (-1, 0 or 1) of two numbers. 2: one of them is NaN. long double holds every float and
 * 64-bit integer exactly. */
static int compare_numbers(struct value a, struct value b)
{
    long double x, y;
    int c;

    if (a.kind == VALUE_LARGE)
        return compare_large(a, b);
    if (b.kind == VALUE_LARGE)
        return (c = compare_large(b, a)) == 2 ? 2 : -c;
    x = a.kind == VALUE_FLOAT ? (long double)a.number : (long double)jinja_to_integer(a);
    y = b.kind == VALUE_FLOAT ? (long double)b.number : (long double)jinja_to_integer(b);
    return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
}

/* Counts the steps of a comparison with a LARGE integer, which depend on its number of digits and on the
 * digits of a float. */
static bool step_numbers(struct rendering *r, struct value a, struct value b)
{
    return (a.kind != VALUE_LARGE && b.kind != VALUE_LARGE) ||
           jinja_step(r, a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT ? 128 : 8);
}

int jinja_order_numbers(struct rendering *r, struct value a, struct value b)
{
    return step_numbers(r, a, b) ? compare_numbers(a, b) : 2;
}

static bool equal_items(struct rendering *r, struct value a, struct value b)
{
    bool same = a.size == b.size;

    for (size_t i = 0; same && a.items != b.items && i < a.size; i++)
        same = jinja_step(r, 0) && jinja_equal(r, a.items[i], b.items[i]);
    return same;
}

static bool equal_dicts(struct rendering *r, const struct value_dict *a, const struct value_dict *b)
{
    bool same = a->count == b->count;
    struct value v;

    for (uint32_t i = 0; same && a != b && i < a->count; i++)
        same = jinja_step(r, 0) && jinja_dict_get(r, b, a->pairs[i].key, &v) &&
               jinja_equal(r, a->pairs[i].value, v);
    return same;
}

static bool equal_containers(struct rendering *r, struct value a, struct value b)
{
    bool same;

    if (!jinja_enter(r))
        return false;
    if (jinja_is_sequence(a))
        same = equal_items(r, a, b);
    else if (a.kind == VALUE_DICT)
        same = equal_dicts(r, a.dict, b.dict);
    else if (a.kind == VALUE_RANGE)
        same = a.range->start == b.range->start && a.range->step == b.range->step &&
               a.range->count == b.range->count;
    else
        same = jinja_same(a, b);
    jinja_leave(r);
    return same && r->rc == 0;
}

bool jinja_equal(struct rendering *r, struct value a, struct value b)
{
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING)
        return a.size == b.size && (a.size < 64 || jinja_step(r, a.size / 64)) &&
               memcmp(a.bytes, b.bytes, a.size) == 0;
    if (jinja_is_number(a) && jinja_is_number(b))
        return jinja_order_numbers(r, a, b) == 0;
    if (a.kind != b.kind)
        return false;
    if (a.kind == VALUE_UNDEFINED)
        return true;
    return equal_containers(r, a, b);
}
