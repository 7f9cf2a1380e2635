/* jpull.h - a strict JSON pull reader for bulk files (tokenizer.json, safetensors headers): no tree, no
 * copies of plain strings, one pass.
 *
 * Strict RFC 8259: UTF-8 is proved for the whole input first, depth is limited, nothing may follow the value.
 * Errors are sticky: after the first one every call says "nothing more", so loops end by themselves and the
 * caller asks jp_rc() once. Small files (configs, requests) are read with jansson instead.
 *
 *     jp_open(&j, text, len, path, &arena, e);
 *     for (jp_enter_object(&j); jp_key(&j, &key);)
 *         if (jp_is(&key, "version")) jp_i64(&j, &v); else jp_skip(&j);
 *     rc = jp_finish(&j);
 */
#ifndef GALLOP_BASE_JPULL_H
#define GALLOP_BASE_JPULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum { JP_MAX_DEPTH = 128 };

enum jp_type { JP_NONE, JP_OBJECT, JP_ARRAY, JP_STRING, JP_NUMBER, JP_TRUE, JP_FALSE, JP_NULL };

struct jp_str {
    const char *s; /* borrowed: the input, or the arena where an escape had to be undone. Not terminated */
    size_t n;
};

struct jp {
    const char *begin, *p, *end;
    const char *path;    /* for messages */
    struct arena *arena; /* unescaped strings */
    struct err *e;
    int rc;
    int depth;
    unsigned char kind[JP_MAX_DEPTH + 1]; /* '{' or '[' */
    bool first[JP_MAX_DEPTH + 1];
};

int jp_open(struct jp *j, const char *text, size_t len, const char *path, struct arena *a, struct err *e);
enum jp_type jp_peek(struct jp *j); /* type of the next value; JP_NONE after an error */
void jp_enter_object(struct jp *j);
bool jp_key(struct jp *j, struct jp_str *key); /* false: '}' was read, or an error */
void jp_enter_array(struct jp *j);
bool jp_elem(struct jp *j); /* true: an element follows; false: ']' was read, or an error */
bool jp_string(struct jp *j, struct jp_str *s);
bool jp_i64(struct jp *j, int64_t *v); /* an integer that fits; 1.0 and 1e3 are refused */
bool jp_u64(struct jp *j, uint64_t *v);
bool jp_f64(struct jp *j, double *v);
bool jp_bool(struct jp *j, bool *v);
bool jp_null(struct jp *j);         /* true and consumed if the value is null; else nothing happens */
void jp_skip(struct jp *j);         /* any value */
struct jp_str jp_raw(struct jp *j); /* skips any value and returns its text */
bool jp_is(const struct jp_str *s, const char *literal);
int jp_rc(const struct jp *j);
int jp_finish(struct jp *j); /* proves that only blanks follow; returns jp_rc() */

/* Sets a sticky error "PATH: at byte N: ..." and returns its code. For the caller's own findings. */
int jp_fail(struct jp *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
