/* hub.h - downloads a model from a Hugging Face hub into a folder on this machine.
 *
 * The folder is a snapshot in Hugging Face's own cache (cache.h), which Gallop shares with huggingface_hub: each uses
 * the files that the other has downloaded. Only the files of a model are downloaded, weights last, as safetensors if
 * the repository has them. A file gets its final name only when it is complete and has the hash that the hub gave.
 */
#ifndef GALLOP_HUB_H
#define GALLOP_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct hub_name;

/* Callback that reports DONE of TOTAL downloaded bytes (0: unknown) of FILE. It is called a few times a
 * second, also while no bytes arrive. A result other than 0 ends the download with ERR_CANCELLED. */
typedef int hub_progress(void *ctx, const char *file, uint64_t done, uint64_t total);

/* Callback that decides whether weights are downloaded: DIR already contains config.json. Returns 0 or an
 * error, which ends the download. */
typedef int hub_check(void *ctx, const char *dir, struct err *e);

enum hub_want {
    HUB_MODEL, /* all files that opening the model reads */
    HUB_TEXT,  /* all files except the weights */
};

struct hub_options {
    enum hub_want want;
    hub_check *check;       /* decides whether weights are downloaded (HUB_MODEL); may be NULL */
    hub_progress *progress; /* may be NULL */
    void *check_ctx, *progress_ctx;
};

/* Returns true if the cache has a folder for the repository of ID. */
bool hub_is_cached(const struct hub_name *id);

/* Downloads the missing files of ID and writes the path of its folder, or of the GGUF file that ID names, to
 * out[size]. The HF_* variables apply (environment.h). With HF_HUB_OFFLINE the model is taken from the cache,
 * and an error is returned if the cache lacks a file. If the hub cannot be reached, a complete model in the
 * cache is used, with a warning. */
int hub_fetch(char *out, size_t size, const struct hub_name *id, const struct hub_options *o, struct err *e);

#endif
