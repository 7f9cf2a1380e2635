/* artifacts.h - compiled programs in the cache folder, gallop/pjrt under $XDG_CACHE_HOME or ~/.cache.
 *
 * A file belongs to one program text, one plugin file, and one platform, its version and kind of device; its name is a
 * hash of them. It contains this hash and a checksum. A file that is damaged, foreign or refused by the plugin is
 * compiled anew and replaced, and the log says so. Files are written whole or not at all.
 */
#ifndef GALLOP_ENGINE_PJRT_ARTIFACTS_H
#define GALLOP_ENGINE_PJRT_ARTIFACTS_H

#include "engine/pjrt/plugin.h"

/* Where a program came from, and whether its file exists now. */
enum artifact { ARTIFACT_LOADED, ARTIFACT_KEPT, ARTIFACT_COMPILED };

/* Makes *OUT the program TEXT: from its file (ARTIFACT_LOADED), or compiled and then written to its file
 * (ARTIFACT_KEPT). ARTIFACT_COMPILED: it was compiled, and could not be written, which the log says, or there is no
 * cache folder. */
int artifacts_open(struct plugin *p, const struct buf *text, struct pjrt_loaded **out, enum artifact *how,
                   struct err *e);

#endif
