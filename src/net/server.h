/* server.h - an HTTP/1.1 server: connections, complete requests, answers at once or as a stream. Does not
 * interpret requests.
 *
 * One thread runs everything (server_run()). Only server_wake() and server_quit() may be called from other
 * threads and from signal handlers. libevent provides the loop, the sockets and their buffers. The handler
 * gets a request when its body has arrived and may answer at any later time; a connection has one exchange at
 * a time. While a request is being answered the connection is still read, so that a client which leaves is
 * noticed at once, also when nothing is being sent; `gone` is called then, and the exchange is freed. A
 * client that closes only its sending direction counts as one that left. A body of more than
 * SERVER_SMALL_BODY bytes is read only if the handler wants it, so that a refusal for which the head is
 * enough costs no memory.
 *
 * With TLS the same holds. The handshake has the time limit of a request; a failed handshake is logged, and a
 * client that speaks HTTP instead gets 400. Handshakes are done one at a time, when there is nothing else to
 * do.
 *
 * The limits: connections, bytes and fields of a head, bytes of a body and of all bodies together, the time
 * in which a request has to arrive, the time between two requests of a connection, and the time for which a
 * client may not read its output. There is no limit on how long an answer takes.
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

/* Zero stands for the default in brackets. */
struct server_options {
    const char *host; /* name or address ["127.0.0.1"] */
    int port;         /* 0: the system chooses a free port */
    /* [n_fds] Listening sockets to use instead of a port. The server owns them. */
    const int *fd;
    size_t n_fds; /* at most SERVER_MAX_SOCKETS */
    /* Encrypts all connections (tls/tls.h). Borrowed. NULL: no TLS. */
    struct tls *tls;
    /* The CORS headers of answers (cors.h). Borrowed. NULL: none. */
    const struct cors *cors;
    size_t max_connections; /* [1024] further connections get 503 */
    size_t max_head_bytes;  /* [64 KiB] request line and headers; larger: 431 */
    size_t max_headers;     /* [128] more: 431 */
    size_t max_body_bytes;  /* [32 MiB] larger: 413 */
    /* [8 times max_body_bytes] Memory for all bodies larger than SERVER_SMALL_BODY together, counted as they
     * arrive and until they are released. At least max_body_bytes. A request that announces more than is left
     * gets 503. */
    size_t max_bodies_bytes;
    /* [30] From the first byte of a request to its last, and as much again for each MiB of body that arrived.
     * Longer: 408. */
    double request_s;
    double stall_s; /* [10] between two bytes of a request; longer: 408 */
    double idle_s;  /* [75] between requests of a connection */
    double write_s; /* [60] without the client taking a byte of output */

    /* Called with a request: with its body, or, where wants_body() returned false, without it or with a part
     * of it. */
    void (*handle)(void *ctx, struct server_exchange *x);
    /* Whether handle() needs the body of a request with this head. If not, handle() answers at once and the
     * connection closes. NULL: it always does. */
    bool (*wants_body)(void *ctx, const struct http_head *h);
    /* The client left before X was answered. X is freed when this returns. */
    void (*gone)(void *ctx, struct server_exchange *x);
    /* Everything sent on the stream X is written. */
    void (*drained)(void *ctx, struct server_exchange *x);
    /* What was sent before server_tell_written() is written, as far as clients read it. */
    void (*written)(void *ctx);
    /* Called after server_wake(), once for one or several calls, and a few times per second in any case. */
    void (*woken)(void *ctx);
    /* Writes the JSON body of a refusal that the server makes itself to OUT [size]. Returns its length. */
    size_t (*refusal)(void *ctx, int status, const char *why, char *out, size_t size);
    void *ctx;
};

int server_open(struct server **out, const struct server_options *o, struct err *e);
/* Closes all connections at once. NULL is fine. */
void server_close(struct server *s);

/* "http://127.0.0.1:8000", "https://..." or "unix:PATH"; several are separated by commas. */
const char *server_address(const struct server *s);

/* Opens a listening Unix socket at PATH, for server_options.fd. Replaces a socket that a server which has
 * ended left at PATH. The caller removes the file. ERR_INPUT: another server listens there. */
int server_listen_path(const char *path, int *fd, struct err *e);

/* Whether only programs on this machine reach the socket FD: it is a Unix socket, or bound to a loopback
 * address. */
bool server_is_local(int fd);

/* Runs until server_quit(). */
void server_run(struct server *s);
void server_quit(struct server *s); /* from any thread */
void server_wake(struct server *s); /* from any thread */

/* From now on, connections close after their answer, and idle ones at once. New connections are accepted. */
void server_drain(struct server *s);
size_t server_n_connections(const struct server *s);
size_t server_n_writing(const struct server *s);           /* connections whose answer is being written */
size_t server_n_failed_handshakes(const struct server *s); /* since the server was opened */
size_t server_bodies_bytes(const struct server *s);        /* that count against max_bodies_bytes */

/* Encrypts new connections with T, which is borrowed; existing ones continue as they are. For a server that
 * was opened with TLS. */
void server_set_tls(struct server *s, struct tls *t);

/* Tests: serves the socket FD, which the server owns from now on, like an accepted connection. */
int server_adopt(struct server *s, int fd, struct err *e);
/* Tests: handles ready events without waiting. */
void server_poll(struct server *s);

/* ---- an exchange ---- */

const struct http_head *server_head(const struct server_exchange *x);
const char *server_body(const struct server_exchange *x, size_t *n); /* valid until it is answered */
const char *server_peer(const struct server_exchange *x);            /* "127.0.0.1" */
void *server_user(const struct server_exchange *x);
void server_set_user(struct server_exchange *x, void *user);

/* Moves the body to *OUT. Returns the bytes that it counts against max_bodies_bytes until the caller passes
 * them to server_release_body(). */
size_t server_take_body(struct server_exchange *x, struct buf *out);
void server_release_body(struct server *s, size_t n_bytes);

/* Sends a complete answer; X is freed. HEADERS are lines that end with CR LF, or "". For HEAD the body is not
 * sent. */
void server_reply(struct server_exchange *x, int status, const char *headers, const char *type,
                  const void *body, size_t n);

/* The same, but takes ownership of the bytes of BODY instead of copying them. */
void server_give(struct server_exchange *x, int status, const char *headers, const char *type,
                 struct buf *body);

/* An answer in parts: begin, send any number of times, then end or cut, which free X. */
void server_begin(struct server_exchange *x, int status, const char *headers, const char *type);
void server_send(struct server_exchange *x, const void *bytes, size_t n);
size_t server_unsent(const struct server_exchange *x); /* bytes that the client has not read yet */
void server_end(struct server_exchange *x);
void server_cut(struct server_exchange *x); /* closes the connection in the middle of the answer */

/* Calls `written` once the sockets that have room were written to; once for one or several calls. */
void server_tell_written(struct server *s);

#endif
