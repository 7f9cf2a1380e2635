/* openssl.c - implements tls.h with OpenSSL: an SSL_CTX from files, and bufferevents that use it.
 *
 * SSL_MODE_ENABLE_PARTIAL_WRITE must stay off: after a partial write libevent would skip the rest of the
 * buffer that it was writing.
 */
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/tls/tls.h"

struct tls {
    SSL_CTX *ctx;
};

/* ---- files ---- */

/* Sets the error for FILE: OpenSSL's reason if it is specific, else EXPECTED. */
static int tls_refuse(struct err *e, const char *file, const char *expected)
{
    unsigned long code = ERR_peek_last_error();
    int lib = ERR_GET_LIB(code), reason = ERR_GET_REASON(code);
    bool told = (lib == ERR_LIB_SSL && reason != ERR_R_PEM_LIB) ||
                (lib == ERR_LIB_X509 && reason == X509_R_KEY_VALUES_MISMATCH);

    ERR_clear_error();
    return err_set(e, ERR_INPUT, "%s: %s", file, told ? ERR_reason_error_string(code) : expected);
}

/* Checks that FILE exists and is a regular file, so that reading it does not block. */
static int look_at(const char *file, struct stat *st, struct err *e)
{
    if (stat(file, st) != 0)
        return err_os(e, "read", file);
    if (!S_ISREG(st->st_mode))
        return err_set(e, ERR_INPUT, "%s: a regular file is expected", file);
    return 0;
}

/* Callback of OpenSSL for an encrypted key: sets the flag *CTX and fails, instead of asking for a passphrase
 * on the terminal. */
static int no_passphrase(char *out, int size, int writes, void *ctx)
{
    (void)out, (void)size, (void)writes;
    *(bool *)ctx = true;
    return -1;
}

static void check_dates(const SSL_CTX *ctx, const char *file)
{
    const X509 *x = SSL_CTX_get0_certificate(ctx);

    if (x && X509_cmp_current_time(X509_get0_notBefore(x)) > 0)
        log_warn("%s: the certificate is not valid yet", file);
    if (x && X509_cmp_current_time(X509_get0_notAfter(x)) < 0)
        log_warn("%s: the certificate has expired", file);
}

/* Reads the server's certificate and key. */
static int read_own(SSL_CTX *ctx, const struct tls_options *o, struct err *e)
{
    const char *key = o->key ? o->key : o->certificate;
    bool encrypted = false;
    struct stat st;
    int rc;

    if ((rc = look_at(o->certificate, &st, e)) != 0)
        return rc;
    if (SSL_CTX_use_certificate_chain_file(ctx, o->certificate) != 1)
        return tls_refuse(e, o->certificate, "expected a certificate in PEM");
    if ((rc = look_at(key, &st, e)) != 0)
        return rc;
    if (st.st_mode & S_IROTH)
        log_warn("%s: every user of this machine can read the key", key);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
    rc = SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    SSL_CTX_set_default_passwd_cb(ctx, NULL);
    if (rc != 1 && encrypted) {
        ERR_clear_error();
        return err_set(e, ERR_INPUT, "%s: the key has a passphrase; a key without one is expected", key);
    }
    if (rc != 1 || SSL_CTX_check_private_key(ctx) != 1)
        return tls_refuse(e, key, "expected a private key in PEM");
    check_dates(ctx, o->certificate);
    return 0;
}

static int read_authorities(SSL_CTX *ctx, const struct tls_options *o, struct err *e)
{
    STACK_OF(X509_NAME) * names;
    struct stat st;
    int rc;

    if ((rc = look_at(o->authorities, &st, e)) != 0)
        return rc;
    if (SSL_CTX_load_verify_file(ctx, o->authorities) != 1)
        return tls_refuse(e, o->authorities, "expected certificates in PEM");
    names = SSL_load_client_CA_file(o->authorities);
    if (!names)
        return tls_refuse(e, o->authorities, "expected certificates in PEM");
    SSL_CTX_set_client_CA_list(ctx, names);
    return 0;
}

/* ---- protocol ---- */

/* Refuses a client that offers protocols without http/1.1, as RFC 7301 requires. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_n,
                           const unsigned char *offered, unsigned n, void *ctx)
{
    static const unsigned char http[] = "\10http/1.1";

    (void)ssl, (void)ctx;
    if (SSL_select_next_proto((unsigned char **)out, out_n, http, sizeof(http) - 1, offered, n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    return SSL_TLSEXT_ERR_OK;
}

static bool set_up(SSL_CTX *ctx, enum tls_clients clients)
{
    static const unsigned char name[] = "gallop"; /* session id context, required for client certificates */
    int verify = clients == TLS_CLIENTS_ANY     ? SSL_VERIFY_NONE
                 : clients == TLS_CLIENTS_ASKED ? SSL_VERIFY_PEER
                                                : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;

    /* A connection may end without close_notify, since the framing of HTTP shows whether a request is complete. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    SSL_CTX_set_verify(ctx, verify, NULL);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set_session_id_context(ctx, name, sizeof(name) - 1) == 1;
}

int tls_open(struct tls **out, const struct tls_options *o, struct err *e)
{
    struct tls *t = mem_zalloc(1, sizeof(*t), MEM_NET);
    int rc;

    *out = NULL;
    ERR_clear_error();
    if (!t || !(t->ctx = SSL_CTX_new(TLS_server_method())) || !set_up(t->ctx, o->clients)) {
        tls_close(t);
        ERR_clear_error();
        return err_nomem(e, "TLS");
    }
    rc = read_own(t->ctx, o, e);
    if (rc == 0 && o->authorities)
        rc = read_authorities(t->ctx, o, e);
    if (rc)
        tls_close(t);
    else
        *out = t;
    return rc;
}

void tls_close(struct tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx); /* drops a reference; open connections hold others */
    mem_free(t);
}

/* ---- sockets ---- */

struct bufferevent *tls_accept(struct tls *t, struct event_base *base, int fd)
{
    SSL *ssl = SSL_new(t->ctx);

    if (!ssl)
        return NULL;
    return bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                          BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
}

bool tls_finish(struct bufferevent *bev)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    int rc;

    if (!ssl || !SSL_is_init_finished(ssl) ||
        ((SSL_get_shutdown(ssl) & SSL_SENT_SHUTDOWN) && !SSL_want_write(ssl)))
        return true;
    ERR_clear_error();
    rc = SSL_shutdown(ssl);
    return rc >= 0 || SSL_get_error(ssl, rc) != SSL_ERROR_WANT_WRITE;
}

enum tls_failure tls_failure(struct bufferevent *bev, const char **why)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    unsigned long code;

    *why = "the client left";
    if (BIO_number_read(SSL_get_rbio(ssl)) == 0)
        return TLS_NOTHING_CAME;
    while ((code = bufferevent_get_openssl_error(bev)) != 0) {
        if (ERR_GET_LIB(code) != ERR_LIB_SSL)
            continue;
        if (ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST || ERR_GET_REASON(code) == SSL_R_HTTPS_PROXY_REQUEST) {
            *why = "HTTP without TLS";
            return TLS_PLAIN_HTTP;
        }
        *why = ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED
                   ? X509_verify_cert_error_string(SSL_get_verify_result(ssl))
                   : ERR_reason_error_string(code);
        *why = *why ? *why : "unknown";
        break;
    }
    return TLS_FAILED;
}
