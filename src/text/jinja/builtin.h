/* builtin.h - built-in filters, tests, methods and functions: their tables, and how they are called. */
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

/* What a built-in is called with. */
struct builtin_call {
    struct value p[BUILTIN_PARAMETERS]; /* by parameter, MISSING where none is given */
    const struct builtin_arguments *all;
    const char *name; /* of the built-in */
    int how;          /* of the built-in */
};

/* A filter, test, method or function. Tables of them end with one without a name. */
struct builtin {
    const char *name;
    struct value (*call)(struct rendering *r, struct value v, const struct builtin_call *g);
    /* Names of the parameters, as in "chars?$ count#". ? after a name: None counts as not given. Then the
     * type: $ a string, # an integer, % either, nothing: any. NULL: call() reads the arguments itself. */
    const char *parameters;
    uint8_t required; /* the number of parameters that must be given */
    uint8_t how;      /* tells apart the built-ins of one function */
    bool positional;  /* the caller cannot name the parameters */
};

/* A method with the object that it belongs to. */
struct builtin_method {
    struct value self;
    const struct builtin *builtin;
};

/* The built-in NAME in the table ROWS, or NULL. */
const struct builtin *jinja_find_row(const struct builtin *rows, struct value name);

/* Calls ROW for V with the arguments A. */
struct value jinja_apply(struct rendering *r, const struct builtin *row, struct value v,
                         const struct builtin_arguments *a);

/* Parameter I as an integer, OTHERWISE where it is not given. */
int64_t jinja_given_integer(const struct builtin_call *g, size_t i, int64_t otherwise);

/* Parameter I as an indentation: a string, or a number of spaces, OTHERWISE where it is not given. */
struct value jinja_blanks(struct rendering *r, const struct builtin_call *g, size_t i, int64_t otherwise);

#endif
