/* torch.h - reads files of torch.save; the objects that a pickle may build; the directory of a zip archive.
 *
 * This header declares the functions of read.c, objects.c and zip.c.
 */
#ifndef GALLOP_CKPT_TORCH_TORCH_H
#define GALLOP_CKPT_TORCH_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/strmap.h"

struct tensor_file;
struct unpickle_value;

/* Reads a file of torch.save into F, which is open and has no tensors yet. Adds every tensor of the state
 * dict, in the dict's order, as a strided view of a mapped storage. Other values are left out. On failure *e
 * names the file and the fault, and the caller closes F. */
int torch_read(struct tensor_file *f, struct err *e);

/* ---- the objects that a pickle may name and build (objects.c) ---- */

/* Returns the value of the string KEY in DICT, or NULL. */
struct unpickle_value *torch_dict_get(const struct unpickle_value *dict, const char *key);

/* Returns the row of MODULE.NAME in the table of allowed names, or -1. */
int64_t torch_object_find(const char *module, size_t n_module, const char *name, size_t n_name);

/* Returns the number of values that torch_object_call() will copy. The caller adds up all calls and limits
 * the sum, because several calls may copy the same list. */
size_t torch_object_cost(int64_t row, const struct unpickle_value *args);

/* Returns the value that the object in row ROW of the table builds from the tuple ARGS. On failure returns
 * NULL and sets *WHY to the reason, or to NULL if memory ran out. */
struct unpickle_value *torch_object_call(int64_t row, const struct unpickle_value *args, struct arena *a,
                                         const char **why);

/* Returns the storage that the persistent id ID names. Fails like torch_object_call(). */
struct unpickle_value *torch_object_storage(const struct unpickle_value *id, struct arena *a,
                                            const char **why);

/* ---- zip archives of torch.save: members by name, each a range of mapped bytes (zip.c) ---- */

struct torch_zip_member {
    const char *name; /* without the archive's top folder; borrowed, not terminated */
    size_t name_len;
    const char *data; /* the bytes, at any alignment */
    size_t bytes;
};

struct torch_zip {
    struct torch_zip_member *member;
    size_t n, cap;
    struct strmap index;
};

/* Returns whether BYTES [len] begin like a zip archive. */
bool torch_zip_is(const char *bytes, size_t len);

/* Reads the directory of the archive in BYTES [len], which must outlive Z. Every member must be inside the
 * archive and neither compressed nor encrypted; all members must be in one top folder. PATH is for messages.
 * On failure Z is closed. */
int torch_zip_open(struct torch_zip *z, const char *bytes, size_t len, const char *path, struct err *e);

/* Returns the member NAME of the top folder, or NULL. */
const struct torch_zip_member *torch_zip_get(const struct torch_zip *z, const char *name, size_t len);

void torch_zip_close(struct torch_zip *z); /* Z may be zeroed */

#endif
