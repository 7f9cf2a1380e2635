/* value.h - what a template computes with, and the rendering that owns it.
 *
 * A value has 16 bytes. Numbers and short facts lie in it; strings, lists and dicts lie in the arena of the
 * rendering (constants in that of the template), never change once made, and die with it. Strings are
 * proved UTF-8. The first error is sticky: it is remembered with the template's line, later ones are
 * ignored, loops end by themselves because jinja_step() says so, and whoever began looks at rc once. After
 * an error every function still returns something harmless.
 */
#ifndef GALLOP_TEXT_JINJA_VALUE_H
#define GALLOP_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/err.h"
#include "text/jinja/jinja.h"

/* clang-format off */
enum kind {
    MISSING, /* no value: an argument not given, a name without a value */
    UNDEFINED, NONE, BOOLEAN, INTEGER, FLOAT,
    LARGE, /* an integer beyond 64 bits: its digits are bytes */
    STRING, LIST, TUPLE, DICT, RANGE, /* from here can be walked, */
    GENERATOR,                        /* this only once: what map, select and the like give */
    NAMESPACE, FUNCTION, METHOD, MACRO, LOOP
};

enum mark {
    PLAIN, ESCAPED,            /* of STRING: an escaped one is not escaped again by + and its methods */
    BY_NAME, BY_HINT, BY_ITEM, /* of UNDEFINED: bytes are a name, or a sentence; or an element was looked for */
    KEYS, VALUES, ITEMS        /* of LIST: keys(), values() or items() of a dict, for printing */
};
/* clang-format on */

struct value {
    uint8_t kind;  /* enum kind */
    uint8_t mark;  /* enum mark */
    uint32_t size; /* of STRING, LARGE and UNDEFINED: bytes; of LIST and TUPLE: items */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *bytes;
        struct value *items; /* of LIST and TUPLE */
        struct dict *dict;   /* of DICT and NAMESPACE */
        const struct lookup *lookup;
        const struct range *range;
        struct generator *generator;
        const struct row *function;
        const struct bound *bound;
        const struct macro *macro;
        struct loop *loop;
    };
};

struct pair {
    struct value key, value;
};

struct dict {
    struct pair *pairs; /* in the order in which they came */
    uint32_t count;
    size_t room;
    uint32_t *slots; /* hash table of pair numbers + 1; NULL while there are none */
    uint32_t n_slots;
};

struct lookup { /* what an undefined element was looked for in */
    struct value object, key;
};

struct range {
    int64_t start, stop, step;
    size_t count;
};

struct keyword {
    struct value name, value;
};

struct arguments {
    const struct value *values;
    size_t count;
    const struct keyword *keywords;
    size_t n_keywords;
};

struct rendering;

enum { PARAMETERS_MAX = 4 };

/* What a filter, test, method or function is called with. */
struct given {
    struct value p[PARAMETERS_MAX]; /* by parameter, MISSING where none is given */
    const struct arguments *all;
    const char *name; /* of the row */
    int how;          /* of the row */
};

/* A filter, test, method or function. */
struct row {
    const char *name;
    struct value (*call)(struct rendering *r, struct value v, const struct given *g);
    /* "chars?$ count#": their names, ? where none counts as missing, and types: $ a string, # an integer, %
     * either, none of them anything. NULL: it looks at the arguments itself */
    const char *parameters;
    uint8_t required; /* that many must be given */
    uint8_t how;      /* tells rows with the same function apart */
    bool positional;  /* parameters have no names for the caller */
};

struct bound { /* a method and what it is of */
    struct value self;
    const struct row *row;
};

/* Walks a value. next() gives false at the end and after an error. */
struct generator {
    bool (*next)(struct rendering *r, struct generator *g, struct value *out);
    struct value over;
    size_t at;
    void *state;
};

/* A text under construction. */
struct text {
    struct rendering *r;
    char *bytes;
    size_t size, room;
    size_t most; /* 0: only the memory of the rendering is the limit */
    char origin; /* of bytes that do not come from a string: not 0 is the context's */
};

/* Where bytes of strings come from: each byte of a chunk has one beside it, which is not 0 if the byte came
 * from the context. Strings outside of the chunks are the template's. A chunk is at least twice as large as
 * the one before. */
enum { N_CHUNKS = 32 };

struct origins {
    struct chunk {
        char *bytes, *origin;
        size_t room, used;
    } chunk[N_CHUNKS];
    size_t n;
    const json_t *own; /* variables that are the template's, as long as the context has the same */
    bool trusted;      /* what is loaded now is the template's */
};

enum { N_TAILS = 4 };

struct rendering {
    struct arena arena;
    struct jinja_limits limit;
    size_t bytes;
    uint64_t steps;
    int depth;
    int rc; /* ERR_OK, or the code of the first error */
    struct err *e;
    const char *name; /* of the template, for messages */
    uint32_t line;    /* of the template, where the rendering is */
    const struct tm *now;
    const struct jinja *template;
    struct value *outside; /* by number of name: variables of the context, and functions */
    struct frame *frame;   /* the innermost one */
    struct text *out;      /* the text, or what a macro, a set block or a filter block collects */
    struct value block;    /* the text of a set block or filter block, for its first filter */
    struct tail {          /* texts that grew by joining and have room behind their end */
        char *end;
        size_t room;
    } tails[N_TAILS];
    unsigned next_tail;
    struct origins *origins; /* NULL: nobody asks */
};

/* value.c: the rendering */

/* Gives none, for callers to return. */
struct value jinja_fail(struct rendering *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool jinja_step(struct rendering *r, size_t cost); /* counts 1 + COST steps; false: stop */
bool jinja_enter(struct rendering *r);             /* one level deeper; false and nothing entered: stop */
void jinja_leave(struct rendering *r);
bool jinja_charge(struct rendering *r, size_t bytes);                   /* counts them; false: stop */
void *jinja_allocate(struct rendering *r, size_t bytes);                /* NULL after an error */
void *jinja_allocate_array(struct rendering *r, size_t n, size_t size); /* zeroed */
/* The array V of N elements if it has ROOM for one more, or a larger copy. NULL after an error. */
void *jinja_room(struct rendering *r, void *v, size_t n, size_t *room, size_t size);

/* value.c: making values */

static const struct value missing = {.kind = MISSING}, none = {.kind = NONE};
struct value jinja_boolean(bool b);
struct value jinja_integer(int64_t i);
struct value jinja_float(double f);
struct value jinja_large(const char *digits, size_t size); /* borrowed, terminated, beyond 64 bits */
struct value jinja_whole(struct rendering *r, double f);   /* the integer of a float without a fraction */
struct value jinja_string(const char *bytes, size_t size); /* borrowed */
struct value jinja_literal(const char *text);              /* borrowed */
struct value jinja_undefined(const char *hint);            /* borrowed */
struct value jinja_undefined_name(struct value name);
struct value jinja_undefined_item(struct rendering *r, struct value object, struct value key);
struct value jinja_list(struct rendering *r, enum kind kind, const struct value *items, size_t n);
struct value jinja_generator(struct rendering *r, struct value over, void *state,
                             bool (*next)(struct rendering *r, struct generator *g, struct value *out));

/* A list under construction. */
struct growing {
    struct rendering *r;
    struct value *items;
    size_t count, room;
};

const struct row *jinja_find_row(const struct row *rows, struct value name); /* NULL: there is none */
bool jinja_push(struct growing *g, struct value v);
struct value jinja_grown(struct growing *g); /* the list */

struct dict *jinja_dict(struct rendering *r);                  /* NULL after an error */
struct value jinja_dict_value(struct dict *d, enum kind kind); /* none for NULL */
bool jinja_dict_set(struct rendering *r, struct dict *d, struct value key, struct value v);
bool jinja_dict_get(struct rendering *r, const struct dict *d, struct value key, struct value *out);
bool jinja_hash(struct rendering *r, struct value key, uint32_t *hash); /* false: it cannot be a key */

/* value.c: asking values */

bool jinja_is(struct value v, const char *text); /* a string of these bytes */
bool jinja_is_among(struct value v,
                    const char *words); /* of one of the words, with single blanks between them */
bool jinja_is_number(struct value v);
bool jinja_is_integer(struct value v);  /* of 64 bits; booleans are integers */
bool jinja_is_sequence(struct value v); /* a list or tuple */
int64_t jinja_to_integer(struct value v);
enum { LARGE_STEP = 4 }; /* digits of an integer beyond 64 bits that are read in a step */
double jinja_to_float(struct value v);
struct value jinja_negative(struct rendering *r, struct value v); /* of an integer beyond 64 bits */
bool jinja_true(struct value v);
bool jinja_length(struct rendering *r, struct value v, size_t *n); /* false: it has none */
const char *jinja_type(struct value v);                            /* as Python calls it */
bool jinja_same(struct value a, struct value b);                   /* the same object */
bool jinja_equal(struct rendering *r, struct value a, struct value b);
struct value jinja_fail_undefined(struct rendering *r, struct value v); /* says what is missing */

enum comparison { EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, IN, NOT_IN, SAME };
bool jinja_compare(struct rendering *r, enum comparison how, struct value a, struct value b);

/* Sorts by key, stable in both directions. SCRATCH has room for N as well. */
void jinja_sort(struct rendering *r, struct pair *p, struct pair *scratch, size_t n, bool descending);

/* value.c: walking values */

bool jinja_iterable(struct value v);
struct generator *jinja_walk(struct rendering *r,
                             struct value v); /* NULL and an error: it cannot be walked */
bool jinja_next(struct rendering *r, struct generator *g, struct value *out); /* NULL: nothing there */
struct value jinja_to_list(struct rendering *r, struct value v);
struct value jinja_element(struct value v, size_t i); /* of a list, tuple or range, or a key of a dict */

/* origin.c: where strings come from */

/* Room for N bytes of a string. NULL after an error. */
char *jinja_allocate_text(struct rendering *r, size_t n);
/* Copies N bytes of a string with their origin, which is OTHERWISE where they are in no string. */
void jinja_copy(struct rendering *r, char *to, const char *from, size_t n, char otherwise);
char jinja_origin(const struct rendering *r, const char *at); /* of one byte */
/* The string S of the context. */
struct value jinja_from_context(struct rendering *r, struct value s);
void jinja_origins_fini(struct origins *o);

/* text.c: building texts */

void jinja_put(struct text *t, const char *bytes, size_t n);
void jinja_put_literal(struct text *t, const char *s);
void jinja_put_byte(struct text *t, char c);
void jinja_put_character(struct text *t, uint32_t c);
void jinja_put_format(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void jinja_put_times(struct text *t, struct value s, size_t times);
struct value jinja_finish(struct text *t);           /* the string */
const char *jinja_finish_terminated(struct text *t); /* for messages; never NULL */

/* text.c: strings. Sizes and offsets are in bytes, counts in characters. */

uint32_t jinja_character(const char *s);
size_t jinja_width(const char *s);                  /* bytes of the character at S */
size_t jinja_width_before(const char *s, size_t n); /* bytes of the last character of s[0, n) */
size_t jinja_count(const char *s, size_t n);
size_t jinja_offset(struct value s, size_t index);                      /* of character INDEX, or the end */
size_t jinja_find(const char *s, size_t n, const char *what, size_t k); /* SIZE_MAX: not there */
/* Steps of a search for K bytes in N: memmem() compares up to 256 bytes at each place, and is linear for
 * more. */
size_t jinja_search_cost(size_t n, size_t k);
struct value jinja_part(struct value s, size_t from, size_t to);              /* shares its bytes */
struct value jinja_join(struct rendering *r, struct value a, struct value b); /* plain */
struct value jinja_escape(struct rendering *r, struct value v); /* for HTML, unless it is escaped */
enum { LEFT = 1, RIGHT = 2 };
enum letters { UPPER, LOWER, CAPITALIZED, TITLE, WORDS }; /* WORDS: as the filter title sees them */
bool jinja_has_case(struct value s, bool upper);          /* some letters, all of that case */
bool jinja_is_space(uint32_t c);
bool jinja_is_printable(uint32_t c);
bool jinja_is_name(uint32_t c);
bool jinja_parse_integer(const char *s, size_t n, unsigned base, int64_t *out, bool *overflow);
/* The integer S, digits of base 10 that do not fit 64 bits, without underscores and zeros in front. */
struct value jinja_parse_large(struct rendering *r, struct value s);
bool jinja_parse_float(const char *s, size_t n, double *out);

/* text.c: filters and methods of strings */

struct value jinja_change_case(struct rendering *r, struct value v, const struct given *g);
struct value jinja_strip(struct rendering *r, struct value v, const struct given *g);
struct value jinja_replace(struct rendering *r, struct value s, const struct given *g);
struct value jinja_indent(struct rendering *r, struct value v, const struct given *g);
extern const struct row jinja_string_methods[]; /* until one without a name */

/* print.c */

void jinja_print(struct text *t, struct value v);                  /* as str() does */
void jinja_print_repr(struct text *t, struct value v);             /* as repr() does */
struct value jinja_to_string(struct rendering *r, struct value v); /* keeps an escaped string as it is */
const char *jinja_brief(struct rendering *r, struct value v); /* repr() for messages, cut where it is long */
struct value jinja_to_json(struct rendering *r, struct value v, const struct given *g); /* filter tojson */
struct value jinja_load(struct rendering *r, const json_t *j);

/* methods.c: attributes, methods and functions */

struct value jinja_apply(struct rendering *r, const struct row *row, struct value v,
                         const struct arguments *a);
int64_t jinja_given_integer(const struct given *g, size_t i, int64_t otherwise); /* parameter I */
/* Parameter I as an indentation: a string, or a number of blanks, OTHERWISE where it is missing. */
struct value jinja_blanks(struct rendering *r, const struct given *g, size_t i, int64_t otherwise);
/* object.key for ATTRIBUTE, else object[key]. */
struct value jinja_member(struct rendering *r, struct value object, struct value key, bool attribute);
struct value jinja_slice(struct rendering *r, struct value object, struct value start, struct value stop,
                         struct value step);
extern const struct row jinja_functions[]; /* until one without a name */

/* filters.c */

extern const struct row jinja_filters[], jinja_tests[]; /* until one without a name */

/* expression.c */

enum operation { ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR_DIVIDE, MODULO, POWER, JOIN };
struct value jinja_calculate(struct rendering *r, enum operation op, struct value a, struct value b);

#endif
