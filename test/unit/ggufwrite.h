/* ggufwrite.h - builds GGUF files byte by byte, valid and invalid ones, for the tests of the readers. */
#ifndef TEST_GGUFWRITE_H
#define TEST_GGUFWRITE_H

#include "base/buf.h"

struct ggufwrite {
    struct buf kv, info, data;
    uint64_t n_kv, n_tensors; /* the counts that the head will contain, which a test may change */
    uint32_t version;
    size_t alignment; /* the alignment of the data; the test itself writes the key general.alignment */
};

void ggufwrite_init(struct ggufwrite *w);
void ggufwrite_fini(struct ggufwrite *w);

/* Writes the head of an entry: a key and its type. The test writes the value. */
void ggufwrite_key(struct ggufwrite *w, const char *key, uint32_t type);
void ggufwrite_raw(struct ggufwrite *w, const void *bytes, size_t n); /* after the last entry */

void ggufwrite_u32(struct ggufwrite *w, const char *key, uint32_t v);
void ggufwrite_f32(struct ggufwrite *w, const char *key, float v);
void ggufwrite_bool(struct ggufwrite *w, const char *key, int v);
void ggufwrite_str(struct ggufwrite *w, const char *key, const char *v);
void ggufwrite_strs(struct ggufwrite *w, const char *key, const char *const *v, size_t n);
void ggufwrite_i32s(struct ggufwrite *w, const char *key, const int32_t *v, size_t n);
void ggufwrite_f32s(struct ggufwrite *w, const char *key, const float *v, size_t n);

/* Adds a tensor of ggml's type number TYPE, its shape [DIM...] outermost first and ended by 0, with LEN bytes
 * of BYTES (NULL: zeros), aligned after the tensor before it. */
void ggufwrite_tensor(struct ggufwrite *w, const char *name, uint32_t type, const size_t *dim,
                      const void *bytes, size_t len);

/* Adds an info without data, with the given OFFSET. */
void ggufwrite_info(struct ggufwrite *w, const char *name, uint32_t type, const uint64_t *dim,
                    uint32_t n_dims, uint64_t offset);

/* Adds a tensor of F32 with the values V, or 0.01 * index if V is NULL. */
void ggufwrite_f32_tensor(struct ggufwrite *w, const char *name, const size_t *dim, const float *v);

/* Appends the file to OUT. */
void ggufwrite_finish(const struct ggufwrite *w, struct buf *out);

/* Writes the file NAME in DIR. */
void ggufwrite_file(const struct ggufwrite *w, const char *dir, const char *name);

#endif
