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

/* The state that hub.c sets up for all files of a revision. */
struct hub_download {
    const struct hub_name *id;
    struct hub_environment env;
    struct hub_cache cache;
    struct http *http;
    char commit[HUB_NAME_COMMIT + 1];
    hub_progress *progress;
    void *progress_ctx;

    const char *file; /* the current file */
    uint64_t done, total;
};

/* The token to send to the hub, or NULL. */
const char *hub_download_token(const struct hub_download *g);

/* Runs a request with the time limits of the environment. Errors that may pass are retried, with at most four
 * tries in all. Only a PATIENT request also waits for a hub that cannot be reached at all. */
int hub_download_ask(struct hub_download *g, struct http_request *q, bool patient, struct http_reply *r,
                     struct err *e);

/* Makes the error for an answer that refuses FILE or, if FILE is NULL, the whole repository. */
int hub_download_refused(const struct hub_download *g, const struct http_reply *r, const char *file,
                         struct err *e);

/* Downloads FILE of the commit into the snapshot and verifies it. A file that is already there is not
 * requested. */
int hub_download_file(struct hub_download *g, const char *file, struct err *e);

#endif
