/* server.h - an HTTP/1.1 server: connections, complete requests, and answers at once or as a stream. The caller
 * provides the routes.
 *
 * One thread runs the server (server_run()). Only server_wake() and server_quit() may be called from other threads and
 * from signal handlers. libevent provides the loop, the sockets and their buffers. The handler gets a request when its
 * body has arrived and may answer it at any later time; a connection has one exchange at a time. The server keeps
 * reading while a request is answered, so that it notices at once when the client disconnects; then it calls `gone` and
 * frees the exchange. A client that shuts down its sending direction counts as disconnected. A body of more than
 * SERVER_SMALL_BODY bytes is read only if the handler wants it, so that requests that are refused by their head cost no
 * memory.
 *
 * With TLS, the handshake has the time limit of a request; a failed handshake is logged, and a client that sends HTTP
 * without TLS gets 400. Handshakes have the lowest priority in the loop and are done one at a time.
 *
 * Limits apply to connections, bytes and fields of a head, bytes of one body and of all bodies, the time until a
 * request is complete, the time without progress of a request, the time between two requests of a connection, and the
 * time without progress in sending output. The time until a request is answered is not limited.
 */
#ifndef GALLOP_NET_SERVER_H
#define GALLOP_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/http_head.h"

enum { SERVER_MAX_SOCKETS = 16, SERVER_SMALL_BODY = 16 << 10, SERVER_PACE_BYTES = 64 << 10 };

/* A header line for statuses that clients of OpenAI and Anthropic would repeat, although a repeated request would fail
 * in the same way. */
#define SERVER_NO_RETRY "X-Should-Retry: false\r\n"

struct server;
struct sockaddr;
struct server_exchange; /* a request and its answer */
struct tls;
struct cors;

/* Options and callbacks of a server. A limit of 0 has its default, given in [brackets]. */
struct server_options {
    const char *host; /* name or address to listen on ["127.0.0.1"] */
    int port;         /* port to listen on; 0: the system chooses a free one */
    /* [n_fds] Listening sockets to use instead of host and port. The server owns them. */
    const int *fd;
    size_t n_fds; /* at most SERVER_MAX_SOCKETS */
    /* TLS of all connections (tls/tls.h), borrowed. NULL: no TLS. */
    struct tls *tls;
    /* CORS settings (cors.h), borrowed. NULL: no CORS headers. */
    const struct cors *cors;
    size_t max_connections; /* [1024] maximum number of connections; further ones get 503 */
    size_t max_head_bytes;  /* [64 KiB] maximum size of request line and header fields, else 431 */
    size_t max_headers;     /* [128] maximum number of header fields, else 431 */
    size_t max_body_bytes;  /* [32 MiB] maximum size of a body, else 413 */
    /* [8 times max_body_bytes] Maximum size of all bodies larger than SERVER_SMALL_BODY together, at least
     * max_body_bytes. Bytes count from their arrival until the body is released. The clients share them
     * (base/shares.h). A request that announces more bytes than are left for it gets 503, unless slow bodies
     * make room (slow_s). */
    size_t max_bodies_bytes;
    /* [30] Time limit from the first byte of a request to its last; it starts anew with each MiB of body that
     * has arrived. Exceeding it gives 408. */
    double request_s;
    /* [10] Time limit between two reads of a request and, after the first MiB of a body, for each further
     * SERVER_PACE_BYTES. Exceeding it gives 408. */
    double stall_s;
    /* [1] A body of which no further SERVER_PACE_BYTES have arrived for this time is slow: it gets 408 if
     * another request needs its room in max_bodies_bytes. */
    double slow_s;
    double idle_s;           /* [75] time limit between two requests of a connection */
    double write_s;          /* [60] time limit without progress in sending output */
    double (*seconds)(void); /* [clock_seconds()] clock of these limits but write_s; for tests */

    /* Called with a request when its body has arrived or, if wants_body() returned false, before. */
    void (*handle)(void *ctx, struct server_exchange *x);
    /* Returns whether handle() needs the body of a request with head H. If not, handle() must answer at once,
     * and the connection closes. NULL: handle() needs every body. */
    bool (*wants_body)(void *ctx, const struct http_head *h);
    /* Returns the number of the client (base/shares.h) at the address PEER that sent the head H. NULL: all
     * requests have one client. */
    uint32_t (*client)(void *ctx, const struct http_head *h, const char *peer);
    /* Called if the client disconnects before X is answered. X is freed afterwards. */
    void (*gone)(void *ctx, struct server_exchange *x);
    /* Called when all bytes sent so far on the stream X have been written to the socket. */
    void (*drained)(void *ctx, struct server_exchange *x);
    /* Called after server_tell_written(), when pending output has been written to all sockets that have room. */
    void (*written)(void *ctx);
    /* Called once after one or more calls of server_wake(), and also four times per second. */
    void (*woken)(void *ctx);
    /* Writes the JSON body of an answer in which the server itself refuses a request to out[size]. Returns its
     * length. */
    size_t (*refusal)(void *ctx, int status, const char *why, char *out, size_t size);
    void *ctx; /* the first argument of the callbacks */
};

int server_open(struct server **out, const struct server_options *o, struct err *e);
/* Closes all connections at once. S may be NULL. */
void server_close(struct server *s);

/* Returns the addresses of the server, separated by commas: "http://127.0.0.1:8000", "https://..." or "unix:PATH". */
const char *server_address(const struct server *s);

/* Opens a listening Unix socket at PATH, for server_options.fd. Replaces the socket file of a server that no
 * longer runs. The caller deletes the file at the end. ERR_INPUT: another server listens on it. */
int server_listen_path(const char *path, int *fd, struct err *e);

/* Returns true if AT is a loopback address: 127.0.0.0/8, also within IPv6, or ::1. */
bool server_is_loopback(const struct sockaddr *at);

/* Returns true if only programs on this machine can reach the socket FD: it is a Unix socket, or bound to a
 * loopback address. */
bool server_is_local(int fd);

/* Runs until server_quit(). */
void server_run(struct server *s);
void server_quit(struct server *s); /* any thread may call it */
void server_wake(struct server *s); /* any thread may call it */

/* Closes idle connections at once and, from now on, every connection after its answer. New connections are
 * still accepted. */
void server_drain(struct server *s);
size_t server_n_connections(const struct server *s);
size_t server_n_writing(const struct server *s);           /* connections with unwritten output */
size_t server_n_failed_handshakes(const struct server *s); /* TLS handshakes that failed so far */
size_t server_bodies_bytes(const struct server *s);        /* bytes that count against max_bodies_bytes */

/* Replaces the TLS context of new connections by T, which is borrowed. The server must have been opened with TLS. */
void server_set_tls(struct server *s, struct tls *t);

/* For tests: treats the socket FD, which the server then owns, as an accepted connection. */
int server_adopt(struct server *s, int fd, struct err *e);
/* For tests: handles the events that are ready, without waiting. */
void server_poll(struct server *s);

/* ---- an exchange ---- */

const struct http_head *server_head(const struct server_exchange *x);
const char *server_body(const struct server_exchange *x, size_t *n); /* valid until X is answered */
const char *server_peer(const struct server_exchange *x);            /* "127.0.0.1" */
void *server_user(const struct server_exchange *x);
void server_set_user(struct server_exchange *x, void *user);

/* Bytes that count against max_bodies_bytes for a client. */
struct server_body_bytes {
    size_t n;
    uint32_t client;
};

/* Moves the body to *OUT. Its bytes count against max_bodies_bytes until the caller passes the result to
 * server_release_body(). */
struct server_body_bytes server_take_body(struct server_exchange *x, struct buf *out);
void server_release_body(struct server *s, struct server_body_bytes bytes);

/* Sends a complete answer and frees X. HEADERS are lines that end with CR LF, or "". The answer to HEAD has no body. */
void server_reply(struct server_exchange *x, int status, const char *headers, const char *type,
                  const void *body, size_t n);

/* Sends a complete answer like server_reply(), but takes ownership of the bytes of BODY instead of copying them. */
void server_give(struct server_exchange *x, int status, const char *headers, const char *type,
                 struct buf *body);

/* Sends an answer in parts: server_begin(), server_send() any number of times, then server_end() or
 * server_cut(), which free X. */
void server_begin(struct server_exchange *x, int status, const char *headers, const char *type);
void server_send(struct server_exchange *x, const void *bytes, size_t n);
size_t server_unsent(const struct server_exchange *x); /* bytes that are not written to the socket yet */
void server_end(struct server_exchange *x);
void server_cut(struct server_exchange *x); /* closes the connection in the middle of the answer */

/* Requests a call of `written` after pending output has been written to the sockets that have room. Several
 * requests give one call. */
void server_tell_written(struct server *s);

#endif
