/* ckpthelp.h - the fixtures of the checkpoint tests and their contents. */
#ifndef TEST_CKPTHELP_H
#define TEST_CKPTHELP_H

#include "ckpt/tensor_file.h"
#include "files.h"
#include "help.h"

#define FIXTURES GALLOP_SOURCE_DIR "/test/data/ckpt"

/* Reads every element of V and adds up its bytes, so that the sanitizers see any that is outside the file. */
uint64_t help_touch(const struct view *v);

/* The element I (row-major) as a number, for any type and strides. */
double help_element(const struct view *v, size_t i);

/* True if V has this dtype, shape and these values (exactly); else why[200] says what differs. */
bool help_same(const struct view *v, const char *dtype, const size_t *shape, int n_dims, const double *value,
               char *why);

/* Opens DIR with weights_open() and fails unless kind and tensors are exactly those of DIR/expect.json. */
void help_expect(const char *dir);

#endif
