/* jinja_dict.c - open addressing over an array of entries; small dicts are searched in order. */
#include "text/jinja_dict.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "text/jinja_cmp.h"
#include "text/jinja_int.h"
#include "text/jinja_str.h"

enum { SMALL = 8 };

struct jdict *jinja_dict_new(struct jrun *r)
{
    return jinja_run_zalloc(r, 1, sizeof(struct jdict));
}

struct jv jinja_dict_value(struct jdict *d)
{
    struct jv v = jv_of(d ? JV_DICT : JV_NONE);

    v.u.dict = d;
    return v;
}

static bool hash_float(struct jrun *r, double f, uint32_t *hash)
{
    if (isfinite(f) && f == trunc(f)) {
        struct jv whole = jinja_int_from_double(r, f);

        if (r->rc)
            return false;
        *hash = jinja_int_hash(whole);
        return true;
    }
    *hash = (uint32_t)XXH3_64bits(&f, sizeof(f));
    return true;
}

static bool hash_tuple(struct jrun *r, const struct jlist *l, uint32_t *hash)
{
    bool good = true;
    uint32_t h = 1, part;

    if (!jinja_run_enter(r))
        return false;
    for (size_t i = 0; i < l->n && good; i++) {
        good = jinja_run_step(r, 0) && jinja_dict_hash(r, l->v[i], &part);
        if (good)
            h = (h ^ part) * UINT32_C(0x9e3779b1);
    }
    jinja_run_leave(r);
    *hash = h;
    return good;
}

bool jinja_dict_hash(struct jrun *r, struct jv v, uint32_t *hash)
{
    switch ((enum jv_type)v.type) {
    case JV_LIST:
    case JV_DICT:
    case JV_VIEW: return false;
    case JV_BOOL:
    case JV_INT:
    case JV_BIG: *hash = jinja_int_hash(v); return true;
    case JV_FLOAT: return hash_float(r, v.u.f, hash);
    case JV_STR: *hash = (uint32_t)XXH3_64bits(v.u.str->p, v.u.str->n); return true;
    case JV_TUPLE: return hash_tuple(r, v.u.list, hash);
    case JV_RANGE: *hash = (uint32_t)v.u.range->n; return true;
    case JV_NONE:
    case JV_UNDEF:
    case JV_MISSING: *hash = v.type; return true;
    default: *hash = (uint32_t)(uintptr_t)v.u.dict >> 4; return true;
    }
}

/* The entry of KEY, or NULL. */
static struct jentry *find(struct jrun *r, const struct jdict *d, struct jv key, uint32_t hash)
{
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (d->e[i].hash == hash && jinja_cmp_equal(r, d->e[i].key, key))
                return &d->e[i];
        return NULL;
    }
    for (size_t i = hash & (d->n_index - 1);; i = (i + 1) & (d->n_index - 1)) {
        struct jentry *e;

        if (d->index[i] == 0)
            return NULL;
        e = &d->e[d->index[i] - 1];
        if (e->hash == hash && jinja_cmp_equal(r, e->key, key))
            return e;
        if (!jinja_run_step(r, 0))
            return NULL;
    }
}

static void index_entry(struct jdict *d, size_t entry)
{
    size_t i = d->e[entry].hash & (d->n_index - 1);

    while (d->index[i])
        i = (i + 1) & (d->n_index - 1);
    d->index[i] = (uint32_t)entry + 1;
}

static bool grow(struct jrun *r, struct jdict *d)
{
    size_t cap = d->cap ? d->cap * 2 : SMALL, slots = cap * 2;
    struct jentry *e = jinja_run_alloc(r, cap > UINT32_MAX ? SIZE_MAX : cap * sizeof(*e));
    uint32_t *index = NULL;

    if (cap > SMALL)
        index = jinja_run_zalloc(r, slots, sizeof(*index));
    if (!e || (cap > SMALL && !index))
        return false;
    if (d->n)
        memcpy(e, d->e, d->n * sizeof(*e));
    d->e = e;
    d->cap = cap;
    d->index = index;
    d->n_index = index ? slots : 0;
    for (size_t i = 0; index && i < d->n; i++)
        index_entry(d, i);
    return true;
}

bool jinja_dict_set(struct jrun *r, struct jdict *d, struct jv key, struct jv value)
{
    struct jentry *e;
    uint32_t hash;

    if (!jinja_run_step(r, 0))
        return false;
    if (!jinja_dict_hash(r, key, &hash)) {
        jinja_run_fail(r, "unhashable type: '%s'", jinja_val_type(key));
        return false;
    }
    e = find(r, d, key, hash);
    if (e) {
        e->value = value;
        return true;
    }
    if (r->rc || (d->n == d->cap && !grow(r, d)))
        return false;
    d->e[d->n] = (struct jentry){.key = key, .value = value, .hash = hash};
    d->n++;
    if (d->index)
        index_entry(d, d->n - 1);
    return true;
}

bool jinja_dict_update(struct jrun *r, struct jdict *d, const struct jdict *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (!jinja_dict_set(r, d, from->e[i].key, from->e[i].value))
            return false;
    return true;
}

bool jinja_dict_get(struct jrun *r, const struct jdict *d, struct jv key, struct jv *value)
{
    struct jentry *e;
    uint32_t hash;

    if (!jinja_dict_hash(r, key, &hash))
        return false;
    e = find(r, d, key, hash);
    if (!e)
        return false;
    *value = e->value;
    return true;
}

struct jv jinja_dict_find(const struct jdict *d, const char *literal)
{
    for (size_t i = 0; i < d->n; i++)
        if (jinja_str_is(d->e[i].key, literal))
            return d->e[i].value;
    return jv_missing();
}
