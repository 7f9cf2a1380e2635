/* http_head.c - parses the lines of a head, then checks the fields that determine the end of the body. */
#include "net/http_head.h"

#include <string.h>
#include <strings.h>

#include "base/utf8.h"

#define MOST_BYTES (UINT64_C(1) << 53)

static int head_refuse(const char **why, int status, const char *sentence)
{
    *why = sentence;
    return status;
}

/* Returns true if the N bytes at S are a token of RFC 9110. */
static bool is_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!letter && (c == 0 || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return n > 0;
}

/* Returns the line at *AT, replaces its CR by NUL, and moves *AT to the next line. Returns NULL if the line
 * does not end with CR LF or contains a control character other than a tab. */
static char *take_line(char **at, const char *end, size_t *n)
{
    char *line = *at, *p = line;

    while (p < end && ((unsigned char)*p >= 0x20 || *p == '\t') && *p != 0x7f)
        p++;
    if (end - p < 2 || p[0] != '\r' || p[1] != '\n')
        return NULL;
    *n = (size_t)(p - line);
    *p = 0;
    *at = p + 2;
    return line;
}

/* Parses the target of a request: a path, "*", or an absolute URL (RFC 9112, 3.2), whose host is stored in h->host. */
static int read_target(struct http_head *h, char *target, const char **why)
{
    bool is_absolute = strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0;
    char *query;

    for (const char *p = target; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
            return head_refuse(why, 400, "the request target must be printable ASCII without spaces");
    query = strchr(target, '?');
    if (query)
        *query++ = 0;
    h->query = query ? query : "";
    h->path = target;
    if (is_absolute) {
        char *from = strstr(target, "://") + 3, *slash = strchr(from, '/');

        h->path = slash ? slash : strcmp(h->method, "OPTIONS") == 0 && !query ? "*" : "/";
        h->host = memmove(target, from, slash ? (size_t)(slash - from) : strlen(from));
        target[slash ? (size_t)(slash - from) : strlen(from)] = 0;
    }
    return h->path[0] == '/' || (strcmp(h->path, "*") == 0 && strcmp(h->method, "OPTIONS") == 0)
               ? 0
               : head_refuse(why, 400, "the request target must begin with / or http://");
}

static int read_request_line(struct http_head *h, char *line, const char **why)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;

    if (!version)
        return head_refuse(why, 400, "the request line is not METHOD TARGET VERSION");
    *target++ = 0;
    *version++ = 0;
    if (!is_token(line, strlen(line)))
        return head_refuse(why, 400, "the method is not a token");
    if (strncmp(version, "HTTP/", 5) != 0 || strlen(version) != 8 || version[6] != '.')
        return head_refuse(why, 400, "the version of the request line is not HTTP/1.1");
    if (version[5] != '1' || (version[7] != '0' && version[7] != '1'))
        return head_refuse(why, 505, "only HTTP/1.1 and HTTP/1.0 are supported");
    h->method = line;
    h->minor = version[7] - '0';
    return read_target(h, target, why);
}

static int read_field(struct http_head *h, char *line, size_t n, size_t max_headers, const char **why)
{
    char *colon = memchr(line, ':', n), *value, *end = line + n;

    if (!colon || !is_token(line, (size_t)(colon - line)))
        return head_refuse(why, 400, "a header line is not NAME: VALUE");
    if (h->n_headers == max_headers)
        return head_refuse(why, 431, "the request has too many header fields");
    value = colon + 1;
    while (*value == ' ' || *value == '\t')
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = *colon = 0;
    for (char *p = line; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    h->header[h->n_headers++] = (struct http_head_field){line, value};
    return 0;
}

/* Returns the number of fields NAME and writes the value of the last one, or NULL, to *VALUE. */
static size_t count(const struct http_head *h, const char *name, const char **value)
{
    size_t n = 0;

    *value = NULL;
    for (size_t i = 0; i < h->n_headers; i++)
        if (strcmp(h->header[i].name, name) == 0) {
            *value = h->header[i].value;
            n++;
        }
    return n;
}

/* Returns true if the comma-separated LIST contains WORD. */
static bool lists(const char *list, const char *word)
{
    size_t n = strlen(word);

    while (list && *list) {
        list += strspn(list, " \t,");
        /* strchr() also finds the NUL at the end of the list */
        if (strncasecmp(list, word, n) == 0 && strchr(" \t,", list[n]))
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

static bool read_length(const char *text, uint64_t *out)
{
    *out = 0;
    if (*text == 0)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        *out = *out * 10 + (uint64_t)(*text - '0');
        if (*out >= MOST_BYTES)
            return false;
    }
    return true;
}

/* Returns true if S has only characters of a host and port (RFC 3986), or is empty. */
static bool is_host(const char *s)
{
    static const char more[] = "-._~%!$&'()*+,;=:[]";

    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
              strchr(more, *s)))
            return false;
    return true;
}

/* Returns true if one of the fields NAME, whose values together form one list, contains WORD. */
static bool any_lists(const struct http_head *h, const char *name, const char *word)
{
    for (size_t i = 0; i < h->n_headers; i++)
        if (strcmp(h->header[i].name, name) == 0 && lists(h->header[i].value, word))
            return true;
    return false;
}

/* Checks that there is one Host field. Its value counts unless the target is absolute (RFC 9112, 3.2.2). */
static int read_host(struct http_head *h, const char **why)
{
    const char *value;
    size_t n = count(h, "host", &value);

    if (n > 1 || (n == 0 && h->minor == 1))
        return head_refuse(why, 400, "Host is missing or repeated");
    if (value && !is_host(value))
        return head_refuse(why, 400, "Host is not a host name or address");
    if (h->host && (!h->host[0] || !is_host(h->host)))
        return head_refuse(why, 400, "the request target has no host name or address behind http://");
    h->host = h->host ? h->host : value;
    return 0;
}

/* Refuses repeated fields that identify the client or request, since a proxy could use another value. */
static int check_single(const struct http_head *h, const char **why)
{
    const char *value;

    if (count(h, "authorization", &value) > 1)
        return head_refuse(why, 400, "Authorization is repeated");
    if (count(h, "x-api-key", &value) > 1)
        return head_refuse(why, 400, "X-Api-Key is repeated");
    if (count(h, "x-request-id", &value) > 1)
        return head_refuse(why, 400, "X-Request-Id is repeated");
    return 0;
}

/* Reads the fields that determine the length of the body. */
static int read_framing(struct http_head *h, const char **why)
{
    const char *length, *coding, *value;
    size_t n_lengths = count(h, "content-length", &length),
           n_codings = count(h, "transfer-encoding", &coding);

    if (n_lengths > 1 || (length && !read_length(length, &h->body_bytes)))
        return head_refuse(why, 400, "Content-Length is repeated or not an integer");
    if (n_codings > 1 || (coding && (length || h->minor == 0)))
        return head_refuse(why, 400, "Transfer-Encoding is repeated, beside Content-Length, or in HTTP/1.0");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return head_refuse(why, 501, "the only supported transfer coding is chunked");
    h->chunked = coding != NULL;
    if (count(h, "expect", &value) && strcasecmp(value, "100-continue") != 0)
        return head_refuse(why, 417, "the only supported expectation is 100-continue");
    h->expects = value && h->minor == 1;
    return 0;
}

int http_head_read(struct http_head *h, char *text, size_t n, size_t max_headers, const char **why)
{
    const char *end = text + n;
    size_t length;
    char *line;
    int rc;

    *h = (struct http_head){.method = NULL};
    line = take_line(&text, end, &length);
    if (!line)
        return head_refuse(why, 400,
                           "a line of the head does not end with CR LF, or contains a control character");
    if ((rc = read_request_line(h, line, why)) != 0)
        return rc;
    for (;;) {
        line = take_line(&text, end, &length);
        if (!line)
            return head_refuse(why, 400,
                               "a line of the head does not end with CR LF, or contains a control character");
        if (length == 0)
            break;
        if ((rc = read_field(h, line, length, max_headers, why)) != 0)
            return rc;
    }
    if (text != end)
        return head_refuse(why, 400, "there are bytes after the empty line of the head");
    if ((rc = read_host(h, why)) != 0)
        return rc;
    if ((rc = check_single(h, why)) != 0)
        return rc;
    h->keep_alive =
        !any_lists(h, "connection", "close") && (h->minor == 1 || any_lists(h, "connection", "keep-alive"));
    return read_framing(h, why);
}

const char *http_head_get(const struct http_head *h, const char *name)
{
    const char *value;

    count(h, name, &value);
    return value;
}

bool http_head_chunk_size(const char *line, size_t n, uint64_t *bytes)
{
    size_t i = 0;

    *bytes = 0;
    for (; i < n && i < 13; i++) {
        int digit = utf8_hex_digit(line[i]);

        if (digit < 0)
            break;
        *bytes = *bytes << 4 | (uint64_t)digit;
    }
    if (i == 0 || i == 13 || (i < n && line[i] != ';'))
        return false;
    for (; i < n; i++) /* skips a chunk extension, which we do not use */
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            return false;
    return true;
}
