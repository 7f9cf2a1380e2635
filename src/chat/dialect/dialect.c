/* dialect.c - JSON values and errors that several dialects write, and refusals without the text of prompts. */
#include "chat/dialect/dialect.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/json/json_tree.h"
#include "chat/schema.h"

static const char *type_of(int status)
{
    switch (status) {
    case 401: return "AuthenticationError";
    case 403: return "PermissionDeniedError";
    case 404: return "NotFoundError";
    case 405: return "MethodNotAllowedError";
    case 408: return "RequestTimeoutError";
    case 413: return "PayloadTooLargeError";
    case 415: return "UnsupportedMediaTypeError";
    case 429: return "RateLimitError";
    case 431: return "HeadersTooLargeError";
    case 501: return "NotImplementedError";
    case 503: return "ServiceUnavailableError";
    case 504: return "TimeoutError";
    default: return status >= 500 ? "InternalServerError" : "BadRequestError";
    }
}

void dialect_put_arguments(const char *text, size_t n, struct buf *out)
{
    json_t *object;

    out->oom |= json_pull_load_exact(&object, text, n, "", NULL) == ERR_NOMEM;
    if (json_is_object(object) && !memchr(text, '\n', n) && !memchr(text, '\r', n)) {
        buf_add(out, text, n);
    } else if (json_is_object(object)) {
        buf_json_tree(out, object, false);
    } else {
        buf_str(out, "{\"arguments\":");
        buf_json_str(out, text, n);
        buf_char(out, '}');
    }
    json_decref(object);
}

bool dialect_is(const json_t *v, const char *text)
{
    const char *own = json_string_value(v);

    return own && strcmp(own, text) == 0;
}

void dialect_put_string(struct buf *out, const char *s)
{
    if (s)
        buf_json_str(out, s, strlen(s));
    else
        buf_json_null(out);
}

void dialect_put_time(int64_t seconds, struct buf *out)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    char text[40];

    gmtime_r(&t, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    buf_json_str(out, text, strlen(text));
}

const struct schema dialect_error_schema = {
    "Error",
    "{'type':'object','required':['error'],'properties':{'error':{'type':'object',"
    "'required':['message','type','param','code'],'properties':{'message':{'type':'string'},"
    "'type':{'type':'string'},'param':{'type':['string','null']},'code':{'type':'integer'}}}}}",
    NULL};

void dialect_error(struct buf *out, int status, const char *message, const char *param)
{
    buf_str(out, "{\"error\":{\"message\":");
    buf_json_str(out, message, strlen(message));
    buf_fmt(out, ",\"type\":\"%s\",\"param\":", type_of(status));
    dialect_put_string(out, param);
    buf_fmt(out, ",\"code\":%d}}", status);
}

void dialect_put_text(struct buf *out, const struct buf *b)
{
    buf_json_str(out, b->data ? b->data : "", b->len);
}

void dialect_put_warnings(const struct answer *a, struct buf *out)
{
    const char *text = a->warnings;

    for (size_t i = 0; i < a->n_warnings; i++, text += strlen(text) + 1) {
        buf_str(out, i ? "," : ",\"warnings\":[");
        dialect_put_string(out, text);
    }
    buf_str(out, a->n_warnings ? "]" : "");
}

/* Returns the number of bytes between the quotation mark at S and the next same mark; -1 if S does not begin a
 * quotation. */
static ptrdiff_t quoted(const char *s)
{
    const char *end = *s == '\'' || *s == '"' || *s == '`' ? strchr(s + 1, *s) : NULL;

    return end ? end - s - 1 : -1;
}

static bool may_be_private(const char *s, size_t n)
{
    return n > 64 || strcspn(s, " \t\r\n") < n;
}

void dialect_reason(const char *sentence, char *out, size_t size)
{
    size_t at = 0;

    out[0] = 0;
    for (const char *s = sentence; *s && at < size;) {
        ptrdiff_t n = quoted(s);

        if (n >= 0 && may_be_private(s + 1, (size_t)n))
            at += (size_t)snprintf(out + at, size - at, "%c...%c", *s, *s);
        else
            at += (size_t)snprintf(out + at, size - at, "%.*s", (int)(n + 2 > 1 ? n + 2 : 1), s);
        s += n + 2 > 1 ? n + 2 : 1;
    }
}
