/* tls.h - TLS for a server: a certificate with its key, and sockets that are encrypted with them.
 *
 * openssl.c does it with OpenSSL and libevent's sockets over it; where they were missing at build, none.c
 * refuses tls_open() with a sentence. TLS 1.2 and 1.3, ciphers with forward secrecy and authentication of the
 * data, ALPN http/1.1, no renegotiation; sessions are resumed by tickets alone, so that nothing is kept of
 * clients that left. Belongs to the thread of the server.
 */
#ifndef GALLOP_NET_TLS_TLS_H
#define GALLOP_NET_TLS_TLS_H

#include <stdbool.h>

#include "base/err.h"

struct bufferevent;
struct event_base;
struct tls;

/* Whether clients have to show a certificate: Python's numbers. */
enum tls_clients { TLS_CLIENTS_ANY, TLS_CLIENTS_ASKED, TLS_CLIENTS_PROVEN };

/* Files in PEM. */
struct tls_options {
    const char *certificate;  /* and those that lead to its authority */
    const char *key;          /* without a passphrase; NULL: it is in the file of the certificate */
    const char *authorities;  /* whose certificates of clients are good; NULL: nobody's */
    enum tls_clients clients; /* those that show a bad certificate are refused in both cases but the first */
};

/* Reads the files. ERR_INPUT names the file that is wrong. Warns of a key that everybody on this machine can
 * read, and of a certificate that is not valid now. */
int tls_open(struct tls **out, const struct tls_options *o, struct err *e);
void tls_close(struct tls *t); /* its sockets live on; NULL is fine */

/* The socket FD as a bufferevent of BASE that owns it and begins with the handshake; when that is done, it
 * has BEV_EVENT_CONNECTED. All its callbacks come from the loop, none within another call. NULL: out of
 * memory; FD is still the caller's. */
struct bufferevent *tls_accept(struct tls *t, struct event_base *base, int fd);

/* Tells the other side of BEV that nothing follows (close_notify), once. False: that does not fit into the
 * socket yet. True, too, where there is nothing to be said, as on a socket without TLS. */
bool tls_finish(struct bufferevent *bev);

/* Of a handshake on BEV that did not get to its end. */
enum tls_failure {
    TLS_NOTHING_CAME, /* not a byte */
    TLS_PLAIN_HTTP,   /* the client speaks HTTP without TLS */
    TLS_FAILED,
};

/* *WHY: in a few words. */
enum tls_failure tls_failure(struct bufferevent *bev, const char **why);

#endif
