/* torch.h - files of torch.save: a restricted machine for their pickles, what the pickles may build, and the
 * directory of their zip archives.
 *
 * A pickle is a program. The machine knows the opcodes that torch's picklers emit, and of the things a pickle
 * may name only those in its table (torch storages, the three tensor builders, OrderedDict, Size). Anything
 * else is refused with its name; nothing is imported, called or looked up. Values are plain data in an arena.
 */
#ifndef GALLOP_CKPT_TORCH_H
#define GALLOP_CKPT_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/strmap.h"
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

/* What a persistent id of torch stands for: N elements of one type, kept elsewhere in the file under KEY. */
struct unpickle_storage {
    const char *key; /* borrowed from the pickle, not terminated */
    size_t key_len;
    enum dtype dtype;
    size_t n;
    size_t first, view_n;           /* a view of the storage (very old files); the whole of it: 0, n */
    struct unpickle_storage *older; /* the one the pickle named before */
};

/* A window on a storage, in elements. Nothing here is proved against the storage yet. */
struct unpickle_tensor {
    const struct unpickle_storage *storage;
    size_t offset;
    int n_dims;
    size_t shape[VIEW_MAX_DIMS], stride[VIEW_MAX_DIMS];
};

struct unpickle_value {
    enum unpickle_kind kind;
    union {
        int64_t i; /* BOOL, INT, and which row of the table a GLOBAL is */
        double f;
        const char
            *s; /* STR, BIG: n bytes of the pickle, borrowed; a BIG is two's complement, little endian */
        struct unpickle_value **item; /* TUPLE, LIST: n values; DICT: n keys and values in turn */
        struct unpickle_storage *storage;
        struct unpickle_tensor *tensor;
    } u;
    size_t n, cap;
};

struct unpickle {
    struct unpickle_value *object;
    struct unpickle_storage *newest; /* all storages the pickle named, used or not */
    size_t bytes;                    /* of the pickle, with its STOP opcode */
};

/* Runs the pickle at bytes[0], of which at most LEN bytes are there. What it builds lives in A and borrows
 * from BYTES. PATH and WHAT ("data.pkl") are for messages. */
int unpickle_run(struct unpickle *u, const char *bytes, size_t len, struct arena *a, const char *path,
                 const char *what, struct err *e);

/* ---- what a pickle may name and build ---- */

/* The value of the string KEY in a DICT, or NULL. */
struct unpickle_value *torch_dict_get(const struct unpickle_value *dict, const char *key);

/* The row of MODULE.NAME in the table of what is allowed, or -1. */
int64_t torch_object_find(const char *module, size_t n_module, const char *name, size_t n_name);

/* How many values torch_object_call() will copy: a list can be shared, so the caller must count each use of
 * it. */
size_t torch_object_cost(int64_t row, const struct unpickle_value *args);

/* What the thing in ROW makes of the tuple ARGS. NULL: *why says what does not fit, or memory is out if it
 * is NULL. */
struct unpickle_value *torch_object_call(int64_t row, const struct unpickle_value *args, struct arena *a,
                                         const char **why);

/* The STORAGE that a persistent id stands for. NULL as above. */
struct unpickle_value *torch_object_storage(const struct unpickle_value *id, struct arena *a,
                                            const char **why);

/* ---- zip archives as torch.save writes them: members by name, each a range of mapped bytes ---- */

struct torch_zip_member {
    const char *name; /* borrowed from the archive, not terminated; the archive's own top folder is cut off */
    size_t name_len;
    const char *data; /* stored bytes, at any alignment */
    size_t bytes;
};

struct torch_zip {
    struct torch_zip_member *member;
    size_t n, cap;
    struct strmap index;
};

/* True if the bytes begin like a zip archive. */
bool torch_zip_is(const char *bytes, size_t len);

/* Reads the directory of the archive in bytes[len], which must outlive Z. Every member must be stored
 * (neither compressed nor encrypted) and lie inside the archive; all names must be in one top folder. PATH
 * is for messages. On failure Z is closed. */
int torch_zip_open(struct torch_zip *z, const char *bytes, size_t len, const char *path, struct err *e);

/* The member TOP/NAME, or NULL. */
const struct torch_zip_member *torch_zip_get(const struct torch_zip *z, const char *name, size_t len);

void torch_zip_close(struct torch_zip *z); /* a zeroed one is fine */

#endif
