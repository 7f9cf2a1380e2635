/* page.h - the page that the server shows at /: a chat and a live view, whose files are built into the
 * program.
 *
 * It is for people; whatever it does goes through the API that everybody has. The files need no key: they
 * hold nothing of the server's. cmake/page.cmake makes the table of files, and adds libraries of others if it
 * finds them.
 */
#ifndef GALLOP_PAGE_PAGE_H
#define GALLOP_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/server.h"

struct page_file {
    const char *path; /* "/", "/page/page.css" */
    const char *type; /* of its content */
    const char *etag; /* without quotation marks: a digest of the bytes */
    const unsigned char *bytes, *bytes_end;
    const unsigned char *packed,
        *packed_end; /* the same in gzip's format; empty: a font, which is packed already */
};

/* What is answered for F to a request with the headers ACCEPT_ENCODING and IF_NONE_MATCH (NULL: none): 200 or
 * 304 as *status, header lines to HEADERS [PAGE_HEADERS], whether the packed bytes are sent to *packed. */
enum { PAGE_HEADERS = 1024 };
void page_choose(const struct page_file *f, const char *accept_encoding, const char *if_none_match,
                 int *status, bool *packed, char headers[PAGE_HEADERS]);

bool page_has(const char *path); /* one of the files is there */

/* Answers X if it is GET or HEAD of one of the files; false if not, and X is as it was. */
bool page_answer(struct server_exchange *x);

#endif
