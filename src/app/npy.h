/* npy.h - NumPy's file format, version 1.0: little-endian float32 arrays in C order.
 * https://numpy.org/neps/nep-0001-npy-format.html */
#ifndef GALLOP_APP_NPY_H
#define GALLOP_APP_NPY_H

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

/* A file that grows row by row; the shape is known from the start. */
struct npy {
    FILE *f;
    const char *path;
};
int npy_create(struct npy *n, const char *path, const size_t *shape, int n_dims, struct err *e);
int npy_write(struct npy *n, const float *x, size_t count, struct err *e);
int npy_close(struct npy *n, struct err *e); /* a zeroed one is fine */

/* Reads a float32 array whole. *X is freed with mem_free(). */
int npy_read(const char *path, float **x, size_t *count, struct err *e);

#endif
