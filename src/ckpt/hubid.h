/* hubid.h - names of models on a hub: org/name, with a revision behind an @ and a GGUF file behind a
 * colon. */
#ifndef GALLOP_CKPT_HUBID_H
#define GALLOP_CKPT_HUBID_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { HUBID_REPO_MAX = 97, HUBID_REVISION_MAX = 201, HUBID_FILE_MAX = 201, HUBID_COMMIT = 40 };

struct hubid {
    char repo[HUBID_REPO_MAX]; /* "org/name" */
    char revision[HUBID_REVISION_MAX];
    char file[HUBID_FILE_MAX]; /* which GGUF of it (hublist_gguf()); "": the repository is the checkpoint */
};

/* Reads "org/name", "org/name@revision" ("main" without one) or either with ":FILE.gguf" or ":Q4_K_M" behind
 * it. False if TEXT is no such name: then it can only be a path. */
bool hubid_parse(struct hubid *id, const char *text);

/* Sets the revision: a branch, a tag, "refs/pr/1" or a commit. ERR_INPUT if no repository can have it. */
int hubid_set_revision(struct hubid *id, const char *revision, struct err *e);

/* 40 lower-case hexadecimal digits. */
bool hubid_is_commit(const char *s);

/* "models--org--name", the folder in the cache, to out[size]. False if it does not fit. */
bool hubid_folder(const struct hubid *id, char *out, size_t size);

/* TEXT as one segment of a URL: everything but letters, digits and -._~ as %XX. False if it does not fit. */
bool hubid_quote(const char *text, char *out, size_t size);

/* True if S[n] can only name a file directly in a folder: UTF-8 of 1 to 200 bytes without '/', '\', ':' and
 * control characters, that does not begin with a dot. */
bool hubid_name_is_plain(const char *s, size_t n);

#endif
