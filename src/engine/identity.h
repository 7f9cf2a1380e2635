/* identity.h - a number that tells one model from another, for what outlives a process: saved rows of the KV
 * cache. */
#ifndef GALLOP_ENGINE_IDENTITY_H
#define GALLOP_ENGINE_IDENTITY_H

#include <stdint.h>

#include "model/model.h"

/* From the architecture, its sizes, windows, sinks and rotation tables, and of every tensor the name, type,
 * shape and its first and last bytes. The same checkpoint always has the same; the computing type, the cache
 * and the threads do not count. Reads a page of each tensor from the checkpoint. */
uint64_t identity_of(const struct model *m);

#endif
