/* err.c - fills struct err and reports failed assertions. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static int set(struct err *e, int code, const char *subject, const char *fmt, va_list ap)
{
    /* formats into MSG first, because an argument may point into E */
    char msg[sizeof(((struct err *)0)->msg)];

    if (!e)
        return code;
    vsnprintf(msg, sizeof(msg), fmt, ap);
    utf8_printable(msg);
    snprintf(e->subject, sizeof(e->subject), "%s", subject);
    memcpy(e->msg, msg, sizeof(msg));
    e->n_where = 0;
    e->n_quoted = 0;
    e->code = code;
    return code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set(e, code, "", fmt, ap);
    va_end(ap);
    return code;
}

int err_about(struct err *e, int code, const char *subject, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set(e, code, subject, fmt, ap);
    va_end(ap);
    return code;
}

int err_vat(struct err *e, int code, const char *where, const char *fmt, va_list ap)
{
    char sentence[sizeof(e->msg)];

    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    err_set(e, code, "%s: ", where);
    if (!e)
        return code;
    e->n_where = strlen(e->msg); /* the truncated length, if WHERE is too long */
    snprintf(e->msg + e->n_where, sizeof(e->msg) - e->n_where, "%s", sentence);
    utf8_printable(e->msg + e->n_where);
    return code;
}

int err_at(struct err *e, int code, const char *where, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_vat(e, code, where, fmt, ap);
    va_end(ap);
    return code;
}

int err_quote(struct err *e, int code, const char *quoted, const char *fmt, ...)
{
    char head[sizeof(e->msg)];
    size_t n_head;
    va_list ap;

    if (!e)
        return code;
    va_start(ap, fmt);
    vsnprintf(head, sizeof(head), fmt, ap);
    va_end(ap);
    err_set(e, code, "%s: ", head);
    n_head = strlen(e->msg);
    snprintf(e->msg + n_head, sizeof(e->msg) - n_head, "%s", quoted);
    utf8_printable(e->msg + n_head);
    e->n_quoted = strlen(e->msg + n_head);
    return code;
}

int err_subject(struct err *e, const char *subject)
{
    if (!e)
        return ERR_OK;
    snprintf(e->subject, sizeof(e->subject), "%s", subject);
    return e->code;
}

static void put_text(const struct err *e, const char *sentence, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s", e->subject, e->subject[0] ? ": " : "", sentence);
    utf8_printable(out);
}

void err_text(const struct err *e, char *out, size_t size)
{
    put_text(e, e->msg, out, size);
}

void err_text_without_path(const struct err *e, char *out, size_t size)
{
    put_text(e, e->msg + e->n_where, out, size);
}

void err_text_for_log(const struct err *e, char *out, size_t size)
{
    char sentence[sizeof(e->msg) + sizeof("...")];
    int n = (int)(strlen(e->msg) - e->n_where - e->n_quoted);

    snprintf(sentence, sizeof(sentence), "%.*s%s", n, e->msg + e->n_where, e->n_quoted ? "..." : "");
    put_text(e, sentence, out, size);
}

int err_nomem(struct err *e, const char *what)
{
    return err_set(e, ERR_NOMEM, "out of memory: %s", what);
}

int err_os(struct err *e, const char *what, const char *path)
{
    char text[128];
    int saved = errno;

    return err_set(e, ERR_OS, "%s: cannot %s: %s", path, what, strerror_r(saved, text, sizeof(text)));
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    char head[sizeof(e->msg)], old[sizeof(*e)];
    size_t n_where, n_known;
    va_list ap;

    if (!e)
        return ERR_OK;
    va_start(ap, fmt);
    vsnprintf(head, sizeof(head), fmt, ap);
    va_end(ap);
    utf8_printable(head);
    err_text(e, old, sizeof(old));
    n_where = e->n_where ? strlen(head) + 2 + strlen(old) - strlen(e->msg + e->n_where) : 0;
    n_known = strlen(head) + 2 + strlen(old) - e->n_quoted; /* bytes before the quoted text */
    e->subject[0] = 0;
    if (snprintf(e->msg, sizeof(e->msg), "%s: %s", head, old) < 0)
        e->msg[0] = 0;
    utf8_printable(e->msg);
    e->n_where = n_where < strlen(e->msg) ? n_where : strlen(e->msg);
    e->n_quoted = n_known < strlen(e->msg) ? strlen(e->msg) - n_known : 0;
    return e->code;
}

int err_utf8(struct err *e, const char *what, const char *s, size_t n)
{
    size_t good = utf8_valid_prefix(s, n), line = 1, begin = 0;

    if (good == n)
        return 0;
    if (!what)
        return err_set(e, ERR_INPUT, "the text is not UTF-8: byte 0x%02x at position %zu",
                       (unsigned char)s[good], good);
    for (const char *p; (p = memchr(s + begin, '\n', good - begin)) != NULL; line++)
        begin = (size_t)(p - s) + 1;
    return err_set(e, ERR_INPUT,
                   "%s: line %zu, byte %zu: 0x%02x does not begin a UTF-8 character; text must be UTF-8",
                   what, line, good - begin + 1, (unsigned char)s[good]);
}

void err_assert_failed(const char *cond, const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "gallop: bug: %s:%d: %s does not hold", file, line, cond);
    if (fmt[1]) { /* ASSERT() puts a blank in front of the format */
        fputc(':', stderr);
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
    }
    fputc('\n', stderr);
    abort();
}
