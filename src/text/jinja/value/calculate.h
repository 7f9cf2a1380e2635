/* calculate.h - Python's arithmetic, on 64-bit integers. */
#ifndef GALLOP_TEXT_JINJA_CALCULATE_H
#define GALLOP_TEXT_JINJA_CALCULATE_H

#include <stdbool.h>

#include "text/jinja/value/value.h"

enum calculate_op {
    CALCULATE_ADD,
    CALCULATE_SUBTRACT,
    CALCULATE_MULTIPLY,
    CALCULATE_DIVIDE,
    CALCULATE_FLOOR_DIVIDE,
    CALCULATE_MODULO,
    CALCULATE_POWER,
    CALCULATE_JOIN
};

struct value jinja_calculate(struct rendering *r, enum calculate_op op, struct value a, struct value b);

/* Returns -V if MINUS, else +V. */
struct value jinja_apply_sign(struct rendering *r, bool minus, struct value v);

#endif
