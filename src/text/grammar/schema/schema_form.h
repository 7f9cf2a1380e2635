/* schema_form.h - the normal form of a set of JSON values: one set for each JSON type, with union,
 * intersection and complement.
 *
 * Sets of arrays and of objects are lists of clauses (disjunctive normal form): an array or object is in the
 * set if it satisfies one of the clauses. A clause describes elements and properties by terms, whose forms
 * are not needed here.
 */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_FORM_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_FORM_H

#include "text/grammar/schema/schema_compiler.h"

enum { SCHEMA_NULL = 1, SCHEMA_TRUE = 2, SCHEMA_FALSE = 4, SCHEMA_LITERALS = 7 };

/* A `contains` condition: between LEAST and MOST of the elements from index FROM on are in TERM. */
struct schema_contains {
    uint32_t term, least, most, from;
};

/* A clause: conditions on an array that must all hold. */
struct schema_array {
    const uint32_t *prefix; /* [n_prefix] terms of the first elements */
    size_t n_prefix;
    uint32_t rest;                          /* term of all further elements */
    uint32_t least, most;                   /* number of elements */
    const struct schema_contains *contains; /* [n_contains] */
    size_t n_contains;
    const json_t *unique; /* the schema whose `uniqueItems` requires distinct elements; NULL: none */
};

/* A property whose name is known. */
struct schema_member {
    uint32_t key, term;
    bool is_required;
    bool is_free; /* not listed in `properties`, so its position is free */
};

/* Properties whose names match the regular expression KEYS, and whose values are in TERM. */
struct schema_names {
    uint32_t keys, term;
    bool is_described; /* an applicator such as `additionalProperties` describes the properties */
};

/* A clause: conditions on an object that must all hold. The value of a member must be in the member's term.
 * The name of any other property matches exactly one entry of `other`; the entry's term applies. */
struct schema_object {
    const struct schema_member *member; /* [n_members] */
    size_t n_members;
    const struct schema_names *other; /* [n_others] */
    size_t n_others;
    uint32_t least, most; /* number of properties */
    /* For each entry, some property that is not a member must have a name in KEYS and a value in TERM. */
    const struct schema_names *some; /* [n_some] */
    size_t n_some;
    /* The clause comes from a schema with `properties` or `patternProperties`, so that answers have only members and
     * described properties, unless they need more (schema_options.is_open). */
    bool is_closed;
};

/* Sets of arrays and of objects that satisfy at least one of the clauses. */
struct schema_arrays {
    const struct schema_array *const *of; /* [n] */
    size_t n;
};

struct schema_objects {
    const struct schema_object *const *of; /* [n] */
    size_t n;
};

/* The normal form of a set of JSON values. */
struct schema_form {
    unsigned literals; /* bits: SCHEMA_NULL, SCHEMA_TRUE, SCHEMA_FALSE */
    uint32_t number;   /* numbers: a regular expression for every spelling of each */
    uint32_t string;   /* contents of strings: a regular expression for every spelling of each */
    /* A superset of `string`. It differs for `format`, where `string` has only some of the strings of the
     * format: the complement must exclude all strings that may have the format. */
    uint32_t string_bound;
    /* Subsets of `number` and `string`: the spellings that answers have. Every value of the set must keep a spelling,
     * even in an intersection such as that of integers, which are written in digits only, and the constant 1.0. */
    uint32_t written_number, written_string;
    struct schema_arrays arrays;
    struct schema_objects objects;
    bool is_partial; /* some objects of the set are left out, so the complement is unknown */
};

/* These return NULL, or an incomplete form, after an error. The caller may change the results of the first two. */
struct schema_form *schema_form_any(struct schema_compiler *c);
struct schema_form *schema_form_none(struct schema_compiler *c);
/* Returns the intersection. In objects, A's names come first or, if B_FIRST, B's names. A name that is free in one form
 * has the position that it has in the other form. */
const struct schema_form *schema_form_and(struct schema_compiler *c, const struct schema_form *a,
                                          const struct schema_form *b, bool b_first);
const struct schema_form *schema_form_or(struct schema_compiler *c, const struct schema_form *const *of,
                                         size_t n);

/* Returns the complement of A. If IS_EXACT is false, the complement may lack some objects that differ from
 * the objects of A only in optional properties. */
const struct schema_form *schema_form_not(struct schema_compiler *c, const struct schema_form *a,
                                          bool is_exact);

/* Return a new clause that every array or object satisfies; the caller changes it. */
struct schema_array *schema_array_any(struct schema_compiler *c);
struct schema_object *schema_object_any(struct schema_compiler *c);

/* Return the set of the arrays or objects that satisfy CLAUSE; NULL: an empty set. */
struct schema_arrays schema_arrays_of(struct schema_compiler *c, const struct schema_array *clause);
struct schema_objects schema_objects_of(struct schema_compiler *c, const struct schema_object *clause);

/* Returns the term that A requires of element I. */
uint32_t schema_element(const struct schema_array *a, size_t i);

/* Returns the term that O requires of the property KEY. */
uint32_t schema_property(struct schema_compiler *c, const struct schema_object *o, uint32_t key);

/* Return the intersection of A and B, and the complement of A. A and B are regular expressions for sets of
 * strings or numbers; ALL is the set of all strings or numbers. */
uint32_t schema_regex_and(struct schema_compiler *c, uint32_t a, uint32_t b, uint32_t all);
uint32_t schema_regex_not(struct schema_compiler *c, uint32_t a, uint32_t all);

#endif
