/* unpickle.h - a restricted machine for the pickles of torch.save.
 *
 * A pickle is a program. The machine knows the opcodes that torch's picklers emit, and a pickle may name only
 * the objects in the table of objects.c (torch storages, the three tensor builders, OrderedDict, Size).
 * Anything else is refused with its name; nothing is imported, called or looked up. Values are plain data in
 * an arena.
 */
#ifndef GALLOP_CKPT_TORCH_UNPICKLE_H
#define GALLOP_CKPT_TORCH_UNPICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "tensor/view.h"

enum unpickle_kind {
    UNPICKLE_NONE,
    UNPICKLE_BOOL,
    UNPICKLE_INT,
    UNPICKLE_BIG,
    UNPICKLE_FLOAT,
    UNPICKLE_STR,
    UNPICKLE_TUPLE,
    UNPICKLE_LIST,
    UNPICKLE_DICT,
    UNPICKLE_GLOBAL,
    UNPICKLE_STORAGE,
    UNPICKLE_TENSOR,
};

/* The storage that a persistent id of torch names: N elements of one type, stored elsewhere in the file under
 * KEY. */
struct unpickle_storage {
    const char *key; /* borrowed from the pickle, not terminated */
    size_t key_len;
    enum dtype dtype;
    size_t n;
    size_t first, view_n;           /* a part of the storage (very old files); the whole storage: 0, n */
    struct unpickle_storage *older; /* the storage that the pickle named before */
};

/* A part of a storage, in elements. It was not checked against the storage yet. */
struct unpickle_tensor {
    const struct unpickle_storage *storage;
    size_t offset;
    int n_dims;
    size_t shape[VIEW_MAX_DIMS], stride[VIEW_MAX_DIMS];
};

struct unpickle_value {
    enum unpickle_kind kind;
    union {
        int64_t i; /* BOOL, INT, and the row of a GLOBAL in the table */
        double f;
        /* STR, BIG: n bytes of the pickle, borrowed; a BIG is two's complement, little-endian. */
        const char *s;
        struct unpickle_value **item; /* TUPLE, LIST: n values; DICT: n keys and values in turn */
        struct unpickle_storage *storage;
        struct unpickle_tensor *tensor;
    } u;
    size_t n, cap;
};

struct unpickle {
    struct unpickle_value *object;
    struct unpickle_storage *newest; /* all storages that the pickle named, used or not */
    size_t bytes;                    /* the size of the pickle with its STOP opcode */
};

/* Runs the pickle at bytes[0], which has at most LEN bytes. Its values are in memory of A and borrow from
 * BYTES. PATH and WHAT ("data.pkl") are for messages. */
int unpickle_run(struct unpickle *u, const char *bytes, size_t len, struct arena *a, const char *path,
                 const char *what, struct err *e);

#endif
