/* tls.h - TLS for a server: a certificate with its key, and sockets that are encrypted with it.
 *
 * openssl.c and none.c implement this header: openssl.c with OpenSSL and libevent's bufferevents for it;
 * none.c, where they were missing at build time, refuses tls_open() with a sentence. TLS 1.2 and 1.3, ciphers
 * with forward secrecy and authentication of the data, ALPN http/1.1, no renegotiation. Sessions are resumed
 * with tickets only, so that nothing is stored for clients that left. Belongs to the server's thread.
 */
#ifndef GALLOP_NET_TLS_TLS_H
#define GALLOP_NET_TLS_TLS_H

#include <stdbool.h>

#include "base/err.h"

struct bufferevent;
struct event_base;
struct tls;

/* Whether clients must have a certificate. The values are those of Python's ssl module. */
enum tls_clients { TLS_CLIENTS_ANY, TLS_CLIENTS_ASKED, TLS_CLIENTS_PROVEN };

/* PEM files. */
struct tls_options {
    const char *certificate; /* the certificate, then its chain */
    const char *key;         /* without a passphrase; NULL: it is in the file of the certificate */
    /* Authorities whose client certificates are accepted. NULL: none. */
    const char *authorities;
    enum tls_clients clients; /* invalid certificates are refused, except for TLS_CLIENTS_ANY */
};

/* Reads the files. ERR_INPUT names the file that is wrong. Logs a warning if every user of the machine can
 * read the key, or if the certificate is not valid now. */
int tls_open(struct tls **out, const struct tls_options *o, struct err *e);
void tls_close(struct tls *t); /* its sockets stay open; NULL is fine */

/* Makes a bufferevent of BASE that owns the socket FD and starts the handshake. After the handshake it
 * reports BEV_EVENT_CONNECTED. Its callbacks are called from the loop only, never inside another call. NULL:
 * out of memory; the caller still owns FD. */
struct bufferevent *tls_accept(struct tls *t, struct event_base *base, int fd);

/* Sends close_notify on BEV, once. False: it does not fit into the socket yet. True also if nothing needs to
 * be sent, as on a socket without TLS. */
bool tls_finish(struct bufferevent *bev);

/* Why a handshake on BEV failed. */
enum tls_failure {
    TLS_NOTHING_CAME, /* the client sent no byte */
    TLS_PLAIN_HTTP,   /* the client speaks HTTP without TLS */
    TLS_FAILED,
};

/* Returns the kind of failure. *WHY describes it in a few words. */
enum tls_failure tls_failure(struct bufferevent *bev, const char **why);

#endif
