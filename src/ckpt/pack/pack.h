/* pack.h - packed checkpoints (.gallop), whose linears are stored in the layout that kernels read, so that
 * the linears are mapped instead of copied. read.c and write.c define the functions.
 *
 * A packed checkpoint has one file or several: PATH, PATH.1, PATH.2, ... Each file begins with a page of text
 * (format, version, part), and its blobs begin at multiples of 4096 bytes. The first file ends with a
 * directory in JSON, and 64 bytes with the position of the directory. The directory lists:
 *
 *     files    unchanged copies of config.json, the tokenizer's files and the chat template
 *     tensors  names, dtypes and shapes of all tensors, and the bytes of tensors that are not part of a
 *              linear
 *     linears  packed weights, in the order in which the model binds them
 *
 * Each entry has a hash of its bytes (pack_sum()). pack_open() checks the hashes of the directory and of the
 * files, pack_prove() the hashes of the tensors and linears. A packed file is only ever replaced by another
 * file, because processes that have it mapped would see changes of its bytes.
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
#include "ckpt/tensor_file.h"

struct map_file;
struct pool;

enum {
    PACK_VERSION = 1,
    PACK_ALIGN = 4096,
    PACK_END_BYTES = 64, /* number of first and last bytes of every tensor in the directory */
    PACK_MAX_PARTS = 4096
};

/* The name of the file with GGUF metadata: a GGUF file without tensors. */
#define PACK_GGUF "metadata.gguf"

/* A range of bytes at offset AT of file PART, mapped at DATA, and its pack_sum(). */
struct pack_blob {
    size_t part, at, bytes;
    uint64_t sum;
    const char *data;
};

struct pack_tensor {
    struct pack_blob blob; /* 0 bytes if the tensor is part of a linear */
    unsigned char end[2][PACK_END_BYTES];
    uint64_t sum; /* hash of all bytes of the tensor */
};

struct pack_linear {
    const char *name;
    const char *layout; /* name of the layout of the packed bytes (linear.h) */
    size_t n, k;
    enum dtype dtype; /* the dtype in which the linear computes */
    bool paired;
    struct pack_blob blob;
};

struct pack {
    const char *path;
    struct map_file *part;
    size_t n_parts;
    size_t end;    /* offset of the directory in the first file */
    bool borrowed; /* PART[0] is borrowed */
    struct arena arena;
    struct folder_archive files;
    struct tensor_file tensors; /* data is NULL for tensors that are part of a linear */
    struct pack_tensor *tensor; /* [tensors.n] */
    struct pack_linear *linear;
    size_t n_linears;
    /* The options with which the checkpoint was packed. */
    enum dtype dtype;
    const char *quant;    /* quantization, as quant_text() of model/quant.h writes it */
    uint64_t calibration; /* hash of the calibration file used; 0: none */
};

/* Returns whether the file IN begins like a packed checkpoint of any version and part. */
bool pack_means(struct folder in);

/* Opens the packed checkpoint IN. On failure P is closed. If the file is damaged, the error says that the
 * checkpoint must be packed again. */
int pack_open(struct pack *p, struct folder in, struct err *e);

/* For tests and fuzzers: opens the first file from BYTES [len], which must outlive P. */
int pack_open_bytes(struct pack *p, const char *bytes, size_t len, const char *path, struct err *e);

/* Checks the hashes of all tensors and linears on the threads of POOL. ERR_INPUT names the part that was
 * altered. Afterwards, a page that cannot be read terminates the process. */
int pack_prove(struct pack *p, struct pool *pool, struct err *e);

void pack_close(struct pack *p); /* P may be zeroed */

/* Returns the directory entry of V, which is one of P's tensors. */
const struct pack_tensor *pack_tensor_of(const struct pack *p, const struct view *v);

/* Computes the hash of P [n]: XXH3-64 of the XXH3-64 hashes of each MiB, on the threads of POOL (NULL: on the
 * caller's thread). ERR_NOMEM: there is no memory for the hashes. */
int pack_sum(uint64_t *sum, const void *p, size_t n, struct pool *pool, struct err *e);

/* ---- writing: first files, then tensors, then linears ---- */

struct pack_writer {
    /* Appends P [n] to file PART. The callback creates a file at the first call for its PART. */
    int (*write)(void *ctx, size_t part, const void *p, size_t n, struct err *e);
    void *ctx;
    /* Maximum size of the files PATH.1, PATH.2, ..., which get all weights; a larger tensor gets a file of
     * its own. 0: all weights go to the first file. */
    size_t split_bytes;
    struct pool *pool; /* threads that compute hashes; NULL: the caller's thread */
    /* Internal state. */
    struct buf directory;
    int list;              /* index of the current list of the directory */
    size_t part, at, at_0; /* file and offset of the next weights; next offset in the first file */
};

/* Starts to write with W, whose callback, split_bytes and pool are set. */
int pack_begin(struct pack_writer *w, enum dtype dtype, const char *quant, uint64_t calibration,
               struct err *e);
int pack_file(struct pack_writer *w, const char *name, const void *bytes, size_t n, struct err *e);

/* Writes the entry of tensor V and, if WITH_BYTES, its bytes. Of T, only the hash and the first and last
 * bytes are read. */
int pack_view(struct pack_writer *w, const struct view *v, const struct pack_tensor *t, bool with_bytes,
              struct err *e);
int pack_packed(struct pack_writer *w, const struct pack_linear *l, const void *bytes, size_t n,
                struct err *e);
int pack_end(struct pack_writer *w, struct err *e);
void pack_abort(struct pack_writer *w); /* frees W's memory; call it also after pack_end() */

#endif
