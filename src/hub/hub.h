/* hub.h - downloads a model of a Hugging Face hub: a name becomes a folder on this machine, or a GGUF file in
 * it.
 *
 * The folder is a snapshot in Hugging Face's own cache (cache.h): files that huggingface_hub has downloaded
 * are used, and it uses those that are downloaded here. Only the files of a model are downloaded, weights
 * last, as safetensors if there are any. A file gets its name only when it is complete and has the hash that
 * the hub named.
 */
#ifndef GALLOP_HUB_H
#define GALLOP_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "hub/name.h"

/* Reports that DONE of TOTAL bytes (0: not known) of FILE are here. Called a few times a second, even without
 * progress; a result other than 0 ends the download with ERR_CANCELLED. */
typedef int hub_progress(void *ctx, const char *file, uint64_t done, uint64_t total);

/* Decides about the weights: DIR has config.json and no weights yet. An error ends the download. */
typedef int hub_check(void *ctx, const char *dir, struct err *e);

enum hub_want {
    HUB_MODEL, /* all files that opening the model reads */
    HUB_TEXT,  /* all files except the weights */
};

struct hub_options {
    enum hub_want want;
    hub_check *check;       /* for HUB_MODEL; may be NULL */
    hub_progress *progress; /* may be NULL */
    void *check_ctx, *progress_ctx;
};

/* True if the cache has some file of the repository of ID. */
bool hub_is_cached(const struct hub_name *id);

/* Downloads the missing files of ID and writes the path of its folder, or of the GGUF file that ID names, to
 * out[size]. The HF_* variables apply (environment.h). With HF_HUB_OFFLINE, or with a warning when the hub
 * cannot be reached, only the cache is used, if it has the whole model. */
int hub_fetch(char *out, size_t size, const struct hub_name *id, const struct hub_options *o, struct err *e);

#endif
