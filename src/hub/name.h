/* name.h - names of models on a hub, such as "org/name@revision:FILE.gguf". */
#ifndef GALLOP_HUB_NAME_H
#define GALLOP_HUB_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { HUB_NAME_REPO_MAX = 97, HUB_NAME_REVISION_MAX = 201, HUB_NAME_FILE_MAX = 201, HUB_NAME_COMMIT = 40 };

struct hub_name {
    char repo[HUB_NAME_REPO_MAX]; /* "org/name" */
    char revision[HUB_NAME_REVISION_MAX];
    /* The GGUF file of the repository, or a part of its name (hub_list_gguf()). "": the model is a checkpoint
     * folder. */
    char file[HUB_NAME_FILE_MAX];
};

/* Parses "org/name[@revision][:file]" into *ID; the revision is "main" by default, and the file is FILE.gguf,
 * FOLDER/FILE.gguf or a part of the name like Q4_K_M. Returns false if TEXT does not have this syntax; then
 * it can only be a path. */
bool hub_name_parse(struct hub_name *id, const char *text);

/* Sets the revision: a branch, a tag, a commit or "refs/pr/1". ERR_INPUT if REVISION is not a valid name. */
int hub_name_set_revision(struct hub_name *id, const char *revision, struct err *e);

/* Returns true if S is 40 lower-case hexadecimal digits. */
bool hub_name_is_commit(const char *s);

/* Writes "models--org--name", the name of the repository's folder in the cache, to out[size]. Returns false
 * if it does not fit. */
bool hub_name_folder(const struct hub_name *id, char *out, size_t size);

/* Percent-encodes TEXT as one segment of a URL: every byte except letters, digits and -._~ becomes %XX.
 * Returns false if the result does not fit in out[size]. */
bool hub_name_quote(const char *text, char *out, size_t size);

/* Returns true if the N bytes at S are safe as a file name without folders: UTF-8 of 1 to 200 bytes without
 * '/', '\', ':' and control characters that does not begin with a dot. */
bool hub_name_is_plain(const char *s, size_t n);

/* Returns true if the N bytes at S are a plain name, or FOLDER/FILE.gguf with plain names. */
bool hub_name_is_gguf(const char *s, size_t n);

#endif
