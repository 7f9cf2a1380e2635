/* jinja_dict.h - dicts in insertion order with Python's keys: 1, 1.0 and true are one key; lists and dicts
 * are none.
 *
 * Filled while it is made; afterwards templates cannot change it (the sandbox refuses), except that a
 * namespace sets its attributes through one.
 */
#ifndef GALLOP_TEXT_JINJA_DICT_H
#define GALLOP_TEXT_JINJA_DICT_H

#include "text/jinja_val.h"

struct jentry {
    struct jv key, value;
    uint32_t hash;
};

struct jdict {
    size_t n, cap;
    struct jentry *e; /* in order of insertion */
    uint32_t *index;  /* n_index slots: 1 + entry, 0 free; NULL while the dict is small */
    size_t n_index;   /* a power of two */
};

struct jdict *jinja_dict_new(struct jrun *r); /* NULL after an error */
struct jv jinja_dict_value(struct jdict *d);  /* as a JV_DICT; none for NULL */

/* Sets KEY. False after an error (an unhashable key is one). */
bool jinja_dict_set(struct jrun *r, struct jdict *d, struct jv key, struct jv value);

/* Sets every entry of FROM. */
bool jinja_dict_update(struct jrun *r, struct jdict *d, const struct jdict *from);

/* The value of KEY; false when there is none or KEY is unhashable. */
bool jinja_dict_get(struct jrun *r, const struct jdict *d, struct jv key, struct jv *value);

/* The value of a key that is the string LITERAL; missing when there is none. */
struct jv jinja_dict_find(const struct jdict *d, const char *literal);

/* Python's hash, in 32 bits; false for what cannot be hashed. */
bool jinja_dict_hash(struct jrun *r, struct jv v, uint32_t *hash);

#endif
