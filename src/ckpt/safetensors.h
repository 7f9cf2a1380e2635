/* safetensors.h - reads .safetensors files. */
#ifndef GALLOP_CKPT_SAFETENSORS_H
#define GALLOP_CKPT_SAFETENSORS_H

#include "base/err.h"
#include "ckpt/tensor_file.h"

/* A file of safetensors: F is open and empty; afterwards it holds every tensor, in the order of their bytes
 * in the file. On failure *e names the file and the fault; F is the caller's to close. */
int safetensors_read(struct tensor_file *f, struct err *e);

#endif
