/* pack.h - packed checkpoints (.gallop): a checkpoint whose linears are stored as kernels read them, so that
 * it is mapped and not copied. This header is the contract of read.c and write.c.
 *
 * One file, or several: PATH, PATH.1, PATH.2, ... A file begins with a page of text that says what it is; its
 * parts begin at multiples of 4096 bytes. The first file ends with a directory (JSON) and 64 bytes that say
 * where the directory is. The directory lists
 *
 *     files    config.json, the tokenizer's files, the chat template: byte by byte as they were
 *     tensors  names, types and shapes of all tensors of the model, and the bytes of those that are not part
 *              of a linear
 *     linears  packed weights, in the order in which the model binds them
 *
 * with a sum of the bytes of each (pack_sum()). Opening checks the directory and the files; pack_prove()
 * checks the rest. A packed file is replaced, never written to, because processes that map it would see the
 * changes.
 */
#ifndef GALLOP_CKPT_PACK_H
#define GALLOP_CKPT_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/files/map.h"
#include "base/threads/pool.h"
#include "ckpt/tensor_file.h"

enum {
    PACK_VERSION = 1,
    PACK_ALIGN = 4096,
    PACK_END_BYTES = 64, /* bytes at the beginning and at the end of every tensor that are stored */
    PACK_MAX_PARTS = 4096
};

/* The GGUF metadata: a GGUF file without tensors. */
#define PACK_GGUF "metadata.gguf"

/* Bytes at DATA, which are in file PART at offset AT. */
struct pack_blob {
    size_t part, at, bytes;
    uint64_t sum;
    const char *data;
};

struct pack_tensor {
    struct pack_blob blob; /* without bytes if it is part of a linear */
    unsigned char end[2][PACK_END_BYTES];
    uint64_t sum; /* the sum of all its bytes */
};

struct pack_linear {
    const char *name;
    const char *form; /* the layout of the packed bytes (linear.h) */
    size_t n, k;
    enum dtype dtype; /* the type in which it computes */
    bool paired;
    struct pack_blob blob;
};

struct pack {
    const char *path;
    struct map_file *part;
    size_t n_parts;
    size_t end;    /* the end of the weights in the first file: the directory begins there */
    bool borrowed; /* the bytes of the first file are borrowed */
    struct arena arena;
    struct folder_archive files;
    struct tensor_file tensors; /* DATA is NULL for a tensor without bytes here */
    struct pack_tensor *tensor; /* [tensors.n] */
    struct pack_linear *linear;
    size_t n_linears;
    /* the options with which it was packed */
    enum dtype dtype;
    const char *quant;    /* "none" or "int8" */
    uint64_t calibration; /* the sum of the calibration file of the quantization; 0: none */
};

/* True if the file IN begins like a packed checkpoint of any version and part. */
bool pack_means(struct folder in);

/* Opens IN. On failure P is closed, and the error says what is wrong and that the checkpoint must be packed
 * again. */
int pack_open(struct pack *p, struct folder in, struct err *e);

/* For tests and fuzzers: the same for the bytes of a first file, which must outlive P. */
int pack_open_bytes(struct pack *p, const char *bytes, size_t len, const char *path, struct err *e);

/* Checks all bytes on POOL. ERR_INPUT names the part that was altered. After this, a page that cannot be read
 * ends the process. */
int pack_prove(struct pack *p, struct pool *pool, struct err *e);

void pack_close(struct pack *p); /* a zeroed one is fine */

/* Returns the ends and the sum of V, one of P's tensors. */
const struct pack_tensor *pack_tensor_of(const struct pack *p, const struct view *v);

/* Computes XXH3-64 of the XXH3-64 of each MiB of P [n]. POOL NULL: on this thread alone. ERR_NOMEM without
 * memory. */
int pack_sum(uint64_t *sum, const void *p, size_t n, struct pool *pool, struct err *e);

/* ---- writing: any number of files, then tensors, then linears ---- */

struct pack_writer {
    /* Appends N bytes to file PART, which is opened when it is new. */
    int (*write)(void *ctx, size_t part, const void *p, size_t n, struct err *e);
    void *ctx;
    /* Weights go to further files of this size, or of one tensor if it is larger; 0: all weights go to the
     * first file. */
    size_t split_bytes;
    struct pool *pool; /* computes the sums; NULL: the caller's thread does */
    /* internal state */
    struct buf directory;
    int list;              /* the current list of the directory */
    size_t part, at, at_0; /* the position of the next bytes of weights, and that in the first file */
};

/* Begins to write with W, whose callback and split_bytes are set. */
int pack_begin(struct pack_writer *w, enum dtype dtype, const char *quant, uint64_t calibration,
               struct err *e);
int pack_file(struct pack_writer *w, const char *name, const void *bytes, size_t n, struct err *e);

/* Writes V and, if WITH_BYTES, its bytes. Of T only SUM and the ends are used. */
int pack_view(struct pack_writer *w, const struct view *v, const struct pack_tensor *t, bool with_bytes,
              struct err *e);
int pack_packed(struct pack_writer *w, const struct pack_linear *l, const void *bytes, size_t n,
                struct err *e);
int pack_end(struct pack_writer *w, struct err *e);
void pack_abort(struct pack_writer *w); /* frees W's memory; must be called after pack_end(), too */

#endif
