/* compare.h - compares and sorts values. */
#ifndef GALLOP_TEXT_JINJA_COMPARE_H
#define GALLOP_TEXT_JINJA_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "text/jinja/value/value.h"

enum compare_how {
    COMPARE_EQUAL,
    COMPARE_UNEQUAL,
    COMPARE_LESS,
    COMPARE_LESS_EQUAL,
    COMPARE_GREATER,
    COMPARE_GREATER_EQUAL,
    COMPARE_IN,
    COMPARE_NOT_IN,
    COMPARE_SAME
};

bool jinja_compare(struct rendering *r, enum compare_how how, struct value a, struct value b);

/* Sorts N pairs by key; equal keys keep their order, also if DESCENDING. SCRATCH has room for N pairs. */
void jinja_sort(struct rendering *r, struct value_pair *p, struct value_pair *scratch, size_t n,
                bool descending);

#endif
