/* page.h - the page that the server shows at /: a chat and a live view, whose files are built into the
 * program.
 *
 * The page uses the public API for everything it does. Its files need no API key, since they contain nothing
 * of the server's. cmake/page.cmake makes the table of files and adds third-party libraries if it finds them.
 */
#ifndef GALLOP_PAGE_PAGE_H
#define GALLOP_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/server.h"

struct page_file {
    const char *path; /* "/", "/page/page.css" */
    const char *type; /* of its content */
    const char *etag; /* digest of the bytes, without quotation marks */
    const unsigned char *bytes, *bytes_end;
    /* The same, compressed with gzip. Empty for fonts, which are compressed already. */
    const unsigned char *packed, *packed_end;
};

/* How to answer a request for F with the headers ACCEPT_ENCODING and IF_NONE_MATCH (NULL: not sent). *STATUS:
 * 200 or 304; HEADERS: the header lines; *PACKED: whether to send the compressed bytes. */
enum { PAGE_HEADERS = 1024 };
void page_choose(const struct page_file *f, const char *accept_encoding, const char *if_none_match,
                 int *status, bool *packed, char headers[PAGE_HEADERS]);

bool page_has(const char *path); /* PATH is one of the files */

/* Answers X if it is a GET or HEAD of one of the files. False: it is not, and X is not answered. */
bool page_answer(struct server_exchange *x);

#endif
