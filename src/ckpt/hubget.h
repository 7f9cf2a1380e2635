/* hubget.h - one file of a repository comes from the hub into the cache. */
#ifndef GALLOP_CKPT_HUBGET_H
#define GALLOP_CKPT_HUBGET_H

#include "ckpt/hub.h"
#include "ckpt/hubcache.h"
#include "ckpt/hubenv.h"
#include "net/http.h"

enum { HUBGET_REDIRECTS = 8 };

/* What hub.c sets up once for all files of a revision. */
struct hubget {
    const struct hubid *id;
    struct hubenv env;
    struct hubcache cache;
    struct http *http;
    char commit[HUBID_COMMIT + 1];
    hub_progress *progress;
    void *progress_ctx;

    const char *file; /* the one that is under way */
    uint64_t done, total;
};

/* The token to send, or NULL. */
const char *hubget_token(const struct hubget *g);

/* http_run() with the time limits of the environment, again and again while the fault may pass: at most
 * four times. Only a PATIENT one also waits for a hub that cannot be reached at all. */
int hubget_ask(struct hubget *g, struct http_request *q, bool patient, struct http_reply *r, struct err *e);

/* The sentence for an answer that is a refusal, for FILE or, where that is NULL, the whole repository. */
int hubget_refused(const struct hubget *g, const struct http_reply *r, const char *file, struct err *e);

/* FILE of the commit is in the snapshot afterwards, complete and proved. A file that is there is not asked
 * for. */
int hubget_file(struct hubget *g, const char *file, struct err *e);

#endif
