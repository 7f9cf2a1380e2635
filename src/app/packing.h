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

/* Writes what L says as PATH, and with SPLIT_GIB above 0 as PATH.1, PATH.2, ... Without FORCE a file that
 * exists is refused. */
int packing_write(const struct load *l, const char *path, double split_gib, bool force,
                  struct packing_result *done, struct err *e);

/* Makes the packed form of L's model in the cache, unless it is there, and the model of L. */
int packing_cache(struct load *l, struct err *e);

#endif
