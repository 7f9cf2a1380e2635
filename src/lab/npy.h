/* npy.h - NumPy's file format, version 1.0, for little-endian float32 arrays in C order
 * (https://numpy.org/neps/nep-0001-npy-format.html). */
#ifndef GALLOP_LAB_NPY_H
#define GALLOP_LAB_NPY_H

#include <stddef.h>

#include "app/save.h"
#include "base/err.h"

/* Opens S for an array of SHAPE and writes the header; the elements follow with save_write(). An existing file is
 * replaced by save_commit(). */
int npy_create(struct save *s, const char *path, const size_t *shape, int n_dims, struct err *e);

enum { NPY_MAX_DIMS = 8 };
struct npy_array {
    float *x; /* [count], to be freed with mem_free() */
    size_t shape[NPY_MAX_DIMS], count;
    int n_dims;
};

/* Reads a whole float32 array ("-": standard input). ERR_INPUT names the file and what is wrong with its header or its
 * length. */
int npy_read(const char *path, struct npy_array *out, struct err *e);

/* Writes the shape as "[3, 2048]", for messages. */
const char *npy_shape_text(const struct npy_array *a, char *out, size_t size);

#endif
