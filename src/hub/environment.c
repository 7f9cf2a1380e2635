/* environment.c - reads the HF_* variables.
 *
 * Names and precedence are those of huggingface_hub ("Environment variables" in its documentation), including
 * deprecated names. A token is a secret, so no message contains it. It becomes part of an HTTP header line,
 * so a token with a blank or a control character is refused.
 */
#include "hub/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Returns the value of the variable NAME, else of its deprecated name OLDER; NULL if both are unset or empty. */
static const char *value_of(const char *name, const char *older)
{
    const char *v = getenv(name);

    if ((!v || !*v) && older)
        v = getenv(older);
    return v && *v ? v : NULL;
}

static bool is_on(const char *name, const char *older)
{
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char *v = value_of(name, older);

    for (size_t i = 0; v && i < sizeof(yes) / sizeof(yes[0]); i++)
        if (strcasecmp(v, yes[i]) == 0)
            return true;
    return false;
}

/* Writes BASE/REST, or BASE if REST is "", to out[size]; replaces ~ at the beginning of BASE by $HOME. */
static int put_path(char *out, size_t size, const char *base, const char *rest, const char *name,
                    struct err *e)
{
    const char *home = base[0] == '~' && (base[1] == '/' || !base[1]) ? getenv("HOME") : NULL;
    int n = snprintf(out, size, "%s%s%s%s", home ? home : "", home ? base + 1 : base, *rest ? "/" : "", rest);

    if (n < 0 || (size_t)n >= size)
        return err_set(e, ERR_INPUT, "%s: the value is longer than %zu bytes", name, size);
    return 0;
}

static int put_home(char *out, size_t size, struct err *e)
{
    const char *home = value_of("HF_HOME", NULL), *xdg = value_of("XDG_CACHE_HOME", NULL);

    if (home)
        return put_path(out, size, home, "", "HF_HOME", e);
    if (xdg)
        return put_path(out, size, xdg, "huggingface", "XDG_CACHE_HOME", e);
    if (!value_of("HOME", NULL))
        return err_set(e, ERR_INPUT,
                       "neither HF_HOME nor HOME is set; one of them must give the folder of the hub cache");
    return put_path(out, size, "~/.cache", "huggingface", "HOME", e);
}

static int put_token(char *out, size_t size, const char *text, const char *where, struct err *e)
{
    static const char blanks[] = " \t\r\n";
    size_t n;

    text += strspn(text, blanks);
    for (n = strlen(text); n && strchr(blanks, text[n - 1]);)
        n--;
    if (n >= size)
        return err_set(e, ERR_INPUT, "%s: the token has %zu bytes; at most %zu are expected", where, n,
                       size - 1);
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return err_set(e, ERR_INPUT, "%s: byte %zu of the token is not a printable ASCII character",
                           where, i);
    memcpy(out, text, n);
    out[n] = 0;
    return 0;
}

static int read_token(struct hub_environment *h, const char *home, struct err *e)
{
    const char *text = value_of("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
               *file = value_of("HF_TOKEN_PATH", NULL);
    char path[2100], bytes[sizeof(h->token) + 8];
    ssize_t n;
    int fd, rc;

    if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN", NULL))
        return 0;
    if (text)
        return put_token(h->token, sizeof(h->token), text, "HF_TOKEN", e);
    rc = file ? put_path(path, sizeof(path), file, "", "HF_TOKEN_PATH", e)
              : put_path(path, sizeof(path), home, "token", "HF_HOME", e);
    if (rc)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_os(e, "read the token", path);
    n = read(fd, bytes, sizeof(bytes) - 1);
    rc = n < 0 ? err_os(e, "read the token", path) : 0;
    close(fd);
    if (rc)
        return rc;
    bytes[n] = 0;
    return put_token(h->token, sizeof(h->token), bytes, path, e);
}

static int read_seconds(int *out, const char *name, struct err *e)
{
    const char *text = value_of(name, NULL);
    char *end;
    long v;

    *out = 10;
    if (!text)
        return 0;
    v = strtol(text, &end, 10);
    if (end == text || *end || v < 1 || v > 86400)
        return err_set(e, ERR_INPUT, "%s is \"%.40s\"; a number of seconds from 1 to 86400 is expected", name,
                       text);
    *out = (int)v;
    return 0;
}

int hub_environment_read(struct hub_environment *h, struct err *e)
{
    const char *cache = value_of("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
    const char *endpoint = value_of("HF_ENDPOINT", NULL);
    char home[1900];
    int rc;

    *h = (struct hub_environment){.offline = is_on("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")};
    if (!endpoint)
        endpoint = "https://huggingface.co";
    if (strncmp(endpoint, "https://", 8) != 0 && strncmp(endpoint, "http://", 7) != 0)
        return err_set(e, ERR_INPUT, "HF_ENDPOINT is \"%.200s\"; it must begin with https:// or http://",
                       endpoint);
    if ((rc = put_home(home, sizeof(home), e)) != 0 ||
        (rc = put_path(h->endpoint, sizeof(h->endpoint), endpoint, "", "HF_ENDPOINT", e)) != 0 ||
        (rc = cache ? put_path(h->cache, sizeof(h->cache), cache, "", "HF_HUB_CACHE", e)
                    : put_path(h->cache, sizeof(h->cache), home, "hub", "HF_HOME", e)) != 0 ||
        (rc = read_token(h, home, e)) != 0 ||
        (rc = read_seconds(&h->connect_seconds, "HF_HUB_ETAG_TIMEOUT", e)) != 0)
        return rc;
    for (size_t n = strlen(h->endpoint); n && h->endpoint[n - 1] == '/';)
        h->endpoint[--n] = 0;
    return read_seconds(&h->stall_seconds, "HF_HUB_DOWNLOAD_TIMEOUT", e);
}
