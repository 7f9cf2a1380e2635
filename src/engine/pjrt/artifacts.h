/* artifacts.h - compiled programs in the cache folder, gallop/pjrt under $XDG_CACHE_HOME or ~/.cache.
 *
 * The name of a file is a hash of the program text, the compile options (those of Gallop, pjrt_options, and the
 * environment: XLA_FLAGS and others), the plugin's file, the platform with its version, and the kind of device. The
 * file contains this hash and a checksum. A file that is damaged, foreign or refused by the plugin is compiled anew and
 * replaced, and the log says so. Files are written atomically.
 */
#ifndef GALLOP_ENGINE_PJRT_ARTIFACTS_H
#define GALLOP_ENGINE_PJRT_ARTIFACTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct pjrt_loaded;
struct plugin;

/* Counters of artifacts_open(), and the total time of its compilations. One thread at a time counts; any thread may
 * read. */
struct artifact_counts {
    /* programs compiled, and programs loaded from files */
    _Atomic uint64_t n_compiled, n_loaded;
    _Atomic uint64_t n_kept;    /* compiled programs that were written to a file */
    _Atomic uint64_t n_damaged; /* compiled programs whose file was damaged, foreign or refused */
    _Atomic uint64_t compile_ns;
};

/* Sets *OUT to the compiled program of TEXT: loaded from its file, or compiled and then written to its file. If writing
 * fails, that is logged. */
int artifacts_open(struct plugin *p, const struct buf *text, struct pjrt_loaded **out,
                   struct artifact_counts *n, struct err *e);

/* Returns the serialized program, *N_PROGRAM bytes, in FILE [n], the contents of a file with the hash KEY. NULL: the
 * file is damaged, truncated, or has another hash. */
const char *artifacts_find(const char *file, size_t n, const uint64_t key[2], size_t *n_program);

#endif
