/* cors.c - parses the lists of origins, methods and header fields, and writes the CORS header lines. */
#include "net/cors.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json/json_pull.h"

#define MAX_AGE_S 600 /* seconds for which a browser caches the answer to a preflight request */

enum { MOST_BYTES = 1024, MOST_WORD = 256 }; /* maximum bytes of a list, and of a word in it */

/* ---- the lists ---- */

/* Splits TEXT at commas and blanks into an array of words. Returns NULL if memory is exhausted. */
static json_t *split(const char *text)
{
    json_t *list = json_array();

    while (list && *(text += strspn(text, ", \t"))) {
        size_t n = strcspn(text, ", \t");

        if (json_array_append_new(list, json_stringn(text, n)) != 0) {
            json_decref(list);
            list = NULL;
        }
        text += n;
    }
    return list;
}

/* Returns true if WORD is a token of RFC 9110, the syntax of names of methods and header fields. */
static bool is_token(const char *word)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (const char *p = word; *p; p++)
        if (!(*p >= '0' && *p <= '9') && !((*p | 32) >= 'a' && (*p | 32) <= 'z') && !strchr(others, *p))
            return false;
    return *word != 0;
}

/* Returns true if WORD is scheme://host or scheme://host:port. */
static bool is_origin(const char *word)
{
    const char *host = strstr(word, "://");

    if (!host || host == word || !host[3])
        return false;
    for (const char *p = word; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f || strchr("\"'\\,*", *p))
            return false;
    return !strpbrk(host + 3, "/?#@");
}

/* Reads the list TEXT, the value of OPTION, into *OUT. If it contains "*", sets *ALL, and *OUT is NULL. IS
 * must return true for each word; EXPECTED describes such words for messages. */
static int read_list(json_t **out, bool *all, const char *option, const char *text,
                     bool (*is)(const char *word), const char *expected, struct err *e)
{
    size_t i, bytes = 0;
    json_t *word;
    int rc;

    *all = false;
    if (text[strspn(text, " ")] == '[') {
        rc = json_pull_load(out, text, strlen(text), NULL, e);
        if (rc)
            return rc == ERR_NOMEM ? rc : err_about(e, ERR_USAGE, option, "not a JSON array");
    } else if ((*out = split(text)) == NULL) {
        return err_nomem(e, option);
    }
    json_array_foreach(*out, i, word)
    {
        const char *s = json_string_value(word);
        size_t n = json_string_length(word);

        if (s && strcmp(s, "*") == 0)
            *all = true;
        else if (!s || strlen(s) != n || n > MOST_WORD || !is(s))
            return err_about(e, ERR_USAGE, option, "found '%.80s', expected %s", s ? s : "no string",
                             expected);
        bytes += n + 2;
    }
    if (bytes > MOST_BYTES)
        return err_about(e, ERR_USAGE, option, "found %zu bytes, expected at most %d", bytes, MOST_BYTES);
    if (*all) { /* the other words have no effect beside "*" */
        json_decref(*out);
        *out = NULL;
    }
    return 0;
}

int cors_open(struct cors *c, const char *origins, const char *methods, const char *headers, bool credentials,
              struct err *e)
{
    bool all;
    int rc = 0;

    *c = (struct cors){.credentials = credentials};
    if (!origins && (methods || headers || credentials))
        return err_about(e, ERR_USAGE,
                         methods   ? "allowed_methods"
                         : headers ? "allowed_headers"
                                   : "allow_credentials",
                         "has no effect without allowed_origins");
    if (origins)
        rc = read_list(&c->origins, &c->any, "allowed_origins", origins, is_origin,
                       "* or origins as browsers write them (https://host, https://host:port)", e);
    if (rc == 0 && methods)
        rc = read_list(&c->methods, &all, "allowed_methods", methods, is_token, "* or names of methods", e);
    if (rc == 0 && headers)
        rc = read_list(&c->headers, &all, "allowed_headers", headers, is_token, "* or names of header fields",
                       e);
    if (rc == 0 && c->any && credentials)
        rc = err_about(e, ERR_USAGE, "allow_credentials",
                       "cannot be combined with allowed_origins *, since every web page could then "
                       "send requests with the browser's credentials; list the origins");
    return rc;
}

void cors_close(struct cors *c)
{
    json_decref(c->origins);
    json_decref(c->methods);
    json_decref(c->headers);
    *c = (struct cors){.any = false};
}

/* ---- answers ---- */

/* Returns the value of Access-Control-Allow-Origin for H: its origin as listed, "*" if all origins are
 * allowed, or NULL if H has no origin or an origin that is not allowed. */
static const char *origin_of(const struct cors *c, const struct http_head *h)
{
    const char *origin = http_head_get(h, "origin");
    size_t i;
    json_t *word;

    if (origin && c->any)
        return "*";
    json_array_foreach(c->origins, i, word)
    {
        if (origin && strcasecmp(json_string_value(word), origin) == 0)
            return json_string_value(word);
    }
    return NULL;
}

void cors_lines(const struct cors *c, const struct http_head *h, char out[CORS_LINES])
{
    const char *origin = origin_of(c, h);
    int n = snprintf(out, CORS_LINES, "%s", c->origins ? "Vary: Origin\r\n" : "");

    if (origin)
        snprintf(out + n, CORS_LINES - (size_t)n,
                 "Access-Control-Allow-Origin: %s\r\n%s"
                 "Access-Control-Expose-Headers: X-Request-Id, Retry-After, x-ratelimit-limit-requests, "
                 "x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, "
                 "x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens\r\n",
                 origin, c->credentials ? "Access-Control-Allow-Credentials: true\r\n" : "");
}

/* Appends the line "NAME: word, word" with the words of LIST to OUT. If LIST is NULL, the line has the value
 * OTHERWISE; if that is "", no line is appended. */
static void add_line(char out[CORS_PREFLIGHT], const char *name, const json_t *list, const char *otherwise)
{
    size_t n = strlen(out), i;
    json_t *word;

    if (!list && !*otherwise)
        return;
    n += (size_t)snprintf(out + n, CORS_PREFLIGHT - n, "%s: %s", name, list ? "" : otherwise);
    json_array_foreach(list, i, word)
    {
        n += (size_t)snprintf(out + n, CORS_PREFLIGHT - n, "%s%s", i ? ", " : "", json_string_value(word));
    }
    snprintf(out + n, CORS_PREFLIGHT - n, "\r\n");
}

/* Returns true if TEXT is a list of names of header fields that is short enough to be copied to an answer. */
static bool are_names(const char *text)
{
    char plain[MOST_BYTES];
    size_t n = 0;

    for (; *text && n + 1 < sizeof(plain); text++)
        if (!strchr(", \t", *text))
            plain[n++] = *text;
    plain[n] = 0;
    return !*text && (n == 0 || is_token(plain));
}

bool cors_preflight(const struct cors *c, const struct http_head *h, char out[CORS_PREFLIGHT])
{
    const char *wanted = http_head_get(h, "access-control-request-headers");

    if (strcmp(h->method, "OPTIONS") != 0 || !http_head_get(h, "access-control-request-method") ||
        !origin_of(c, h))
        return false;
    out[0] = 0;
    add_line(out, "Access-Control-Allow-Methods", c->methods, "GET, HEAD, POST");
    /* Browsers do not apply "*" to Authorization and to requests with credentials, so the names in the
     * request are copied to the answer. */
    add_line(out, "Access-Control-Allow-Headers", c->headers, wanted && are_names(wanted) ? wanted : "");
    snprintf(out + strlen(out), CORS_PREFLIGHT - strlen(out), "Access-Control-Max-Age: %d\r\n", MAX_AGE_S);
    return true;
}
