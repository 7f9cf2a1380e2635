/* param.h - parameters as rows: a row has a name, a type, the values that are allowed, and the member of a struct that
 * gets the value.
 *
 * Three readers use the rows: base/opt.h reads command lines, param_json.h reads JSON, and param_check() checks a
 * struct that a program has filled. All three accept the same values and describe them in the same words.
 */
#ifndef GALLOP_BASE_PARAM_H
#define GALLOP_BASE_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum param_type {
    PARAM_FLAG,   /* true or false */
    PARAM_INT,    /* int64 */
    PARAM_BITS,   /* 64 bits: an integer from -2^63 to 2^64 - 1; a command line cannot give negative ones */
    PARAM_REAL,   /* finite double */
    PARAM_TEXT,   /* any text */
    PARAM_CHOICE, /* one of .values */
};

/* The type of a member that stores a value. */
enum param_kind {
    PARAM_TO_BOOL = 1,
    PARAM_TO_SIGNED,
    PARAM_TO_UNSIGNED,
    PARAM_TO_DOUBLE,
    PARAM_TO_TEXT, /* const char * */
    PARAM_TO_LIST, /* struct param_list */
};

/* A member of a struct; kind 0: none. */
struct param_member {
    size_t at, size; /* offset and size of the member in its struct */
    size_t outer;    /* size of that struct, to detect a wrong struct */
    enum param_kind kind;
};

/* A converted value. */
struct param_value {
    const char *text; /* borrowed */
    int64_t i;        /* PARAM_INT, PARAM_BITS; PARAM_CHOICE: index of the choice; PARAM_FLAG: 0 or 1 */
    double f;         /* the value of any numeric type */
};

/* All values of a parameter, in order. */
struct param_list {
    const struct param_value *value; /* [n] borrowed */
    size_t n;
};

struct param {
    const char *name;
    enum param_type type;
    /* PARAM_INT, PARAM_REAL: an interval "[1,64]", "(0,1]", "[0,inf)"; PARAM_CHOICE: "a|b|c"; PARAM_TEXT: usual values
     * "a|b", which shells complete. NULL: any value. */
    const char *values;
    struct param_member into;
};

/* clang-format off */
/* The initializer of a struct param_member. Other types of members do not compile. */
#define PARAM_MEMBER(type, member) PARAM_MEMBER_OF(type, member, PARAM_KIND)
#define PARAM_MEMBER_OF(type, member, kind_of) \
    {offsetof(type, member), sizeof(((type *)0)->member), sizeof(type), kind_of(&((type *)0)->member)}
#define PARAM_KIND(p)                                                                                    \
    _Generic(p, bool *: PARAM_TO_BOOL,                                                                   \
        int *: PARAM_TO_SIGNED, long *: PARAM_TO_SIGNED, long long *: PARAM_TO_SIGNED,                   \
        unsigned *: PARAM_TO_UNSIGNED, unsigned long *: PARAM_TO_UNSIGNED,                               \
        unsigned long long *: PARAM_TO_UNSIGNED, double *: PARAM_TO_DOUBLE,                              \
        const char **: PARAM_TO_TEXT, struct param_list *: PARAM_TO_LIST)
/* clang-format on */

/* Returns the index of NAME [n] in the list NAMES, "a|b|c", or -1. NAMES may be NULL. */
int param_index(const char *names, const char *name, size_t n);

/* An interval; its ends are infinite where there is no limit. */
struct param_range {
    double lo, hi;
    bool open_lo, open_hi; /* the end itself is excluded */
};

/* Parses the interval TEXT, such as "[1,64]", into *R; NULL is the interval of all numbers. Returns false if TEXT is no
 * interval. */
bool param_range(const char *text, struct param_range *r);

/* Returns whether V is finite and in the interval RANGE (NULL: any). */
bool param_in_range(const char *range, double v);

/* Writes the values that P accepts to OUT [size]: "a whole number in [1,64]", "one of a|b|c". Returns OUT. */
const char *param_expected(const struct param *p, char *out, size_t size);

/* Returns whether the member of P can hold every value of P. */
bool param_fits(const struct param *p);

/* Stores V, a value of P, in its member of INTO. Text is borrowed from V. */
void param_store(const struct param *p, const struct param_value *v, void *into);

/* Returns the value of the member of P in FROM. */
struct param_value param_load(const struct param *p, const void *from);

/* Checks the member of P in FROM, whose text is not NULL. ERR_INPUT has the name of P as its subject. */
int param_check(const struct param *p, const void *from, struct err *e);

#endif
