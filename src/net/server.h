/* server.h - an HTTP/1.1 server: connections, requests that come whole, answers at once or as a stream. Knows
 * bytes, not models.
 *
 * One thread runs everything (server_run()); the only calls that others may make are server_wake() and
 * server_quit(), also from signal handlers. libevent has the loop, the sockets and their buffers. A request
 * is given to the handler when its body is there, and is answered at any later time, by one exchange at a
 * time on a connection. While it is not answered the connection is still read, so that a client which leaves
 * is seen at once, also when nothing is being sent; then `gone` is called and the exchange is no more. A
 * client that closes only its own direction counts as one that left. A body of more than SERVER_SMALL_BODY
 * bytes is read only if the handler wants it: a refusal that the head explains costs no memory.
 *
 * TLS changes none of this. Its handshake has the time of a request; one that fails is a line of the log, and
 * a client that speaks HTTP instead gets 400. Handshakes go on one at a time, where nothing else is to be
 * done.
 *
 * What is bounded: connections, bytes and fields of a head, bytes of a body and of all bodies together, the
 * time in which a request has to come, the time between two of a connection, and the time that a client takes
 * to read nothing of what waits for it. There is no limit to how long an answer takes.
 */
#ifndef GALLOP_NET_SERVER_H
#define GALLOP_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/http_head.h"

enum { SERVER_MAX_SOCKETS = 16, SERVER_SMALL_BODY = 16 << 10 };

struct server;
struct server_exchange; /* a request and its answer */
struct tls;
struct cors;

/* Zero means the default in brackets. */
struct server_options {
    const char *host; /* name or address ["127.0.0.1"] */
    int port;         /* 0: one that is free */
    const int *fd;    /* [n_fds] sockets that listen already, instead of a port: the server's from now on */
    size_t n_fds;     /* at most SERVER_MAX_SOCKETS */
    struct tls *tls;  /* all connections are encrypted with it (tls/tls.h); borrowed; NULL: none */
    const struct cors *cors; /* what answers tell browsers (cors.h); borrowed; NULL: nothing */
    size_t max_connections;  /* [1024] more are answered with 503 */
    size_t max_head_bytes;   /* [64 KiB] of request line and headers: 431 */
    size_t max_headers;      /* [128] 431 */
    size_t max_body_bytes;   /* [32 MiB] 413 */
    /* [8 times max_body_bytes] of all bodies larger than SERVER_SMALL_BODY together, as far as they have
     * come, until they are let go of; one that announces more than is left: 503. At least max_body_bytes */
    size_t max_bodies_bytes;
    double request_s; /* [30] from the first byte of a request to its last, and as much again for each
                              * MiB of body that came: 408 */
    double stall_s;   /* [10] between two bytes of a request: 408 */
    double idle_s;    /* [75] between requests of a connection */
    double write_s;   /* [60] without a byte being taken by the client */

    /* A request is there; without its body, or with a part of it, where wants_body() said no. */
    void (*handle)(void *ctx, struct server_exchange *x);
    /* Whether handle() looks at the body of a request with this head. If not, it answers at once, and the
     * connection ends. NULL: at all of them. */
    bool (*wants_body)(void *ctx, const struct http_head *h);
    /* The client left before X was answered: X is no more when this returns. */
    void (*gone)(void *ctx, struct server_exchange *x);
    /* Everything sent on the stream X is on its way. */
    void (*drained)(void *ctx, struct server_exchange *x);
    /* What was sent before server_tell_written() is written, as far as its clients take it. */
    void (*written)(void *ctx);
    /* server_wake() was called, once or several times; also a few times a second. */
    void (*woken)(void *ctx);
    /* The body of a refusal that the server makes itself, as JSON to OUT [size]; returns its length. */
    size_t (*refusal)(void *ctx, int status, const char *why, char *out, size_t size);
    void *ctx;
};

int server_open(struct server **out, const struct server_options *o, struct err *e);
void server_close(struct server *s); /* cuts what is open; NULL is fine */

/* "http://127.0.0.1:8000", "https://..." or "unix:PATH"; of several sockets, with commas between. */
const char *server_address(const struct server *s);

/* Opens a Unix socket at PATH that listens, for server_options.fd. A socket that a server which is gone has
 * left at PATH is replaced. The caller removes the file. ERR_INPUT if another server listens there. */
int server_listen_path(const char *path, int *fd, struct err *e);

/* Only programs of this machine reach the socket FD: it is a Unix socket, or bound to a loopback address. */
bool server_is_local(int fd);

/* Runs until server_quit(). */
void server_run(struct server *s);
void server_quit(struct server *s); /* from any thread */
void server_wake(struct server *s); /* from any thread */

/* Answers from now on end their connection, and those that wait for a further request are closed. New ones
 * are taken. */
void server_drain(struct server *s);
size_t server_n_connections(const struct server *s);
size_t server_n_writing(const struct server *s);           /* of them, those with an answer on its way */
size_t server_n_failed_handshakes(const struct server *s); /* of all connections so far */
size_t server_bodies_bytes(const struct server *s);        /* that count against max_bodies_bytes */

/* New connections are encrypted with T, which is borrowed, those that there are go on as they are. For a
 * server that was opened with TLS. */
void server_set_tls(struct server *s, struct tls *t);

/* Serves the socket FD, which it then owns, as a connection that was accepted: for tests. */
int server_adopt(struct server *s, int fd, struct err *e);
/* Does what is ready without waiting: for tests. */
void server_poll(struct server *s);

/* ---- an exchange ---- */

const struct http_head *server_head(const struct server_exchange *x);
const char *server_body(const struct server_exchange *x, size_t *n); /* until it is answered */
const char *server_peer(const struct server_exchange *x);            /* "127.0.0.1" */
void *server_user(const struct server_exchange *x);
void server_set_user(struct server_exchange *x, void *user);

/* Moves the body to *OUT, which is then the caller's. Returns how many bytes of max_bodies_bytes it takes
 * until server_release_body() is told as many. */
size_t server_take_body(struct server_exchange *x, struct buf *out);
void server_release_body(struct server *s, size_t n_bytes);

/* The answer as a whole; X is no more. HEADERS: lines of their own that end in CR LF, or "". The body of an
 * answer to HEAD is not sent. */
void server_reply(struct server_exchange *x, int status, const char *headers, const char *type,
                  const void *body, size_t n);

/* The same, with the bytes of BODY, which are the server's from now on instead of being copied. */
void server_give(struct server_exchange *x, int status, const char *headers, const char *type,
                 struct buf *body);

/* The answer in parts: begin, send any number of times, end or cut (X is no more). */
void server_begin(struct server_exchange *x, int status, const char *headers, const char *type);
void server_send(struct server_exchange *x, const void *bytes, size_t n);
size_t server_unsent(const struct server_exchange *x); /* bytes that the client has not taken yet */
void server_end(struct server_exchange *x);
void server_cut(struct server_exchange *x); /* the connection ends here, without a proper end of the answer */

/* Calls `written` when the sockets that have room were written to; once, however often this was called. */
void server_tell_written(struct server *s);

#endif
