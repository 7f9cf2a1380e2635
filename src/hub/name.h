/* name.h - names of models on a hub. */
#ifndef GALLOP_HUB_NAME_H
#define GALLOP_HUB_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { HUB_NAME_REPO_MAX = 97, HUB_NAME_REVISION_MAX = 201, HUB_NAME_FILE_MAX = 201, HUB_NAME_COMMIT = 40 };

struct hub_name {
    char repo[HUB_NAME_REPO_MAX]; /* "org/name" */
    char revision[HUB_NAME_REVISION_MAX];
    /* The GGUF file in the repository (hub_list_gguf()); "": the repository itself is the checkpoint. */
    char file[HUB_NAME_FILE_MAX];
};

/* Reads "org/name" or "org/name@revision" (default: "main"), either of them followed by ":FILE.gguf",
 * ":FOLDER/FILE.gguf" or ":Q4_K_M" or nothing. False: TEXT is not such a name and can only be a path. */
bool hub_name_parse(struct hub_name *id, const char *text);

/* Sets the revision: a branch, a tag, "refs/pr/1" or a commit. ERR_INPUT if REVISION is not a valid name of
 * any of these. */
int hub_name_set_revision(struct hub_name *id, const char *revision, struct err *e);

/* True if S is 40 lower-case hexadecimal digits. */
bool hub_name_is_commit(const char *s);

/* Writes "models--org--name", the name of the folder in the cache, to out[size]. False if it does not fit. */
bool hub_name_folder(const struct hub_name *id, char *out, size_t size);

/* Writes TEXT as one segment of a URL: every byte except letters, digits and -._~ becomes %XX. False if it
 * does not fit. */
bool hub_name_quote(const char *text, char *out, size_t size);

/* True if S[n] can only be the name of a file directly in a folder: UTF-8 of 1 to 200 bytes without '/', '\',
 * ':' and control characters, and no dot at the front. */
bool hub_name_is_plain(const char *s, size_t n);

/* True if S[n] is a plain name, or a plain name ending in ".gguf" in a folder with a plain name. */
bool hub_name_is_gguf(const char *s, size_t n);

#endif
