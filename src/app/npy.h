/* npy.h - NumPy's file format, version 1.0: little-endian float32 arrays in C order.
 * https://numpy.org/neps/nep-0001-npy-format.html */
#ifndef GALLOP_APP_NPY_H
#define GALLOP_APP_NPY_H

#include "app/output.h"

/* Opens OUT for an array of SHAPE and writes the head; the elements follow with output_write(). A file that
 * is there is replaced at output_commit(). */
int npy_create(struct output *out, const char *path, const size_t *shape, int n_dims, struct err *e);

/* Reads a float32 array whole. *X is freed with mem_free(). */
int npy_read(const char *path, float **x, size_t *count, struct err *e);

#endif
