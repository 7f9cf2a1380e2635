/* ggufwrite.h - builds GGUF files byte by byte, well-formed or not: what the tests of the readers are fed. */
#ifndef TEST_GGUFWRITE_H
#define TEST_GGUFWRITE_H

#include "base/buf.h"

struct ggufwrite {
    struct buf kv, info, data;
    uint64_t n_kv, n_tensors; /* as the head will say; may be changed */
    uint32_t version;
    size_t alignment; /* of the data; the key general.alignment is the test's to write */
};

void ggufwrite_init(struct ggufwrite *w);
void ggufwrite_fini(struct ggufwrite *w);

/* The head of an entry: a key and its type; the value is the test's. */
void ggufwrite_key(struct ggufwrite *w, const char *key, uint32_t type);
void ggufwrite_raw(struct ggufwrite *w, const void *bytes, size_t n); /* behind the last entry */

void ggufwrite_u32(struct ggufwrite *w, const char *key, uint32_t v);
void ggufwrite_f32(struct ggufwrite *w, const char *key, float v);
void ggufwrite_bool(struct ggufwrite *w, const char *key, int v);
void ggufwrite_str(struct ggufwrite *w, const char *key, const char *v);
void ggufwrite_strs(struct ggufwrite *w, const char *key, const char *const *v, size_t n);
void ggufwrite_i32s(struct ggufwrite *w, const char *key, const int32_t *v, size_t n);
void ggufwrite_f32s(struct ggufwrite *w, const char *key, const float *v, size_t n);

/* A tensor of type TYPE (ggml's number), its shape [DIM...] outermost first, ended by 0, with LEN bytes of
 * BYTES (NULL: zeros), aligned behind the one before. */
void ggufwrite_tensor(struct ggufwrite *w, const char *name, uint32_t type, const size_t *dim,
                      const void *bytes, size_t len);

/* An info without data: OFFSET as it is given. */
void ggufwrite_info(struct ggufwrite *w, const char *name, uint32_t type, const uint64_t *dim,
                    uint32_t n_dims, uint64_t offset);

/* A tensor of F32 with the values V, or 0.01 * place where V is NULL. */
void ggufwrite_f32_tensor(struct ggufwrite *w, const char *name, const size_t *dim, const float *v);

/* The file appended to OUT. */
void ggufwrite_finish(const struct ggufwrite *w, struct buf *out);

/* NAME into DIR. */
void ggufwrite_file(const struct ggufwrite *w, const char *dir, const char *name);

#endif
