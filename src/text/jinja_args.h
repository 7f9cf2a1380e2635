/* jinja_args.h - the arguments of one call, and fitting them to the parameters of a built-in function. */
#ifndef GALLOP_TEXT_JINJA_ARGS_H
#define GALLOP_TEXT_JINJA_ARGS_H

#include "text/jinja_val.h"

struct jkw {
    struct jv name; /* a JV_STR */
    struct jv value;
};

struct jargs {
    const struct jv *v;
    size_t n;
    const struct jkw *kw;
    size_t n_kw;
};

/* Fits A to PARAMS, names separated by blanks; those before a "/" are positional only. The first REQUIRED
 * must be given; out[] holds one value per name, missing where none was given. False and an error naming
 * FUNCTION otherwise. */
bool jinja_args_bind(struct jrun *r, const char *function, const struct jargs *a, const char *params,
                     int required, struct jv *out);

/* Typed reading of a bound argument. A missing one leaves *out alone. False and a TypeError otherwise. */
bool jinja_args_index(struct jrun *r, const char *function, struct jv v, int64_t *out); /* int or bool */
bool jinja_args_str(struct jrun *r, const char *function, struct jv v, const struct jstr **out);

/* Python's truth of a bound argument, OTHERWISE when it is missing. */
bool jinja_args_true(struct jv v, bool otherwise);

#endif
