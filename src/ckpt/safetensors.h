/* safetensors.h - reads the tensors of .safetensors files. */
#ifndef GALLOP_CKPT_SAFETENSORS_H
#define GALLOP_CKPT_SAFETENSORS_H

#include "base/err.h"

struct tensor_file;

/* Reads the tensors of a .safetensors file into F, which is open and has no tensors yet, in the order of
 * their bytes. On failure *e names the file and the fault, and the caller closes F. */
int safetensors_read(struct tensor_file *f, struct err *e);

#endif
