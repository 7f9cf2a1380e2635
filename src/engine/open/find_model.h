/* find_model.h - finds a model by its path, or downloads it by its name or address on a hub. */
#ifndef GALLOP_ENGINE_FIND_MODEL_H
#define GALLOP_ENGINE_FIND_MODEL_H

#include "hub/hub.h"

struct find_model_options {
    const char *revision;   /* revision of a model on the hub; NULL: the revision in the name, else main */
    enum hub_want want;     /* the files to download */
    hub_progress *progress; /* may be NULL */
    void *progress_ctx;
};

/* Converts an address on the hub, "hf.co/org/name[:quant]" or "https://huggingface.co/org/name" with an
 * optional /tree/REVISION or /blob/REVISION/FILE.gguf, to a name org/name[@revision][:FILE.gguf] in
 * out[size]. Returns false if MODEL is not such an address. */
bool find_model_address(const char *model, char *out, size_t size);

/* Writes the name of the model at PATH to out[size]: its name on a hub if MODEL, by which the user asked for it, is
 * one, and else the last component of PATH. MODEL may be NULL. */
void find_model_name(const char *model, const char *path, char *out, size_t size);

/* Writes the path of MODEL to out[size]. If MODEL is an existing path, that is the result. Otherwise the
 * missing files of org/name[@revision][:FILE.gguf] are downloaded into Hugging Face's cache; weights are
 * downloaded only if archs.def has the architecture. A name whose first part is a folder on this machine is
 * treated as a mistyped path, unless the model is in the cache. ERR_INPUT: MODEL is neither a path nor a
 * name, or a file that is not a model (with HUB_TEXT, the file of a tokenizer is accepted). */
int find_model_path(char *out, size_t size, const char *model, const struct find_model_options *o,
                    struct err *e);

#endif
