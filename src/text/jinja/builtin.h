/* builtin.h - calls built-in filters, tests, methods and functions, which are rows of tables. */
#ifndef GALLOP_TEXT_JINJA_BUILTIN_H
#define GALLOP_TEXT_JINJA_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

struct builtin_keyword {
    struct value name, value;
};

struct builtin_arguments {
    const struct value *values;
    size_t count;
    const struct builtin_keyword *keywords;
    size_t n_keywords;
};

enum { BUILTIN_PARAMETERS = 4 };

/* The arguments of a built-in. */
struct builtin_call {
    struct value p[BUILTIN_PARAMETERS]; /* [parameter] its value; MISSING: not given */
    const struct builtin_arguments *all;
    const char *name; /* the built-in's name */
    int how;          /* `how` of the built-in's row */
};

/* A filter, test, method or function: a row of a table. A row with NAME NULL ends a table. */
struct builtin {
    const char *name;
    struct value (*call)(struct rendering *r, struct value v, const struct builtin_call *g);
    /* The names of the parameters, as in "chars?$ count#". ? after a name: None counts as not given. A type
     * may follow: $ a string, # an integer, % either. NULL: call() reads the arguments itself. */
    const char *parameters;
    uint8_t required; /* the number of parameters that must be given */
    uint8_t how;      /* tells apart built-ins that share a call(); its meaning depends on call() */
    bool positional;  /* parameters cannot be given by name */
};

/* A bound method: an object and the method's row. */
struct builtin_method {
    struct value self;
    const struct builtin *builtin;
};

/* Returns the row called NAME, or NULL. */
const struct builtin *jinja_find_row(const struct builtin *rows, struct value name);

/* Calls ROW for the value V (a filter's input, a method's object) with the arguments A. */
struct value jinja_apply(struct rendering *r, const struct builtin *row, struct value v,
                         const struct builtin_arguments *a);

/* Returns parameter I as an integer, or OTHERWISE if it is not given. */
int64_t jinja_given_integer(const struct builtin_call *g, size_t i, int64_t otherwise);

/* Returns parameter I as an indentation: the given string, or as many spaces as the given number; OTHERWISE
 * is the number if nothing is given. */
struct value jinja_blanks(struct rendering *r, const struct builtin_call *g, size_t i, int64_t otherwise);

#endif
