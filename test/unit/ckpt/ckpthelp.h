/* ckpthelp.h - the fixtures of the checkpoint tests and their contents. */
#ifndef TEST_CKPTHELP_H
#define TEST_CKPTHELP_H

#include "ckpt/tensor_file.h"
#include "files.h"
#include "help.h"

#define FIXTURES GALLOP_SOURCE_DIR "/test/data/ckpt"

/* Reads every element of V and returns the sum of its bytes, so that a sanitizer sees elements outside the
 * file. */
uint64_t help_touch(const struct view *v);

/* Returns the element I (row-major) as a number, for any dtype and strides. */
double help_element(const struct view *v, size_t i);

/* Returns true if V has exactly this dtype, this shape and these values. Otherwise why[200] gets the
 * difference. */
bool help_same(const struct view *v, const char *dtype, const size_t *shape, int n_dims, const double *value,
               char *why);

/* Opens DIR with weights_open(). Fails unless kind and tensors are exactly those of DIR/expect.json. */
void help_expect(const char *dir);

#endif
