/* opt.h - command-line options as arrays of rows: one row says everything about an option. The parser, --help
 * and the manual page are made from it, and so is the struct that a command reads its options into.
 *
 * A command's table is a list of such arrays, so that options that several commands share are written once. A
 * value comes from the command line, else from the row's environment variable, else from its default text.
 * Parsing is getopt_long()'s: --name value, --name=value, -n value, unique beginnings of long names, "--" ends
 * the options. Not thread safe (getopt has global state).
 *
 * A row names the member of a struct that its value goes to, and a table names the place of that struct in the
 * struct of the command. opt_read() then fills all of them in one call:
 *
 *     struct greet { struct output out; int64_t times; bool times_given; };
 *     static const struct opt_row rows[] = {
 *         {"times", 'n', OPT_INT, "N", USUAL, .help = "how often", .fallback = "1", .range = "[1,9]",
 *          OPT_INTO(struct greet, times), OPT_SOURCE(struct greet, times_given)},
 *         {0}};
 *     static const struct opt_part table[] = {
 *         OPT_OWN(struct greet, rows), OPT_PART(struct greet, out, output_rows), OPT_END};
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

/* How a member stores a value. Text is borrowed from argv, the environment or the row. */
enum opt_kind { OPT_TO_BOOL = 1, OPT_TO_SIGNED, OPT_TO_UNSIGNED, OPT_TO_DOUBLE, OPT_TO_TEXT, OPT_TO_LIST };

/* A member that a row's value goes to; kind 0: none. */
struct opt_member {
    size_t at, size; /* of the member in its struct */
    size_t outer;    /* size of that struct, by which a wrong one is noticed */
    enum opt_kind kind;
};

/* All values of an option, in order. */
struct opt_list {
    const struct opt_value *value; /* [n] borrowed from struct opt_values */
    size_t n;
};

/* In a row: its value goes to MEMBER of TYPE. A member of a type that no value fits does not compile; that the
 * row's type and range fit the member is asserted when anything is parsed. A member whose option has no value
 * keeps what it had. Flags go to bool or int, OPT_INT to integers, OPT_UINT to unsigned integers of 64 bits,
 * OPT_FLOAT to double, OPT_STRING to const char *, OPT_CHOICE to const char * or, as its index, to an integer, an
 * enum or (of two choices) a bool. All values of an option of any type go to struct opt_list. */
#define OPT_INTO(type, member) .into = OPT_MEMBER(type, member, OPT_KIND)
/* In a row: MEMBER of TYPE tells where the value comes from. A bool is true for the command line and the
 * environment, an enum opt_source tells all. */
#define OPT_SOURCE(type, member) .source = OPT_MEMBER(type, member, OPT_SOURCE_KIND)
/* In a row: bit N of MEMBER of TYPE, an uint32_t, is set if the command line or the environment has a value. */
#define OPT_MARK(type, member, n) .mark = OPT_MEMBER(type, member, OPT_MARK_KIND), .bit = (n)

/* clang-format off */
#define OPT_MEMBER(type, member, kind_of) \
    {offsetof(type, member), sizeof(((type *)0)->member), sizeof(type), kind_of(&((type *)0)->member)}
#define OPT_KIND(p)                                                                                      \
    _Generic(p, bool *: OPT_TO_BOOL,                                                                     \
        int *: OPT_TO_SIGNED, long *: OPT_TO_SIGNED, long long *: OPT_TO_SIGNED,                         \
        unsigned *: OPT_TO_UNSIGNED, unsigned long *: OPT_TO_UNSIGNED, unsigned long long *: OPT_TO_UNSIGNED, \
        double *: OPT_TO_DOUBLE, const char **: OPT_TO_TEXT, struct opt_list *: OPT_TO_LIST)
#define OPT_SOURCE_KIND(p) _Generic(p, bool *: OPT_TO_BOOL, enum opt_source *: OPT_TO_UNSIGNED)
#define OPT_MARK_KIND(p)   _Generic(p, uint32_t *: OPT_TO_UNSIGNED)
/* clang-format on */

/* Another spelling of a choice. */
struct opt_word {
    const char *text;    /* NULL ends a list */
    const char *means;   /* one of the choices; NULL: the spelling is refused */
    const char *refusal; /* why, and what to give instead: the end of a sentence */
};

struct opt_row {
    const char *name; /* long name without dashes; NULL ends an array */
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
    /* Set by OPT_INTO, OPT_SOURCE and OPT_MARK, all of one struct. */
    struct opt_member into, source, mark;
    unsigned bit; /* of mark */
};

/* An array of rows in the table of a command, and where its struct lies in the command's own. */
struct opt_part {
    const struct opt_row *rows; /* NULL ends a table */
    size_t at, size;            /* size 0: the struct of the command has no place for these */
};

/* clang-format off */
#define OPT_OWN(type, rows)          {rows, 0, sizeof(type)}
#define OPT_PART(type, member, rows) {rows, offsetof(type, member), sizeof(((type *)0)->member)}
#define OPT_OTHER(rows)              {rows, 0, 0}
#define OPT_END                      {NULL, 0, 0}
/* clang-format on */

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
    const struct opt_part *table; /* borrowed */
    struct opt_slot *slot;        /* [n_rows] */
    size_t n_rows;
    const char **args; /* positional arguments in order, borrowed from argv */
    size_t n_args;
};

/* Parses argv[1 .. argc) with the rows of TABLE. ERR_USAGE names the flag (or variable), what was found and what
 * was expected. *out is initialised in any case and needs opt_fini(). Bugs in the table are asserted. */
int opt_parse(const struct opt_part *table, int argc, char **argv, struct opt_values *out, struct err *e);
void opt_fini(struct opt_values *v); /* a zeroed one is fine */

/* Fills INTO, the struct of SIZE bytes that the table's parts describe. It is initialised before: members
 * without a value keep what they have. */
void opt_read(const struct opt_values *v, void *into, size_t size);

/* Fills INTO, the struct of one array of the table. */
void opt_read_rows(const struct opt_values *v, const struct opt_row *rows, void *into);

/* "; did you mean b?" in OUT [size] where FOUND resembles one of the names of "a|b|c", else "". */
const char *opt_guess(const char *found, const char *names, char *out, size_t size);

/* "N" or "a|b": what stands for the value of ROW. */
const char *opt_arg(const struct opt_row *row);

/* The help of ROW with its default, range and variable, as in "longest sequence (default the model's, 2 to
 * 64)". */
void opt_sentence(const struct opt_row *row, struct buf *out);

/* The rows as the body of a --help page, wrapped at 80 columns: below each of HEADINGS, which NULL ends, the
 * rows of that group in the order of the table. The first N_FULL groups have a sentence for each row, the
 * others are lists of names. */
void opt_help(const struct opt_part *table, const char *const *headings, int n_full, struct buf *out);

/* The number of rows. */
size_t opt_count_rows(const struct opt_part *table);

#endif
