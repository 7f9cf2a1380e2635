/* server.c - connections as state machines over libevent's bufferevents, with TLS (tls/) or without.
 *
 * A connection is idle, reads a head, reads a body, is busy with an exchange, or closes; serve() advances it
 * as far as its input allows. libevent's evhttp is not used: it aborts the process if bytes arrive while a
 * request is answered, accepts malformed heads (bare line ends, NUL) silently, and refuses requests in HTML.
 */
#include "net/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shares.h"
#include "net/cors.h"
#include "net/tls/tls.h"

enum {
    TICK_MS = 250,
    /* Seconds for which a closing connection stays open after the last received bytes of its request, so that the
     * client can read the answer: many clients read it only when they have sent everything. */
    LINGER_S = 2,
    LEAST_LINGERING = 256 << 10, /* bytes that any closing connection may still send */
    MOST_AHEAD = 64 << 10,       /* bytes of pipelined requests above which reading pauses */
    MOST_UNSENT = 64 << 10,      /* bytes of unsent answers above which no further request is read */
    /* Size of the socket send buffer. By default the kernel buffers megabytes for slow clients. */
    KERNEL_BYTES = 128 << 10,
    CHUNK_LINE = 256,        /* maximum bytes of a line between chunks */
    MOST_TRAILERS = 8 << 10, /* maximum bytes of the trailers of a chunked body */
    DATE_LINE = 64,
};

/* Priorities of libevent events; PRIORITY_USUAL is libevent's default (half of N_PRIORITIES). */
enum { PRIORITY_USUAL = 1, PRIORITY_HANDSHAKES, N_PRIORITIES };

enum state { IDLE, HEAD, BODY, BUSY, CLOSING, LINGERING };

enum chunk_state { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILERS };

struct server_exchange {
    struct connection *c;
    void *user;
    bool streams; /* the answer is sent in parts */
    bool chunked; /* the parts are sent with chunked transfer coding */
};

struct connection {
    struct server *s;
    struct connection *next, **link;
    /* Links of server.fresh, the list of connections with new output. link_fresh NULL: not in the list. */
    struct connection *next_fresh, **link_fresh;
    struct bufferevent *bev;
    enum state state;
    /* Time (server_options.seconds()) at which the current state times out. 0: never. */
    double until_s;
    /* Time (server_options.seconds()) at which bytes of a request last arrived. */
    double heard_s;
    /* Time (server_options.seconds()) at which the body was begun or last completed another SERVER_PACE_BYTES. */
    double pace_s;
    bool asked;   /* a request was handed to the handler */
    bool serving; /* serve() is running: functions that it calls must not free the connection */
    bool dead;    /* serve() must free the connection when it has finished */
    bool paused;  /* reading is paused until there is room for input */
    /* Event that detects a disconnected client while reading is paused; NULL: not needed yet. */
    struct event *hangup;
    bool shaking;    /* the TLS handshake is not complete */
    size_t scanned;  /* bytes of the input that were searched for the end of the head */
    size_t lingered; /* bytes that were dropped while the connection closes */
    /* Time (server_options.seconds()) at which a closing connection ends, whatever it still sends. */
    double end_s;
    char peer[INET6_ADDRSTRLEN + 1];
    char *head_text; /* the bytes that `head` points into; NULL: no head has been read */
    struct http_head head;
    bool wanted; /* the handler wants the whole body */
    enum chunk_state chunk;
    uint64_t left;   /* bytes of the chunk or body that have not arrived */
    size_t trailers; /* received bytes of trailers */
    struct buf body;
    struct server_body_bytes counted; /* the bytes of the body that count against max_bodies_bytes */
    struct server_exchange x;
};

struct server {
    struct server_options opt;
    struct event_base *base;
    struct evconnlistener *listener[SERVER_MAX_SOCKETS]; /* [n_listeners] */
    size_t n_listeners;
    struct event *wake, *tick, *written, *flush;
    int wake_fd;
    struct tls *tls; /* borrowed; NULL: no TLS */
    size_t n_failed_handshakes;
    struct shares bodies; /* bytes that count against max_bodies_bytes */
    bool draining, paused;
    bool out_of_descriptors; /* accepting failed for lack of descriptors, and was logged */
    double resume_s;         /* time (server_options.seconds()) at which paused listeners resume */
    _Atomic bool quits;
    struct connection *first;               /* list of all connections */
    struct connection *fresh, **last_fresh; /* queue of connections with new output, and its end */
    size_t n;                               /* number of connections */
    char address[1024];
};

static struct evbuffer *input_of(const struct connection *c)
{
    return bufferevent_get_input(c->bev);
}

static struct evbuffer *output_of(const struct connection *c)
{
    return bufferevent_get_output(c->bev);
}

static void remove_fresh(struct connection *c)
{
    if (!c->link_fresh)
        return;
    *c->link_fresh = c->next_fresh;
    if (c->next_fresh)
        c->next_fresh->link_fresh = c->link_fresh;
    else
        c->s->last_fresh = c->link_fresh;
    c->link_fresh = NULL;
}

/* Returns the output buffer of C, for appending, and queues C for on_flush(), which runs before the loop
 * waits for events again. */
static struct evbuffer *growing_output_of(struct connection *c)
{
    struct server *s = c->s;

    if (!s->tls && !c->link_fresh) {
        if (!s->fresh)
            event_active(s->flush, EV_WRITE, 0);
        c->next_fresh = NULL;
        c->link_fresh = s->last_fresh;
        *s->last_fresh = c;
        s->last_fresh = &c->next_fresh;
    }
    return output_of(c);
}

/* ---- the end of a connection ---- */

/* Frees the head and body of the current request. */
static void forget_request(struct connection *c)
{
    mem_free(c->head_text);
    c->head_text = NULL;
    buf_fini(&c->body);
    server_release_body(c->s, c->counted);
    c->counted.n = 0;
}

static void destroy(struct connection *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->s->n--;
    remove_fresh(c);
    forget_request(c);
    if (c->state == IDLE) /* in other states close_notify was sent, or must not follow an incomplete answer */
        tls_finish(c->bev);
    if (c->hangup)
        event_free(c->hangup);
    bufferevent_free(c->bev);
    mem_free(c);
}

/* Frees C, at once or when serve() has finished. If C is busy, the handler is told first (`gone`). */
static void drop(struct connection *c)
{
    if (c->state == BUSY) {
        c->state = CLOSING;
        c->s->opt.gone(c->s->opt.ctx, &c->x);
    }
    if (c->serving)
        c->dead = true;
    else
        destroy(c);
}

/* Shuts down sending after the last answer, and waits so that the client can read it before the socket
 * closes. If the socket has no room for TLS's close_notify, end_overdue() tries again. */
static void linger(struct connection *c)
{
    if (!tls_finish(c->bev)) {
        c->until_s = c->until_s > 0 ? c->until_s : c->s->opt.seconds() + c->s->opt.write_s;
        return;
    }
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    c->state = LINGERING;
    c->until_s = c->s->opt.seconds() + LINGER_S;
    c->end_s = c->s->opt.seconds() + c->s->opt.request_s;
}

/* Drops N bytes that C sends while it closes. A client may send the rest of a refused body, because it would otherwise
 * see a broken connection in place of the answer. The number of these bytes is limited. */
static void drop_lingering(struct connection *c, size_t n)
{
    size_t most = 2 * c->s->opt.max_body_bytes;

    c->lingered += n;
    evbuffer_drain(input_of(c), n);
    if (c->state == LINGERING && n)
        c->until_s = fmin(c->s->opt.seconds() + LINGER_S, c->end_s);
    if (c->lingered > (most > LEAST_LINGERING ? most : LEAST_LINGERING))
        drop(c);
}

/* Closes C after its output has been written. */
static void close_softly(struct connection *c)
{
    c->state = CLOSING;
    c->until_s = 0; /* the bufferevent has a time limit for writing */
    if (evbuffer_get_length(output_of(c)) == 0)
        linger(c);
}

/* ---- answers ---- */

static const char *reason_of(int status)
{
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Answer";
    }
}

/* Writes the Date header line of an answer (RFC 9110, 6.6.1) to LINE and returns it. */
static const char *date_line(char line[DATE_LINE])
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"},
                      months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = time(NULL);
    struct tm t;

    gmtime_r(&now, &t);
    snprintf(line, DATE_LINE, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", days[t.tm_wday], t.tm_mday,
             months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    return line;
}

/* Returns true if the connection stays open after the answer. */
static bool keeps(const struct connection *c)
{
    return c->head.keep_alive && !c->s->draining;
}

/* Appends status line and header lines, without Content-Length and the empty line, to the output. */
static void add_head(struct connection *c, int status, const char *headers, const char *type, bool close)
{
    struct evbuffer *out = growing_output_of(c);
    char lines[CORS_LINES], date[DATE_LINE];

    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\n%s%s", status, reason_of(status), date_line(date), headers);
    if (c->s->opt.cors && c->head_text) { /* without head_text the answer refuses a head that is not parsed */
        cors_lines(c->s->opt.cors, &c->head, lines);
        evbuffer_add(out, lines, strlen(lines));
    }
    if (type)
        evbuffer_add_printf(out, "Content-Type: %s\r\n", type);
    if (close)
        evbuffer_add_printf(out, "Connection: close\r\n");
    else if (c->head.minor == 0)
        evbuffer_add_printf(out, "Connection: keep-alive\r\n");
}

static void serve(struct connection *c);

/* Ends the exchange of C: closes the connection (CLOSE), or serves its next request. */
static void end_exchange(struct connection *c, bool close)
{
    forget_request(c);
    c->x = (struct server_exchange){.c = c};
    if (close) {
        close_softly(c);
    } else {
        c->state = IDLE;
        c->scanned = 0;
        c->until_s = c->s->opt.seconds() + c->s->opt.idle_s;
    }
    if (!c->serving)
        serve(c);
}

/* Appends the head of a complete answer of N bytes to the output. Returns true if the caller must append the body. */
static bool begin_reply(struct connection *c, int status, const char *headers, const char *type, size_t n)
{
    ASSERT(c->state == BUSY && !c->x.streams);
    add_head(c, status, headers, n ? type : NULL, !keeps(c));
    evbuffer_add_printf(output_of(c), "Content-Length: %zu\r\n\r\n", n);
    return n && !(c->head.method && strcmp(c->head.method, "HEAD") == 0);
}

void server_reply(struct server_exchange *x, int status, const char *headers, const char *type,
                  const void *body, size_t n)
{
    struct connection *c = x->c;

    if (begin_reply(c, status, headers, type, n))
        evbuffer_add(output_of(c), body, n);
    end_exchange(c, !keeps(c));
}

static void free_body(const void *bytes, size_t n, void *ctx)
{
    (void)n;
    (void)ctx;
    mem_free((void *)(uintptr_t)bytes);
}

void server_give(struct server_exchange *x, int status, const char *headers, const char *type,
                 struct buf *body)
{
    struct connection *c = x->c;

    if (begin_reply(c, status, headers, type, body->len)) {
        if (evbuffer_add_reference(output_of(c), body->data, body->len, free_body, NULL) == 0)
            *body = (struct buf){.tag = body->tag};
        else
            evbuffer_add(output_of(c), body->data, body->len);
    }
    buf_fini(body);
    end_exchange(c, !keeps(c));
}

void server_begin(struct server_exchange *x, int status, const char *headers, const char *type)
{
    struct connection *c = x->c;

    ASSERT(c->state == BUSY && !x->streams);
    x->streams = true;
    x->chunked = c->head.minor == 1;
    add_head(c, status, headers, type, !x->chunked || !keeps(c));
    evbuffer_add_printf(output_of(c), x->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
}

void server_send(struct server_exchange *x, const void *bytes, size_t n)
{
    struct evbuffer *out;
    char size[24];

    if (n == 0)
        return;
    out = growing_output_of(x->c);
    if (x->chunked)
        evbuffer_add(out, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n));
    evbuffer_add(out, bytes, n);
    if (x->chunked)
        evbuffer_add(out, "\r\n", 2);
}

size_t server_unsent(const struct server_exchange *x)
{
    return evbuffer_get_length(output_of(x->c));
}

void server_end(struct server_exchange *x)
{
    struct connection *c = x->c;
    bool close = !x->chunked || !keeps(c);

    ASSERT(c->state == BUSY && x->streams);
    if (x->chunked)
        evbuffer_add(growing_output_of(c), "0\r\n\r\n", 5);
    end_exchange(c, close);
}

void server_cut(struct server_exchange *x)
{
    struct connection *c = x->c;

    ASSERT(c->state == BUSY);
    c->state = CLOSING;
    drop(c);
}

const struct http_head *server_head(const struct server_exchange *x)
{
    return &x->c->head;
}

const char *server_body(const struct server_exchange *x, size_t *n)
{
    *n = x->c->body.len;
    return x->c->body.data ? x->c->body.data : "";
}

struct server_body_bytes server_take_body(struct server_exchange *x, struct buf *out)
{
    struct server_body_bytes counted = x->c->counted;

    *out = x->c->body;
    x->c->body = (struct buf){.tag = MEM_NET};
    x->c->counted.n = 0;
    return counted;
}

void server_release_body(struct server *s, struct server_body_bytes bytes)
{
    shares_give(&s->bodies, bytes.client, bytes.n);
}

const char *server_peer(const struct server_exchange *x)
{
    return x->c->peer;
}

void *server_user(const struct server_exchange *x)
{
    return x->user;
}

void server_set_user(struct server_exchange *x, void *user)
{
    x->user = user;
}

/* ---- requests ---- */

/* Answers an invalid request with STATUS and the reason WHY, and closes the connection, because the start of
 * its next request is unknown. */
static void server_refuse(struct connection *c, int status, const char *why)
{
    char body[512];
    size_t n = c->s->opt.refusal(c->s->opt.ctx, status, why, body, sizeof(body));

    add_head(c, status,
             status == 503                    ? "Retry-After: 1\r\n"
             : status == 501 || status == 505 ? SERVER_NO_RETRY
                                              : "",
             "application/json", true);
    evbuffer_add_printf(output_of(c), "Content-Length: %zu\r\n\r\n", n);
    evbuffer_add(output_of(c), body, n);
    forget_request(c);
    close_softly(c);
}

/* Calls the handler with the request whose body has arrived. */
static void hand_over(struct connection *c)
{
    c->state = BUSY;
    c->asked = true;
    c->until_s = 0;
    c->x = (struct server_exchange){.c = c};
    c->s->opt.handle(c->s->opt.ctx, &c->x);
}

/* Calls the handler without the rest of the body, which the handler does not want. The connection closes afterwards. */
static void hand_over_early(struct connection *c)
{
    c->head.keep_alive = false;
    hand_over(c);
}

/* Returns true if a body of N bytes is to be read: it is small, or the handler wants it. */
static bool is_wanted(struct connection *c, uint64_t n)
{
    const struct server_options *o = &c->s->opt;

    if (!c->wanted && n > SERVER_SMALL_BODY) {
        c->wanted = !o->wants_body || o->wants_body(o->ctx, &c->head);
        c->counted.client = c->wanted && o->client ? o->client(o->ctx, &c->head, c->peer) : 0;
    }
    return c->wanted || n <= SERVER_SMALL_BODY;
}

static const char too_large[] = "the body is too large for this server";
static const char too_slow[] = "the request took too long to arrive";
static const char crowded[] =
    "the bodies of other requests use up the server's memory limit for request bodies";

/* Returns the connection with the slowest body, which can be ended to make room for the body of C. NULL: no body is
 * slow. SAME_CLIENT: considers only bodies of the client of C, because its share is used up. */
static struct connection *find_slow(const struct connection *c, bool same_client)
{
    double latest = c->s->opt.seconds() - c->s->opt.slow_s;
    struct connection *slowest = NULL;

    for (struct connection *v = c->s->first; v; v = v->next)
        if (v != c && v->state == BODY && v->counted.n && v->pace_s <= latest &&
            (!same_client || v->counted.client == c->counted.client) &&
            (!slowest || v->pace_s < slowest->pace_s))
            slowest = v;
    return slowest;
}

/* Returns true if a body of N bytes fits into max_bodies_bytes beside the bodies of other connections; ends slow bodies
 * if that makes room. A share does not limit the only body of a client. Small bodies do not count, since the number of
 * connections limits them. */
static bool body_has_room(const struct connection *c, size_t n)
{
    const struct shares *s = &c->s->bodies;
    size_t most = c->s->opt.max_bodies_bytes, more = n > SERVER_SMALL_BODY ? n - c->counted.n : 0;
    uint32_t client = c->counted.client;
    struct connection *slow;

    while (more && !shares_has_room(s, client, more, most, n)) {
        slow = find_slow(c, shares_has_room(s, client, more, most, SIZE_MAX));
        if (!slow)
            return false;
        server_refuse(slow, 408, too_slow);
    }
    return true;
}

/* Counts the first N bytes of the body, for which body_has_room(), against max_bodies_bytes. */
static void count_body(struct connection *c, size_t n)
{
    if (n <= SERVER_SMALL_BODY)
        return;
    shares_take(&c->s->bodies, c->counted.client, n - c->counted.n, c->s->opt.max_bodies_bytes, SIZE_MAX);
    c->counted.n = n;
}

/* Decides from the head how the body is read, and refuses a body that is too large. */
static void begin_body(struct connection *c)
{
    const struct server_options *o = &c->s->opt;

    if (c->head.body_bytes > o->max_body_bytes) {
        server_refuse(c, 413, too_large);
        return;
    }
    c->wanted = false;
    if (!is_wanted(c, c->head.body_bytes)) {
        hand_over_early(c);
        return;
    }
    if (!body_has_room(c, (size_t)c->head.body_bytes)) {
        server_refuse(c, 503, crowded);
        return;
    }
    c->left = c->head.body_bytes;
    c->pace_s = c->s->opt.seconds();
    c->chunk = CHUNK_SIZE;
    c->trailers = 0;
    c->state = BODY;
    if (c->head.expects && (c->left || c->head.chunked) && evbuffer_get_length(input_of(c)) == 0)
        evbuffer_add_printf(growing_output_of(c), "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Skips empty lines before a request, which some clients send after a body (RFC 9112, 2.2). Returns false if
 * no byte of a request has arrived, so that the connection stays idle. */
static bool skip_empty_lines(struct connection *c)
{
    char start[2] = "";
    ssize_t n;

    while ((n = evbuffer_copyout(input_of(c), start, 2)) == 2 && start[0] == '\r' && start[1] == '\n')
        evbuffer_drain(input_of(c), 2);
    return n > 1 || (n == 1 && start[0] != '\r');
}

/* Returns true if the first N bytes of the input contain LF without CR; the first c->scanned bytes were
 * checked before. Such a head is refused at once, since CR LF CR LF may never arrive. */
static bool has_bare_end(struct connection *c, size_t n)
{
    size_t from = c->scanned;
    struct evbuffer_ptr at;
    char pair[2];

    while (from < n && evbuffer_ptr_set(input_of(c), &at, from, EVBUFFER_PTR_SET) == 0) {
        at = evbuffer_search(input_of(c), "\n", 1, &at);
        if (at.pos < 0)
            return false;
        from = (size_t)at.pos + 1;
        if (at.pos == 0 || evbuffer_ptr_set(input_of(c), &at, from - 2, EVBUFFER_PTR_SET) != 0 ||
            evbuffer_copyout_from(input_of(c), &at, pair, 2) != 2 || pair[0] != '\r')
            return true;
    }
    return false;
}

/* Reads the head if it is complete. Returns false if more bytes are needed. */
static bool read_head(struct connection *c)
{
    size_t n, most = c->s->opt.max_head_bytes, end;
    struct evbuffer_ptr from, at;
    const char *why;
    int status;

    if (c->state == IDLE && !skip_empty_lines(c))
        return false;
    n = evbuffer_get_length(input_of(c));
    if (c->state == IDLE) {
        c->state = HEAD;
        c->heard_s =
            c->s->opt.seconds(); /* the bytes may have arrived long ago, while a request was answered */
        c->until_s = c->heard_s + c->s->opt.request_s;
    }
    evbuffer_ptr_set(input_of(c), &from, c->scanned, EVBUFFER_PTR_SET);
    at = evbuffer_search(input_of(c), "\r\n\r\n", 4, &from);
    if (at.pos < 0 && n <= most && !has_bare_end(c, n)) {
        c->scanned = n > 3 ? n - 3 : 0;
        return false;
    }
    if (at.pos < 0 && n <= most) {
        server_refuse(c, 400, "a line of the head does not end with CR LF, or contains a control character");
        return true;
    }
    end = at.pos < 0 ? SIZE_MAX : (size_t)at.pos + 4;
    if (end > most) {
        server_refuse(c, 431, "the request line and headers are too long for this server");
        return true;
    }
    c->head_text = mem_alloc(end, MEM_NET);
    if (!c->head_text) {
        server_refuse(c, 503, "out of memory: the head of a request");
        return true;
    }
    evbuffer_remove(input_of(c), c->head_text, end);
    status = http_head_read(&c->head, c->head_text, end, c->s->opt.max_headers, &why);
    if (status)
        server_refuse(c, status, why);
    else
        begin_body(c);
    return true;
}

/* Moves N bytes of the input to the end of the body. With each received MiB the time limit starts anew, and
 * received bytes count against max_bodies_bytes. Returns NULL, or a sentence if there is no room. */
static const char *take_body(struct connection *c, size_t n)
{
    size_t before = c->body.len;

    if (!body_has_room(c, c->body.len + n)) /* other bodies may have arrived since begin_body() */
        return crowded;
    if (!buf_reserve(&c->body, n))
        return "out of memory: the body of a request";
    evbuffer_remove(input_of(c), c->body.data + c->body.len, n);
    c->body.len += n;
    c->body.data[c->body.len] = 0;
    if (c->body.len / SERVER_PACE_BYTES > before / SERVER_PACE_BYTES)
        c->pace_s = c->s->opt.seconds();
    if (c->body.len >> 20 > before >> 20)
        c->until_s = c->s->opt.seconds() + c->s->opt.request_s;
    count_body(c, c->body.len);
    return NULL;
}

/* Copies a line between chunks to LINE, without CR LF. Returns its length, -1 if it is incomplete, or -2 if
 * it is too long, has another control character than a tab, or ends with LF alone. */
static int chunk_line(struct connection *c, char line[CHUNK_LINE])
{
    ssize_t n = evbuffer_copyout(input_of(c), line, CHUNK_LINE), length = 0;

    while (length < n && ((unsigned char)line[length] >= 0x20 || line[length] == '\t') &&
           line[length] != 0x7f)
        length++;
    if (length + 1 >= CHUNK_LINE || (length < n && line[length] != '\r') ||
        (length + 1 < n && line[length + 1] != '\n'))
        return -2;
    if (length + 1 >= n)
        return -1;
    evbuffer_drain(input_of(c), (size_t)length + 2);
    return (int)length;
}

/* Reads CR LF after the data of a chunk. Returns 0 if bytes are missing, 1 after CR LF, or the status 400. */
static int end_chunk(struct connection *c)
{
    char end[2] = "\r\n";
    ssize_t n = evbuffer_copyout(input_of(c), end, 2);

    if (end[0] != '\r' || end[1] != '\n')
        return 400;
    if (n < 2)
        return 0;
    evbuffer_drain(input_of(c), 2);
    c->chunk = CHUNK_SIZE;
    return 1;
}

/* Reads one part of a chunked body. Returns 0 if more bytes are needed, 1 to be called again, 2 if the body is
 * complete, 3 if the handler does not want the rest, or the status of a refusal with its reason in *WHY. */
static int read_chunk(struct connection *c, const char **why)
{
    size_t n = evbuffer_get_length(input_of(c));
    char line[CHUNK_LINE];
    int length;

    if (c->chunk == CHUNK_DATA) {
        n = n < c->left ? n : (size_t)c->left;
        if (n && (*why = take_body(c, n)) != NULL)
            return 503;
        c->left -= n;
        c->chunk = c->left ? CHUNK_DATA : CHUNK_END;
        return c->left == 0;
    }
    *why = "the chunks of the body are malformed";
    if (c->chunk == CHUNK_END)
        return end_chunk(c);
    if ((length = chunk_line(c, line)) < 0)
        return length == -1 ? 0 : 400;
    if (c->chunk == CHUNK_TRAILERS) { /* trailers are ignored */
        c->trailers += (size_t)length;
        return length == 0 ? 2 : c->trailers > MOST_TRAILERS ? 431 : 1;
    }
    if (!http_head_chunk_size(line, (size_t)length, &c->left))
        return 400;
    *why = too_large;
    if (c->left > c->s->opt.max_body_bytes - c->body.len)
        return 413;
    if (!is_wanted(c, c->body.len + c->left))
        return 3;
    *why = crowded;
    if (!body_has_room(c, c->body.len + (size_t)c->left))
        return 503;
    c->chunk = c->left ? CHUNK_DATA : CHUNK_TRAILERS;
    return 1;
}

/* Reads received bytes of the body. Returns false if more bytes are needed. */
static bool read_body(struct connection *c)
{
    size_t n = evbuffer_get_length(input_of(c));
    const char *why;
    int rc;

    if (c->head.chunked) {
        rc = read_chunk(c, &why);
        if (rc == 2)
            hand_over(c);
        else if (rc == 3)
            hand_over_early(c);
        else if (rc > 3)
            server_refuse(c, rc, why);
        return rc > 0;
    }
    n = n < c->left ? n : (size_t)c->left;
    if (n && (why = take_body(c, n)) != NULL) {
        server_refuse(c, 503, why);
        return true;
    }
    c->left -= n;
    if (c->left)
        return false;
    hand_over(c);
    return true;
}

static void on_hangup(evutil_socket_t fd, short what, void *ctx)
{
    struct connection *c = ctx;

    (void)fd;
    (void)what;
    /* A client that shut down sending after its last request still gets finished answers. */
    if (c->state == BUSY || evbuffer_get_length(output_of(c)) == 0)
        drop(c);
}

/* Pauses reading from C, so that further input stays in the socket's buffers. A disconnected client is still
 * detected, by the event `hangup`. */
static void pause_reading(struct connection *c)
{
    if (c->paused)
        return;
    if (!c->hangup)
        c->hangup = event_new(c->s->base, bufferevent_getfd(c->bev), EV_CLOSED, on_hangup, c);
    if (!c->hangup || event_add(c->hangup, NULL) != 0) {
        drop(c);
        return;
    }
    bufferevent_disable(c->bev, EV_READ);
    c->paused = true;
}

/* Resumes reading from C if there is room for input. */
static void resume_reading(struct connection *c)
{
    bool ends = c->state == CLOSING || c->state == LINGERING,
         has_room = c->state != BUSY && evbuffer_get_length(input_of(c)) <= MOST_AHEAD &&
                    evbuffer_get_length(output_of(c)) <= MOST_UNSENT;

    if (!c->paused || !(ends || has_room))
        return;
    event_del(c->hangup);
    bufferevent_enable(c->bev, EV_READ);
    c->paused = false;
}

/* Limits the input that is buffered while a request is answered, and drops the input of a closing connection.
 * Returns false: serve() has nothing more to do. */
static bool read_ahead(struct connection *c)
{
    size_t n = evbuffer_get_length(input_of(c));

    if (c->state == BUSY && n > MOST_AHEAD) {
        pause_reading(c);
    } else if (c->state == CLOSING || c->state == LINGERING) {
        drop_lingering(c, n);
    }
    return false;
}

/* Reads the next head, unless MOST_UNSENT bytes of answers are unsent: then it waits until all are written.
 * Returns false if serve() has nothing more to do. */
static bool read_next(struct connection *c)
{
    if (evbuffer_get_length(output_of(c)) <= MOST_UNSENT)
        return read_head(c);
    if (evbuffer_get_length(input_of(c)) > MOST_AHEAD)
        pause_reading(c);
    return false;
}

/* Advances C by one step of its state. Returns true if there may be another step. */
static bool server_advance(struct connection *c)
{
    switch (c->state) {
    case IDLE:
    case HEAD: return read_next(c);
    case BODY: return read_body(c);
    default: return read_ahead(c);
    }
}

/* Advances C as far as its input allows, and frees it if it is dead. */
static void serve(struct connection *c)
{
    bool goes_on = true;

    c->serving = true;
    while (goes_on && !c->dead) {
        goes_on = server_advance(c);
        if (!c->dead)
            resume_reading(c);
    }
    c->serving = false;
    if (c->dead)
        destroy(c);
}

/* ---- events of libevent ---- */

static void on_read(struct bufferevent *bev, void *ctx)
{
    struct connection *c = ctx;

    (void)bev;
    c->heard_s = c->s->opt.seconds();
    serve(c);
}

/* Continues C after all its output was written. */
static void go_on(struct connection *c)
{
    resume_reading(c);
    if (c->state == CLOSING)
        linger(c);
    else if (c->state == BUSY && c->x.streams)
        c->s->opt.drained(c->s->opt.ctx, &c->x);
    else
        serve(c);
}

static void on_written(struct bufferevent *bev, void *ctx)
{
    struct connection *c = ctx;

    if (evbuffer_get_length(output_of(c)) > 0)
        return; /* with TLS libevent calls this function again when the rest is written */
    if (!c->s->tls)
        bufferevent_disable(bev, EV_WRITE);
    go_on(c);
}

/* Writes as much output of C to the socket as fits. libevent's write event, which costs three system calls, is enabled
 * only if bytes are left or an error occurred; if it were enabled earlier, libevent would use it for all output. */
static void flush(struct connection *c)
{
    struct evbuffer *out = output_of(c);

    remove_fresh(c);
    if (bufferevent_get_enabled(c->bev) & EV_WRITE)
        return;
    evbuffer_unfreeze(out, 1); /* bufferevents freeze their output against draining by others */
    evbuffer_write(out, bufferevent_getfd(c->bev));
    evbuffer_freeze(out, 1);
    if (evbuffer_get_length(out) > 0)
        bufferevent_enable(c->bev, EV_WRITE);
    else
        go_on(c);
}

static void on_flush(evutil_socket_t fd, short what, void *ctx)
{
    struct server *s = ctx;

    (void)fd;
    (void)what;
    while (s->fresh)
        flush(s->fresh);
}

/* Answers a client that sent HTTP without TLS with 400. Its input is read first, up to LEAST_LINGERING bytes,
 * because closing a socket with unread bytes resets the connection and loses the answer. */
static void answer_plainly(struct connection *c)
{
    char body[512], text[900], date[DATE_LINE];
    size_t n = c->s->opt.refusal(c->s->opt.ctx, 400, "this port speaks HTTPS", body, sizeof(body));
    int fd = bufferevent_getfd(c->bev),
        length = snprintf(text, sizeof(text),
                          "HTTP/1.1 400 Bad Request\r\n%sContent-Type: application/json\r\nConnection: "
                          "close\r\nContent-Length: %zu\r\n\r\n%.*s",
                          date_line(date), n, (int)n, body);
    char rest[4096];

    for (size_t n_read = 0; n_read < LEAST_LINGERING; n_read += sizeof(rest))
        if (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) != (ssize_t)sizeof(rest))
            break;
    send(fd, text, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Logs and counts a failed handshake of C, unless the client sent no byte, as port scans and health checks do. */
static void note_failure(struct connection *c, bool overdue)
{
    const char *why;
    enum tls_failure failure = tls_failure(c->bev, &why);

    if (failure == TLS_NOTHING_CAME)
        return;
    c->s->n_failed_handshakes++;
    log_info("%s: TLS failed: %s", c->peer, overdue ? "the handshake took too long" : why);
    if (failure == TLS_PLAIN_HTTP)
        answer_plainly(c);
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct connection *c = ctx;

    if (what & BEV_EVENT_CONNECTED) {
        c->shaking = false;
        bufferevent_priority_set(bev, PRIORITY_USUAL);
        return;
    }
    if (c->shaking)
        note_failure(c, false);
    /* A client that shut down sending after its last request still gets finished answers. */
    if ((what & BEV_EVENT_EOF) && c->state != BUSY && c->state != LINGERING &&
        evbuffer_get_length(output_of(c)) > 0) {
        bufferevent_enable(bev, EV_WRITE); /* TLS bufferevents disable writing at the end of the input */
        close_softly(c);
    } else {
        drop(c);
    }
}

/* Returns a new bufferevent for the socket FD, with TLS if the server has it. */
static struct bufferevent *buffer(struct server *s, int fd)
{
    return s->tls ? tls_accept(s->tls, s->base, fd)
                  : bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
}

/* Creates the connection of the accepted socket FD and takes ownership of FD, also on failure. FROM is the
 * address of the client; NULL: the name of the peer is "local". */
static int add_connection(struct server *s, int fd, const struct sockaddr *from, struct err *e)
{
    const struct timeval write_time = {.tv_sec = (time_t)s->opt.write_s,
                                       .tv_usec = (suseconds_t)(fmod(s->opt.write_s, 1) * 1e6)};
    struct connection *c = mem_zalloc(1, sizeof(*c), MEM_NET);
    int one = 1, send_bytes = KERNEL_BYTES;

    evutil_make_socket_nonblocking(fd);
    if (!c || !(c->bev = buffer(s, fd))) {
        mem_free(c);
        close(fd);
        return err_nomem(e, "a connection");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
    if (from && from->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)from)->sin_addr, c->peer,
                  sizeof(c->peer));
    else if (from && from->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, c->peer,
                  sizeof(c->peer));
    else
        snprintf(c->peer, sizeof(c->peer), "local");
    c->s = s;
    c->x.c = c;
    c->shaking = s->tls != NULL;
    c->body.tag = MEM_NET;
    /* The limit for the start of the first request is request_s instead of idle_s. */
    c->until_s = s->opt.seconds() + s->opt.request_s;
    c->link = &s->first;
    c->next = s->first;
    if (c->next)
        c->next->link = &c->next;
    s->first = c;
    s->n++;
    bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
    if (c->shaking)
        bufferevent_priority_set(c->bev, PRIORITY_HANDSHAKES);
    bufferevent_set_timeouts(c->bev, NULL, &write_time);
    bufferevent_enable(c->bev, s->tls ? EV_READ | EV_WRITE : EV_READ);
    if (!s->tls)
        bufferevent_disable(c->bev, EV_WRITE); /* flush() enables it */
    return 0;
}

/* Closes a connection above the limit with the answer 503, without reading the request. With TLS nothing is
 * sent, since an answer would need a handshake. */
static void turn_away(struct server *s, int fd)
{
    char body[512], text[900], date[DATE_LINE];
    size_t n = s->opt.refusal(s->opt.ctx, 503, "this server has reached its limit of connections", body,
                              sizeof(body));
    int length =
        snprintf(text, sizeof(text),
                 "HTTP/1.1 503 Service Unavailable\r\n%sContent-Type: application/json\r\nRetry-After: "
                 "1\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%.*s",
                 date_line(date), n, (int)n, body);

    if (!s->tls)
        send(fd, text, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    close(fd);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int n, void *ctx)
{
    struct server *s = ctx;

    (void)l;
    (void)n;
    s->out_of_descriptors = false;
    if (s->n >= s->opt.max_connections)
        turn_away(s, fd);
    else
        add_connection(s, fd, from, NULL);
}

/* Callback for failures of accept(), which lack of descriptors or memory causes. Pauses accepting for 0.2
 * seconds, since trying again at once would be a busy loop; new connections wait in the kernel. */
static void on_accept_error(struct evconnlistener *l, void *ctx)
{
    struct server *s = ctx;

    if (!s->out_of_descriptors)
        log_warn("cannot accept connections: %s", strerror(errno));
    s->out_of_descriptors = true;
    evconnlistener_disable(l);
    s->paused = true;
    s->resume_s = s->opt.seconds() + 0.2;
}

/* Returns true if C has received a part of a request and then no byte, or hardly any of a large body, for
 * stall_s seconds. */
static bool is_stalled(const struct connection *c, double now)
{
    double since_s = c->state == BODY && c->body.len >= 1 << 20 ? c->pace_s : c->heard_s;

    return (c->state == HEAD || c->state == BODY) && now - since_s >= c->s->opt.stall_s;
}

/* Returns whether the client of C has reset it while reading is paused. Libevent does not report this error. */
static bool is_reset(const struct connection *c)
{
    int error = 0;
    socklen_t n = sizeof(error);

    return c->paused && getsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error;
}

/* Closes the connections whose time limit has passed, and those whose client has reset them. */
static void end_overdue(struct server *s, double now)
{
    for (struct connection *c = s->first, *next; c; c = next) {
        next = c->next;
        if (c->state == CLOSING && evbuffer_get_length(output_of(c)) == 0)
            linger(c);
        /* The idle time starts when the answer has been written. */
        if (c->state == IDLE && evbuffer_get_length(output_of(c)) > 0)
            c->until_s = now + s->opt.idle_s;
        if ((c->until_s == 0 || now < c->until_s) && !is_stalled(c, now) && !is_reset(c))
            continue;
        if (c->shaking)
            note_failure(c, true);
        if (c->state == BODY || (c->state == HEAD && c->s->opt.request_s > 0))
            server_refuse(c, 408, too_slow);
        else
            drop(c);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct server *s = ctx;
    double now = s->opt.seconds();

    (void)fd;
    (void)what;
    if (s->paused && now >= s->resume_s) {
        s->paused = false;
        for (size_t i = 0; i < s->n_listeners; i++)
            evconnlistener_enable(s->listener[i]);
    }
    end_overdue(s, now);
    s->opt.woken(s->opt.ctx);
}

static void on_wake(evutil_socket_t fd, short what, void *ctx)
{
    struct server *s = ctx;
    uint64_t count;

    (void)what;
    if (read(fd, &count, sizeof(count)) < 0)
        return; /* an earlier call has reset the eventfd */
    if (atomic_load(&s->quits))
        event_base_loopbreak(s->base);
    else
        s->opt.woken(s->opt.ctx);
}

/* Callback of a timer of zero seconds, which libevent runs after the socket events that were ready before it. */
static void on_all_written(evutil_socket_t fd, short what, void *ctx)
{
    struct server *s = ctx;

    (void)fd;
    (void)what;
    s->opt.written(s->opt.ctx);
}

/* ---- open and close ---- */

static void set_defaults(struct server_options *o)
{
    o->host = o->host ? o->host : "127.0.0.1";
    o->max_connections = o->max_connections ? o->max_connections : 1024;
    o->max_head_bytes = o->max_head_bytes ? o->max_head_bytes : 64 << 10;
    o->max_headers = o->max_headers && o->max_headers < HTTP_HEAD_MAX_FIELDS ? o->max_headers : 128;
    o->max_body_bytes = o->max_body_bytes ? o->max_body_bytes : 32 << 20;
    o->max_bodies_bytes = o->max_bodies_bytes ? o->max_bodies_bytes : 8 * o->max_body_bytes;
    o->request_s = o->request_s > 0 ? o->request_s : 30;
    o->stall_s = o->stall_s > 0 ? o->stall_s : 10;
    o->slow_s = o->slow_s > 0 ? o->slow_s : 1;
    o->seconds = o->seconds ? o->seconds : clock_seconds;
    o->idle_s = o->idle_s > 0 ? o->idle_s : 75;
    o->write_s = o->write_s > 0 ? o->write_s : 60;
}

static int listen_at(struct server *s, const struct sockaddr *at, socklen_t n, struct err *e)
{
    struct evconnlistener *l = evconnlistener_new_bind(
        s->base, on_accept, s, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC, 1024, at,
        (int)n);

    if (!l)
        return err_os(e, "listen on", s->address);
    evconnlistener_set_error_cb(l, on_accept_error);
    s->listener[s->n_listeners++] = l;
    return 0;
}

union address {
    struct sockaddr_storage any;
    struct sockaddr_un path;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Appends the address to which the socket FD is bound to s->address. */
static void add_address(struct server *s, int fd)
{
    size_t n = strlen(s->address), room = sizeof(s->address) - n;
    char *out = s->address + n, text[INET6_ADDRSTRLEN + 1] = "?";
    union address at = {.any = {.ss_family = AF_UNSPEC}};
    socklen_t size = sizeof(at) - 1;
    const char *comma = n ? ", " : "", *scheme = s->tls ? "https" : "http";

    if (getsockname(fd, (struct sockaddr *)&at.any, &size) != 0)
        return;
    if (at.any.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &at.v6.sin6_addr, text, sizeof(text));
        snprintf(out, room, "%s%s://[%s]:%d", comma, scheme, text, ntohs(at.v6.sin6_port));
    } else if (at.any.ss_family == AF_INET) {
        inet_ntop(AF_INET, &at.v4.sin_addr, text, sizeof(text));
        snprintf(out, room, "%s%s://%s:%d", comma, scheme, text, ntohs(at.v4.sin_port));
    } else if (at.any.ss_family == AF_UNIX) { /* an abstract name begins with NUL; it is shown as @NAME */
        snprintf(out, room, "%sunix:%s%s", comma, at.path.sun_path[0] ? "" : "@",
                 at.path.sun_path + !at.path.sun_path[0]);
    }
}

bool server_is_loopback(const struct sockaddr *at)
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr;

    if (at->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
    return at->sa_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)(const void *)at)->sin_addr.s_addr) >> 24 == 127;
}

bool server_is_local(int fd)
{
    union address at = {.any = {.ss_family = AF_UNSPEC}};
    socklen_t n = sizeof(at);

    return getsockname(fd, (struct sockaddr *)&at.any, &n) == 0 &&
           (at.any.ss_family == AF_UNIX || server_is_loopback((const struct sockaddr *)&at.any));
}

/* Accepts connections on the sockets that the options give. */
static int listen_passed(struct server *s, struct err *e)
{
    ASSERT(s->opt.n_fds <= SERVER_MAX_SOCKETS);
    for (size_t i = 0; i < s->opt.n_fds; i++) {
        struct evconnlistener *l;

        evutil_make_socket_nonblocking(s->opt.fd[i]);
        l = evconnlistener_new(s->base, on_accept, s, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0,
                               s->opt.fd[i]);
        if (!l)
            return err_nomem(e, "the server's sockets");
        evconnlistener_set_error_cb(l, on_accept_error);
        s->listener[s->n_listeners++] = l;
        add_address(s, s->opt.fd[i]);
    }
    return 0;
}

/* Returns true if a server listens on the Unix socket AT. */
static bool is_served(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool served = fd >= 0 && (connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 || errno == EAGAIN);

    if (fd >= 0)
        close(fd);
    return served;
}

int server_listen_path(const char *path, int *fd, struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat st;

    if (strlen(path) >= sizeof(at.sun_path))
        return err_set(e, ERR_INPUT,
                       "%s: the path has %zu bytes; the path of a Unix socket may have at most %zu", path,
                       strlen(path), sizeof(at.sun_path) - 1);
    memcpy(at.sun_path, path, strlen(path));
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        if (is_served(&at))
            return err_set(e, ERR_INPUT, "%s: another server listens on this socket", path);
        unlink(path); /* the socket of a server that crashed */
    }
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd >= 0 && bind(*fd, (const struct sockaddr *)&at, sizeof(at)) == 0 && listen(*fd, SOMAXCONN) == 0)
        return 0;
    err_os(e, "listen on", path);
    if (*fd >= 0)
        close(*fd);
    return e->code;
}

static int listen_port(struct server *s, struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    char port[16];
    int rc;

    snprintf(port, sizeof(port), "%d", s->opt.port);
    snprintf(s->address, sizeof(s->address), "%.200s:%s", s->opt.host, port);
    if ((rc = getaddrinfo(s->opt.host, port, &hints, &found)) != 0)
        return err_set(e, ERR_INPUT, "%s: %s", s->opt.host, gai_strerror(rc));
    rc = listen_at(s, found->ai_addr, found->ai_addrlen, e);
    freeaddrinfo(found);
    if (rc)
        return rc;
    s->address[0] = 0; /* add_address() writes the address again, with the port that the system chose */
    add_address(s, evconnlistener_get_fd(s->listener[0]));
    return 0;
}

/* Makes the loop check for events of higher priority after each event of priority PRIORITY_HANDSHAKES. A
 * handshake takes a millisecond or more; thus many of them cannot delay streams. */
static void put_handshakes_last(struct event_config *config)
{
    event_config_set_max_dispatch_interval(config, NULL, 1, PRIORITY_HANDSHAKES);
}

static int make_loop(struct server *s, struct err *e)
{
    const struct timeval tick = {.tv_usec = TICK_MS * 1000};
    struct event_config *config = event_config_new();

    if (config) {
        event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST);
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        put_handshakes_last(config);
        s->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (!s->base || event_base_priority_init(s->base, N_PRIORITIES) != 0)
        return err_nomem(e, "the server's loop");
    s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->wake_fd < 0)
        return err_os(e, "make", "eventfd");
    s->wake = event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, on_wake, s);
    s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    s->written = event_new(s->base, -1, 0, on_all_written, s);
    s->flush = event_new(s->base, -1, 0, on_flush, s);
    if (!s->wake || !s->tick || !s->written || !s->flush || event_add(s->wake, NULL) != 0 ||
        event_add(s->tick, &tick) != 0)
        return err_nomem(e, "the server's loop");
    return 0;
}

int server_open(struct server **out, const struct server_options *o, struct err *e)
{
    struct server *s = mem_zalloc(1, sizeof(*s), MEM_NET);
    int rc;

    *out = NULL;
    if (!s)
        return err_nomem(e, "a server");
    s->opt = *o;
    s->tls = o->tls;
    s->wake_fd = -1;
    s->last_fresh = &s->fresh;
    set_defaults(&s->opt);
    s->bodies.fair = true;
    if ((rc = make_loop(s, e)) == 0)
        rc = s->opt.n_fds ? listen_passed(s, e) : listen_port(s, e);
    if (rc)
        server_close(s);
    else
        *out = s;
    return rc;
}

void server_close(struct server *s)
{
    if (!s)
        return;
    while (s->first)
        drop(s->first);
    while (s->n_listeners)
        evconnlistener_free(s->listener[--s->n_listeners]);
    if (s->wake)
        event_free(s->wake);
    if (s->tick)
        event_free(s->tick);
    if (s->written)
        event_free(s->written);
    if (s->flush)
        event_free(s->flush);
    if (s->base)
        event_base_free(s->base);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    mem_free(s);
}

const char *server_address(const struct server *s)
{
    return s->address;
}

void server_run(struct server *s)
{
    while (!atomic_load(&s->quits))
        event_base_loop(s->base, 0);
}

void server_poll(struct server *s)
{
    event_base_loop(s->base, EVLOOP_NONBLOCK);
}

void server_wake(struct server *s)
{
    const uint64_t one = 1;

    if (write(s->wake_fd, &one, sizeof(one)) < 0)
        return; /* the eventfd's counter is at its maximum, so a wake-up is pending */
}

void server_tell_written(struct server *s)
{
    const struct timeval none = {.tv_sec = 0};

    if (!event_pending(s->written, EV_TIMEOUT, NULL))
        event_add(s->written, &none);
}

void server_quit(struct server *s)
{
    atomic_store(&s->quits, true);
    server_wake(s);
}

void server_drain(struct server *s)
{
    s->draining = true;
    for (struct connection *c = s->first, *next; c; c = next) {
        next = c->next;
        if (c->state != IDLE || !c->asked)
            continue;
        if (evbuffer_get_length(output_of(c)) > 0)
            close_softly(c);
        else
            drop(c);
    }
}

size_t server_n_connections(const struct server *s)
{
    return s->n;
}

size_t server_n_writing(const struct server *s)
{
    size_t n = 0;

    for (const struct connection *c = s->first; c; c = c->next)
        n += evbuffer_get_length(output_of(c)) > 0;
    return n;
}

size_t server_n_failed_handshakes(const struct server *s)
{
    return s->n_failed_handshakes;
}

size_t server_bodies_bytes(const struct server *s)
{
    return atomic_load(&s->bodies.n);
}

void server_set_tls(struct server *s, struct tls *t)
{
    ASSERT(s->tls && t);
    s->tls = t;
}

int server_adopt(struct server *s, int fd, struct err *e)
{
    return add_connection(s, fd, NULL, e);
}
