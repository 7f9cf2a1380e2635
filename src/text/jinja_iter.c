/* jinja_iter.c - one `next` function for each kind of value that can be walked. */
#include "text/jinja_iter.h"

#include "text/jinja_dict.h"
#include "text/jinja_str.h"

bool jinja_iter_can(struct jv v)
{
    switch ((enum jv_type)v.type) {
    case JV_UNDEF:
    case JV_STR:
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_VIEW:
    case JV_RANGE:
    case JV_ITER: return true;
    default: return false;
    }
}

int64_t jinja_iter_range_item(const struct jrange *g, size_t i)
{
    return (int64_t)((uint64_t)g->start + (uint64_t)i * (uint64_t)g->step);
}

static struct jv view_item(struct jrun *r, struct jv v, size_t i)
{
    const struct jentry *e = &v.u.dict->e[i];

    if (jv_is(v, JV_DICT) || v.view == JVIEW_KEYS)
        return e->key;
    return v.view == JVIEW_VALUES ? e->value : jinja_val_pair(r, e->key, e->value);
}

static bool next_char(struct jrun *r, struct jiter *it, struct jv *out)
{
    const struct jstr *s = it->over.u.str;
    size_t n;

    if (it->at >= s->n)
        return false;
    n = jinja_str_step(s->p + it->at);
    *out = jinja_str_ref(r, s->p + it->at, n);
    it->at += n;
    return true;
}

static bool next_element(struct jrun *r, struct jiter *it, struct jv *out)
{
    (void)r;
    if (it->at >= it->over.u.list->n)
        return false;
    *out = it->over.u.list->v[it->at++];
    return true;
}

static bool next_entry(struct jrun *r, struct jiter *it, struct jv *out)
{
    if (it->at >= it->over.u.dict->n)
        return false;
    *out = view_item(r, it->over, it->at++);
    return true;
}

static bool next_number(struct jrun *r, struct jiter *it, struct jv *out)
{
    (void)r;
    if (it->at >= it->over.u.range->n)
        return false;
    *out = jv_int(jinja_iter_range_item(it->over.u.range, it->at++));
    return true;
}

static bool next_nothing(struct jrun *r, struct jiter *it, struct jv *out)
{
    (void)r;
    (void)it;
    (void)out;
    return false;
}

struct jv jinja_iter_new(struct jrun *r, const char *repr, struct jv over, void *state,
                         bool (*next)(struct jrun *r, struct jiter *it, struct jv *out))
{
    struct jv v = jv_of(JV_ITER);
    struct jiter *it = jinja_run_alloc(r, sizeof(*it));

    if (!it)
        return jv_none();
    *it = (struct jiter){.next = next, .repr = repr, .over = over, .state = state};
    v.u.iter = it;
    return v;
}

struct jiter *jinja_iter_open(struct jrun *r, struct jv v)
{
    bool (*next)(struct jrun *, struct jiter *, struct jv *) = next_nothing;
    struct jv it;

    switch ((enum jv_type)v.type) {
    case JV_ITER: return r->rc ? NULL : v.u.iter;
    case JV_UNDEF: break;
    case JV_STR: next = next_char; break;
    case JV_LIST:
    case JV_TUPLE: next = next_element; break;
    case JV_DICT:
    case JV_VIEW: next = next_entry; break;
    case JV_RANGE: next = next_number; break;
    default: jinja_run_fail(r, "'%s' object is not iterable", jinja_val_type(v)); return NULL;
    }
    it = jinja_iter_new(r, "iterator", v, NULL, next);
    return jv_is(it, JV_ITER) ? it.u.iter : NULL;
}

bool jinja_iter_next(struct jrun *r, struct jiter *it, struct jv *out)
{
    bool more;

    *out = jv_none();
    if (it->done || !jinja_run_step(r, 0) || !jinja_run_enter(r))
        return false;
    more = it->next(r, it, out) && r->rc == 0;
    jinja_run_leave(r);
    it->done = !more;
    return more;
}

struct jv jinja_iter_list(struct jrun *r, struct jv v)
{
    struct jgrow g = {.r = r};
    struct jiter *it;
    struct jv x;

    if (jv_is_seq(v)) /* lists never change: the same elements will do */
        return jinja_val_list(r, v.u.list->v, v.u.list->n);
    it = jinja_iter_open(r, v);
    while (it && jinja_iter_next(r, it, &x))
        if (!jinja_val_push(&g, x))
            break;
    return jinja_val_done(&g, JV_LIST);
}

static bool next_reversed(struct jrun *r, struct jiter *it, struct jv *out)
{
    struct jv v = it->over;
    size_t n;

    if (it->at == 0)
        return false;
    it->at--;
    switch ((enum jv_type)v.type) {
    case JV_STR:
        n = jinja_str_back(v.u.str->p, it->at + 1);
        it->at -= n - 1;
        *out = jinja_str_ref(r, v.u.str->p + it->at, n);
        return true;
    case JV_LIST:
    case JV_TUPLE: *out = v.u.list->v[it->at]; return true;
    case JV_RANGE: *out = jv_int(jinja_iter_range_item(v.u.range, it->at)); return true;
    default: *out = view_item(r, v, it->at); return true;
    }
}

struct jv jinja_iter_reversed(struct jrun *r, struct jv v)
{
    struct jv it;

    switch ((enum jv_type)v.type) {
    case JV_UNDEF: return jinja_iter_new(r, "<reversed object>", v, NULL, next_nothing);
    case JV_STR:
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_VIEW:
    case JV_RANGE: break;
    default: return jv_missing();
    }
    it = jinja_iter_new(r, "<reversed object>", v, NULL, next_reversed);
    if (!jv_is(it, JV_ITER))
        return it;
    if (jv_is(v, JV_STR))
        it.u.iter->at = v.u.str->n;
    else
        jinja_val_len(r, v, &it.u.iter->at);
    return it;
}
