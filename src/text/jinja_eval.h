/* jinja_eval.h - the value of an expression, and calls. */
#ifndef GALLOP_TEXT_JINJA_EVAL_H
#define GALLOP_TEXT_JINJA_EVAL_H

#include "text/jinja_act.h"
#include "text/jinja_args.h"

/* The value of N among the variables of A. After an error some harmless value. */
struct jv jinja_eval(struct jrun *r, struct jact *a, const struct jn *n);

/* N, a JN_FILTER whose innermost value is missing, applied to TEXT. */
struct jv jinja_eval_filters(struct jrun *r, struct jact *a, const struct jn *n, struct jv text);

/* N, a JN_CALL, with one more argument by name: `caller`. */
struct jv jinja_eval_call(struct jrun *r, struct jact *a, const struct jn *n, struct jv caller);

/* Calls CALLEE, whatever it is. */
struct jv jinja_eval_apply(struct jrun *r, struct jv callee, const struct jargs *args);

/* Whether output at N is escaped. */
bool jinja_eval_escapes(const struct jrun *r, const struct jn *n);

#endif
