/* schema_form.h - the normal form of a set of JSON values: a set for each type of JSON, with union, intersection
 * and complement.
 *
 * Sets of arrays and of objects are lists of clauses. A value is in the set if it satisfies one of the clauses.
 * What a clause says of elements and properties are terms, whose forms are not needed here.
 */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_FORM_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_FORM_H

#include "text/grammar/schema/schema_compiler.h"

enum { SCHEMA_NULL = 1, SCHEMA_TRUE = 2, SCHEMA_FALSE = 4, SCHEMA_LITERALS = 7 };

/* Between LEAST and MOST of the elements from index FROM on are in TERM. */
struct schema_contains {
    uint32_t term, least, most, from;
};

struct schema_array {
    const uint32_t *prefix; /* [n_prefix] terms of the first elements */
    size_t n_prefix;
    uint32_t rest;                          /* term of all other elements */
    uint32_t least, most;                   /* number of elements; SCHEMA_NO_LIMIT */
    const struct schema_contains *contains; /* [n_contains] */
    size_t n_contains;
    const json_t *unique; /* the schema that asks for distinct elements; NULL: none does */
};

/* A property with a name that is known. */
struct schema_member {
    uint32_t key, term;
    bool is_required;
    bool is_free; /* no `properties` names it: it has no place in the order */
};

/* Properties whose names are in the regular expression KEYS. */
struct schema_names {
    uint32_t keys, term;
};

/* Names of properties are compared with the members first. Every other name is in exactly one of `others`. */
struct schema_object {
    const struct schema_member *member; /* [n_members] */
    size_t n_members;
    const struct schema_names *other; /* [n_others] */
    size_t n_others;
    uint32_t least, most; /* number of properties */
    /* For each of these, one property or more that is no member and has one of the names is in the term. */
    const struct schema_names *some; /* [n_some] */
    size_t n_some;
};

struct schema_form {
    unsigned literals; /* SCHEMA_NULL and so on */
    uint32_t number;   /* regular expressions */
    uint32_t string;   /* contents of strings */
    /* Contains `string`. What is enforced of a format is less than the format allows, and its complement must
     * not have the difference. */
    uint32_t string_bound;
    const struct schema_array *const *array; /* [n_arrays] */
    size_t n_arrays;
    const struct schema_object *const *object; /* [n_objects] */
    size_t n_objects;
    bool is_partial; /* some objects of the set are left out, so that its complement is not known */
};

/* These return NULL or leave the form empty after a fault. */
const struct schema_form *schema_form_any(struct schema_compiler *c);
const struct schema_form *schema_form_none(struct schema_compiler *c);
/* The intersection. In objects the names of A come first, or with B_FIRST those of B; a name without a place in one
 * of them has the place that it has in the other. */
const struct schema_form *schema_form_and(struct schema_compiler *c, const struct schema_form *a,
                                          const struct schema_form *b, bool b_first);
const struct schema_form *schema_form_or(struct schema_compiler *c, const struct schema_form *const *of,
                                         size_t n);

/* The complement of A. IS_EXACT: all of it; otherwise objects that differ from those of A in optional properties only
 * may be left out. */
const struct schema_form *schema_form_not(struct schema_compiler *c, const struct schema_form *a,
                                          bool is_exact);

/* Clauses that every array and every object satisfies, to be changed by the caller. */
struct schema_array *schema_array_any(struct schema_compiler *c);
struct schema_object *schema_object_any(struct schema_compiler *c);

/* Forms with no values but those of one clause. */
const struct schema_form *schema_form_array(struct schema_compiler *c, const struct schema_array *clause);
const struct schema_form *schema_form_object(struct schema_compiler *c, const struct schema_object *clause);

/* The term of element I. */
uint32_t schema_element(const struct schema_array *a, size_t i);

/* The term of the property KEY. */
uint32_t schema_property(struct schema_compiler *c, const struct schema_object *o, uint32_t key);

/* A that is also in B, and A that is not in B, of strings or numbers within ALL. */
uint32_t schema_regex_and(struct schema_compiler *c, uint32_t a, uint32_t b, uint32_t all);
uint32_t schema_regex_not(struct schema_compiler *c, uint32_t a, uint32_t all);

#endif
