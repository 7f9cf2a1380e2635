/* gguftype.h - the tensor types of GGUF by number: those that can be read, and the names of the others, for
 * messages. */
#ifndef GALLOP_CKPT_GGUFTYPE_H
#define GALLOP_CKPT_GGUFTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* The dtype of type number TYPE; false: it cannot be read. */
bool gguftype_dtype(uint32_t type, enum dtype *t);

const char *gguftype_name(uint32_t type); /* "IQ2_XXS"; "a type that is not known" */

#endif
