/* jinja_loop.c - looks one element ahead only when asked to, as Jinja does: a filter may depend on what
 * the body did. */
#include "text/jinja_loop.h"

#include <string.h>

#include "text/jinja_args.h"
#include "text/jinja_cmp.h"
#include "text/jinja_iter.h"
#include "text/jinja_meth.h"
#include "text/jinja_str.h"

struct jloop *jinja_loop_new(struct jrun *r, struct jv over, int64_t depth0, const struct jn *node,
                             struct jact *act)
{
    struct jiter *it = jinja_iter_open(r, over);
    struct jloop *l = it ? jinja_run_alloc(r, sizeof(*l)) : NULL;

    if (!l)
        return NULL;
    *l = (struct jloop){.over = over, .it = it, .index0 = -1, .depth0 = depth0, .node = node, .act = act};
    return l;
}

bool jinja_loop_next(struct jrun *r, struct jloop *l, struct jv *out)
{
    if (!jv_is(l->after, JV_MISSING)) {
        *out = l->after;
        l->after = jv_missing();
    } else if (!jinja_iter_next(r, l->it, out)) {
        return false;
    }
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return true;
}

static struct jv peek(struct jrun *r, struct jloop *l)
{
    struct jv v;

    if (jv_is(l->after, JV_MISSING) && jinja_iter_next(r, l->it, &v))
        l->after = v;
    return l->after;
}

size_t jinja_loop_length(struct jrun *r, struct jloop *l)
{
    struct jv rest;

    if (l->has_length)
        return l->length;
    l->has_length = true;
    if (!jv_is(l->over, JV_LOOP) && jinja_val_len(r, l->over, &l->length))
        return l->length;
    rest = jv_of(JV_ITER);
    rest.u.iter = l->it;
    rest = jinja_iter_list(r, rest);
    if (r->rc)
        return 0;
    l->it = jinja_iter_open(r, rest);
    l->length = rest.u.list->n + (size_t)(l->index0 + 1) + !jv_is(l->after, JV_MISSING);
    return l->length;
}

static struct jv cycle(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jloop *l = self.u.loop;

    if (a->n && !a->n_kw)
        return a->v[(size_t)(l->index0 < 0 ? 0 : l->index0) % a->n];
    jinja_run_fail(r, a->n_kw ? "cycle() takes no keyword arguments" : "no items for cycling given");
    return jv_none();
}

static struct jv changed(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jloop *l = self.u.loop;
    struct jv now = jinja_val_tuple(r, a->v, a->n);

    if (jv_is(l->changed, JV_TUPLE) && jinja_cmp_equal(r, l->changed, now))
        return jv_bool(false);
    l->changed = now;
    return jv_bool(true);
}

static const struct jmeth methods[] = {{"cycle", cycle}, {"changed", changed}, {NULL, NULL}};

struct jv jinja_loop_attr(struct jrun *r, struct jv loop, const struct jstr *name)
{
    struct jloop *l = loop.u.loop;
    struct jv key = jv_of(JV_STR), next;

    key.u.str = name;
    if (jinja_str_is(key, "index"))
        return jv_int(l->index0 + 1);
    if (jinja_str_is(key, "index0"))
        return jv_int(l->index0);
    if (jinja_str_is(key, "first"))
        return jv_bool(l->index0 == 0);
    if (jinja_str_is(key, "last")) {
        next = peek(r, l);
        return jv_bool(jv_is(next, JV_MISSING));
    }
    if (jinja_str_is(key, "length"))
        return jv_int((int64_t)jinja_loop_length(r, l));
    if (jinja_str_is(key, "revindex"))
        return jv_int((int64_t)jinja_loop_length(r, l) - l->index0);
    if (jinja_str_is(key, "revindex0"))
        return jv_int((int64_t)jinja_loop_length(r, l) - l->index0 - 1);
    if (jinja_str_is(key, "depth"))
        return jv_int(l->depth0 + 1);
    if (jinja_str_is(key, "depth0"))
        return jv_int(l->depth0);
    if (jinja_str_is(key, "previtem"))
        return l->index0 == 0 ? jinja_val_undef_hint(r, "there is no previous item") : l->before;
    if (jinja_str_is(key, "nextitem")) {
        next = peek(r, l);
        return jv_is(next, JV_MISSING) ? jinja_val_undef_hint(r, "there is no next item") : next;
    }
    return jinja_meth_find(r, methods, loop, name);
}

void jinja_loop_put(struct jbuf *b, struct jloop *l)
{
    jinja_str_putf(b, "<LoopContext %lld/%zu>", (long long)l->index0 + 1, jinja_loop_length(b->r, l));
}
