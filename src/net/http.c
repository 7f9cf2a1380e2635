/* http.c - HTTP requests with libcurl.
 *
 * This file follows redirects itself, so that the rules are the same with every version of libcurl: the token
 * is sent only to the origin (scheme, host and port) of the first URL, and a redirect from https to http is
 * refused. Messages do not contain query strings, because signed URLs are secrets. Compressed answers are not
 * requested, so that lengths and hashes refer to the bytes as the server stores them.
 */
#include "net/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

enum { MAX_HEADERS = 65536, MAX_REFUSAL = 1 << 20, SLOW_BYTES_PER_SECOND = 1024 };

struct http {
    CURL *curl;
};

/* A request in progress. */
struct exchange {
    struct http *h;
    const struct http_request *q;
    struct http_reply *r;
    uint64_t bytes; /* received bytes of the body */
    bool begun;     /* the body has started */
    bool too_long;  /* the body exceeds its limit */
    bool bad_range; /* the body starts at another byte than requested */
};

/* ---- libcurl's global state ---- */

static bool use_mem;
static CURLcode global_rc;

static void *lib_zalloc(size_t n, size_t size)
{
    return mem_zalloc(n, size, MEM_LIB);
}

static void *lib_realloc(void *p, size_t n)
{
    return mem_realloc(p, n, MEM_LIB);
}

static char *lib_strdup(const char *s)
{
    return mem_strdup(s, MEM_LIB);
}

static void global_init(void)
{
    global_rc = use_mem ? curl_global_init_mem(CURL_GLOBAL_DEFAULT, mem_lib_alloc, mem_free, lib_realloc,
                                               lib_strdup, lib_zalloc)
                        : curl_global_init(CURL_GLOBAL_DEFAULT);
}

void http_use_mem(void)
{
    use_mem = true;
}

int http_open(struct http **out, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct http *h;

    *out = NULL;
    pthread_once(&once, global_init);
    if (global_rc != CURLE_OK)
        return err_set(e, ERR_OS, "libcurl cannot start: %s", curl_easy_strerror(global_rc));
    h = mem_zalloc(1, sizeof(*h), MEM_LIB);
    if (!h)
        return err_nomem(e, "a connection");
    h->curl = curl_easy_init();
    if (!h->curl) {
        mem_free(h);
        return err_nomem(e, "a connection");
    }
    *out = h;
    return 0;
}

void http_close(struct http *h)
{
    if (!h)
        return;
    curl_easy_cleanup(h->curl);
    mem_free(h);
}

/* ---- URLs ---- */

static CURLU *parse_url(const char *url)
{
    CURLU *u = curl_url();

    if (u && curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK) {
        curl_url_cleanup(u);
        u = NULL;
    }
    return u;
}

static bool same_part(CURLU *a, CURLU *b, CURLUPart part)
{
    char *x = NULL, *y = NULL;
    bool same = curl_url_get(a, part, &x, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                curl_url_get(b, part, &y, CURLU_DEFAULT_PORT) == CURLUE_OK && strcasecmp(x, y) == 0;

    curl_free(x);
    curl_free(y);
    return same;
}

bool http_same_origin(const char *a, const char *b)
{
    CURLU *x = parse_url(a), *y = parse_url(b);
    bool same = x && y && same_part(x, y, CURLUPART_SCHEME) && same_part(x, y, CURLUPART_HOST) &&
                same_part(x, y, CURLUPART_PORT);

    curl_url_cleanup(x);
    curl_url_cleanup(y);
    return same;
}

const char *http_url_for_people(char *out, size_t size, const char *url)
{
    size_t host = strncasecmp(url, "https://", 8) == 0 ? 8 : strncasecmp(url, "http://", 7) == 0 ? 7 : 0;
    size_t end = host + strcspn(url + host, "/?#"), path = strcspn(url + end, "?#");
    const char *user = memrchr(url + host, '@', end - host);
    size_t begin = user ? (size_t)(user - url) + 1 : host;

    snprintf(out, size, "%.*s%.*s%.*s", (int)host, url, (int)(end - begin), url + begin, (int)path,
             url + end);
    return out;
}

static bool is_https(const char *url)
{
    return strncasecmp(url, "https:", 6) == 0;
}

/* ---- headers ---- */

void http_reply_fini(struct http_reply *r)
{
    mem_free(r->location);
    buf_fini(&r->headers);
    *r = (struct http_reply){0};
}

const char *http_header(const struct http_reply *r, const char *name)
{
    size_t n = strlen(name);
    const char *end = r->headers.data ? r->headers.data + r->headers.len : NULL;

    for (const char *p = r->headers.data; p && p < end; p += strlen(p) + 1)
        if (strncasecmp(p, name, n) == 0 && p[n] == ':')
            return p + n + 1 + strspn(p + n + 1, " \t");
    return NULL;
}

static bool read_u64(const char *s, uint64_t *v, const char **end)
{
    char *stop;

    if (!s || *s < '0' || *s > '9')
        return false;
    errno = 0;
    *v = strtoull(s, &stop, 10);
    *end = stop;
    return errno == 0;
}

bool http_header_u64(const struct http_reply *r, const char *name, uint64_t *v)
{
    const char *end;

    return read_u64(http_header(r, name), v, &end) && *end == 0;
}

/* Callback of libcurl: appends a header line, with a final NUL, to the headers of the current answer. */
static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct exchange *x = ctx;
    size_t len = size * n;

    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0)
        buf_clear(&x->r->headers);
    while (len && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
        len--;
    if (len && !memchr(line, 0, len) && x->r->headers.len + len < MAX_HEADERS) {
        buf_add(&x->r->headers, line, len);
        buf_char(&x->r->headers, 0);
    }
    return x->r->headers.oom ? 0 : size * n;
}

/* ---- the body ---- */

/* Checks the range of an answer's body and calls the callback `begin`. Returns false to end the request. */
static bool begin_body(struct exchange *x, long status)
{
    const char *range = http_header(x->r, "Content-Range"), *end;
    uint64_t first = 0;

    x->begun = true;
    if (status == 206 && (!range || strncasecmp(range, "bytes ", 6) != 0 ||
                          !read_u64(range + 6, &first, &end) || *end != '-' || first != x->q->from)) {
        x->bad_range = true;
        return false;
    }
    if (x->q->begin && !x->q->begin(x->q->ctx, first)) {
        x->r->stopped = true;
        return false;
    }
    return true;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct exchange *x = ctx;
    size_t len = size * n;
    long status = 0;

    curl_easy_getinfo(x->h->curl, CURLINFO_RESPONSE_CODE, &status);
    x->bytes += len;
    if (status != 200 && status != 206) { /* the body of an error page is dropped */
        x->too_long = x->bytes > MAX_REFUSAL;
        return x->too_long ? 0 : len;
    }
    if (!x->begun && !begin_body(x, status))
        return 0;
    if (x->q->max_bytes && x->bytes > x->q->max_bytes) {
        x->too_long = true;
        return 0;
    }
    if (x->q->body && !x->q->body(x->q->ctx, bytes, len)) {
        x->r->stopped = true;
        return 0;
    }
    return len;
}

static int on_tick(void *ctx, curl_off_t down, curl_off_t down_now, curl_off_t up, curl_off_t up_now)
{
    struct exchange *x = ctx;

    (void)down, (void)down_now, (void)up, (void)up_now;
    if (!x->q->tick || x->q->tick(x->q->ctx))
        return 0;
    x->r->stopped = true;
    return 1;
}

/* ---- one request ---- */

static bool add_line(struct curl_slist **list, const char *fmt, const char *value)
{
    struct curl_slist *longer;
    struct buf b;

    buf_init(&b, MEM_LIB);
    buf_fmt(&b, fmt, value);
    longer = b.oom ? NULL : curl_slist_append(*list, b.data);
    buf_fini(&b);
    if (longer)
        *list = longer;
    return longer != NULL;
}

static bool add_lines(struct curl_slist **list, const struct http_request *q, const char *bearer)
{
    char from[32];

    snprintf(from, sizeof(from), "%llu", (unsigned long long)q->from);
    return add_line(list, "Accept-Encoding: %s", "identity") &&
           (!bearer || add_line(list, "Authorization: Bearer %s", bearer)) &&
           (!q->from || add_line(list, "Range: bytes=%s-", from));
}

static bool set_options(struct exchange *x, const char *url, struct curl_slist *lines, char *why)
{
    const struct http_request *q = x->q;
    const char *bundle = getenv("CURL_CA_BUNDLE");
    CURL *c = x->h->curl;
    bool ok = true;

    if (!bundle || !*bundle)
        bundle = getenv("SSL_CERT_FILE");
    curl_easy_reset(c);
#define SET(option, value) ok = ok && curl_easy_setopt(c, option, value) == CURLE_OK
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_ERRORBUFFER, why);
    SET(CURLOPT_USERAGENT, "gallop/" GALLOP_VERSION);
    SET(CURLOPT_HTTPHEADER, lines);
    SET(CURLOPT_NOBODY, q->head ? 1L : 0L);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, x);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, x);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_tick);
    SET(CURLOPT_XFERINFODATA, x);
    if (q->connect_seconds)
        SET(CURLOPT_CONNECTTIMEOUT, (long)q->connect_seconds);
    if (q->stall_seconds) {
        SET(CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_PER_SECOND);
        SET(CURLOPT_LOW_SPEED_TIME, (long)q->stall_seconds);
    }
    if (bundle && *bundle)
        SET(CURLOPT_CAINFO, bundle);
#undef SET
    return ok;
}

/* Returns true if the failure may be temporary. */
static bool may_pass(CURLcode rc)
{
    switch (rc) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
}

/* Sets the error for a failed request. */
static int explain(const struct exchange *x, CURLcode rc, const char *url, const char *why, struct err *e)
{
    char shown[512];

    http_url_for_people(shown, sizeof(shown), url);
    if (x->r->stopped)
        return err_set(e, ERR_CANCELLED, "%s: stopped", shown);
    if (x->too_long)
        return err_set(e, ERR_INPUT, "%s: the answer is longer than %llu bytes", shown,
                       (unsigned long long)x->bytes);
    if (x->bad_range)
        return err_set(e, ERR_INPUT,
                       "%s: bytes from offset %llu on were requested, but the answer starts elsewhere", shown,
                       (unsigned long long)x->q->from);
    if (rc == CURLE_OUT_OF_MEMORY || x->r->headers.oom)
        return err_nomem(e, "a download");
    if (rc == CURLE_OPERATION_TIMEDOUT && x->q->stall_seconds && !x->r->unreachable)
        return err_set(e, ERR_OS, "%s: the server sent less than %d bytes a second for %d seconds", shown,
                       SLOW_BYTES_PER_SECOND, x->q->stall_seconds);
    return err_set(e, ERR_OS, "%s: %s", shown, *why ? why : curl_easy_strerror(rc));
}

/* Sends one request and reads its answer. Redirects are not followed. */
static int run_once(struct exchange *x, const char *url, const char *bearer, struct err *e)
{
    char why[CURL_ERROR_SIZE] = "", *location = NULL;
    struct curl_slist *lines = NULL;
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    long status = 0, sent = 0;

    x->begun = false;
    x->bytes = 0;
    if (add_lines(&lines, x->q, bearer) && set_options(x, url, lines, why))
        rc = curl_easy_perform(x->h->curl);
    curl_slist_free_all(lines);
    curl_easy_getinfo(x->h->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(x->h->curl, CURLINFO_REQUEST_SIZE, &sent);
    curl_easy_getinfo(x->h->curl, CURLINFO_REDIRECT_URL, &location);
    x->r->status = (int)status;
    if (rc == CURLE_OK && (status == 200 || status == 206) && !x->q->head && !x->begun &&
        !begin_body(x, status)) /* the body is empty, so on_body() was not called */
        rc = CURLE_WRITE_ERROR;
    if (rc != CURLE_OK) {
        x->r->transient = may_pass(rc) && !x->r->stopped;
        x->r->unreachable = x->r->transient && sent == 0;
        return explain(x, rc, url, why, e);
    }
    x->r->transient = status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
                      status == 503 || status == 504;
    if (status / 100 == 3 && location && !(x->r->location = mem_strdup(location, MEM_LIB)))
        return err_nomem(e, "a download");
    return 0;
}

int http_run(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e)
{
    struct exchange x = {.h = h, .q = q, .r = r};
    char shown[512], *url = NULL;
    const char *bearer = q->bearer;
    int rc;

    *r = (struct http_reply){0};
    buf_init(&r->headers, MEM_LIB);
    for (int left = q->follow;; left--) {
        rc = run_once(&x, url ? url : q->url, bearer, e);
        if (rc || !r->location || q->follow == 0)
            break;
        if (left == 0)
            rc = err_set(e, ERR_INPUT, "%s: the server redirects more than %d times",
                         http_url_for_people(shown, sizeof(shown), q->url), q->follow);
        else if (is_https(url ? url : q->url) && !is_https(r->location))
            rc = err_set(e, ERR_INPUT, "%s: the server redirects from https to another scheme",
                         http_url_for_people(shown, sizeof(shown), url ? url : q->url));
        if (rc)
            break;
        if (!http_same_origin(q->url, r->location))
            bearer = NULL;
        mem_free(url);
        url = r->location;
        r->location = NULL;
    }
    mem_free(url);
    return rc;
}
