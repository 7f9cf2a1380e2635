/* none.c - implements tls.h in builds without OpenSSL or libevent_openssl: tls_open() fails. */
#include "net/tls/tls.h"

#include <stddef.h>

int tls_open(struct tls **out, const struct tls_options *o, struct err *e)
{
    *out = NULL;
    return err_set(e, ERR_INPUT,
                   "%s: this program was built without support for TLS (libssl and libevent_openssl)",
                   o->certificate);
}

void tls_close(struct tls *t)
{
    (void)t;
}

struct bufferevent *tls_accept(struct tls *t, struct event_base *base, int fd)
{
    (void)t, (void)base, (void)fd;
    return NULL;
}

bool tls_finish(struct bufferevent *bev)
{
    (void)bev;
    return true;
}

enum tls_failure tls_failure(struct bufferevent *bev, const char **why)
{
    (void)bev;
    *why = "";
    return TLS_FAILED;
}
