/* unpickle.h - a restricted stack machine that runs the pickles of torch.save.
 *
 * A pickle is a program. The machine runs only the opcodes that torch's picklers emit, and a pickle may name only the
 * objects in the table of objects.c (torch storages, the three tensor builders, OrderedDict, Size). Other opcodes and
 * names are errors; no Python code is imported or called. Values are plain data in an arena.
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

/* The storage that a persistent id of torch names: N elements of a dtype, stored in the file under KEY. */
struct unpickle_storage {
    const char *key; /* borrowed from the pickle, not terminated */
    size_t key_len;
    enum dtype dtype;
    size_t n;
    size_t first, view_n;           /* the used elements of the storage: 0 and N, except in very old files */
    struct unpickle_storage *older; /* the storage that the pickle named before this one */
};

/* A tensor: a strided part of a storage, in elements. Its bounds are not yet checked. */
struct unpickle_tensor {
    const struct unpickle_storage *storage;
    size_t offset;
    int n_dims;
    size_t shape[VIEW_MAX_DIMS], stride[VIEW_MAX_DIMS];
};

struct unpickle_value {
    enum unpickle_kind kind;
    union {
        int64_t i; /* BOOL, INT; GLOBAL: its row in the table of objects.c */
        double f;
        /* STR, BIG: n bytes, borrowed from the pickle. BIG is a little-endian two's complement number. */
        const char *s;
        struct unpickle_value **item; /* TUPLE, LIST: n values; DICT: n / 2 pairs of key and value */
        struct unpickle_storage *storage;
        struct unpickle_tensor *tensor;
    } u;
    size_t n, cap;
};

struct unpickle {
    struct unpickle_value *object;
    struct unpickle_storage *newest; /* list of all storages that the pickle named */
    size_t bytes;                    /* length of the pickle, including its STOP opcode */
};

/* Runs the pickle that begins at BYTES and ends within LEN bytes. Its values are allocated in A and borrow
 * from BYTES. PATH and WHAT ("data.pkl") are for messages. */
int unpickle_run(struct unpickle *u, const char *bytes, size_t len, struct arena *a, const char *path,
                 const char *what, struct err *e);

#endif
