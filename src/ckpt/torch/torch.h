/* torch.h - files of torch.save: reading one, the objects that its pickles may build, and the directory of
 * its zip archive.
 *
 * This header is the contract of objects.c, read.c and zip.c.
 */
#ifndef GALLOP_CKPT_TORCH_TORCH_H
#define GALLOP_CKPT_TORCH_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/strmap.h"
#include "ckpt/tensor_file.h"
#include "ckpt/torch/unpickle.h"

/* Reads a file of torch.save into F, which is open and empty; afterwards F has every tensor of the state dict
 * in the dict's order, as strided views of the mapped storages. Values that are not tensors are left out. On
 * failure *e names the file and the fault, and the caller closes F. */
int torch_read(struct tensor_file *f, struct err *e);

/* ---- the objects that a pickle may name and build ---- */

/* Finds the value of the string KEY in a DICT, or NULL. */
struct unpickle_value *torch_dict_get(const struct unpickle_value *dict, const char *key);

/* The row of MODULE.NAME in the table of allowed names, or -1. */
int64_t torch_object_find(const char *module, size_t n_module, const char *name, size_t n_name);

/* The number of values that torch_object_call() will copy. The caller must count each call, because a list
 * can be shared. */
size_t torch_object_cost(int64_t row, const struct unpickle_value *args);

/* Calls the object in ROW with the tuple ARGS. NULL: *why is the reason, or NULL if memory ran out. */
struct unpickle_value *torch_object_call(int64_t row, const struct unpickle_value *args, struct arena *a,
                                         const char **why);

/* The STORAGE of a persistent id. NULL as above. */
struct unpickle_value *torch_object_storage(const struct unpickle_value *id, struct arena *a,
                                            const char **why);

/* ---- zip archives as torch.save writes them: members by name, each a range of mapped bytes ---- */

struct torch_zip_member {
    const char *name; /* borrowed from the archive, not terminated, without the archive's top folder */
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
 * (neither compressed nor encrypted) and inside the archive; all names must be in one top folder. PATH is for
 * messages. On failure Z is closed. */
int torch_zip_open(struct torch_zip *z, const char *bytes, size_t len, const char *path, struct err *e);

/* Finds the member TOP/NAME, or NULL. */
const struct torch_zip_member *torch_zip_get(const struct torch_zip *z, const char *name, size_t len);

void torch_zip_close(struct torch_zip *z); /* a zeroed one is fine */

#endif
