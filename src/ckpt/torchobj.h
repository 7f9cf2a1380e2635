/* torchobj.h - the few things a torch pickle may name, and what calling them with plain values builds. */
#ifndef GALLOP_CKPT_TORCHOBJ_H
#define GALLOP_CKPT_TORCHOBJ_H

#include "ckpt/unpickle.h"

/* The row of MODULE.NAME in the table of what is allowed, or -1. */
int64_t torchobj_find(const char *module, size_t n_module, const char *name, size_t n_name);

/* How many values torchobj_call() will copy: a list can be shared, so the caller must count each use of
 * it. */
size_t torchobj_cost(int64_t row, const struct unpickle_value *args);

/* What the thing in ROW makes of the tuple ARGS. NULL: *why says what does not fit, or memory is out if it
 * is NULL. */
struct unpickle_value *torchobj_call(int64_t row, const struct unpickle_value *args, struct arena *a,
                                     const char **why);

/* The STORAGE that a persistent id stands for. NULL as above. */
struct unpickle_value *torchobj_storage(const struct unpickle_value *id, struct arena *a, const char **why);

#endif
