/* jinja_ops.h - the operators + - * / // % ** and the signs, on values of any type. */
#ifndef GALLOP_TEXT_JINJA_OPS_H
#define GALLOP_TEXT_JINJA_OPS_H

#include "text/jinja_num.h"

struct jv jinja_ops_binary(struct jrun *r, enum jop op, struct jv a, struct jv b);
struct jv jinja_ops_sign(struct jrun *r, bool minus, struct jv a);

#endif
