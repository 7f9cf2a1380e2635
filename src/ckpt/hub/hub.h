/* hub.h - a name on a Hugging Face hub becomes a folder on this machine, or a GGUF file in it.
 *
 * The folder is a snapshot in Hugging Face's own cache (cache.c): what huggingface_hub has downloaded is
 * used, and it uses what is downloaded here. Only the files a model is made of are fetched, weights last, as
 * safetensors where there are any. Each is complete and has the hash the hub names before it gets its name.
 */
#ifndef GALLOP_CKPT_HUB_H
#define GALLOP_CKPT_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* ---- names of models ---- */

enum { HUB_NAME_REPO_MAX = 97, HUB_NAME_REVISION_MAX = 201, HUB_NAME_FILE_MAX = 201, HUB_NAME_COMMIT = 40 };

struct hub_name {
    char repo[HUB_NAME_REPO_MAX]; /* "org/name" */
    char revision[HUB_NAME_REVISION_MAX];
    char file
        [HUB_NAME_FILE_MAX]; /* which GGUF of it (hub_list_gguf()); "": the repository is the checkpoint */
};

/* Reads "org/name", "org/name@revision" ("main" without one) or either with ":FILE.gguf" or ":Q4_K_M" behind
 * it. False if TEXT is no such name: then it can only be a path. */
bool hub_name_parse(struct hub_name *id, const char *text);

/* Sets the revision: a branch, a tag, "refs/pr/1" or a commit. ERR_INPUT if no repository can have it. */
int hub_name_set_revision(struct hub_name *id, const char *revision, struct err *e);

/* ---- fetching ---- */

/* DONE of TOTAL bytes (0: not known) of FILE are here. Called a few times a second, also while nothing moves;
 * what it returns other than 0 ends the download with ERR_CANCELLED. */
typedef int hub_progress(void *ctx, const char *file, uint64_t done, uint64_t total);

/* DIR holds config.json and no weights yet: shall they be fetched? An error ends it. */
typedef int hub_check(void *ctx, const char *dir, struct err *e);

enum hub_want {
    HUB_MODEL, /* everything that opening the model reads */
    HUB_TEXT,  /* without the weights */
};

struct hub_options {
    enum hub_want want;
    hub_check *check;       /* of HUB_MODEL; may be NULL */
    hub_progress *progress; /* may be NULL */
    void *check_ctx, *progress_ctx;
};

/* The cache holds something of the repository of ID. */
bool hub_is_cached(const struct hub_name *id);

/* Writes the folder of ID to out[size], or the path of the GGUF file that ID names, after fetching what is
 * missing of it. What the HF_* variables say holds (environment.c). With HF_HUB_OFFLINE, and with a warning
 * where the hub cannot be asked, the cache alone answers, if it holds the whole model. */
int hub_fetch(char *out, size_t size, const struct hub_name *id, const struct hub_options *o, struct err *e);

#endif
