/* opt.h - command-line options as arrays of rows: one row says everything about an option, and the parser,
 * --help and the manual page are made from it.
 *
 * A program's table is a list of such arrays, so that options several commands share are written once. A
 * value comes from the command line, else from the row's environment variable, else from its default text;
 * which of the three is remembered. Parsing is getopt_long()'s: --name value, --name=value, -n value, unique
 * beginnings of long names, "--" ends the options. Not thread safe (getopt has global state).
 */
#ifndef GALLOP_BASE_OPT_H
#define GALLOP_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum opt_type {
    OPT_FLAG,   /* no value on the command line; 1/0, true/false, yes/no, on/off in the environment */
    OPT_INT,    /* int64 */
    OPT_UINT,   /* uint64 */
    OPT_FLOAT,  /* finite double */
    OPT_STRING, /* any text */
    OPT_CHOICE, /* one of .choices */
};

enum opt_source { OPT_NONE, OPT_DEFAULT, OPT_ENV, OPT_GIVEN };

/* Another spelling of a choice. */
struct opt_word {
    const char *text;    /* NULL ends a list */
    const char *means;   /* one of the choices; NULL: the spelling is refused */
    const char *refusal; /* why, and what to give instead: the end of a sentence */
};

struct opt_row {
    const char *name; /* long name without dashes, by which values are asked for; NULL ends an array */
    char brief;       /* short name, 0: none */
    enum opt_type type;
    const char *arg;       /* what stands for the value: "N", "DIR"; NULL: the choices, or the type's name */
    int group;             /* index into the headings of the help page */
    const char *help;      /* a sentence without full stop; the help page adds what the fields below say */
    const char *fallback;  /* default as text; NULL: none. A repeatable row has none */
    const char *otherwise; /* the default in words, where it is no such text */
    const char *range;     /* numbers: an interval "[1,64]", "(0,1]", "[0,inf)"; NULL: anything */
    const char *choices;   /* OPT_CHOICE: "a|b|c" */
    const struct opt_word *words; /* OPT_CHOICE: other spellings; NULL: none */
    const char *aliases;          /* other long names, "a|b", for the command line only; NULL: none */
    const char *env;              /* environment variable; NULL: none */
    bool bare;          /* OPT_STRING: the value may be left out at the end or before an option: "" then */
    bool repeat;        /* may be given several times; otherwise the last one counts */
    const char *manual; /* whole sentences that only the manual page adds; NULL: none */
};

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
    size_t n_rows;
    const char **args; /* positional arguments in order, borrowed from argv */
    size_t n_args;
};

/* Parses argv[1 .. argc) with the rows of ARRAYS, a list that NULL ends. ERR_USAGE names the flag (or
 * variable), what was found and what was expected. *out is initialised in any case and needs opt_fini(). Bugs
 * in the table are asserted. */
int opt_parse(const struct opt_row *const *arrays, int argc, char **argv, struct opt_values *out,
              struct err *e);
void opt_fini(struct opt_values *v); /* a zeroed one is fine */

/* Readers by long name. Asking for a row that is not in the table, or as another type, is a bug. */
enum opt_source opt_source(const struct opt_values *v, const char *name);
bool opt_given(const struct opt_values *v, const char *name);  /* on the command line or in the environment */
bool opt_flag(const struct opt_values *v, const char *name);   /* false when there is no value */
int64_t opt_int(const struct opt_values *v, const char *name); /* 0 when there is no value */
uint64_t opt_uint(const struct opt_values *v, const char *name); /* 0 when there is no value */
double opt_float(const struct opt_values *v, const char *name);  /* 0 when there is no value */
const char *opt_string(const struct opt_values *v,
                       const char *name);                     /* a choice's too; NULL when there is none */
int opt_choice(const struct opt_values *v, const char *name); /* index into .choices; -1 when there is none */
size_t opt_count(const struct opt_values *v, const char *name); /* number of values */

/* The I-th value; I < opt_count(). */
const struct opt_value *opt_at(const struct opt_values *v, const char *name, size_t i);

/* "; did you mean b?" in OUT [size] where FOUND resembles one of the names of "a|b|c", else "". */
const char *opt_guess(const char *found, const char *names, char *out, size_t size);

/* "N" or "a|b": what stands for the value of ROW. */
const char *opt_arg(const struct opt_row *row);

/* The help of ROW with its default, range and variable, as in "longest sequence (default the model's, 2 to
 * 64)". */
void opt_sentence(const struct opt_row *row, struct buf *out);

/* The rows as the body of a --help page, wrapped at 80 columns: below each of HEADINGS, which NULL ends, the
 * rows of that group in the order of the arrays. The first N_FULL groups have a sentence for each row, the
 * others are lists of names. */
void opt_help(const struct opt_row *const *arrays, const char *const *headings, int n_full, struct buf *out);

/* The number of rows. */
size_t opt_count_rows(const struct opt_row *const *arrays);

#endif
