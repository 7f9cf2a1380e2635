/* tensor_file.h - one open file of tensors in any format: the mapped bytes, and a view of each tensor, found by name.
 *
 * safetensors.c, torch/read.c and gguf/names.c fill a tensor file; weights.c reads it. A filled tensor file guarantees:
 * names are unique, UTF-8 and terminated; every view addresses only bytes inside the map; products of shapes cannot
 * overflow.
 */
#ifndef GALLOP_CKPT_TENSOR_FILE_H
#define GALLOP_CKPT_TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/files/map.h"
#include "base/strmap.h"
#include "tensor/view.h"

struct tensor_file {
    const char *path;    /* allocated in ARENA */
    const char *kind;    /* "safetensors", "torch zip", "torch stream", "GGUF" or "gallop pack"; static */
    struct map_file map; /* the mapped file; not unmapped if BORROWED is set */
    bool borrowed;
    struct arena arena; /* the memory of the names and the path */
    struct view *tensor;
    size_t n, cap;
    struct strmap index; /* name -> index into tensor[], after tensor_file_seal() */
};

/* Maps FILE in the folder IN (FILE NULL: the file in.path). On failure *e names the file and *f is closed. */
int tensor_file_open(struct tensor_file *f, struct folder in, const char *file, struct err *e);

/* For tests and fuzzers: opens the caller's BYTES [len], which must outlive F. PATH is for messages only. */
int tensor_file_open_bytes(struct tensor_file *f, const char *bytes, size_t len, const char *path,
                           struct err *e);

/* Returns RC, the result of reading the N files at F. If a file changed meanwhile, returns the error of
 * map_file_check() instead, because the contents that were read are not valid. */
int tensor_file_checked(const struct tensor_file *f, size_t n, int rc, struct err *e);

/* Unmaps the file. Views keep their names, shapes and types, but their data becomes NULL. */
void tensor_file_let_go(struct tensor_file *f);

void tensor_file_close(struct tensor_file *f); /* F may be zeroed */

/* Computes the number of elements of SHAPE. False: strides would overflow, because the product of the sizes
 * (0 counts as 1) and the size of the largest element type exceeds size_t. */
bool tensor_file_elements(const size_t *shape, int n_dims, size_t *n);

/* Appends the tensor V with a copy of NAME [len], which must be UTF-8 without control characters. */
int tensor_file_add(struct tensor_file *f, const char *name, size_t len, struct view v, struct err *e);

/* Builds the index by name after the last tensor was added. ERR_INPUT: two tensors have the same name. */
int tensor_file_seal(struct tensor_file *f, struct err *e);

/* Returns the tensor NAME [len], or NULL. Borrowed until tensor_file_close(). */
const struct view *tensor_file_get(const struct tensor_file *f, const char *name, size_t len);

#endif
