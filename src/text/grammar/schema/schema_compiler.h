/* schema_compiler.h - the state that the parts of the JSON Schema compiler share: terms, keys, memory and
 * errors.
 *
 * A term is a set of JSON values: the values that are valid under a schema, a single value, or the
 * intersection, union or complement of other terms. Equal terms have equal numbers. The normal form of a term
 * (schema_form.h) is computed on demand, so recursive schemas have finitely many terms.
 */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_COMPILER_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_COMPILER_H

#include "base/arena.h"
#include "base/strmap.h"
#include "text/grammar/automata/grammar.h"
#include "text/grammar/schema/json_number.h"
#include "text/grammar/schema/json_text.h"

/* Terms that every compiler has: no value, and every value. */
enum { SCHEMA_NONE, SCHEMA_ANY };

enum schema_term_kind {
    SCHEMA_TERM_NONE,  /* no value */
    SCHEMA_TERM_ANY,   /* every value */
    SCHEMA_TERM_RAW,   /* the values that are valid under the schema `json` */
    SCHEMA_TERM_VALUE, /* the single value `json` */
    SCHEMA_TERM_HAS,   /* objects with the property `key`, and all values that are not objects */
    SCHEMA_TERM_LACKS, /* objects without the property `key`, and all values that are not objects */
    SCHEMA_TERM_AND,
    SCHEMA_TERM_OR,
    SCHEMA_TERM_NOT,
    SCHEMA_TERM_OUTSIDE, /* a subset of the complement that needs fewer clauses */
};

/* The state of a term's normal form. */
enum schema_progress { SCHEMA_NOT_BEGUN, SCHEMA_BEGUN, SCHEMA_DONE };

struct schema_form;

/* A term: its kind, and the operands that the kind has. */
struct schema_term {
    enum schema_term_kind kind;
    const json_t *json;
    uint32_t resource; /* RAW: index of the resource against which `$ref` is resolved */
    uint32_t key;
    const uint32_t *of; /* [n] operands */
    size_t n;
    enum schema_progress progress; /* the state of `form` */
    const struct schema_form *form;
    uint32_t rule; /* 1 + number of the term's rule; 0: it has no rule */
};

/* The name of a property. */
struct schema_key {
    const char *text; /* [n] */
    size_t n;
    const char *spelling; /* [n_spelling] one spelling in JSON, without quotes */
    size_t n_spelling;
    uint32_t regex; /* regular expression for the name in c->spelling */
};

/* A schema with an identifier of its own, or the root schema. */
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
    struct regex_store *s; /* the grammar's store */
    const json_t *root;
    enum schema_draft draft;
    bool has_draft;             /* `$schema` names a known draft */
    bool has_recursive_anchors; /* the document contains a `$recursiveAnchor` that is true */
    bool is_loose;              /* unsupported keywords are ignored with a warning */
    bool is_open;               /* objects may have properties that no keyword describes */
    /* The spelling of names of `properties` and of values of `enum` and `const` */
    enum json_spelling spelling;
    /* JSON pointer to the root: prefix of the pointers in faults and warnings; or NULL */
    const char *pointer;
    struct schema_report *report;
    struct err *e;
    int rc;
    struct arena arena;
    size_t bytes; /* bytes allocated from the arena */
    size_t work;  /* units of work so far, such as joined pairs of clauses */
    int depth;    /* nesting depth of forms that are being computed */
    int probing;  /* number of nested emptiness checks */
    /* The emptiness check reached a term whose form is being computed, so its result is unknown. */
    bool has_loop;
    const json_t *at; /* the schema that is being read, for the place of an error */
    struct json_text text;
    struct json_number number;
    struct schema_term *term; /* [n] */
    size_t n, cap;
    uint32_t *slot; /* [n_slots] hash table of terms: 1 + number; 0: free */
    size_t n_slots;
    struct schema_key *key; /* [n_keys] */
    size_t n_keys, cap_keys;
    struct schema_resource *resource; /* [n_resources] */
    size_t n_resources, cap_resources;
    struct strmap by_name; /* maps a name to its index in KEY */
    /* BY_URI: maps the URI of a resource to its first index. BY_SCHEMA: maps the address of a schema with a URI of its
     * own, other than the root, to its first index. DYNAMIC: maps the name of a `$dynamicAnchor` to the number of
     * schemas that have it. */
    struct strmap by_uri, by_schema, dynamic;
    uint32_t *queue; /* [n_queue] stack: terms whose rules have no body yet */
    size_t n_queue, cap_queue;
};

/* The limits of a compilation: units of work, number of terms, nesting depth of forms. */
enum { SCHEMA_MOST_WORK = 250000, SCHEMA_MOST_TERMS = 400000, SCHEMA_MOST_DEPTH = 400 };
#define SCHEMA_NO_LIMIT UINT32_MAX

/* ---- errors: the first one is kept; results after it are meaningless ---- */

struct buf;

/* Looks at the object or array V at the JSON pointer B. True: it was found. */
typedef bool schema_visit(void *ctx, const json_t *v, struct buf *b);

/* Calls VISIT for FROM and for the objects and arrays inside it until VISIT returns true; then returns true. B has the
 * JSON pointer to FROM at first, and the pointer to the value that was found at the end. */
bool schema_walk(struct buf *b, const json_t *from, schema_visit *visit, void *ctx);

/* Reports that KEYWORD of the schema AT is malformed: ERR_INPUT. */
void schema_wrong(struct schema_compiler *c, const json_t *at, const char *keyword, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Reports an unsupported KEYWORD of the schema AT: ERR_UNSUPPORTED, or a warning if C->is_loose. */
void schema_unserved(struct schema_compiler *c, const json_t *at, const char *keyword, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Reports that a limit is reached at KEYWORD ("": none) of the schema that is being read: ERR_NOSPACE. */
void schema_over_limit(struct schema_compiler *c, const char *keyword, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Counts N units of work. False: the limit is exceeded, or there is another error. */
bool schema_work(struct schema_compiler *c, size_t n);

void schema_no_memory(struct schema_compiler *c);

/* Reads the JSON number V into D. False: V is not a number, or there is an error. */
bool schema_decimal(struct schema_compiler *c, struct json_decimal *d, const json_t *v);

/* Allocates N x SIZE zeroed bytes in the arena, within the grammar's memory limit. NULL after an error. */
void *schema_alloc(struct schema_compiler *c, size_t n, size_t size);

/* Makes room for one more element of an array on the heap. False: memory ran out, or there is an error. */
bool schema_reserve(struct schema_compiler *c, void **array, size_t *cap, size_t used, size_t size);

/* ---- terms: functions return SCHEMA_NONE after an error ---- */

/* Makes the terms that every compiler has. */
void schema_terms_init(struct schema_compiler *c);

uint32_t schema_raw(struct schema_compiler *c, const json_t *json, uint32_t resource);
uint32_t schema_value_term(struct schema_compiler *c, const json_t *json);
uint32_t schema_property_term(struct schema_compiler *c, enum schema_term_kind kind, uint32_t key);
uint32_t schema_and(struct schema_compiler *c, uint32_t a, uint32_t b);
uint32_t schema_or(struct schema_compiler *c, uint32_t a, uint32_t b);
uint32_t schema_not(struct schema_compiler *c, uint32_t a);
uint32_t schema_outside(struct schema_compiler *c, uint32_t a);

/* Returns the intersection or union (KIND) of OF [n]. Sorts OF. */
uint32_t schema_join(struct schema_compiler *c, enum schema_term_kind kind, uint32_t *of, size_t n);

/* Returns the number of the property name TEXT, which is interned if it is new. */
uint32_t schema_key(struct schema_compiler *c, const char *text, size_t n);

#endif
