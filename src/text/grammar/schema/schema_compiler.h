/* schema_compiler.h - what the parts of the compiler of JSON Schemas share: terms, keys, memory and faults.
 *
 * A term is a set of JSON values: a schema as it is written, a value, and intersections, unions and complements
 * of other terms. Equal terms have equal numbers. What a term means is worked out when it is needed
 * (schema_form.h), so that recursive schemas have finitely many terms.
 */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_COMPILER_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_COMPILER_H

#include "base/arena.h"
#include "text/grammar/schema/json_number.h"
#include "text/grammar/schema/json_text.h"
#include "text/grammar/schema/schema.h"

/* Terms that every compiler has. */
enum { SCHEMA_NONE, SCHEMA_ANY };

enum schema_term_kind {
    SCHEMA_TERM_NONE,  /* no value */
    SCHEMA_TERM_ANY,   /* every value */
    SCHEMA_TERM_RAW,   /* the values that the schema `json` allows */
    SCHEMA_TERM_VALUE, /* the value `json` alone */
    SCHEMA_TERM_HAS,   /* objects with the property `key`, and everything that is no object */
    SCHEMA_TERM_LACKS, /* objects without it, and everything that is no object */
    SCHEMA_TERM_AND,
    SCHEMA_TERM_OR,
    SCHEMA_TERM_NOT,
    SCHEMA_TERM_OUTSIDE, /* a part of the complement, which is described by fewer alternatives */
};

enum schema_progress { SCHEMA_NOT_BEGUN, SCHEMA_BEGUN, SCHEMA_DONE };

struct schema_form;

struct schema_term {
    enum schema_term_kind kind;
    const json_t *json;
    uint32_t resource; /* RAW: what `$ref` in it is relative to */
    uint32_t key;
    const uint32_t *of; /* [n] the operands */
    size_t n;
    enum schema_progress progress; /* of `form` */
    const struct schema_form *form;
    uint32_t rule; /* 1 + its rule, where it has one */
};

/* The name of a property. */
struct schema_key {
    const char *text; /* [n] */
    size_t n;
    const char *spelling; /* [n_spelling] as JSON without quotes: one of the spellings */
    size_t n_spelling;
    uint32_t regex; /* all of them */
};

/* A schema with an identifier of its own, or the whole schema. */
struct schema_resource {
    const char *uri;
    const json_t *json;
};

enum schema_draft {
    SCHEMA_DRAFT_4 = 4,
    SCHEMA_DRAFT_6 = 6,
    SCHEMA_DRAFT_7 = 7,
    SCHEMA_2019_09 = 2019,
    SCHEMA_2020_12 = 2020
};

struct schema_compiler {
    struct grammar *g;
    struct regex_store *s; /* of the grammar */
    const json_t *root;
    enum schema_draft draft;
    bool has_draft;             /* the schema says which one */
    bool has_recursive_anchors; /* `$recursiveAnchor` is true somewhere */
    bool is_loose;
    struct schema_report *report;
    struct err *e;
    int rc;
    struct arena arena;
    size_t bytes;     /* taken from the arena */
    size_t work;      /* pairs of clauses that were joined, and the like */
    int depth;        /* of forms inside forms that are being worked out */
    int probing;      /* emptiness checks that are going on */
    bool has_loop;    /* the check has met a term whose form is being worked out: it has no answer */
    const json_t *at; /* the schema that is being read: the place of a fault */
    struct json_text text;
    struct json_number number;
    struct schema_term *term; /* [n] */
    size_t n, cap;
    uint32_t *slot; /* [n_slots] hash table of terms: 1 + a number, or 0 */
    size_t n_slots;
    struct schema_key *key; /* [n_keys] */
    size_t n_keys, cap_keys;
    uint32_t *key_slot; /* [n_key_slots] */
    size_t n_key_slots;
    struct schema_resource *resource; /* [n_resources] */
    size_t n_resources, cap_resources;
    /* True if no value is in TERM for certain, as far as the value itself shows. */
    bool (*is_empty)(struct schema_compiler *c, uint32_t term);
    uint32_t *queue; /* [n_queue] terms whose rules have no body yet */
    size_t n_queue, cap_queue;
};

/* The limits of a compilation. */
enum { SCHEMA_MOST_WORK = 250000, SCHEMA_MOST_TERMS = 400000, SCHEMA_MOST_DEPTH = 400 };
#define SCHEMA_NO_LIMIT UINT32_MAX

/* ---- faults: the first one stays, and everything after it is of no use ---- */

/* KEYWORD of the schema AT is wrong: ERR_INPUT. */
void schema_wrong(struct schema_compiler *c, const json_t *at, const char *keyword, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* KEYWORD of the schema AT cannot be served: a fault, or a warning where the compiler is loose. */
void schema_unserved(struct schema_compiler *c, const json_t *at, const char *keyword, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A limit is reached at KEYWORD ("": no keyword) of the schema that is being read. */
void schema_over_limit(struct schema_compiler *c, const char *keyword, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Counts N units of work. False: too much, or another fault. */
bool schema_work(struct schema_compiler *c, size_t n);

void schema_no_memory(struct schema_compiler *c);

/* Reads the number V. False: it is none, or after a fault. */
bool schema_decimal(struct schema_compiler *c, struct json_decimal *d, const json_t *v);

/* N x SIZE zeroed bytes that live as long as the compiler, within the limit of the grammar. NULL after a fault. */
void *schema_alloc(struct schema_compiler *c, size_t n, size_t size);

/* Room for one more element of an array on the heap. */
bool schema_reserve(struct schema_compiler *c, void **array, size_t *cap, size_t used, size_t size);

/* ---- terms: SCHEMA_NONE after a fault ---- */

/* Makes the terms that every compiler has. */
void schema_terms_init(struct schema_compiler *c);

uint32_t schema_raw(struct schema_compiler *c, const json_t *json, uint32_t resource);
uint32_t schema_value_term(struct schema_compiler *c, const json_t *json);
uint32_t schema_property_term(struct schema_compiler *c, enum schema_term_kind kind, uint32_t key);
uint32_t schema_and(struct schema_compiler *c, uint32_t a, uint32_t b);
uint32_t schema_or(struct schema_compiler *c, uint32_t a, uint32_t b);
uint32_t schema_not(struct schema_compiler *c, uint32_t a);
uint32_t schema_outside(struct schema_compiler *c, uint32_t a);

/* The intersection or union of OF [n], which is sorted by it. */
uint32_t schema_join(struct schema_compiler *c, enum schema_term_kind kind, uint32_t *of, size_t n);

/* The number of a property's name. */
uint32_t schema_key(struct schema_compiler *c, const char *text, size_t n);

#endif
