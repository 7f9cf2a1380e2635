/* walk.c - iterates over values, and computes the attributes of `loop`. */
#include "text/jinja/value/walk.h"

#include "base/utf8.h"
#include "text/jinja/value/characters.h"
#include "text/jinja/value/rendering.h"

struct value jinja_generator(struct rendering *r, struct value over, void *state,
                             bool (*next)(struct rendering *r, struct walk_generator *g, struct value *out))
{
    struct walk_generator *g = jinja_allocate(r, sizeof(*g));

    if (!g)
        return value_none;
    *g = (struct walk_generator){.next = next, .over = over, .state = state};
    return (struct value){.kind = VALUE_GENERATOR, .generator = g};
}

bool jinja_iterable(struct value v)
{
    return v.kind == VALUE_UNDEFINED || (v.kind >= VALUE_STRING && v.kind <= VALUE_GENERATOR);
}

struct value jinja_element(struct value v, size_t i)
{
    if (v.kind == VALUE_RANGE)
        return jinja_integer((int64_t)((uint64_t)v.range->start + (uint64_t)i * (uint64_t)v.range->step));
    return v.kind == VALUE_DICT ? v.dict->pairs[i].key : v.items[i];
}

static size_t loop_length(struct rendering *r, struct walk_loop *l);

bool jinja_length(struct rendering *r, struct value v, size_t *n)
{
    switch ((enum value_kind)v.kind) {
    case VALUE_UNDEFINED: *n = 0; return true;
    case VALUE_STRING: *n = jinja_step(r, v.size / 64) ? utf8_count(v.bytes, v.size) : 0; return true;
    case VALUE_LIST:
    case VALUE_TUPLE: *n = v.size; return true;
    case VALUE_DICT: *n = v.dict->count; return true;
    case VALUE_RANGE: *n = v.range->count; return true;
    case VALUE_LOOP: *n = loop_length(r, v.loop); return true;
    default: return false;
    }
}

static bool next_element(struct rendering *r, struct walk_generator *g, struct value *out)
{
    size_t n;

    if (!jinja_length(r, g->over, &n) || g->at >= n)
        return false;
    *out = jinja_element(g->over, g->at++);
    return true;
}

static bool next_character(struct rendering *r, struct walk_generator *g, struct value *out)
{
    (void)r;
    if (g->at >= g->over.size)
        return false;
    *out = jinja_string(g->over.bytes + g->at, jinja_width(g->over.bytes + g->at));
    g->at += out->size;
    return true;
}

struct walk_generator *jinja_walk(struct rendering *r, struct value v)
{
    struct value g;

    if (!jinja_iterable(v)) {
        jinja_fail(r, "'%s' object is not iterable", jinja_type(v));
        return NULL;
    }
    if (v.kind == VALUE_GENERATOR)
        return r->rc ? NULL : v.generator;
    g = jinja_generator(r, v, NULL, v.kind == VALUE_STRING ? next_character : next_element);
    return g.kind == VALUE_GENERATOR ? g.generator : NULL;
}

bool jinja_next(struct rendering *r, struct walk_generator *g, struct value *out)
{
    bool more;

    *out = value_none;
    if (!g || !jinja_step(r, 0) || !jinja_enter(r))
        return false;
    more = g->next(r, g, out) && r->rc == 0;
    jinja_leave(r);
    return more;
}

struct value jinja_to_list(struct rendering *r, struct value v)
{
    struct value_list_builder g = {.r = r};
    struct walk_generator *walk;
    struct value x;

    if (jinja_is_sequence(v)) /* lists never change, so the elements are shared */
        return (struct value){.kind = VALUE_LIST, .size = v.size, .items = v.items};
    walk = jinja_walk(r, v);
    while (jinja_next(r, walk, &x) && jinja_push(&g, x))
        ;
    return jinja_grown(&g);
}

/* ---- for loops ---- */

/* Reads one element ahead, only on request: the loop's body may change which elements follow. */
static struct value peek(struct rendering *r, struct walk_loop *l)
{
    struct value v;

    if (l->after.kind == VALUE_MISSING && jinja_next(r, l->source, &v))
        l->after = v;
    return l->after;
}

bool jinja_loop_next(struct rendering *r, struct walk_loop *l)
{
    struct value v = l->after;

    l->after = value_missing;
    if (v.kind == VALUE_MISSING && !jinja_next(r, l->source, &v))
        return false;
    l->index0++;
    l->before = l->current;
    l->current = v;
    return r->rc == 0;
}

static size_t loop_length(struct rendering *r, struct walk_loop *l)
{
    struct value rest;

    if (l->has_length || r->rc)
        return l->length;
    l->has_length = true;
    if (l->over.kind != VALUE_GENERATOR && jinja_length(r, l->over, &l->length))
        return l->length;
    rest = jinja_to_list(r, (struct value){.kind = VALUE_GENERATOR, .generator = l->source});
    l->source = jinja_walk(r, rest);
    if (r->rc)
        return 0;
    l->length = rest.size + (size_t)(l->index0 + 1) + (l->after.kind != VALUE_MISSING);
    return l->length;
}

struct value jinja_loop_attribute(struct rendering *r, struct walk_loop *l, struct value name)
{
    struct value next;

    if (jinja_is(name, "index"))
        return jinja_integer(l->index0 + 1);
    if (jinja_is(name, "index0"))
        return jinja_integer(l->index0);
    if (jinja_is(name, "first"))
        return jinja_boolean(l->index0 == 0);
    if (jinja_is(name, "last"))
        return jinja_boolean(peek(r, l).kind == VALUE_MISSING);
    if (jinja_is(name, "length"))
        return jinja_integer((int64_t)loop_length(r, l));
    if (jinja_is(name, "revindex"))
        return jinja_integer((int64_t)loop_length(r, l) - l->index0);
    if (jinja_is(name, "revindex0"))
        return jinja_integer((int64_t)loop_length(r, l) - l->index0 - 1);
    if (jinja_is(name, "previtem"))
        return l->index0 == 0 ? jinja_undefined("there is no previous item") : l->before;
    if (jinja_is(name, "nextitem")) {
        next = peek(r, l);
        return next.kind == VALUE_MISSING ? jinja_undefined("there is no next item") : next;
    }
    return value_missing;
}
