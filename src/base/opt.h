/* opt.h - command-line options as arrays of rows. One row describes an option completely: its parameter (param.h),
 * its names on the command line, and its text in --help and the manual page.
 *
 * A command's table is a list of such arrays, so that several commands can share an array. The value of an
 * option comes from the command line, else from the row's environment variable, else from its default.
 * getopt_long() parses: --name value, --name=value, -n value, unique beginnings of long names; "--" ends the
 * options. It is not thread-safe, because getopt has global state.
 *
 * A row names the struct member that gets its value, and a table the offset of that struct in the command's
 * struct. opt_read() fills all members in one call:
 *
 *     struct greet { struct output out; int64_t times; bool times_given; };
 *     static const struct opt_row rows[] = {
 *         {"times", 'n', PARAM_INT, "N", USUAL, .help = "how often", .fallback = "1", .values = "[1,9]",
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
#include "base/err.h"
#include "base/param/param.h"

struct buf;

enum opt_source { OPT_NONE, OPT_DEFAULT, OPT_ENV, OPT_GIVEN };

/* In a row: MEMBER of TYPE gets the value. If the option has no value, the member is unchanged. Flags need a
 * bool or int, PARAM_INT an integer, PARAM_BITS an unsigned 64-bit integer, PARAM_REAL a double, PARAM_TEXT a
 * const char *, PARAM_CHOICE a const char * or, for the index of the choice, an integer, an enum or (with two
 * choices) a bool. A struct param_list gets all values of an option of any type. Other types do not compile;
 * opt_parse() asserts that the member can hold every value in the row's range. */
#define OPT_INTO(type, member) .into = PARAM_MEMBER(type, member)
/* In a row: MEMBER of TYPE gets the source of the value: an enum opt_source, or a bool that is true for the
 * command line and the environment. */
#define OPT_SOURCE(type, member) .source = PARAM_MEMBER_OF(type, member, OPT_SOURCE_KIND)
/* In a row: bit N of MEMBER of TYPE, a uint64_t, is set if command line or environment have a value. */
#define OPT_MARK(type, member, n) .mark = PARAM_MEMBER_OF(type, member, OPT_MARK_KIND), .bit = (n)

#define OPT_SOURCE_KIND(p) _Generic(p, bool * : PARAM_TO_BOOL, enum opt_source * : PARAM_TO_UNSIGNED)
#define OPT_MARK_KIND(p)   _Generic(p, uint64_t * : PARAM_TO_UNSIGNED)

/* Another spelling of a choice. */
struct opt_word {
    const char *text;    /* NULL ends a list */
    const char *means;   /* the choice that TEXT means; NULL: TEXT is an error */
    const char *refusal; /* end of the error sentence: why TEXT is refused, and the choices */
};

struct opt_row {
    const char *name;     /* long name without dashes; NULL ends an array */
    char brief;           /* letter of the short name; 0: none */
    enum param_type type; /* a PARAM_FLAG has no value; in the environment 1/0, true/false, yes/no, on/off */
    /* placeholder of the value in help: "N", "DIR"; NULL: the choices or a name by type */
    const char *arg;
    int group;                    /* index into the headings of the help page */
    const char *help;             /* a sentence without full stop; the help page adds the fields below */
    const char *fallback;         /* default as text; NULL: none (always with .repeat) */
    const char *otherwise;        /* a default that is computed, in words */
    const char *values;           /* as in struct param */
    const struct opt_word *words; /* PARAM_CHOICE: other spellings; NULL: none */
    const char *aliases;          /* other long names, "a|b", for the command line only; NULL: none */
    const char *env;              /* environment variable; NULL: none */
    bool bare;   /* PARAM_TEXT: at the end or before another option, the value may be omitted and is "" */
    bool repeat; /* all given values count; otherwise only the last one */
    const char *manual; /* more sentences, for the manual page only; NULL: none */
    /* Set by OPT_INTO, OPT_SOURCE and OPT_MARK; all are members of the same struct. */
    struct param_member into, source, mark;
    unsigned bit; /* number of the bit in MARK */
};

/* An array of rows, and the offset and size of its struct in the command's struct. */
struct opt_part {
    const struct opt_row *rows; /* NULL ends a table */
    size_t at, size;            /* size 0: the command's struct does not contain the struct of the rows */
};

/* clang-format off */
#define OPT_OWN(type, rows)          {rows, 0, sizeof(type)}
#define OPT_PART(type, member, rows) {rows, offsetof(type, member), sizeof(((type *)0)->member)}
#define OPT_OTHER(rows)              {rows, 0, 0}
#define OPT_END                      {NULL, 0, 0}
/* clang-format on */

struct opt_slot;

struct opt_values {
    struct arena arena;
    const struct opt_part *table; /* borrowed */
    struct opt_slot *slot;        /* [n_rows] */
    size_t n_rows;
    const char **args; /* [n_args] positional arguments in order, borrowed from argv */
    size_t n_args;
};

/* Parses argv[1 .. argc) with the rows of TABLE. ERR_USAGE names the flag or variable, what was found and
 * what was expected. *OUT is always initialized and needs opt_fini(). Bugs in the table fail an ASSERT(). */
int opt_parse(const struct opt_part *table, int argc, char **argv, struct opt_values *out, struct err *e);
void opt_fini(struct opt_values *v); /* V may be zeroed */

/* Fills INTO, the command's struct of SIZE bytes. Members without a value keep their old value. */
void opt_read(const struct opt_values *v, void *into, size_t size);

/* Fills INTO, the struct of the array ROWS of the table. */
void opt_read_rows(const struct opt_values *v, const struct opt_row *rows, void *into);

/* Returns the placeholder of ROW's value in help: "N" or "a|b". */
const char *opt_arg(const struct opt_row *row);

/* Returns whether NAME [n] is the long name or another one of ROW. */
bool opt_has_name(const struct opt_row *row, const char *name, size_t n);

/* Returns the length of the first clause of ROW's help, which ends before a colon, a semicolon or a parenthesis. */
size_t opt_clause(const struct opt_row *row);

/* Appends ROW's help with default, range and variable: "longest sequence (default 64, 2 to 64)". */
void opt_sentence(const struct opt_row *row, struct buf *out);

/* Appends the body of a --help page to OUT, wrapped at 80 columns: each of HEADINGS (NULL ends the list) with
 * the rows of its group in the order of TABLE. A row of the first N_FULL groups is explained in full. A row of
 * the other groups has one line: its name and the first clause of its help (opt_clause()). A clause that does not
 * fit into the line is a bug of the table. */
void opt_help(const struct opt_part *table, const char *const *headings, int n_full, struct buf *out);

/* Returns the number of rows in TABLE. */
size_t opt_count_rows(const struct opt_part *table);

#endif
