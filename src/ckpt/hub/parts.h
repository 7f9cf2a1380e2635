/* parts.h - what hub.c is made of: names, the environment, the cache on disk, lists of files, downloads.
 *
 * One repository in Hugging Face's cache:
 *
 *     CACHE/models--ORG--NAME/blobs/ETAG              the files by hash; ETAG.incomplete while they come
 *     CACHE/models--ORG--NAME/refs/REVISION           the commit that a branch or tag meant last
 *     CACHE/models--ORG--NAME/snapshots/COMMIT/FILE   a link to ../../blobs/ETAG; of a FILE in a subfolder,
 *                                                     to ../../../blobs/ETAG
 *     CACHE/.locks/models--ORG--NAME/ETAG.lock        held (flock) while a blob is fetched
 *
 * What huggingface_hub has downloaded is found here and the other way round.
 */
#ifndef GALLOP_CKPT_HUB_PARTS_H
#define GALLOP_CKPT_HUB_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "ckpt/hub/hub.h"
#include "net/http.h"

/* ---- names ---- */

/* 40 lower-case hexadecimal digits. */
bool hub_name_is_commit(const char *s);

/* "models--org--name", the folder in the cache, to out[size]. False if it does not fit. */
bool hub_name_folder(const struct hub_name *id, char *out, size_t size);

/* TEXT as one segment of a URL: everything but letters, digits and -._~ as %XX. False if it does not fit. */
bool hub_name_quote(const char *text, char *out, size_t size);

/* True if S[n] can only name a file directly in a folder: UTF-8 of 1 to 200 bytes without '/', '\', ':' and
 * control characters, that does not begin with a dot. */
bool hub_name_is_plain(const char *s, size_t n);

/* ---- environment variables ---- */

/* Where the hub is, where its cache is, and with which token it is asked. */

struct hub_environment {
    char cache[2000];    /* HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub */
    char endpoint[1000]; /* HF_ENDPOINT, else https://huggingface.co; without a slash at its end */
    char token[1000];    /* HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; "" without one */
    bool offline;        /* HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE: 1, on, yes or true */
    int connect_seconds; /* HF_HUB_ETAG_TIMEOUT, else 10 */
    int stall_seconds;   /* HF_HUB_DOWNLOAD_TIMEOUT, else 10 */
};

/* Reads them as huggingface_hub does; an error names the variable. */
int hub_environment_read(struct hub_environment *h, struct err *e);

/* ---- the cache ---- */

enum { HUB_CACHE_PATH_MAX = 4096, HUB_CACHE_ETAG_MAX = 129 };

struct hub_cache {
    char repo[HUB_CACHE_PATH_MAX / 2];  /* CACHE/models--ORG--NAME */
    char locks[HUB_CACHE_PATH_MAX / 2]; /* CACHE/.locks/models--ORG--NAME */
};

/* Names the folders; touches nothing. */
int hub_cache_open(struct hub_cache *c, const char *cache, const struct hub_name *id, struct err *e);

/* The commit that REVISION stands for, as far as the cache knows; a commit stands for itself. */
bool hub_cache_commit(const struct hub_cache *c, const char *revision, char commit[HUB_NAME_COMMIT + 1]);

/* Remembers it. A REVISION that is the commit needs no memory. */
int hub_cache_set_commit(const struct hub_cache *c, const char *revision, const char *commit, struct err *e);

/* The folder of COMMIT to out[size]. */
int hub_cache_snapshot(const struct hub_cache *c, const char *commit, char *out, size_t size, struct err *e);

/* The path of FILE in it to out[size]. */
int hub_cache_file(const struct hub_cache *c, const char *commit, const char *file, char *out, size_t size,
                   struct err *e);

/* The blob's path, or that of its unfinished file, to out[HUB_CACHE_PATH_MAX]; the folder is made. */
int hub_cache_blob(const struct hub_cache *c, const char *etag, bool incomplete, char *out, struct err *e);

/* An ETag header as the name of a blob: W/ and quotes are cut off. False if no file can have that name. */
bool hub_cache_etag(const char *header, char out[HUB_CACHE_ETAG_MAX]);

/* COMMIT/FILE, at most one folder deep, becomes a link to the blob, at one stroke. */
int hub_cache_link(const struct hub_cache *c, const char *commit, const char *file, const char *etag,
                   struct err *e);

/* True: go on; *fd holds the blob's lock until it is closed, or is -1 where the file system knows no locks.
 * False: another process holds it, or *rc is the code of an error. */
bool hub_cache_try_lock(const struct hub_cache *c, const char *etag, int *fd, int *rc, struct err *e);

/* True if ETAG says what the bytes must be: 64 digits are a SHA-256, 40 are git's SHA-1 of a blob. */
bool hub_cache_is_hash(const char *etag);

/* The bytes of PATH, read again from the disk, have the hash ETAG. ERR_INPUT if they have another. */
int hub_cache_verify(const char *path, const char *etag, struct err *e);

/* ---- lists of files ---- */

/* Names of files in the top folder, and additional_chat_templates/NAME.jinja. A zeroed one is closed. */
struct hub_list {
    char commit[HUB_NAME_COMMIT + 1]; /* "" from a folder */
    const char **name;                /* each a plain name (hub_name_is_plain()), but for that folder */
    size_t n, cap;
    size_t n_refused; /* names that could lead out of the folder */
    struct arena arena;
};

/* Reads the hub's description of a revision: {"sha": commit, "siblings": [{"rfilename": name}, ...], ...}.
 * Names in other subfolders are left out, names that lead elsewhere are counted. WHAT is for messages. */
int hub_list_read(struct hub_list *l, const char *text, size_t len, const char *what, struct err *e);

/* The same from the top of the folder DIR; a folder that is not there is empty. */
int hub_list_read_folder(struct hub_list *l, const char *dir, struct err *e);

void hub_list_close(struct hub_list *l);

bool hub_list_has(const struct hub_list *l, const char *name);

/* A file beside the weights that a model is made of: tokenizer, chat template, generation settings. */
bool hub_list_is_text(const char *name);

/* A file that says something about the weights or about embeddings: how they are quantized or pooled. */
bool hub_list_is_beside(const char *name);

/* One of the names is that of a tokenizer's main file. */
bool hub_list_has_tokenizer(const struct hub_list *l);

/* The file that holds the weights, or the index of the files that do (*is_index): the one weights_open()
 * would read. NULL if there is none. */
const char *hub_list_weights(const struct hub_list *l, bool *is_index);

/* The next GGUF checkpoint from *at on, which moves behind it; NULL: no more. Of one in several files it is
 * the first; projectors (mmproj-*) and importance matrices (imatrix*) are none. */
const char *hub_list_next_gguf(const struct hub_list *l, size_t *at);

/* The GGUF checkpoint that WHAT means to *name: by its name, or by a part of it between '-' and '.', in any
 * case, as quantisations are named (Q4_K_M). ERR_INPUT, with a sentence that names the choice, unless it is
 * one. */
int hub_list_gguf(const struct hub_list *l, const char *what, const char **name, struct err *e);

/* "a.gguf, b.gguf, ...", as many as fit, to out[size]; returns out. "" if there is none. */
const char *hub_list_ggufs(const struct hub_list *l, char *out, size_t size);

/* ---- downloads ---- */

enum { HUB_DOWNLOAD_REDIRECTS = 8 };

/* What hub.c sets up once for all files of a revision. */
struct hub_download {
    const struct hub_name *id;
    struct hub_environment env;
    struct hub_cache cache;
    struct http *http;
    char commit[HUB_NAME_COMMIT + 1];
    hub_progress *progress;
    void *progress_ctx;

    const char *file; /* the one that is under way */
    uint64_t done, total;
};

/* The token to send, or NULL. */
const char *hub_download_token(const struct hub_download *g);

/* http_run() with the time limits of the environment, again and again while the fault may pass: at most
 * four times. Only a PATIENT one also waits for a hub that cannot be reached at all. */
int hub_download_ask(struct hub_download *g, struct http_request *q, bool patient, struct http_reply *r,
                     struct err *e);

/* The sentence for an answer that is a refusal, for FILE or, where that is NULL, the whole repository. */
int hub_download_refused(const struct hub_download *g, const struct http_reply *r, const char *file,
                         struct err *e);

/* FILE of the commit is in the snapshot afterwards, complete and proved. A file that is there is not asked
 * for. */
int hub_download_file(struct hub_download *g, const char *file, struct err *e);

#endif
