/* name.c - reads names of models on a hub.
 *
 * The rules are the hub's own and keep every name inside the folder of its repository. Organization and name
 * have letters, digits, -, _ and .; they do not begin or end with - or ., and contain no "--" (the separator
 * in names of cache folders) and no "..". A revision follows git's rules for names of references.
 */
#include "hub/name.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool part_is_good(const char *s, size_t n)
{
    if (n == 0 || !is_word(s[0]) || !is_word(s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_word(s[i]) && ((s[i] != '-' && s[i] != '.') || s[i + 1] == s[i]))
            return false;
    return true;
}

static bool revision_is_good(const char *s)
{
    size_t n = strlen(s);

    if (n == 0 || n >= HUB_NAME_REVISION_MAX || s[n - 1] == '/' || s[n - 1] == '.' || strstr(s, "..") ||
        strstr(s, "@{") || strstr(s, ".lock"))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool first = i == 0 || s[i - 1] == '/';

        if ((unsigned char)s[i] <= ' ' || s[i] == 0x7f || strchr("~^:?*[\\", s[i]) ||
            (first && (s[i] == '/' || s[i] == '.' || s[i] == '-')))
            return false;
    }
    return true;
}

bool hub_name_parse(struct hub_name *id, const char *text)
{
    size_t len = strcspn(text, ":"), n, org = strcspn(text, "/");
    char head[HUB_NAME_REPO_MAX + HUB_NAME_REVISION_MAX];
    char *at;

    *id = (struct hub_name){0};
    if (len >= sizeof(head))
        return false;
    memcpy(head, text, len);
    head[len] = 0;
    at = strchr(head, '@');
    n = at ? (size_t)(at - head) : len;
    if (org >= n || n >= sizeof(id->repo) || !part_is_good(head, org) ||
        !part_is_good(head + org + 1, n - org - 1))
        return false;
    memcpy(id->repo, head, n);
    if (text[len] == ':') {
        if (!hub_name_is_gguf(text + len + 1, strlen(text + len + 1)))
            return false;
        strcpy(id->file, text + len + 1);
    }
    return hub_name_set_revision(id, at ? at + 1 : "main", NULL) == 0;
}

int hub_name_set_revision(struct hub_name *id, const char *revision, struct err *e)
{
    if (!revision_is_good(revision))
        return err_set(e, ERR_INPUT, "%s: \"%.200s\" cannot be a revision (a branch, a tag or a commit)",
                       id->repo, revision);
    memcpy(id->revision, revision, strlen(revision) + 1);
    return 0;
}

bool hub_name_is_commit(const char *s)
{
    return strspn(s, "0123456789abcdef") == HUB_NAME_COMMIT && s[HUB_NAME_COMMIT] == 0;
}

bool hub_name_folder(const struct hub_name *id, char *out, size_t size)
{
    size_t org = strcspn(id->repo, "/");
    int n = snprintf(out, size, "models--%.*s--%s", (int)org, id->repo, id->repo + org + 1);

    return n > 0 && (size_t)n < size;
}

bool hub_name_is_plain(const char *s, size_t n)
{
    if (n == 0 || n >= HUB_NAME_FILE_MAX || s[0] == '.' || utf8_valid_prefix(s, n) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f || s[i] == '/' || s[i] == '\\' || s[i] == ':')
            return false;
    return true;
}

bool hub_name_is_gguf(const char *s, size_t n)
{
    const char *slash = memchr(s, '/', n);
    size_t folder = slash ? (size_t)(slash - s) : 0;

    if (!slash)
        return hub_name_is_plain(s, n);
    return n < HUB_NAME_FILE_MAX && n > 5 && memcmp(s + n - 5, ".gguf", 5) == 0 &&
           hub_name_is_plain(s, folder) && hub_name_is_plain(slash + 1, n - folder - 1);
}

bool hub_name_quote(const char *text, char *out, size_t size)
{
    static const char digit[] = "0123456789ABCDEF";
    size_t n = 0;

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (n + 4 > size)
            return false;
        if (is_word(*text) || c == '-' || c == '.' || c == '~') {
            out[n++] = *text;
        } else {
            out[n++] = '%';
            out[n++] = digit[c >> 4];
            out[n++] = digit[c & 15];
        }
    }
    if (n >= size)
        return false;
    out[n] = 0;
    return true;
}
