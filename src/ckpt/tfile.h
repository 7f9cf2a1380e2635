/* tfile.h - one open file of tensors, whatever its format: the mapped bytes and a view of each tensor by
 * name.
 *
 * safet.c and torchbin.c fill it, weights.c reads it. What a filled tfile promises: names are unique, UTF-8
 * and terminated; every view addresses bytes inside the map and nothing else; products of shapes cannot
 * overflow.
 */
#ifndef GALLOP_CKPT_TFILE_H
#define GALLOP_CKPT_TFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/folder.h"
#include "base/strmap.h"
#include "tensor/view.h"

struct tfile {
    const char *path;    /* lives in the arena */
    const char *kind;    /* "safetensors", "torch zip" or "torch stream"; static */
    struct map_file map; /* read-only; not ours to unmap if borrowed */
    bool borrowed;
    struct arena arena; /* names and path */
    struct view *tensor;
    size_t n, cap;
    struct strmap index; /* name -> place in tensor[], after tfile_seal() */
};

/* Maps FILE of the folder IN, or with FILE NULL the file IN. On failure *e names it and *f is closed. */
int tfile_open(struct tfile *f, struct folder in, const char *file, struct err *e);

/* The same over bytes of the caller's, which must outlive F; PATH is for messages only. */
int tfile_open_bytes(struct tfile *f, const char *bytes, size_t len, const char *path, struct err *e);

/* RC, the outcome of reading the N files at F, if they stayed as they were; else the sentence of
 * map_file_check(), for then nothing that was found in them counts. */
int tfile_checked(const struct tfile *f, size_t n, int rc, struct err *e);

void tfile_close(struct tfile *f); /* a zeroed one is fine */

/* The number of elements of SHAPE in *n. False if the product, with zeros read as ones, times the size of
 * any element type exceeds an address: then strides could not be computed either. */
bool tfile_elements(const size_t *shape, int n_dims, size_t *n);

/* Appends V under a copy of NAME[len], which must be UTF-8 without control characters. */
int tfile_add(struct tfile *f, const char *name, size_t len, struct view v, struct err *e);

/* Builds the index when the last tensor is in (and sorted); a name that stands twice is an error. */
int tfile_seal(struct tfile *f, struct err *e);

/* Puts the tensor's name behind the file's in a sentence that begins with the file's. */
void tfile_blame(const struct tfile *f, const char *name, size_t len, struct err *e);

/* The tensor NAME[len], or NULL. Borrowed until tfile_close(). */
const struct view *tfile_get(const struct tfile *f, const char *name, size_t len);

#endif
