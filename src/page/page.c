/* page.c - serves the files of the page with content type, ETag, gzip and Content-Security-Policy.
 *
 * The policy lets the page load scripts, styles and pictures from this server only, and send data to no other server.
 * Inline scripts and styles are blocked, so that text of a model can never run as a script.
 */
#include "page/page.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char policy[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-cache\r\n"
    "Vary: Accept-Encoding\r\n";

/* The bytes of the files. cmake/page.cmake generates page_files.S and page_files.def. */
#define PAGE_FILE(n, path, type, etag)                                                    \
    extern const unsigned char page_file_##n[], page_file_##n##_end[], page_packed_##n[], \
        page_packed_##n##_end[];
#include "page/page_files.def"
#undef PAGE_FILE

static const struct page_file files[] = {
#define PAGE_FILE(n, path, type, etag) \
    {path, type, etag, page_file_##n, page_file_##n##_end, page_packed_##n, page_packed_##n##_end},
#include "page/page_files.def"
#undef PAGE_FILE
};

static const struct page_file *page_find(const char *path)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}

/* Reads the next item of the comma-separated list *VALUE ("gzip;q=0.5, br") into *ITEM and its length *N, and advances
 * *VALUE. False: the list has no more items. */
static bool next_item(const char **value, const char **item, size_t *n)
{
    *value += strspn(*value, ", \t");
    *item = *value;
    *n = strcspn(*value, ",");
    *value += *n;
    while (*n && ((*item)[*n - 1] == ' ' || (*item)[*n - 1] == '\t'))
        --*n;
    return *n > 0;
}

static bool accepts_gzip(const char *value)
{
    const char *item;
    size_t n, name;

    while (value && next_item(&value, &item, &n)) {
        name = strcspn(item, ",; \t");
        if ((name == 4 && strncasecmp(item, "gzip", 4) == 0) || (name == 1 && *item == '*')) {
            const char *q = memmem(item, n, "q=0", 3);
            return !q || strspn(q + 2, "0.") < n - (size_t)(q + 2 - item);
        }
    }
    return false;
}

/* Returns whether the header IF_NONE_MATCH contains TAG, as a strong or weak ETag, or is "*". */
static bool is_known(const char *if_none_match, const char *tag)
{
    const char *item;
    size_t n;

    while (if_none_match && next_item(&if_none_match, &item, &n)) {
        if (n > 2 && strncmp(item, "W/", 2) == 0) {
            item += 2;
            n -= 2;
        }
        if ((n == 1 && *item == '*') || (n == strlen(tag) && memcmp(item, tag, n) == 0))
            return true;
    }
    return false;
}

void page_choose(const struct page_file *f, const char *accept_encoding, const char *if_none_match,
                 int *status, bool *packed, char headers[PAGE_HEADERS])
{
    char tag[64];

    *packed = f->packed != f->packed_end && accepts_gzip(accept_encoding);
    snprintf(tag, sizeof(tag), "\"%s%s\"", f->etag, *packed ? "-gz" : "");
    *status = is_known(if_none_match, tag) ? 304 : 200;
    snprintf(headers, PAGE_HEADERS, "%sETag: %s\r\n%s", policy, tag,
             *packed && *status == 200 ? "Content-Encoding: gzip\r\n" : "");
}

bool page_has(const char *path)
{
    return page_find(path) != NULL;
}

bool page_answer(struct server_exchange *x)
{
    const struct http_head *h = server_head(x);
    const struct page_file *f;
    char headers[PAGE_HEADERS];
    const unsigned char *bytes, *end;
    bool packed;
    int status;

    if ((strcmp(h->method, "GET") != 0 && strcmp(h->method, "HEAD") != 0) || (f = page_find(h->path)) == NULL)
        return false;
    page_choose(f, http_head_get(h, "accept-encoding"), http_head_get(h, "if-none-match"), &status, &packed,
                headers);
    bytes = packed ? f->packed : f->bytes;
    end = packed ? f->packed_end : f->bytes_end;
    server_reply(x, status, headers, f->type, bytes, status == 200 ? (size_t)(end - bytes) : 0);
    return true;
}
