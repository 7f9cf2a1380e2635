/* value.h - the values that a template computes with.
 *
 * A value has 16 bytes. Numbers and flags are stored in it. Strings, lists and dicts are in the arena of the rendering
 * (constants: of the template), do not change once they are made, and are freed with the arena. Strings are valid
 * UTF-8. After an error (rendering.h) every function still returns a value that is safe to use.
 */
#ifndef GALLOP_TEXT_JINJA_VALUE_H
#define GALLOP_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rendering;

/* clang-format off */
enum value_kind {
    VALUE_MISSING, /* no value: an argument that is not given, or an unassigned name */
    VALUE_UNDEFINED, VALUE_NONE, VALUE_BOOLEAN, VALUE_INTEGER, VALUE_FLOAT,
    VALUE_LARGE, /* an integer beyond 64 bits, stored as decimal digits */
    /* The kinds STRING to GENERATOR are iterable, a GENERATOR (result of map, select ...) only once. */
    VALUE_STRING, VALUE_LIST, VALUE_TUPLE, VALUE_DICT, VALUE_RANGE, VALUE_GENERATOR,
    VALUE_NAMESPACE, VALUE_FUNCTION, VALUE_METHOD, VALUE_MACRO, VALUE_LOOP
};
/* clang-format on */

enum value_mark {
    VALUE_PLAIN,
    /* STRING: HTML-escaped text (Markup in Python), which + and the string methods do not escape again. */
    VALUE_ESCAPED,
    /* UNDEFINED. BY_NAME: BYTES is the name of an undefined variable. BY_HINT: BYTES is the whole error
     * message. BY_ITEM: LOOKUP is the failed look-up. */
    VALUE_BY_NAME,
    VALUE_BY_HINT,
    VALUE_BY_ITEM,
    /* LIST: the result of keys(), values() or items(), which prints as a view of that name. */
    VALUE_DICT_KEYS,
    VALUE_DICT_VALUES,
    VALUE_DICT_ITEMS
};

struct value {
    uint8_t kind;  /* enum value_kind */
    uint8_t mark;  /* enum value_mark */
    uint32_t size; /* STRING, LARGE and UNDEFINED: bytes; LIST and TUPLE: items */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *bytes;
        struct value *items;     /* LIST and TUPLE */
        struct value_dict *dict; /* DICT and NAMESPACE */
        const struct value_lookup *lookup;
        const struct value_range *range;
        struct walk_generator *generator;
        const struct builtin *function;
        const struct builtin_method *method;
        const struct frame_macro *macro;
        struct walk_loop *loop;
    };
};

struct value_pair {
    struct value key, value;
};

struct value_dict {
    struct value_pair *pairs; /* in the order of insertion */
    uint32_t count;
    size_t room;
    /* [n_slots] hash table; a slot is 1 + an index into PAIRS, 0: free; NULL while the dict is empty */
    uint32_t *slots;
    uint32_t n_slots;
};

/* The failed look-up of KEY in OBJECT, for the error message of an undefined value. */
struct value_lookup {
    struct value object, key;
};

struct value_range {
    int64_t start, stop, step;
    size_t count;
};

/* A list under construction. */
struct value_list_builder {
    struct rendering *r;
    struct value *items;
    size_t count, room;
};

enum { VALUE_LARGE_STEP = 4 }; /* digits of a LARGE integer that cost one step to read */

static const struct value value_missing = {.kind = VALUE_MISSING}, value_none = {.kind = VALUE_NONE};

/* The result of string functions after an error, so that callers can read its bytes. */
static const struct value value_empty = {.kind = VALUE_STRING, .bytes = ""};

/* ---- making values (bytes and texts are borrowed) ---- */

struct value jinja_boolean(bool b);
struct value jinja_integer(int64_t i);
struct value jinja_float(double f);

/* Returns the integer beyond 64 bits with the decimal DIGITS, which are terminated by NUL. */
struct value jinja_large(const char *digits, size_t size);

/* Returns F, a float without a fraction, as an integer. */
struct value jinja_whole(struct rendering *r, double f);
struct value jinja_string(const char *bytes, size_t size);
struct value jinja_literal(const char *text);
struct value jinja_undefined(const char *hint);
struct value jinja_undefined_name(struct value name);
struct value jinja_undefined_item(struct rendering *r, struct value object, struct value key);

/* Returns a list or tuple of N ITEMS, which are copied; ITEMS NULL: the items are not initialized. */
struct value jinja_list(struct rendering *r, enum value_kind kind, const struct value *items, size_t n);

/* Appends V to the list under construction. Returns false after an error. */
bool jinja_push(struct value_list_builder *g, struct value v);

/* Returns the finished list. */
struct value jinja_grown(struct value_list_builder *g);

/* ---- dicts ---- */

/* Returns a new empty dict, or NULL after an error. */
struct value_dict *jinja_dict(struct rendering *r);

/* Returns D as a value of KIND (DICT or NAMESPACE), or None if D is NULL. */
struct value jinja_dict_value(struct value_dict *d, enum value_kind kind);
bool jinja_dict_set(struct rendering *r, struct value_dict *d, struct value key, struct value v);
bool jinja_dict_get(struct rendering *r, const struct value_dict *d, struct value key, struct value *out);

/* Computes the hash of KEY. False: values of this kind cannot be keys (Python's "unhashable"). */
bool jinja_hash(struct rendering *r, struct value key, uint32_t *hash);

/* ---- inspecting values ---- */

/* True if V is the string TEXT. */
bool jinja_is(struct value v, const char *text);

/* True if V is a string that equals one of WORDS, which are separated by single spaces. */
bool jinja_is_among(struct value v, const char *words);
bool jinja_is_number(struct value v);

/* True if V is an integer of at most 64 bits; booleans are integers, as in Python. */
bool jinja_is_integer(struct value v);

/* True if V is a list or tuple. */
bool jinja_is_sequence(struct value v);
int64_t jinja_to_integer(struct value v);
double jinja_to_float(struct value v);

/* Returns -V for a LARGE integer V. */
struct value jinja_negative(struct rendering *r, struct value v);
bool jinja_true(struct value v);

/* Returns the name of V's type in Python. */
const char *jinja_type(struct value v);

/* True if A and B are the same object (Python's `is`); strings are the same if they are equal. */
bool jinja_same(struct value a, struct value b);
bool jinja_equal(struct rendering *r, struct value a, struct value b);

/* Returns the order of two numbers: -1, 0 or 1; 2: one of them is NaN, or the step limit is reached. */
int jinja_order_numbers(struct rendering *r, struct value a, struct value b);

#endif
