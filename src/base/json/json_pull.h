/* json_pull.h - a strict JSON pull parser for large files (tokenizer.json, safetensors headers): it builds no
 * tree, does not copy strings without escapes, and reads the text once.
 *
 * It follows RFC 8259 strictly: the whole input must be UTF-8, the depth is limited, and only white space may
 * follow the value. Errors are sticky: after the first error json_pull_key() and json_pull_elem() return
 * false, so that loops end, and the caller checks json_pull_rc() once. json_pull_load() reads a text as a
 * jansson tree.
 *
 *     json_pull_open(&j, text, len, path, &arena, e);
 *     for (json_pull_enter_object(&j); json_pull_key(&j, &key);)
 *         if (json_str_is(&key, "version")) json_pull_i64(&j, &v); else json_pull_skip(&j);
 *     rc = json_pull_finish(&j);
 */
#ifndef GALLOP_BASE_JSON_PULL_H
#define GALLOP_BASE_JSON_PULL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { JSON_PULL_MAX_DEPTH = 128 };

enum json_pull_type {
    JSON_PULL_NONE,
    JSON_PULL_OBJECT,
    JSON_PULL_ARRAY,
    JSON_PULL_STRING,
    JSON_PULL_NUMBER,
    JSON_PULL_TRUE,
    JSON_PULL_FALSE,
    JSON_PULL_NULL
};

struct json_str {
    /* [n] Not terminated. Borrowed from the input, or from the arena if the string has escapes. */
    const char *s;
    size_t n;
};

/* How a tree represents integers that do not fit into 64 bits. REFUSED: they are errors, and so are duplicate
 * keys. EXACT: as json_large(). REAL_OUTSIDE: as reals if they are the whole value or members of the
 * outermost container, otherwise as json_large(). */
enum json_pull_large { JSON_PULL_REFUSED, JSON_PULL_REAL_OUTSIDE, JSON_PULL_EXACT };

struct json_pull {
    const char *begin, *p, *end;
    const char *path;    /* path for messages */
    struct arena *arena; /* memory of strings with escapes */
    struct err *e;
    int rc;
    int depth;
    /* NaN, Infinity and -Infinity, which Python's json writes, are values of type JSON_PULL_NUMBER that can be skipped.
     * Set it after json_pull_open(). */
    bool is_python;
    enum json_pull_large large; /* how to store large integers; json_pull_load() and its variants use it */
    /* with REAL_OUTSIDE: name of the outermost member whose integers keep their digits, or NULL */
    const char *exact;
    unsigned char kind[JSON_PULL_MAX_DEPTH + 1]; /* '{' or '[' */
    bool first[JSON_PULL_MAX_DEPTH + 1];
};

int json_pull_open(struct json_pull *j, const char *text, size_t len, const char *path, struct arena *a,
                   struct err *e);
/* Returns the type of the next value without reading it. JSON_PULL_NONE after an error. */
enum json_pull_type json_pull_peek(struct json_pull *j);
void json_pull_enter_object(struct json_pull *j);
/* Reads the next key of an object. False: '}' was read, or there is an error. */
bool json_pull_key(struct json_pull *j, struct json_str *key);
void json_pull_enter_array(struct json_pull *j);
/* Returns whether another element of an array follows. False: ']' was read, or there is an error. */
bool json_pull_elem(struct json_pull *j);
bool json_pull_string(struct json_pull *j, struct json_str *s);
bool json_pull_i64(struct json_pull *j, int64_t *v); /* a 64-bit integer; 1.0 and 1e3 are errors */
bool json_pull_u64(struct json_pull *j, uint64_t *v);
bool json_pull_f64(struct json_pull *j, double *v);
bool json_pull_bool(struct json_pull *j, bool *v);
/* Reads the next value if it is null and returns true. Otherwise reads nothing and returns false. */
bool json_pull_null(struct json_pull *j);
void json_pull_skip(struct json_pull *j);           /* skips any value */
struct json_str json_pull_raw(struct json_pull *j); /* skips any value and returns its text */
bool json_str_is(const struct json_str *s, const char *literal);
int json_pull_rc(const struct json_pull *j);
/* Checks that only white space follows the value. Returns json_pull_rc(). */
int json_pull_finish(struct json_pull *j);

/* Reads TEXT [n], one JSON value, as a jansson tree. Duplicate keys are errors; strings may contain NUL.
 * Jansson's own parser (2.14) is never called: it writes beyond its buffer if memory runs out in a string. */
int json_pull_load(json_t **out, const char *text, size_t n, const char *path, struct err *e);

/* Like json_pull_load(), for texts of clients and models: the last of duplicate keys counts, as in Python,
 * and integers that do not fit into 64 bits keep all their digits (json_tree.h). */
int json_pull_load_exact(json_t **out, const char *text, size_t n, const char *path, struct err *e);

/* Like json_pull_load_exact(), but large integers become reals if they are the whole value or a member of the outermost
 * object. The reader of a request can then name the field that is out of range. The member EXACT of the outermost
 * object keeps its digits; NULL: none does. */
int json_pull_load_large(json_t **out, const char *text, size_t n, const char *path, const char *exact,
                         struct err *e);

/* Sets a sticky error that the caller has found, "PATH: at byte N: ...", or "PATH: at byte N (line L): ..."
 * after the first line. Returns its code. */
int json_pull_fail(struct json_pull *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
