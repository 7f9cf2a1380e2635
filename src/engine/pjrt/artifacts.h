/* artifacts.h - compiled programs in the cache folder, gallop/pjrt under $XDG_CACHE_HOME or ~/.cache.
 *
 * A file belongs to one program text, the options of its compiler (in the program, in pjrt_options, and in the
 * environment: XLA_FLAGS and others), one plugin file, and one platform, its version and kind of device; its name is a
 * hash of them. It contains this hash and a checksum. A file that is damaged, foreign or refused by the plugin is
 * compiled anew and replaced, and the log says so. Files are written whole or not at all.
 */
#ifndef GALLOP_ENGINE_PJRT_ARTIFACTS_H
#define GALLOP_ENGINE_PJRT_ARTIFACTS_H

#include <stdatomic.h>

#include "engine/pjrt/plugin.h"

/* Counts of artifacts_open(), and the time of the compilations. One thread at a time counts; any thread may read. */
struct artifact_counts {
    _Atomic uint64_t n_compiled, n_loaded; /* programs by where they came from */
    _Atomic uint64_t n_kept;               /* those of n_compiled that were written to a file */
    _Atomic uint64_t n_damaged; /* those of n_compiled whose file was damaged, foreign or refused */
    _Atomic uint64_t compile_ns;
};

/* Makes *OUT the program TEXT: from its file, or compiled and then written to its file. If it cannot be written, the
 * log says so. */
int artifacts_open(struct plugin *p, const struct buf *text, struct pjrt_loaded **out,
                   struct artifact_counts *n, struct err *e);

/* Finds the program in the bytes FILE [n] of a file for KEY. Returns it and its length, or NULL if the file is damaged,
 * cut off or of another key. */
const char *artifacts_find(const char *file, size_t n, const uint64_t key[2], size_t *n_program);

#endif
