/* npy.h - NumPy's file format, version 1.0, for little-endian float32 arrays in C order
 * (https://numpy.org/neps/nep-0001-npy-format.html). */
#ifndef GALLOP_LAB_NPY_H
#define GALLOP_LAB_NPY_H

#include <stddef.h>

#include "base/err.h"

struct save;

/* Opens the file PATH as *S and writes the header of an array of SHAPE [n_dims]. The caller then writes the
 * elements with save_write(), and save_commit() replaces an existing file. */
int npy_create(struct save *s, const char *path, const size_t *shape, int n_dims, struct err *e);

enum { NPY_MAX_DIMS = 8 };
struct npy_array {
    float *x; /* [count], to be freed with mem_free() */
    size_t shape[NPY_MAX_DIMS], count;
    int n_dims;
};

/* Reads the float32 array in the file PATH ("-": standard input). ERR_INPUT describes the defect of its
 * header or size. */
int npy_read(const char *path, struct npy_array *out, struct err *e);

/* Writes the shape of A as "[3, 2048]" to out[size], for messages, and returns OUT. */
const char *npy_shape_text(const struct npy_array *a, char *out, size_t size);

#endif
