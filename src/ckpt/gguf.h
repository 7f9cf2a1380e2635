/* gguf.h - one GGUF file as a table: metadata by key, and where each tensor's bytes lie.
 *
 * Versions 2 and 3, little-endian. gguf_read() proves the whole head of the file before anyone sees a value:
 * every length and offset lies inside the file, no key or tensor is there twice, tensors are aligned, as long
 * as their shape and type say, and do not overlap. Nothing is copied: keys, strings and arrays point into the
 * file's bytes. Knows nothing of models or of what keys mean. Each getter marks its key, so that keys nobody
 * understood can be found afterwards. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
#ifndef GALLOP_CKPT_GGUF_H
#define GALLOP_CKPT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/jpull.h"
#include "base/strmap.h"
#include "tensor/view.h"

enum { GGUF_MAX_DIMS = 4 };

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES
};

struct gguf_kv {
    struct jp_str key;
    enum gguf_type type; /* of the value; of the elements where it is an array */
    bool is_array;
    bool asked;       /* a getter was asked for it */
    size_t n;         /* elements; 1 if it is no array */
    const char *data; /* the first of them, at any alignment */
};

struct gguf_tensor {
    struct jp_str name;
    struct view view; /* contiguous, outermost dimension first; its name and file are not set */
};

struct gguf {
    const char *path; /* borrowed, for messages */
    uint32_t version;
    struct gguf_kv *kv;
    size_t n_kv, cap_kv;
    struct gguf_tensor *tensor; /* in the order of their bytes */
    size_t n_tensors, cap_tensors;
    struct strmap key;  /* -> place in kv[] */
    struct strmap name; /* -> place in tensor[] */
};

/* True if the bytes begin like a GGUF file. */
bool gguf_is(const char *bytes, size_t len);

/* Reads the head of the file in bytes[len], which must outlive G, as must PATH. On failure G is closed and *e
 * names the file and the field. */
int gguf_read(struct gguf *g, const char *bytes, size_t len, const char *path, struct err *e);

void gguf_close(struct gguf *g); /* a zeroed one is fine */

/* The entry KEY, marked; NULL: there is none. */
const struct gguf_kv *gguf_get(struct gguf *g, const char *key);

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name); /* NULL: there is none */

/* Getters. Missing: the default. Of another type or out of range: ERR_INPUT, and the sentence names the file
 * and the key, what was found and what is expected. */

/* An integer of any width, or an array of equal ones (GGUF gives some numbers per layer). */
int gguf_int(struct gguf *g, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v, struct err *e);
int gguf_float(struct gguf *g, const char *key, double def, double *v, struct err *e); /* finite */
int gguf_bool(struct gguf *g, const char *key, bool def, bool *v, struct err *e);

/* A string without NUL characters, in UTF-8; missing: V->s NULL. */
int gguf_text(struct gguf *g, const char *key, struct jp_str *v, struct err *e);

/* An array of strings of any bytes, listed in A; missing: *v NULL, *n 0. */
int gguf_strs(struct gguf *g, const char *key, struct arena *a, const struct jp_str **v, size_t *n,
              struct err *e);

/* An array of TYPE (of four bytes an element), borrowed; missing: *v NULL. */
int gguf_words(struct gguf *g, const char *key, enum gguf_type type, const char **v, size_t *n,
               struct err *e);

/* "a string", "an array of 5 i32", ... for messages; returns OUT. */
const char *gguf_kv_text(const struct gguf_kv *kv, char *out, size_t size);

#endif
