/* find_model.h - what a user calls a model becomes a path: a folder or file on this machine, or a name on a
 * hub. */
#ifndef GALLOP_ENGINE_FIND_MODEL_H
#define GALLOP_ENGINE_FIND_MODEL_H

#include "hub/hub.h"

struct find_model_options {
    const char *revision;   /* of a name on the hub; NULL: the one in the name, else main */
    enum hub_want want;     /* what is fetched of it */
    hub_progress *progress; /* may be NULL */
    void *progress_ctx;
};

/* The name that MODEL has on the hub where it is written as its address there: "hf.co/org/name[:quant]",
 * "https://huggingface.co/org/name", also with /tree/REVISION or /blob/REVISION/FILE.gguf behind it, as
 * org/name[@revision][:FILE.gguf] to out[size]. False: it is no such address. */
bool find_model_address(const char *model, char *out, size_t size);

/* The path of MODEL to out[size]. What exists under that path is taken as it is; otherwise
 * org/name[@revision][:FILE.gguf] is fetched into Hugging Face's cache as far as it is not there, the weights
 * only of an architecture that archs.def knows. A name whose org is a folder here is a mistyped path: the hub
 * is not asked, unless the model is in the cache. ERR_INPUT says what helps where MODEL is neither, or a
 * single file that is no model (with HUB_TEXT a tokenizer's file is one). */
int find_model_path(char *out, size_t size, const char *model, const struct find_model_options *o,
                    struct err *e);

#endif
