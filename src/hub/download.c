/* download.c - downloads one file: requests its hash and size (HEAD), writes its bytes to blobs/ETAG.incomplete,
 * verifies them, renames the file and links the snapshot to it.
 *
 * An interrupted download is resumed after the bytes in the incomplete file, even after a restart of the program. The
 * token is sent to the origin of HF_ENDPOINT only. One process downloads a blob while others wait for it.
 */
#include "hub/download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

enum { RETRIES = 3, LONGEST_PAUSE = 60, ENOUGH_BYTES = 1 << 20 };

/* The name (ETag) and size of a file, as the hub gives them. */
struct blob {
    char etag[HUB_CACHE_ETAG_MAX];
    uint64_t size;
    bool has_size;
};

const char *hub_download_token(const struct hub_download *g)
{
    return g->env.token[0] ? g->env.token : NULL;
}

/* ---- retries ---- */

/* Reports the progress. Returns false if the callback asks to stop. */
static bool goes_on(const struct hub_download *g)
{
    return !g->progress || g->progress(g->progress_ctx, g->file ? g->file : "", g->done, g->total) == 0;
}

static bool tick(void *ctx)
{
    return goes_on(ctx);
}

/* Sleeps for SECONDS. Returns false as soon as the progress callback asks to stop. */
static bool pause_for(const struct hub_download *g, double seconds)
{
    const struct timespec step = {.tv_nsec = 50 * 1000 * 1000};
    double end = clock_seconds() + seconds;

    while (clock_seconds() < end) {
        if (!goes_on(g))
            return false;
        nanosleep(&step, NULL);
    }
    return true;
}

/* Returns the seconds to wait before the next try: the number in the header Retry-After, else 0.5, 1, 2 for
 * successive tries. */
static double next_pause(const struct http_reply *r, int tries)
{
    uint64_t said;

    if (http_header_u64(r, "Retry-After", &said))
        return (double)(said < LONGEST_PAUSE ? said : LONGEST_PAUSE);
    return 0.5 * (double)(1 << tries);
}

static int stopped(const struct hub_download *g, struct err *e)
{
    return err_set(e, ERR_CANCELLED, "the download%s%s was stopped", g->file ? " of " : "",
                   g->file ? g->file : "");
}

int hub_download_ask(struct hub_download *g, struct http_request *q, bool patient, struct http_reply *r,
                     struct err *e)
{
    q->connect_seconds = g->env.connect_seconds;
    q->stall_seconds = g->env.stall_seconds;
    for (int tries = 0;; tries++) {
        int rc = http_run(g->http, q, r, e);
        double seconds = next_pause(r, tries);

        if (!r->transient || tries == RETRIES || (r->unreachable && !patient))
            return rc;
        log_info("%s: trying again in %.1f s: %s", g->id->repo, seconds,
                 rc && e ? e->msg : "the hub is busy");
        if (!pause_for(g, seconds)) {
            r->transient = false;
            return stopped(g, e);
        }
        http_reply_fini(r);
    }
}

/* ---- refusals ---- */

static int refused_access(const struct hub_download *g, const struct http_reply *r, struct err *e)
{
    const char *code = http_header(r, "X-Error-Code"), *message = http_header(r, "X-Error-Message");
    char page[1200];

    http_url_for_people(page, sizeof(page), g->env.endpoint);
    if ((code && strcasecmp(code, "GatedRepo") == 0) || (message && strcasestr(message, "gated")) ||
        (message && strcasestr(message, "restricted")))
        return err_set(
            e, ERR_INPUT,
            hub_download_token(g)
                ? "the model is gated, and the account of the token has no access (%d): ask for it at %s/%s"
                : "the model is gated (%d): accept its terms at %s/%s and set HF_TOKEN to an access token",
            r->status, page, g->id->repo);
    if (hub_download_token(g))
        return err_set(e, ERR_INPUT,
                       "%s refuses the token (%d): HF_TOKEN is wrong, or its account may not read this model",
                       page, r->status);
    return err_set(
        e, ERR_INPUT,
        "%s gives no access without a token (%d): the model is private or gated, or does not exist; "
        "HF_TOKEN can be set to an access token",
        page, r->status);
}

int hub_download_refused(const struct hub_download *g, const struct http_reply *r, const char *file,
                         struct err *e)
{
    const char *code = http_header(r, "X-Error-Code");
    char page[1200];

    http_url_for_people(page, sizeof(page), g->env.endpoint);
    if (r->status == 401 || r->status == 403)
        return refused_access(g, r, e);
    if (r->status == 404 && file)
        return err_set(e, ERR_INPUT, "%s lists the file %s, but does not have it (404)", page, file);
    if (r->status == 404 && code && strcasecmp(code, "RevisionNotFound") == 0)
        return err_set(e, ERR_INPUT, "the repository has no revision %s (404)", g->id->revision);
    if (r->status == 404 && strcmp(g->id->revision, "main") != 0 &&
        !(code && strcasecmp(code, "RepoNotFound") == 0))
        return err_set(e, ERR_INPUT, "%s has no such repository, or the repository has no revision %s (404)",
                       page, g->id->revision);
    if (r->status == 404)
        return err_set(e, ERR_INPUT, "%s has no such repository (404)", page);
    return err_set(e, ERR_OS, "%s answers with status %d%s%s", page, r->status, file ? " for " : "",
                   file ? file : "");
}

/* ---- the description of a file ---- */

static int file_url(const struct hub_download *g, const char *file, char *url, size_t size, struct err *e)
{
    char folder[HUB_NAME_FILE_MAX] = "", quoted[2][1024] = {""};
    const char *slash = strchr(file, '/'); /* the slash between folder and file is not percent-encoded */
    int n = slash ? snprintf(folder, sizeof(folder), "%.*s", (int)(slash - file), file) : 0;

    if ((size_t)n >= sizeof(folder) || !hub_name_quote(folder, quoted[0], sizeof(quoted[0])) ||
        !hub_name_quote(slash ? slash + 1 : file, quoted[1], sizeof(quoted[1])))
        return err_set(e, ERR_INPUT, "%.200s: the name is too long", file);
    n = snprintf(url, size, "%s/%s/resolve/%s/%s%s%s", g->env.endpoint, g->id->repo, g->commit, quoted[0],
                 slash ? "/" : "", quoted[1]);
    return n > 0 && (size_t)n < size ? 0 : err_set(e, ERR_INPUT, "%.200s: the name is too long", file);
}

/* Reads hash and size of FILE from the headers of one answer. Returns 1 if this is the last answer or *rc is
 * an error. Returns 0 if the answer redirects to another address whose answer has further headers. */
static int read_answer(const struct hub_download *g, const struct http_reply *r, const char *file,
                       struct blob *b, int *rc, struct err *e)
{
    const char *linked = http_header(r, "X-Linked-Etag"), *etag = http_header(r, "ETag");
    const char *commit = http_header(r, "X-Repo-Commit");

    *rc = 0;
    if (commit && strcmp(commit, g->commit) != 0)
        *rc = err_set(e, ERR_INPUT, "%s belongs to commit %.60s, but commit %s was requested", file, commit,
                      g->commit);
    else if (linked && (r->location || r->status == 200))
        etag = linked;
    else if (r->location)
        return 0;
    else if (r->status != 200)
        *rc = hub_download_refused(g, r, file, e);
    if (*rc)
        return 1;
    if (!etag || !hub_cache_etag(etag, b->etag))
        *rc = err_set(
            e, ERR_INPUT,
            "%s: the hub's answer has the hash \"%.60s\"; a usable header X-Linked-Etag or ETag is expected",
            file, etag ? etag : "");
    b->has_size = http_header_u64(r, "X-Linked-Size", &b->size) ||
                  (!r->location && http_header_u64(r, "Content-Length", &b->size));
    return 1;
}

static int ask_blob(struct hub_download *g, const char *file, struct blob *b, struct err *e)
{
    struct http_request q = {.head = true, .tick = tick, .ctx = g};
    char url[8192];
    int rc = file_url(g, file, url, sizeof(url), e);

    for (int left = HUB_DOWNLOAD_REDIRECTS; rc == 0; left--) {
        struct http_reply r;
        int end;

        q.url = url;
        q.bearer = http_same_origin(url, g->env.endpoint) ? hub_download_token(g) : NULL;
        rc = hub_download_ask(g, &q, true, &r, e);
        end = rc ? 1 : read_answer(g, &r, file, b, &rc, e);
        if (!end && (left == 0 || strlen(r.location) >= sizeof(url) ||
                     (strncmp(url, "https:", 6) == 0 && strncmp(r.location, "https:", 6) != 0)))
            rc = err_set(e, ERR_INPUT,
                         "%s: the hub redirects too often, from https to http, or to a URL that is too long",
                         file);
        else if (!end)
            memcpy(url, r.location, strlen(r.location) + 1);
        http_reply_fini(&r);
        if (end)
            break;
    }
    return rc;
}

/* ---- the bytes ---- */

/* The incomplete file to which the bytes of an answer are appended. */
struct sink {
    struct hub_download *g;
    const struct blob *b;
    const char *path; /* blobs/ETAG.incomplete */
    int fd;
    uint64_t have;  /* bytes in the incomplete file */
    struct err err; /* the error of a callback */
};

/* Drops all bytes of the incomplete file. */
static int start_over(struct sink *s, struct err *e)
{
    if (ftruncate(s->fd, 0) != 0)
        return err_os(e, "shorten", s->path);
    s->have = 0;
    return 0;
}

static bool on_begin(void *ctx, uint64_t first)
{
    struct sink *s = ctx;

    return first == s->have || start_over(s, &s->err) == 0; /* the hub ignored the requested range */
}

static bool on_body(void *ctx, const char *bytes, size_t n)
{
    struct sink *s = ctx;

    if (s->b->has_size && n > s->b->size - s->have) {
        err_set(&s->err, ERR_INPUT, "%s: the hub sends more bytes than the %llu it announced", s->g->file,
                (unsigned long long)s->b->size);
        return false;
    }
    while (n) {
        ssize_t put = pwrite(s->fd, bytes, n, (off_t)s->have);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            err_os(&s->err, "write", s->path);
            return false;
        }
        s->have += (uint64_t)put;
        bytes += put;
        n -= (size_t)put;
    }
    s->g->done = s->have;
    return true;
}

static bool on_tick(void *ctx)
{
    return goes_on(((struct sink *)ctx)->g);
}

static int check_space(const struct sink *s, struct err *e)
{
    struct statvfs fs;
    uint64_t space, need = s->b->has_size ? s->b->size - s->have : 0;

    if (fstatvfs(s->fd, &fs) != 0 ||
        __builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &space))
        return 0; /* the free space is unknown; a full disk then fails when the file is written */
    if (need > space)
        return err_set(e, ERR_OS,
                       "%s: the disk has too little space: %llu more bytes are needed, %llu bytes are free",
                       s->path, (unsigned long long)need, (unsigned long long)space);
    return 0;
}

/* Requests the missing bytes once. Sets *again if another request after *seconds may succeed. */
static int get_some(struct sink *s, const char *url, bool *again, double *seconds, int tries, struct err *e)
{
    struct hub_download *g = s->g;
    struct http_request q = {.url = url,
                             .bearer = hub_download_token(g),
                             .from = s->have,
                             .follow = HUB_DOWNLOAD_REDIRECTS,
                             .connect_seconds = g->env.connect_seconds,
                             .stall_seconds = g->env.stall_seconds,
                             .begin = on_begin,
                             .body = on_body,
                             .tick = on_tick,
                             .ctx = s};
    struct http_reply r;
    int rc;

    s->err = (struct err){0};
    rc = http_run(g->http, &q, &r, e);
    *again = r.transient;
    *seconds = next_pause(&r, tries);
    if (s->err.code) {
        rc = s->err.code;
        if (e)
            *e = s->err;
    } else if (r.stopped) {
        rc = stopped(g, e);
    } else if (s->have && ((rc == 0 && r.status == 416) || (rc == ERR_INPUT && r.status == 206))) {
        rc = start_over(s, e); /* the incomplete file is not the beginning of the hub's file */
        *again = rc == 0;
    } else if (rc == 0 && r.status != 200 && r.status != 206) {
        rc = hub_download_refused(g, &r, g->file, e);
    } else if (rc == 0 && s->b->has_size && s->have < s->b->size) {
        rc = err_set(e, ERR_OS, "%s: the answer ends after %llu of %llu bytes", g->file,
                     (unsigned long long)s->have, (unsigned long long)s->b->size);
        *again = true;
    }
    http_reply_fini(&r);
    return rc;
}

/* Sends requests until the file is complete. */
static int get_all(struct sink *s, const char *url, struct err *e)
{
    struct hub_download *g = s->g;

    for (int tries = 0; !s->b->has_size || s->have < s->b->size;) {
        uint64_t before = s->have;
        bool again = false;
        double seconds = 0;
        int rc = get_some(s, url, &again, &seconds, tries, e);

        if (rc == 0 && !again)
            break;
        if (s->have > before && s->have - before >= ENOUGH_BYTES)
            tries = 0;
        if (!again || tries++ == RETRIES)
            return rc ? rc : err_set(e, ERR_OS, "%s: the hub sends none of its bytes", g->file);
        log_info("%s: %s: trying again in %.1f s", g->id->repo, g->file, seconds);
        if (!pause_for(g, seconds))
            return stopped(g, e);
    }
    return 0;
}

/* Compares the hash of the incomplete file with the ETag, if the ETag is a hash. ERR_INPUT if they differ. */
static int prove(struct sink *s, struct err *e)
{
    if (hub_cache_is_hash(s->b->etag))
        return hub_cache_verify(s->path, s->b->etag, e);
    log_warn("%s: %s: its bytes are not verified, because the hub's ETag \"%s\" is not a hash",
             s->g->id->repo, s->g->file, s->b->etag);
    return 0;
}

/* Completes and verifies the incomplete file and renames it to BLOB. */
static int download(struct sink *s, const char *blob, struct err *e)
{
    char url[4096];
    bool resumed;
    int rc = file_url(s->g, s->g->file, url, sizeof(url), e);

    if (rc == 0 && s->b->has_size && s->have > s->b->size)
        rc = start_over(s, e);
    if (rc || (rc = check_space(s, e)) != 0)
        return rc;
    resumed = s->have > 0;
    if ((rc = get_all(s, url, e)) != 0)
        return rc;
    rc = prove(s, e);
    if (rc == ERR_INPUT && resumed) { /* the bytes of the interrupted download may be wrong */
        log_info("%s: %s: downloading again from the beginning: %s", s->g->id->repo, s->g->file,
                 e ? e->msg : "");
        if ((rc = start_over(s, e)) != 0 || (rc = get_all(s, url, e)) != 0)
            return rc;
        rc = prove(s, e);
    }
    if (rc) {
        unlink(s->path);
        return rc;
    }
    if (fsync(s->fd) != 0)
        return err_os(e, "write", s->path);
    return rename(s->path, blob) == 0 ? 0 : err_os(e, "rename", s->path);
}

/* Opens the incomplete file of B, downloads its missing bytes and renames it to BLOB. */
static int get_blob(struct hub_download *g, const struct blob *b, const char *blob, struct err *e)
{
    char path[HUB_CACHE_PATH_MAX];
    struct sink s = {.g = g, .b = b, .path = path};
    struct stat st;
    int rc = hub_cache_blob(&g->cache, b->etag, true, path, e);

    if (rc)
        return rc;
    s.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (s.fd < 0)
        return err_os(e, "write", path);
    if (fstat(s.fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(s.fd);
        return err_set(e, ERR_INPUT, "%s: a regular file is expected", path);
    }
    s.have = (uint64_t)st.st_size;
    g->done = s.have;
    g->total = b->has_size ? b->size : 0;
    rc = download(&s, blob, e);
    close(s.fd);
    return rc;
}

/* Waits until this process has the lock of the blob ETAG. *fd is the lock file, or -1 on a file system
 * without locks. */
static int wait_for_lock(struct hub_download *g, const char *etag, int *fd, struct err *e)
{
    double start = clock_seconds();
    bool said = false;
    int rc;

    while (!hub_cache_try_lock(&g->cache, etag, fd, &rc, e)) {
        if (rc)
            return rc;
        if (!said && clock_seconds() - start > 2) {
            log_warn("%s: waiting for another process that is downloading %s", g->id->repo, g->file);
            said = true;
        }
        if (!pause_for(g, 0.05))
            return stopped(g, e);
    }
    return 0;
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int hub_download_file(struct hub_download *g, const char *file, struct err *e)
{
    char path[HUB_CACHE_PATH_MAX], blob[HUB_CACHE_PATH_MAX];
    struct blob b = {0};
    int rc = hub_cache_file(&g->cache, g->commit, file, path, sizeof(path), e), lock = -1;

    if (rc || is_file(path))
        return rc;
    g->file = file;
    g->done = g->total = 0;
    if ((rc = ask_blob(g, file, &b, e)) == 0 &&
        (rc = hub_cache_blob(&g->cache, b.etag, false, blob, e)) == 0 &&
        (rc = wait_for_lock(g, b.etag, &lock, e)) == 0) {
        if (!is_file(blob))
            rc = get_blob(g, &b, blob, e);
        if (rc == 0)
            rc = hub_cache_link(&g->cache, g->commit, file, b.etag, e);
    }
    if (lock >= 0)
        close(lock);
    g->file = NULL;
    return rc;
}
