/* tls.h - TLS for a server: a certificate with its key, and encrypted sockets.
 *
 * openssl.c implements this header with OpenSSL and libevent's bufferevents. none.c replaces it in builds
 * without them; its tls_open() fails. Supported are TLS 1.2 and 1.3, AEAD ciphers with forward secrecy and
 * ALPN http/1.1; renegotiation is refused. Sessions are resumed with tickets only, so the server stores
 * nothing for clients that disconnected. A struct tls belongs to the server's thread.
 */
#ifndef GALLOP_NET_TLS_TLS_H
#define GALLOP_NET_TLS_TLS_H

#include <stdbool.h>

#include "base/err.h"

struct bufferevent;
struct event_base;
struct tls;

/* Requirement of client certificates: none is requested, one is requested, or one is required. The values are
 * those of Python's ssl.CERT_NONE, CERT_OPTIONAL and CERT_REQUIRED. */
enum tls_clients { TLS_CLIENTS_ANY, TLS_CLIENTS_ASKED, TLS_CLIENTS_PROVEN };

/* Paths of PEM files, and the requirement of client certificates. */
struct tls_options {
    const char *certificate; /* the certificate, then its chain */
    const char *key;         /* the key, without a passphrase; NULL: in the file of the certificate */
    /* Certificates of the authorities that issue client certificates. NULL: none. */
    const char *authorities;
    enum tls_clients clients; /* except with TLS_CLIENTS_ANY, invalid client certificates are refused */
};

/* Reads the files. ERR_INPUT names the file at fault. Logs a warning if every user of the machine can read
 * the key, or if the certificate has expired or is not valid yet. */
int tls_open(struct tls **out, const struct tls_options *o, struct err *e);
void tls_close(struct tls *t); /* leaves accepted sockets open; T may be NULL */

/* Returns a bufferevent of BASE that owns the socket FD, and starts the handshake. After the handshake it
 * reports BEV_EVENT_CONNECTED. Its callbacks are deferred: they run from the event loop, never inside a
 * function of bufferevents. Returns NULL if memory is exhausted; the caller then still owns FD. */
struct bufferevent *tls_accept(struct tls *t, struct event_base *base, int fd);

/* Sends close_notify on BEV, once. Returns false if the socket has no room for it now, and true if it was sent or is
 * not needed (no TLS). */
bool tls_finish(struct bufferevent *bev);

/* Causes of a failed handshake. */
enum tls_failure {
    TLS_NOTHING_CAME, /* the client sent no byte */
    TLS_PLAIN_HTTP,   /* the client sent HTTP without TLS */
    TLS_FAILED,       /* any other cause */
};

/* Returns the cause of the failed handshake on BEV and sets *WHY to a short description of it. */
enum tls_failure tls_failure(struct bufferevent *bev, const char **why);

#endif
