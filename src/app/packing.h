/* packing.h - packed checkpoints (ckpt/pack/pack.h). */
#ifndef GALLOP_APP_PACKING_H
#define GALLOP_APP_PACKING_H

#include <stdbool.h>
#include <stddef.h>

#include "app/load.h"
#include "base/err.h"
#include "model/quant.h"

struct packing_result {
    size_t n_files, bytes;
    const char *dtype;
    char quant[QUANT_TEXT_MAX];
};

/* Writes the model of L, with its types, to PATH, and with SPLIT_GIB above 0 also to PATH.1, PATH.2, ... Without
 * FORCE an existing file is refused. */
int packing_write(const struct load *l, const char *path, double split_gib, bool force,
                  struct packing_result *done, struct err *e);

/* Replaces L's model by its packed copy in the cache, which is made if it is missing. */
int packing_cache(struct load *l, struct err *e);

#endif
