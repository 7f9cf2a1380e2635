/* kv_wire.h - the rows of a sequence as bytes: to keep a prefix, to go on in another process, to hand a
 * prompt from the engine that read it to one that answers.
 *
 * The bytes do not depend on the cache's type, block size or layout; only on sizes, dtype, windows, sinks and
 * the rows. They are foreign when they come in: kv_wire_load() proves all of them before it touches the
 * cache.
 *
 *   0   8  "GALLOPKV"                    36  4  layers that store rows
 *   8   4  version, 2                    40  4  kv heads
 *   12  4  dtype: 0 fp32, 1 bf16, 2 int8 44  4  head size
 *   16  8  model                         48  8  bytes that follow the header
 *   24  8  rows (length of the sequence) 56  8  XXH3-64 of bytes 0..55 and of all behind 64
 *   32  4  0
 *   64     of each layer, 4 bytes each: the first row of its window, and the rows of its sink (0: the window
 *          begins with row 0); together what a query behind the last row sees
 *          layers x (K, V) x heads x rows x head size elements (the layer's own, at most that of the header),
 *          the sink's first; in int8 a float scale stands before each row
 * All numbers are little endian.
 */
#ifndef GALLOP_KV_KV_WIRE_H
#define GALLOP_KV_KV_WIRE_H

#include "kv/kv.h"

/* Bytes of a sequence of N rows; SIZE_MAX if an address cannot count them. */
size_t kv_wire_bytes(const struct kv *c, size_t n);

/* The first N rows of SEQ into OUT [kv_wire_bytes(c, n)]. MODEL: a number that no other model has. KV_GONE: a
 * window has dropped rows that a query at N sees. */
int kv_wire_save(const struct kv *c, size_t seq, size_t n, uint64_t model, void *out);

/* BYTES [len] into SEQ (empty); *n is its length then. ERR_INPUT with a sentence that begins with NAME;
 * ERR_NOSPACE and ERR_NOMEM as in kv_reserve(). On failure SEQ stays empty. */
int kv_wire_load(struct kv *c, size_t seq, uint64_t model, const void *bytes, size_t len, const char *name,
                 size_t *n, struct err *e);

/* The same with the file PATH, which is written under another name first, brought to the disk and then
 * renamed: a crash leaves the old file or the new one. */
int kv_wire_write(const struct kv *c, size_t seq, size_t n, uint64_t model, const char *path, struct err *e);
int kv_wire_read(struct kv *c, size_t seq, uint64_t model, const char *path, size_t *n, struct err *e);

/* The checksum that belongs into BYTES [len >= 64]. */
uint64_t kv_wire_sum(const void *bytes, size_t len);

#endif
