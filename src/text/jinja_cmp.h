/* jinja_cmp.h - equality, order, membership and stable sorting of values, as Python compares them. */
#ifndef GALLOP_TEXT_JINJA_CMP_H
#define GALLOP_TEXT_JINJA_CMP_H

#include "text/jinja_val.h"

enum jrel { JREL_EQ, JREL_NE, JREL_LT, JREL_LE, JREL_GT, JREL_GE, JREL_IN, JREL_NOT_IN };

bool jinja_cmp_equal(struct jrun *r, struct jv a, struct jv b);

/* A REL B; an error where Python has no order between the two types. */
bool jinja_cmp_rel(struct jrun *r, enum jrel rel, struct jv a, struct jv b);

bool jinja_cmp_contains(struct jrun *r, struct jv item, struct jv in);

struct jsort {
    struct jv key, value;
};

/* Sorts N pairs by their keys, stably, into ascending or descending order. TMP has room for N. */
void jinja_cmp_sort(struct jrun *r, struct jsort *s, struct jsort *tmp, size_t n, bool descending);

#endif
