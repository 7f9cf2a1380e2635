/* jinja_val.h - the values templates compute with: Python's, as far as Jinja shows them.
 *
 * A struct jv is two words and is passed by value. What it points to is immutable and lives in the arena of
 * the rendering (or of the template, for constants); only namespaces, generators, loops, cyclers and joiners
 * have state. There are no reference counts. JV_MISSING is not a value: it marks an unset variable or an
 * absent argument.
 */
#ifndef GALLOP_TEXT_JINJA_VAL_H
#define GALLOP_TEXT_JINJA_VAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/jinja_run.h"

enum jv_type {
    JV_MISSING,
    JV_UNDEF,
    JV_NONE,
    JV_BOOL,
    JV_INT, /* fits 64 bits */
    JV_BIG, /* an integer that does not */
    JV_FLOAT,
    JV_STR,
    JV_LIST,
    JV_TUPLE,
    JV_DICT,
    JV_RANGE,
    JV_VIEW, /* dict.keys(), values() or items() */
    JV_ITER, /* a generator or iterator: can be walked once */
    JV_NS,   /* a namespace; u.dict holds its attributes */
    JV_LOOP,
    JV_MACRO,
    JV_METHOD,
    JV_FUNC, /* a global function */
    JV_CYCLER,
    JV_JOINER,
    JV_SELF, /* the blocks of the template */
    JV_BLOCK,
};

enum {
    JV_MARKUP = 1, /* a JV_STR that is safe HTML (markupsafe's Markup) */
    JV_GROUP = 2,  /* a JV_TUPLE of the filter groupby: has .grouper and .list */
};

enum jview_kind { JVIEW_KEYS, JVIEW_VALUES, JVIEW_ITEMS };

struct jstr;
struct jbig;
struct jlist;
struct jrange;
struct jiter;
struct jundef;
struct jloop;
struct jmacro;
struct jmethod;
struct jcycler;
struct jjoiner;
struct jblock;
struct jargs;
struct jv;

/* A global function. */
struct jfunc {
    const char *name;
    const char *repr;
    struct jv (*call)(struct jrun *r, const struct jargs *a);
};

struct jv {
    uint8_t type; /* enum jv_type */
    uint8_t flags;
    uint8_t view; /* enum jview_kind of a JV_VIEW */
    union {
        bool b;
        int64_t i;
        double f;
        const struct jstr *str;
        const struct jbig *big;
        const struct jlist *list; /* also of a tuple */
        struct jdict *dict;       /* also of a view and a namespace */
        const struct jrange *range;
        struct jiter *iter;
        const struct jundef *undef;
        struct jloop *loop;
        const struct jmacro *macro;
        const struct jmethod *method;
        const struct jfunc *func;
        struct jcycler *cycler;
        struct jjoiner *joiner;
        const struct jblock *block;
    } u;
};

struct jlist {
    size_t n;
    struct jv v[];
};

struct jrange {
    int64_t start, stop, step;
    size_t n;
};

/* Why a value is undefined: a hint, or the object that has no element NAME, or just a name. */
struct jundef {
    const char *hint;
    struct jv obj;  /* JV_MISSING: none */
    struct jv name; /* what was looked up */
};

struct jcycler {
    const struct jlist *items;
    size_t pos;
};

struct jjoiner {
    struct jv sep;
    bool used;
};

struct jblock {
    uint32_t index; /* of the template's blocks */
};

static inline struct jv jv_of(enum jv_type t)
{
    struct jv v = {.type = (uint8_t)t, .u = {.i = 0}};
    return v;
}

static inline struct jv jv_missing(void)
{
    return jv_of(JV_MISSING);
}

static inline struct jv jv_none(void)
{
    return jv_of(JV_NONE);
}

static inline struct jv jv_bool(bool b)
{
    struct jv v = jv_of(JV_BOOL);
    v.u.b = b;
    return v;
}

static inline struct jv jv_int(int64_t i)
{
    struct jv v = jv_of(JV_INT);
    v.u.i = i;
    return v;
}

static inline struct jv jv_float(double f)
{
    struct jv v = jv_of(JV_FLOAT);
    v.u.f = f;
    return v;
}

static inline bool jv_is(struct jv v, enum jv_type t)
{
    return v.type == t;
}

static inline bool jv_is_seq(struct jv v) /* list or tuple */
{
    return v.type == JV_LIST || v.type == JV_TUPLE;
}

static inline bool jv_is_int(struct jv v) /* int or bool: what Python takes for an index */
{
    return v.type == JV_INT || v.type == JV_BOOL;
}

static inline bool jv_is_markup(struct jv v)
{
    return v.type == JV_STR && (v.flags & JV_MARKUP);
}

/* The 64-bit integer of an int or bool. */
static inline int64_t jv_index(struct jv v)
{
    return v.type == JV_BOOL ? v.u.b : v.u.i;
}

/* Lists and tuples of N values, copied from V (may be NULL when N is 0). None after an error. */
struct jv jinja_val_list(struct jrun *r, const struct jv *v, size_t n);
struct jv jinja_val_tuple(struct jrun *r, const struct jv *v, size_t n);
struct jv jinja_val_pair(struct jrun *r, struct jv a, struct jv b);

/* A list under construction. */
struct jgrow {
    struct jrun *r;
    struct jv *v;
    size_t n, cap;
};

bool jinja_val_push(struct jgrow *g, struct jv v);         /* false after an error */
struct jv jinja_val_done(struct jgrow *g, enum jv_type t); /* JV_LIST or JV_TUPLE */

/* Undefined values, by what they will say when used: a literal hint; "'NAME' is undefined"; "... has no
 * attribute". */
struct jv jinja_val_undef_hint(struct jrun *r, const char *hint);
struct jv jinja_val_undef_name(struct jrun *r, struct jv name);
struct jv jinja_val_undef_item(struct jrun *r, struct jv obj, struct jv name);

/* Reports the use of an undefined value as an error. Returns none. */
struct jv jinja_val_undef_fail(struct jrun *r, struct jv undef);

/* Python's name of the value's type ("int", "NoneType"). */
const char *jinja_val_type(struct jv v);

/* Python's bool(v). */
bool jinja_val_true(struct jv v);

/* Python's len(v) in *n; false when it has none. No error is set. */
bool jinja_val_len(struct jrun *r, struct jv v, size_t *n);

bool jinja_val_callable(struct jv v);

/* Python's `is`: the same object. Equal small ints and strings count as the same. */
bool jinja_val_same(struct jv a, struct jv b);

#endif
