/* opt.h - command-line options as a table: one row says everything about an option, and the parser, --help
 * and the table in the documentation are made from it.
 *
 * A value comes from the command line, else from the row's environment variable, else from its default
 * text; which of the three is remembered. Parsing is getopt_long()'s: --name value, --name=value, -n
 * value, unique beginnings of long names, "--" ends the options. Not thread safe (getopt has global
 * state).
 */
#ifndef GALLOP_BASE_OPT_H
#define GALLOP_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

enum opt_type {
    OPT_FLAG,   /* no value on the command line; 1/0, true/false, yes/no, on/off in the environment */
    OPT_INT,    /* int64 */
    OPT_UINT,   /* uint64 */
    OPT_FLOAT,  /* finite double */
    OPT_STRING, /* any text */
    OPT_CHOICE, /* one of .choices */
};

enum opt_source { OPT_NONE, OPT_DEFAULT, OPT_ENV, OPT_GIVEN };

struct opt_row {
    int id;           /* the caller's name for it; unique in the table, 0 .. OPT_MAX_ID */
    const char *name; /* long name without dashes */
    char brief;       /* short name, 0: none */
    bool repeat;      /* may be given several times; otherwise the last one counts */
    enum opt_type type;
    const char
        *arg; /* what stands for the value in the help: "N", "DIR"; NULL: the choices, or the type's name */
    const char *env;      /* environment variable; NULL: none */
    const char *fallback; /* default as text; NULL: none. A repeatable row has none */
    const char *range;    /* numbers: an interval "[1,64]", "(0,1]", "[0,inf)"; NULL: anything */
    const char *choices;  /* OPT_CHOICE: "a|b|c" */
    const char *help;     /* one sentence without full stop */
};

enum { OPT_MAX_ID = 1023 };

/* One value of an option, already converted. */
struct opt_value {
    const char *text; /* borrowed from argv, the environment or the row */
    int64_t i;        /* OPT_INT; OPT_CHOICE: index of the choice; OPT_FLAG: 0 or 1 */
    uint64_t u;       /* OPT_UINT */
    double f;         /* any number */
};

struct opt_slot;

struct opt_values {
    struct arena arena;
    struct opt_slot *slot; /* [n_rows] */
    short *slot_of_id;     /* [OPT_MAX_ID + 1] -1: no such row */
    size_t n_rows;
    const char **args; /* positional arguments in order, borrowed from argv */
    size_t n_args;
};

/* Parses argv[1 .. argc). ERR_USAGE names the flag (or variable), what was found and what was expected.
 * *out is initialised in any case and needs opt_fini(). Bugs in the table are asserted. */
int opt_parse(const struct opt_row *rows, size_t n_rows, int argc, char **argv, struct opt_values *out,
              struct err *e);
void opt_fini(struct opt_values *v); /* a zeroed one is fine */

/* Readers by row id. Asking for a row that is not in the table, or as another type, is a bug. */
enum opt_source opt_source(const struct opt_values *v, int id);
bool opt_given(const struct opt_values *v, int id);    /* on the command line or in the environment */
bool opt_flag(const struct opt_values *v, int id);     /* false when there is no value */
int64_t opt_int(const struct opt_values *v, int id);   /* 0 when there is no value */
uint64_t opt_uint(const struct opt_values *v, int id); /* 0 when there is no value */
double opt_float(const struct opt_values *v, int id);  /* 0 when there is no value */
const char *opt_string(const struct opt_values *v,
                       int id);                       /* also a choice's text; NULL when there is no value */
int opt_choice(const struct opt_values *v, int id);   /* index into .choices; -1 when there is no value */
size_t opt_count(const struct opt_values *v, int id); /* number of values */
const struct opt_value *opt_at(const struct opt_values *v, int id,
                               size_t i); /* the I-th value; I < opt_count() */

/* The rows as the body of a --help page, wrapped at 100 columns. */
void opt_help(const struct opt_row *rows, size_t n_rows, struct buf *out);

/* The rows as a markdown table: option, environment variable, default, meaning. */
void opt_markdown(const struct opt_row *rows, size_t n_rows, struct buf *out);

#endif
