/* json_pull.h - a strict JSON pull reader for bulk files (tokenizer.json, safetensors headers): it builds no
 * tree, does not copy plain strings, and reads the text once.
 *
 * Strict RFC 8259: the whole input is checked to be UTF-8 first, depth is limited, and nothing may follow the
 * value. Errors are sticky: after the first one every call reports that nothing follows, so loops end by
 * themselves and the caller checks json_pull_rc() once. json_pull_load() reads a text as a tree.
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

#include "base/arena.h"
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
    /* Borrowed: from the input, or from the arena if the string has escapes. Not terminated. */
    const char *s;
    size_t n;
};

/* How integers that do not fit into 64 bits become part of a tree. JSON_PULL_REFUSED also refuses an object
 * that has a key twice. */
enum json_pull_large { JSON_PULL_REFUSED, JSON_PULL_REAL_OUTSIDE, JSON_PULL_EXACT };

struct json_pull {
    const char *begin, *p, *end;
    const char *path;    /* for messages */
    struct arena *arena; /* unescaped strings */
    struct err *e;
    int rc;
    int depth;
    enum json_pull_large large;                  /* for json_pull_load() and its variants */
    unsigned char kind[JSON_PULL_MAX_DEPTH + 1]; /* '{' or '[' */
    bool first[JSON_PULL_MAX_DEPTH + 1];
};

int json_pull_open(struct json_pull *j, const char *text, size_t len, const char *path, struct arena *a,
                   struct err *e);
/* The type of the next value. JSON_PULL_NONE after an error. */
enum json_pull_type json_pull_peek(struct json_pull *j);
void json_pull_enter_object(struct json_pull *j);
/* True: a key follows. False: '}' was read, or there is an error. */
bool json_pull_key(struct json_pull *j, struct json_str *key);
void json_pull_enter_array(struct json_pull *j);
/* True: an element follows. False: ']' was read, or there is an error. */
bool json_pull_elem(struct json_pull *j);
bool json_pull_string(struct json_pull *j, struct json_str *s);
bool json_pull_i64(struct json_pull *j, int64_t *v); /* an integer of 64 bits; 1.0 and 1e3 are refused */
bool json_pull_u64(struct json_pull *j, uint64_t *v);
bool json_pull_f64(struct json_pull *j, double *v);
bool json_pull_bool(struct json_pull *j, bool *v);
/* True, and the value is consumed, if it is null. Otherwise nothing is consumed. */
bool json_pull_null(struct json_pull *j);
void json_pull_skip(struct json_pull *j);           /* any value */
struct json_str json_pull_raw(struct json_pull *j); /* skips any value and returns its text */
bool json_str_is(const struct json_str *s, const char *literal);
int json_pull_rc(const struct json_pull *j);
/* Checks that only white space follows. Returns json_pull_rc(). */
int json_pull_finish(struct json_pull *j);

/* Reads TEXT [n], one JSON value, as a jansson tree. No object may have a key twice; strings may contain NUL.
 * We never call jansson's own reader (2.14): it writes beyond its buffer when memory runs out inside a
 * string. */
int json_pull_load(json_t **out, const char *text, size_t n, const char *path, struct err *e);

/* The same for texts of clients and of models: of a key that an object has twice the last one counts, as in
 * Python, and integers that do not fit into 64 bits keep all their digits (json_tree.h). */
int json_pull_load_exact(json_t **out, const char *text, size_t n, const char *path, struct err *e);

/* The same as json_pull_load_exact(), but such an integer becomes a real where it is the value itself or a
 * member of the outermost object, so that a reader of fields can say which field is out of range. */
int json_pull_load_large(json_t **out, const char *text, size_t n, const char *path, struct err *e);

/* Sets a sticky error "PATH: at byte N: ...", from the second line on "PATH: at byte N (line L): ...", and
 * returns its code. For errors that the caller finds. */
int json_pull_fail(struct json_pull *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
