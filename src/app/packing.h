/* packing.h - writes packed checkpoints (ckpt/pack/pack.h), and manages the cache of --pack-cache. */
#ifndef GALLOP_APP_PACKING_H
#define GALLOP_APP_PACKING_H

#include <stdbool.h>
#include <stddef.h>

#include "app/load.h"
#include "base/err.h"
#include "model/quant.h"

/* Describes the files that packing_write() wrote. */
struct packing_result {
    size_t n_files, bytes;
    const char *dtype; /* "fp32" or "bf16" */
    char quant[QUANT_TEXT_MAX];
};

/* Writes the model of L to PATH, packed for the --dtype and --quant of L. If SPLIT_GIB is above 0, the weights go to
 * PATH.1, PATH.2, ... of at most this size. Without FORCE an existing file is refused. */
int packing_write(const struct load *l, const char *path, double split_gib, bool force,
                  struct packing_result *done, struct err *e);

/* Replaces the model path of L by the path of its packed copy in the cache. If there is no copy, writes it
 * first. */
int packing_cache(struct load *l, struct err *e);

#endif
