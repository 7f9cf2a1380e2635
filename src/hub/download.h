/* download.h - requests to the hub, and the download of one file. */
#ifndef GALLOP_HUB_DOWNLOAD_H
#define GALLOP_HUB_DOWNLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "hub/cache.h"
#include "hub/environment.h"
#include "hub/hub.h"
#include "hub/name.h"
#include "net/http.h"

enum { HUB_DOWNLOAD_REDIRECTS = 8 };

/* The state of the download of a revision, which hub.c creates. */
struct hub_download {
    const struct hub_name *id;
    struct hub_environment env;
    struct hub_cache cache;
    struct http *http;
    char commit[HUB_NAME_COMMIT + 1];
    hub_progress *progress;
    void *progress_ctx;

    const char *file;     /* the name of the current file; NULL between files */
    uint64_t done, total; /* downloaded bytes of the current file, and its size; 0: unknown */
};

/* Returns the access token for the hub, or NULL if none is set. */
const char *hub_download_token(const struct hub_download *g);

/* Runs a request with the time limits of the environment, at most four times if errors are transient. A hub
 * that cannot be reached at all is tried again only if PATIENT is set. */
int hub_download_ask(struct hub_download *g, struct http_request *q, bool patient, struct http_reply *r,
                     struct err *e);

/* Sets the error for an HTTP answer that refuses FILE or, if FILE is NULL, the whole repository. */
int hub_download_refused(const struct hub_download *g, const struct http_reply *r, const char *file,
                         struct err *e);

/* Downloads FILE of the commit into the snapshot and verifies it. Does nothing if the snapshot has the file. */
int hub_download_file(struct hub_download *g, const char *file, struct err *e);

#endif
