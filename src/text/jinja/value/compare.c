/* compare.c - orders values, tests membership, and sorts. */
#include "text/jinja/value/compare.h"

#include <string.h>

#include "text/jinja/value/characters.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/walk.h"

/* True if the comparison HOW holds for an order C of -1, 0 or 1. */
static bool holds(enum compare_how how, int c)
{
    switch (how) {
    case COMPARE_LESS: return c < 0;
    case COMPARE_LESS_EQUAL: return c <= 0;
    case COMPARE_GREATER: return c == 1;
    default: return c == 0 || c == 1;
    }
}

static bool ordered(struct rendering *r, enum compare_how how, struct value a, struct value b);

static bool ordered_items(struct rendering *r, enum compare_how how, struct value a, struct value b)
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

static bool ordered(struct rendering *r, enum compare_how how, struct value a, struct value b)
{
    static const char *const sign[] = {"==", "!=", "<", "<=", ">", ">="};
    size_t n = a.size < b.size ? a.size : b.size;
    int c;

    if (!jinja_step(r, 0))
        return false;
    if (jinja_is_number(a) && jinja_is_number(b))
        return (c = jinja_order_numbers(r, a, b)) != 2 && holds(how, c);
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) { /* UTF-8 sorts by bytes as by code points */
        c = jinja_step(r, n / 64) ? memcmp(a.bytes, b.bytes, n) : 0;
        return holds(how, c ? (c < 0 ? -1 : 1) : a.size < b.size ? -1 : a.size > b.size);
    }
    if (jinja_is_sequence(a) && a.kind == b.kind)
        return ordered_items(r, how, a, b);
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED)
        jinja_fail_undefined(r, a.kind == VALUE_UNDEFINED ? a : b);
    else
        jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", sign[how], jinja_type(a),
                   jinja_type(b));
    return false;
}

static bool contains(struct rendering *r, struct value in, struct value item)
{
    struct walk_generator *g;
    struct value v;
    uint32_t hash;

    if (in.kind == VALUE_STRING) {
        if (item.kind == VALUE_STRING)
            return jinja_step(r, jinja_search_cost(in.size, item.size)) &&
                   jinja_find(in.bytes, in.size, item.bytes, item.size) != SIZE_MAX;
        jinja_fail(r, "'in <string>' requires string as left operand, not %s", jinja_type(item));
        return false;
    }
    if (in.kind == VALUE_DICT) {
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

bool jinja_compare(struct rendering *r, enum compare_how how, struct value a, struct value b)
{
    switch (how) {
    case COMPARE_EQUAL: return jinja_equal(r, a, b);
    case COMPARE_UNEQUAL: return !jinja_equal(r, a, b);
    case COMPARE_IN: return contains(r, b, a);
    case COMPARE_NOT_IN: return !contains(r, b, a);
    case COMPARE_SAME: return jinja_step(r, a.kind == VALUE_STRING ? a.size / 64 : 0) && jinja_same(a, b);
    default: return ordered(r, how, a, b);
    }
}

/* Merges the sorted runs A and B into OUT. Equal keys keep their order: an element of B precedes one of A
 * only if its key compares strictly before. */
static void merge(struct rendering *r, struct value_pair *out, const struct value_pair *a, size_t na,
                  const struct value_pair *b, size_t nb, bool descending)
{
    size_t i = 0, j = 0;

    while (i < na && j < nb && !r->rc) {
        bool second = descending ? ordered(r, COMPARE_LESS, a[i].key, b[j].key)
                                 : ordered(r, COMPARE_LESS, b[j].key, a[i].key);

        *out++ = second ? b[j++] : a[i++];
    }
    while (i < na)
        *out++ = a[i++];
    while (j < nb)
        *out++ = b[j++];
}

void jinja_sort(struct rendering *r, struct value_pair *p, struct value_pair *scratch, size_t n,
                bool descending)
{
    struct value_pair *from = p, *to = scratch;

    for (size_t width = 1; width < n && !r->rc; width *= 2) {
        struct value_pair *swap = from;

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
