/* reply.c - sends complete answers and errors. */
#include "api/http/reply.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/api_priv.h"
#include "api/http/access.h"
#include "api/http/load.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/utf8.h"
#include "chat/dialect/dialect.h"
#include "chat/request.h"
#include "net/http_head.h"
#include "net/server.h"

/* Returns the method of X as a label of metrics, "other" if no route has it, to bound the number of labels. */
static const char *method_of(const struct server_exchange *x)
{
    const char *method = server_head(x)->method;

    return strcmp(method, "GET") == 0 ? "GET" : strcmp(method, "POST") == 0 ? "POST" : "other";
}

/* Logs a refused request. Successful ones are not logged, since probes and scrapes come every few seconds. */
static void log_refusal(struct server_exchange *x, int status, const char *sentence)
{
    const struct http_head *h = server_head(x);
    const char *id = http_head_get(h, "x-request-id");
    char trace[REQUEST_TRACE], reason[DIALECT_REASON];

    access_trace(x, trace);
    dialect_reason(sentence, reason, sizeof(reason));
    id = id && request_is_id(id) ? id : "";
    log_fields(LOG_INFO,
               (const struct log_field[]){{"client", server_peer(x), 0, 0},
                                          {"method", h->method, 0, 0},
                                          {"path", h->path, 0, 0},
                                          {"status", NULL, status, 0},
                                          {"request_id", id, 0, 0},
                                          {"traceparent", trace, 0, 0},
                                          {"reason", reason, 0, 0}},
               7, "%s \"%.32s %.1000s\" %d, %s%s%s: %s", server_peer(x), h->method, h->path, status,
               id[0] ? id : "-", trace[0] ? ", " : "", trace, reason);
}

void reply_send(const struct reply *r, int status, const char *headers, const char *type, const void *body,
                size_t n)
{
    metrics_count_http(&r->api->metrics, r->route, method_of(r->x), status);
    server_reply(r->x, status, headers, type, body, n);
}

void reply_error(const struct reply *r, int status, const char *headers, const char *message,
                 const char *param)
{
    struct buf body = {.tag = MEM_API};

    r->dialect->error(&body, status, message, param);
    if (!r->api->opt.quiet)
        log_refusal(r->x, status, message);
    reply_send(r, status, headers, "application/json", body.data ? body.data : "", body.len);
    buf_fini(&body);
}

void reply_refuse(const struct reply *r, int status, const char *message, const char *param)
{
    char headers[80] = "";

    if (status == 429 || status == 503) {
        snprintf(headers, sizeof(headers), "Retry-After: %.0f\r\n", load_retry_s(r->api));
        r->api->metrics.n_refused++;
    } else if (status == 401) {
        snprintf(headers, sizeof(headers), "WWW-Authenticate: Bearer\r\n");
    } else if (status == 501) {
        snprintf(headers, sizeof(headers), SERVER_NO_RETRY);
    }
    reply_error(r, status, headers, message, param);
}

void reply_json(const struct reply *r, const struct buf *body)
{
    if (body->oom)
        reply_refuse(r, 503, "out of memory", NULL);
    else
        reply_send(r, 200, "", "application/json", body->data, body->len);
}

void reply_limit(const struct reply *r, const char *key, double wait_s)
{
    char headers[LOAD_LIMITS + 40];
    size_t n;

    load_limits(r->api, key, headers);
    n = strlen(headers);
    snprintf(headers + n, sizeof(headers) - n, "Retry-After: %.0f\r\n", ceil(wait_s));
    r->api->metrics.n_limited++;
    reply_error(r, 429, headers, "the limit of this API key is reached; come back later", NULL);
}

void reply_rest_of_path(const struct reply *r, char *out, size_t size)
{
    /* skips the part of the path before the route's final * */
    const char *p = server_head(r->x)->path + strlen(r->route) - 1;
    size_t n = 0;

    for (; *p && n + 1 < size; p++)
        if (*p == '%' && utf8_hex_digit(p[1]) >= 0 && utf8_hex_digit(p[2]) >= 0) {
            out[n++] = (char)(utf8_hex_digit(p[1]) << 4 | utf8_hex_digit(p[2]));
            p += 2;
        } else {
            out[n++] = *p;
        }
    out[n] = 0;
}
