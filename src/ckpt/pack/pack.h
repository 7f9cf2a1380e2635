/* pack.h - packed checkpoints (.gallop): a checkpoint with its linears in the form that steps read, to be
 * mapped and not copied.
 *
 * One file, or several: PATH, PATH.1, PATH.2, ... A file begins with a page of text that says what it is;
 * what lies in it begins at multiples of 4096 bytes. The first one ends in a directory (JSON) and 64 bytes
 * that say where it is. The directory lists
 *   files    config.json, the tokenizer's files, the chat template: byte by byte as they were
 *   tensors  names, types and shapes of all tensors that the model takes, and the bytes of those that no
 *            linear is made of
 *   linears  packed weights, in the order in which the model binds them
 * and has a sum of the bytes of each (pack_sum()). Reading proves the directory and the files; pack_prove()
 * the rest. A packed file is replaced, never written into: who maps it sees what is written.
 */
#ifndef GALLOP_CKPT_PACK_H
#define GALLOP_CKPT_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/folder.h"
#include "base/map.h"
#include "base/threads/pool.h"
#include "ckpt/tensor_file.h"

enum {
    PACK_VERSION = 1,
    PACK_ALIGN = 4096,
    PACK_END_BYTES = 64, /* of the first and of the last bytes of a tensor, which are kept of all */
    PACK_MAX_PARTS = 4096
};

/* What GGUF says apart from its tensors: a GGUF file without any. */
#define PACK_GGUF "metadata.gguf"

/* N bytes at DATA, which lie in file PART from AT on. */
struct pack_blob {
    size_t part, at, bytes;
    uint64_t sum;
    const char *data;
};

struct pack_tensor {
    struct pack_blob blob; /* without bytes: it is in linears */
    unsigned char end[2][PACK_END_BYTES];
    uint64_t sum; /* of all its bytes */
};

struct pack_linear {
    const char *name, *form; /* form: of the packed bytes (linear.h) */
    size_t n, k;
    enum dtype dtype; /* that it computes in */
    bool paired;
    struct pack_blob blob;
};

struct pack {
    const char *path;
    struct map_file *part;
    size_t n_parts;
    size_t end;    /* of what lies in the first one: the directory begins there */
    bool borrowed; /* the first one's bytes are another's */
    struct arena arena;
    struct folder_archive files;
    struct tensor_file tensors; /* data NULL where a tensor has no bytes here */
    struct pack_tensor *tensor; /* [tensors.n] */
    struct pack_linear *linear;
    size_t n_linears;
    /* what it was packed for */
    enum dtype dtype;
    const char *quant;    /* "none" or "int8" */
    uint64_t calibration; /* sum of the calibration file that it was quantized with; 0: none */
};

/* True if the file IN begins like a packed checkpoint, of whatever version and part. */
bool pack_means(struct folder in);

/* On failure P is closed, and the sentence says what is wrong and that it is to be packed again. */
int pack_open(struct pack *p, struct folder in, struct err *e);

/* Tests and fuzzers: the same over the bytes of a first file, which must outlive P. */
int pack_open_bytes(struct pack *p, const char *bytes, size_t len, const char *path, struct err *e);

/* Proves all bytes on POOL. ERR_INPUT names what was altered. From then on a lost page ends the process. */
int pack_prove(struct pack *p, struct pool *pool, struct err *e);

void pack_close(struct pack *p); /* a zeroed one is fine */

/* V is one of P's tensors: its ends and sum. */
const struct pack_tensor *pack_tensor_of(const struct pack *p, const struct view *v);

/* XXH3-64 of the XXH3-64 of each MiB of P [n]. POOL NULL: by this thread alone. Without memory, ERR_NOMEM. */
int pack_sum(uint64_t *sum, const void *p, size_t n, struct pool *pool, struct err *e);

/* ---- writing: files, tensors and linears in this order, each as often as there are ---- */

struct pack_writer {
    /* N bytes behind those that file PART has; one that is new is opened. */
    int (*write)(void *ctx, size_t part, const void *p, size_t n, struct err *e);
    void *ctx;
    size_t
        split_bytes; /* weights go to further files, of so many bytes unless one alone is larger; 0: to the first */
    struct pool *pool; /* takes the sums; NULL: the caller's thread does */
    /* within */
    struct buf directory;
    int list;              /* of those above that is open */
    size_t part, at, at_0; /* where the next bytes of weights go; those of the first file */
};

/* Begins with W, whose callback and split are set. */
int pack_begin(struct pack_writer *w, enum dtype dtype, const char *quant, uint64_t calibration,
               struct err *e);
int pack_file(struct pack_writer *w, const char *name, const void *bytes, size_t n, struct err *e);

/* V as it was stored; its bytes too where WITH_BYTES. Only SUM and the ends of T count. */
int pack_view(struct pack_writer *w, const struct view *v, const struct pack_tensor *t, bool with_bytes,
              struct err *e);
int pack_packed(struct pack_writer *w, const struct pack_linear *l, const void *bytes, size_t n,
                struct err *e);
int pack_end(struct pack_writer *w, struct err *e);
void pack_abort(struct pack_writer *w); /* frees what W holds; also behind pack_end() */

#endif
