/* dialect.c - what several forms of answers have in common. */
#include "api/dialect.h"

#include <string.h>
#include <time.h>

#include "api/answer.h"
#include "api/request.h"
#include "base/buf.h"
#include "base/json_pull.h"

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

void dialect_error(struct buf *out, int status, const char *message, const char *param)
{
    buf_str(out, "{\"error\":{\"message\":");
    buf_json_str(out, message, strlen(message));
    buf_fmt(out, ",\"type\":\"%s\",\"param\":", type_of(status));
    dialect_put_string(out, param);
    buf_fmt(out, ",\"code\":%d}}", status);
}

void dialect_sent(struct request_choice *h)
{
    h->introduced = true;
    h->closed = h->ended;
    h->n_new = 0;
    h->tokens.n = h->tokens.n_top = 0;
    buf_clear(&h->text);
    buf_clear(&h->reasoning);
    buf_clear(&h->calls);
}

json_t *dialect_calls(struct request_choice *h, struct buf *out)
{
    struct buf text = {.tag = MEM_API};
    json_t *list = NULL;

    answer_end_call(h);
    if (!h->calls.len)
        return NULL;
    buf_fmt(&text, "[%s]", h->calls.data);
    out->oom |= text.oom || json_pull_load_exact(&list, text.data, text.len, "calls", NULL) != 0;
    buf_fini(&text);
    return list;
}

static void change(struct request *c, struct request_choice *h, const struct dialect_blocks *b,
                   enum dialect_block to, struct buf *out)
{
    if (h->block != DIALECT_NO_BLOCK) {
        h->is_last = to == DIALECT_NO_BLOCK;
        b->close(c, h, out);
        h->n_blocks++;
    }
    h->block = to;
}

static void put_block(struct request *c, struct request_choice *h, const struct dialect_blocks *b,
                      enum dialect_block kind, const struct buf *text, struct buf *out)
{
    if (!text->len)
        return;
    if (h->block != kind) {
        change(c, h, b, kind, out);
        b->open(c, h, NULL, NULL, out);
    }
    b->add(c, h, text->data, text->len, out);
}

/* Element CALL of tool_calls: a call, or what goes on of the one before. */
static void put_call(struct request *c, struct request_choice *h, const struct dialect_blocks *b,
                     const json_t *call, struct buf *out)
{
    const char *id = json_string_value(json_object_get(call, "id"));
    const json_t *function = json_object_get(call, "function"),
                 *text = json_object_get(function, "arguments");

    if (id) {
        change(c, h, b, DIALECT_CALL, out);
        b->open(c, h, id, json_string_value(json_object_get(function, "name")), out);
    }
    if (json_string_length(text))
        b->add(c, h, json_string_value(text), json_string_length(text), out);
}

void dialect_put_blocks(struct request *c, struct request_choice *h, const struct dialect_blocks *b,
                        struct buf *out)
{
    json_t *calls = dialect_calls(h, out);
    size_t n = json_array_size(calls), i = 0;

    /* what goes on of the open call stands in front of text that came in the same event */
    if (n && h->block == DIALECT_CALL && !json_object_get(json_array_get(calls, 0), "id"))
        put_call(c, h, b, json_array_get(calls, i++), out);
    put_block(c, h, b, DIALECT_REASONING, &h->reasoning, out);
    put_block(c, h, b, DIALECT_TEXT, &h->text, out);
    for (; i < n; i++)
        put_call(c, h, b, json_array_get(calls, i), out);
    if (h->ended)
        change(c, h, b, DIALECT_NO_BLOCK, out);
    json_decref(calls);
}

/* Bytes of the text between the quotation mark at S and the next of the same kind, -1: S begins none. */
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
    const char *file = strstr(sentence, "chat_template");
    const char *template = file ? file : strstr(sentence, "chat template");
    size_t at = 0;

    out[0] = 0;
    for (const char *s = sentence; *s && at < size;) {
        ptrdiff_t n = quoted(s);

        if (template && s >= template && *s == ':') {
            snprintf(out + at, size - at, ": ...");
            return;
        }
        if (n >= 0 && may_be_private(s + 1, (size_t)n))
            at += (size_t)snprintf(out + at, size - at, "%c...%c", *s, *s);
        else
            at += (size_t)snprintf(out + at, size - at, "%.*s", (int)(n + 2 > 1 ? n + 2 : 1), s);
        s += n + 2 > 1 ? n + 2 : 1;
    }
}
