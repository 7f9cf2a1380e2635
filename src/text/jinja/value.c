/* value.c - the rendering with its memory, limits and first error; making, comparing, sorting and walking
 * values.
 *
 * Whatever a template can make deep or long is counted here: depth in jinja_enter(), work in jinja_step(),
 * bytes in jinja_allocate().
 */
#include "text/jinja/value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "text/jinja/tree.h"

/* The rendering */

struct value jinja_fail(struct rendering *r, const char *format, ...)
{
    char text[900];
    va_list ap;

    if (r->rc)
        return none;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    r->rc = err_set(r->e, ERR_INPUT, "%s line %u: %s", r->name, r->line, text);
    return none;
}

bool jinja_step(struct rendering *r, size_t cost)
{
    if (r->rc)
        return false;
    r->steps += 1 + (uint64_t)cost;
    if (r->steps <= r->limit.steps)
        return true;
    jinja_fail(r, "the template takes more than the %llu steps it may take",
               (unsigned long long)r->limit.steps);
    return false;
}

bool jinja_enter(struct rendering *r)
{
    if (r->rc)
        return false;
    if (r->depth >= r->limit.depth) {
        jinja_fail(r, "macros, values or expressions are nested deeper than %d levels", r->limit.depth);
        return false;
    }
    r->depth++;
    return true;
}

void jinja_leave(struct rendering *r)
{
    r->depth--;
}

bool jinja_charge(struct rendering *r, size_t bytes)
{
    size_t cost = (bytes | 15) + 1; /* what the arena takes, at most */

    if (r->rc)
        return false;
    if (cost < bytes || cost > r->limit.bytes || r->bytes > r->limit.bytes - cost) {
        jinja_fail(r, "the template needs more than the %zu bytes of memory it may use", r->limit.bytes);
        return false;
    }
    if (!jinja_step(r, bytes / 64))
        return false;
    r->bytes += cost;
    return true;
}

void *jinja_allocate(struct rendering *r, size_t bytes)
{
    void *p = jinja_charge(r, bytes) ? arena_alloc(&r->arena, bytes) : NULL;

    if (!p && !r->rc)
        r->rc = err_nomem(r->e, "rendering a template");
    return p;
}

void *jinja_allocate_array(struct rendering *r, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(n, size, &bytes))
        bytes = SIZE_MAX;
    p = jinja_allocate(r, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *jinja_room(struct rendering *r, void *v, size_t n, size_t *room, size_t size)
{
    size_t twice = *room ? 2 * *room : 4;
    void *grown;

    if (n < *room)
        return v;
    grown = jinja_allocate(r, twice * size);
    if (!grown)
        return NULL;
    if (n)
        memcpy(grown, v, n * size);
    *room = twice;
    return grown;
}

/* Making values */

struct value jinja_boolean(bool b)
{
    return (struct value){.kind = BOOLEAN, .boolean = b};
}

struct value jinja_integer(int64_t i)
{
    return (struct value){.kind = INTEGER, .integer = i};
}

struct value jinja_float(double f)
{
    return (struct value){.kind = FLOAT, .number = f};
}

struct value jinja_large(const char *digits, size_t size)
{
    return (struct value){.kind = LARGE, .size = (uint32_t)size, .bytes = digits};
}

struct value jinja_whole(struct rendering *r, double f)
{
    enum { DIGITS = 320 }; /* of the largest float, with a sign */
    char *digits;
    int n;

    if (f >= -0x1p63 && f < 0x1p63)
        return jinja_integer((int64_t)f);
    if (!isfinite(f))
        return jinja_fail(r, "cannot convert float %s to integer", isnan(f) ? "NaN" : "infinity");
    if (!(digits = jinja_allocate(r, DIGITS)))
        return none;
    n = snprintf(digits, DIGITS, "%.0f", f);
    return jinja_large(digits, (size_t)n);
}

struct value jinja_string(const char *bytes, size_t size)
{
    ASSERT(size <= UINT32_MAX, "a string of %zu bytes", size);
    return (struct value){.kind = STRING, .size = (uint32_t)size, .bytes = bytes};
}

struct value jinja_literal(const char *text)
{
    return jinja_string(text, strlen(text));
}

struct value jinja_undefined(const char *hint)
{
    return (struct value){.kind = UNDEFINED, .mark = BY_HINT, .size = (uint32_t)strlen(hint), .bytes = hint};
}

struct value jinja_undefined_name(struct value name)
{
    return (struct value){.kind = UNDEFINED, .mark = BY_NAME, .size = name.size, .bytes = name.bytes};
}

struct value jinja_undefined_item(struct rendering *r, struct value object, struct value key)
{
    struct lookup *l = jinja_allocate(r, sizeof(*l));

    if (!l)
        return none;
    *l = (struct lookup){object, key};
    return (struct value){.kind = UNDEFINED, .mark = BY_ITEM, .lookup = l};
}

struct value jinja_list(struct rendering *r, enum kind kind, const struct value *items, size_t n)
{
    struct value *copy = jinja_allocate(r, n < UINT32_MAX ? (n + !n) * sizeof(*items) : SIZE_MAX);

    if (!copy)
        return none;
    if (n && items)
        memcpy(copy, items, n * sizeof(*items));
    return (struct value){.kind = (uint8_t)kind, .size = (uint32_t)n, .items = copy};
}

struct value jinja_generator(struct rendering *r, struct value over, void *state,
                             bool (*next)(struct rendering *r, struct generator *g, struct value *out))
{
    struct generator *g = jinja_allocate(r, sizeof(*g));

    if (!g)
        return none;
    *g = (struct generator){.next = next, .over = over, .state = state};
    return (struct value){.kind = GENERATOR, .generator = g};
}

bool jinja_push(struct growing *g, struct value v)
{
    struct value *items = jinja_room(g->r, g->items, g->count, &g->room, sizeof(*items));

    if (!items)
        return false;
    g->items = items;
    g->items[g->count++] = v;
    return g->r->rc == 0;
}

struct value jinja_grown(struct growing *g)
{
    if (!g->items || g->r->rc)
        return jinja_list(g->r, LIST, NULL, 0);
    return (struct value){.kind = LIST, .size = (uint32_t)g->count, .items = g->items};
}

const struct row *jinja_find_row(const struct row *rows, struct value name)
{
    while (rows->name && !(name.size && rows->name[0] == *name.bytes && jinja_is(name, rows->name)))
        rows++;
    return rows->name ? rows : NULL;
}

/* Dicts */

struct dict *jinja_dict(struct rendering *r)
{
    return jinja_allocate_array(r, 1, sizeof(struct dict));
}

struct value jinja_dict_value(struct dict *d, enum kind kind)
{
    return d ? (struct value){.kind = (uint8_t)kind, .dict = d} : none;
}

bool jinja_hash(struct rendering *r, struct value key, uint32_t *hash)
{
    uint32_t h = 31, part = 0;
    double f;

    switch ((enum kind)key.kind) {
    case NONE:
    case UNDEFINED: *hash = key.kind; return true;
    case LARGE:
        if (!jinja_step(r, key.size / LARGE_STEP))
            return false;
        __attribute__((fallthrough));
    case BOOLEAN:
    case INTEGER:
    case FLOAT:                        /* equal numbers have the same hash, whatever their kind */
        f = jinja_to_float(key) + 0.0; /* not the negative zero */
        *hash = (uint32_t)XXH3_64bits(&f, sizeof(f));
        return true;
    case STRING: *hash = (uint32_t)XXH3_64bits(key.bytes, key.size); return jinja_step(r, key.size / 8);
    case TUPLE:
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

static void place(struct dict *d, uint32_t hash, uint32_t number)
{
    uint32_t i = hash & (d->n_slots - 1);

    while (d->slots[i])
        i = (i + 1) & (d->n_slots - 1);
    d->slots[i] = number + 1;
}

/* Room for one more pair, and a table of twice as many slots as pairs. */
static bool grow(struct rendering *r, struct dict *d)
{
    size_t before = d->room;
    struct pair *pairs = jinja_room(r, d->pairs, d->count, &d->room, sizeof(*pairs));
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
            place(d, hash, i);
    return r->rc == 0;
}

/* The pair of KEY, or NULL. */
static struct pair *find_pair(struct rendering *r, const struct dict *d, struct value key, uint32_t hash)
{
    if (d->count == 0)
        return NULL;
    for (uint32_t i = hash & (d->n_slots - 1); d->slots[i] && jinja_step(r, 0);
         i = (i + 1) & (d->n_slots - 1))
        if (jinja_equal(r, d->pairs[d->slots[i] - 1].key, key))
            return &d->pairs[d->slots[i] - 1];
    return NULL;
}

bool jinja_dict_set(struct rendering *r, struct dict *d, struct value key, struct value v)
{
    struct pair *found;
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
    if (r->rc || !grow(r, d))
        return false;
    d->pairs[d->count] = (struct pair){key, v};
    place(d, hash, d->count++);
    return true;
}

bool jinja_dict_get(struct rendering *r, const struct dict *d, struct value key, struct value *out)
{
    struct pair *found;
    uint32_t hash = 0;

    if (!jinja_hash(r, key, &hash))
        return false;
    found = find_pair(r, d, key, hash);
    if (found)
        *out = found->value;
    return found && r->rc == 0;
}

/* Asking values */

bool jinja_is(struct value v, const char *text)
{
    return v.kind == STRING && strlen(text) == v.size && memcmp(v.bytes, text, v.size) == 0;
}

bool jinja_is_among(struct value v, const char *words)
{
    for (size_t n; v.kind == STRING && *words; words += words[n] ? n + 1 : n) {
        n = strcspn(words, " ");
        if (n == v.size && memcmp(words, v.bytes, n) == 0)
            return true;
    }
    return false;
}

bool jinja_is_integer(struct value v)
{
    return v.kind == INTEGER || v.kind == BOOLEAN;
}

bool jinja_is_number(struct value v)
{
    return v.kind == FLOAT || v.kind == LARGE || jinja_is_integer(v);
}

bool jinja_is_sequence(struct value v)
{
    return v.kind == LIST || v.kind == TUPLE;
}

int64_t jinja_to_integer(struct value v)
{
    return v.kind == BOOLEAN ? v.boolean : v.integer;
}

double jinja_to_float(struct value v)
{
    if (v.kind == LARGE)
        return strtod(v.bytes, NULL);
    return v.kind == FLOAT ? v.number : (double)jinja_to_integer(v);
}

struct value jinja_negative(struct rendering *r, struct value v)
{
    char *digits;

    if (*v.bytes == '-') /* 2 ** 63 is the one whose other sign has 64 bits */
        return jinja_large(v.bytes + 1, v.size - 1);
    if (v.size == 19 && strcmp(v.bytes, "9223372036854775808") == 0)
        return jinja_integer(INT64_MIN);
    if (!(digits = jinja_allocate(r, v.size + (size_t)2)))
        return none;
    *digits = '-';
    memcpy(digits + 1, v.bytes, v.size + (size_t)1);
    return jinja_large(digits, v.size + (size_t)1);
}

bool jinja_true(struct value v)
{
    switch ((enum kind)v.kind) {
    case MISSING:
    case UNDEFINED:
    case NONE: return false;
    case BOOLEAN: return v.boolean;
    case INTEGER: return v.integer != 0;
    case FLOAT: return v.number != 0;
    case STRING:
    case LIST:
    case TUPLE: return v.size != 0;
    case DICT: return v.dict->count != 0;
    case RANGE: return v.range->count != 0;
    default: return true;
    }
}

bool jinja_length(struct rendering *r, struct value v, size_t *n)
{
    switch ((enum kind)v.kind) {
    case UNDEFINED: *n = 0; return true;
    case STRING: *n = jinja_step(r, v.size / 64) ? jinja_count(v.bytes, v.size) : 0; return true;
    case LIST:
    case TUPLE: *n = v.size; return true;
    case DICT: *n = v.dict->count; return true;
    case RANGE: *n = v.range->count; return true;
    case LOOP: *n = jinja_loop_length(r, v.loop); return true;
    default: return false;
    }
}

const char *jinja_type(struct value v)
{
    static const char *const name[] = {
        [MISSING] = "missing", [UNDEFINED] = "Undefined", [NONE] = "NoneType",     [BOOLEAN] = "bool",
        [INTEGER] = "int",     [LARGE] = "int",           [FLOAT] = "float",       [STRING] = "str",
        [LIST] = "list",       [TUPLE] = "tuple",         [DICT] = "dict",         [NAMESPACE] = "Namespace",
        [RANGE] = "range",     [GENERATOR] = "generator", [FUNCTION] = "function", [METHOD] = "method",
        [MACRO] = "Macro",     [LOOP] = "LoopContext",
    };

    return v.kind == STRING && v.mark == ESCAPED ? "Markup" : name[v.kind];
}

bool jinja_same(struct value a, struct value b)
{
    if (a.kind != b.kind || a.kind == UNDEFINED)
        return false;
    if (a.kind == STRING || a.kind == LARGE)
        return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
    if (a.kind == BOOLEAN || a.kind == NONE || a.kind == MISSING)
        return a.boolean == b.boolean;
    return a.integer == b.integer && a.mark == b.mark; /* or the pointer */
}

/* Compares two integers by their digits. */
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

/* -1, 0 or 1: the order of A, an integer beyond 64 bits, and the number B; 2: B is no number at all. */
static int compare_large(struct value a, struct value b)
{
    char digits[320];
    int n;

    if (b.kind == LARGE)
        return compare_digits(a.bytes, a.size, b.bytes, b.size);
    if (b.kind == FLOAT && isnan(b.number))
        return 2;
    if (b.kind == FLOAT && isinf(b.number))
        return b.number < 0 ? 1 : -1;
    if (b.kind != FLOAT || fabs(b.number) < 0x1p63)
        return *a.bytes == '-' ? -1 : 1;
    n = snprintf(digits, sizeof(digits), "%.0f", b.number); /* a float of this size has no fraction */
    return compare_digits(a.bytes, a.size, digits, (size_t)n);
}

/* -1, 0 or 1, or 2 when one of them is no number at all. A long double holds every float and every integer
 * of 64 bits. */
static int compare_numbers(struct value a, struct value b)
{
    long double x, y;
    int c;

    if (a.kind == LARGE)
        return compare_large(a, b);
    if (b.kind == LARGE)
        return (c = compare_large(b, a)) == 2 ? 2 : -c;
    x = a.kind == FLOAT ? (long double)a.number : (long double)jinja_to_integer(a);
    y = b.kind == FLOAT ? (long double)b.number : (long double)jinja_to_integer(b);
    return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
}

/* Counts what comparing with an integer beyond 64 bits costs: its digits, and a float written out. */
static bool step_numbers(struct rendering *r, struct value a, struct value b)
{
    return (a.kind != LARGE && b.kind != LARGE) ||
           jinja_step(r, a.kind == FLOAT || b.kind == FLOAT ? 128 : 8);
}

static bool equal_items(struct rendering *r, struct value a, struct value b)
{
    bool same = a.size == b.size;

    for (size_t i = 0; same && a.items != b.items && i < a.size; i++)
        same = jinja_step(r, 0) && jinja_equal(r, a.items[i], b.items[i]);
    return same;
}

static bool equal_dicts(struct rendering *r, const struct dict *a, const struct dict *b)
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
    else if (a.kind == DICT)
        same = equal_dicts(r, a.dict, b.dict);
    else if (a.kind == RANGE)
        same = a.range->start == b.range->start && a.range->step == b.range->step &&
               a.range->count == b.range->count;
    else
        same = jinja_same(a, b);
    jinja_leave(r);
    return same && r->rc == 0;
}

bool jinja_equal(struct rendering *r, struct value a, struct value b)
{
    if (a.kind == STRING && b.kind == STRING)
        return a.size == b.size && (a.size < 64 || jinja_step(r, a.size / 64)) &&
               memcmp(a.bytes, b.bytes, a.size) == 0;
    if (jinja_is_number(a) && jinja_is_number(b))
        return step_numbers(r, a, b) && compare_numbers(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    if (a.kind == UNDEFINED)
        return true;
    return equal_containers(r, a, b);
}

static bool holds(enum comparison how, int c)
{
    switch (how) {
    case LESS: return c < 0;
    case LESS_EQUAL: return c <= 0;
    case GREATER: return c == 1;
    default: return c == 0 || c == 1;
    }
}

static bool ordered(struct rendering *r, enum comparison how, struct value a, struct value b);

static bool ordered_items(struct rendering *r, enum comparison how, struct value a, struct value b)
{
    bool result = false;
    size_t i = 0;

    if (!jinja_enter(r))
        return false;
    while (i < a.size && i < b.size && jinja_step(r, 0) && jinja_equal(r, a.items[i], b.items[i]))
        i++;
    if (i < a.size && i < b.size)
        result = ordered(r, how, a.items[i], b.items[i]);
    else
        result = holds(how, a.size < b.size ? -1 : a.size > b.size);
    jinja_leave(r);
    return result;
}

static bool ordered(struct rendering *r, enum comparison how, struct value a, struct value b)
{
    static const char *const sign[] = {"==", "!=", "<", "<=", ">", ">="};
    size_t n = a.size < b.size ? a.size : b.size;
    int c;

    if (!jinja_step(r, 0))
        return false;
    if (jinja_is_number(a) && jinja_is_number(b))
        return step_numbers(r, a, b) && (c = compare_numbers(a, b)) != 2 && holds(how, c);
    if (a.kind == STRING && b.kind == STRING) { /* the order of UTF-8 is the order of characters */
        c = jinja_step(r, n / 64) ? memcmp(a.bytes, b.bytes, n) : 0;
        return holds(how, c ? (c < 0 ? -1 : 1) : a.size < b.size ? -1 : a.size > b.size);
    }
    if (jinja_is_sequence(a) && a.kind == b.kind)
        return ordered_items(r, how, a, b);
    if (a.kind == UNDEFINED || b.kind == UNDEFINED)
        jinja_fail_undefined(r, a.kind == UNDEFINED ? a : b);
    else
        jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", sign[how], jinja_type(a),
                   jinja_type(b));
    return false;
}

static bool contains(struct rendering *r, struct value in, struct value item)
{
    struct generator *g;
    struct value v;
    uint32_t hash;

    if (in.kind == STRING) {
        if (item.kind == STRING)
            return jinja_step(r, jinja_search_cost(in.size, item.size)) &&
                   jinja_find(in.bytes, in.size, item.bytes, item.size) != SIZE_MAX;
        jinja_fail(r, "'in <string>' requires string as left operand, not %s", jinja_type(item));
        return false;
    }
    if (in.kind == DICT) {
        if (!jinja_hash(r, item, &hash))
            jinja_fail(r, "unhashable type: '%s'", jinja_type(item));
        return jinja_dict_get(r, in.dict, item, &v);
    }
    if (!jinja_iterable(in)) {
        jinja_fail(r, "argument of type '%s' is not iterable", jinja_type(in));
        return false;
    }
    g = jinja_walk(r, in);
    while (jinja_next(r, g, &v))
        if (jinja_equal(r, v, item))
            return true;
    return false;
}

bool jinja_compare(struct rendering *r, enum comparison how, struct value a, struct value b)
{
    switch (how) {
    case EQUAL: return jinja_equal(r, a, b);
    case UNEQUAL: return !jinja_equal(r, a, b);
    case IN: return contains(r, b, a);
    case NOT_IN: return !contains(r, b, a);
    case SAME: return jinja_step(r, a.kind == STRING ? a.size / 64 : 0) && jinja_same(a, b);
    default: return ordered(r, how, a, b);
    }
}

/* The sentences of jinja2's Undefined. */
struct value jinja_fail_undefined(struct rendering *r, struct value v)
{
    struct value object, key;
    const char *quote;

    if (v.mark == BY_NAME)
        jinja_fail(r, "'%.*s' is undefined", (int)v.size, v.bytes);
    if (v.mark == BY_HINT)
        jinja_fail(r, "%.*s", (int)v.size, v.bytes);
    if (r->rc)
        return none;
    object = v.lookup->object;
    key = v.lookup->key;
    quote = key.kind == STRING ? "'" : "";
    return jinja_fail(r, "%s%s%s%s has no %s %s", quote, object.kind == NONE ? "None" : jinja_type(object),
                      object.kind == NONE ? "" : " object", quote, *quote ? "attribute" : "element",
                      jinja_brief(r, key));
}

/* Merges two sorted runs. Equal keys keep their order: the second run goes first only where it must. */
static void merge(struct rendering *r, struct pair *out, const struct pair *a, size_t na,
                  const struct pair *b, size_t nb, bool descending)
{
    size_t i = 0, j = 0;

    while (i < na && j < nb && !r->rc) {
        bool second =
            descending ? ordered(r, LESS, a[i].key, b[j].key) : ordered(r, LESS, b[j].key, a[i].key);

        *out++ = second ? b[j++] : a[i++];
    }
    while (i < na)
        *out++ = a[i++];
    while (j < nb)
        *out++ = b[j++];
}

void jinja_sort(struct rendering *r, struct pair *p, struct pair *scratch, size_t n, bool descending)
{
    struct pair *from = p, *to = scratch;

    for (size_t width = 1; width < n && !r->rc; width *= 2) {
        struct pair *swap = from;

        for (size_t i = 0; i < n; i += 2 * width) {
            size_t mid = i + width < n ? i + width : n, end = i + 2 * width < n ? i + 2 * width : n;

            merge(r, to + i, from + i, mid - i, from + mid, end - mid, descending);
        }
        from = to;
        to = swap;
    }
    if (from != p)
        memcpy(p, from, n * sizeof(*p));
}

/* Walking values */

bool jinja_iterable(struct value v)
{
    return v.kind == UNDEFINED || (v.kind >= STRING && v.kind <= GENERATOR);
}

struct value jinja_element(struct value v, size_t i)
{
    if (v.kind == RANGE)
        return jinja_integer((int64_t)((uint64_t)v.range->start + (uint64_t)i * (uint64_t)v.range->step));
    return v.kind == DICT ? v.dict->pairs[i].key : v.items[i];
}

static bool next_element(struct rendering *r, struct generator *g, struct value *out)
{
    size_t n;

    if (!jinja_length(r, g->over, &n) || g->at >= n)
        return false;
    *out = jinja_element(g->over, g->at++);
    return true;
}

static bool next_character(struct rendering *r, struct generator *g, struct value *out)
{
    (void)r;
    if (g->at >= g->over.size)
        return false;
    *out = jinja_string(g->over.bytes + g->at, jinja_width(g->over.bytes + g->at));
    g->at += out->size;
    return true;
}

struct generator *jinja_walk(struct rendering *r, struct value v)
{
    struct value g;

    if (!jinja_iterable(v)) {
        jinja_fail(r, "'%s' object is not iterable", jinja_type(v));
        return NULL;
    }
    if (v.kind == GENERATOR)
        return r->rc ? NULL : v.generator;
    g = jinja_generator(r, v, NULL, v.kind == STRING ? next_character : next_element);
    return g.kind == GENERATOR ? g.generator : NULL;
}

bool jinja_next(struct rendering *r, struct generator *g, struct value *out)
{
    bool more;

    *out = none;
    if (!g || !jinja_step(r, 0) || !jinja_enter(r))
        return false;
    more = g->next(r, g, out) && r->rc == 0;
    jinja_leave(r);
    return more;
}

struct value jinja_to_list(struct rendering *r, struct value v)
{
    struct growing g = {.r = r};
    struct generator *walk;
    struct value x;

    if (jinja_is_sequence(v)) /* lists never change: the same elements will do */
        return (struct value){.kind = LIST, .size = v.size, .items = v.items};
    walk = jinja_walk(r, v);
    while (jinja_next(r, walk, &x) && jinja_push(&g, x))
        ;
    return jinja_grown(&g);
}
