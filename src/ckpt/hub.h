/* hub.h - a name on a Hugging Face hub becomes a folder on this machine, or a GGUF file in it.
 *
 * The folder is a snapshot in Hugging Face's own cache (hubcache.h): what huggingface_hub has downloaded is
 * used, and it uses what is downloaded here. Only the files a model is made of are fetched, weights last, as
 * safetensors where there are any. Each is complete and has the hash the hub names before it gets its name.
 */
#ifndef GALLOP_CKPT_HUB_H
#define GALLOP_CKPT_HUB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ckpt/hubid.h"

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

/* Writes the folder of ID to out[size], or the path of the GGUF file that ID names, after fetching what is
 * missing of it. What the HF_* variables say holds (hubenv.h). With HF_HUB_OFFLINE, and with a warning where
 * the hub cannot be asked, the cache alone answers, if it holds the whole model. */
int hub_fetch(char *out, size_t size, const struct hubid *id, const struct hub_options *o, struct err *e);

#endif
