/* document.h - docs/API.md. */
#ifndef GALLOP_API_HTTP_DOCUMENT_H
#define GALLOP_API_HTTP_DOCUMENT_H

struct buf;

/* Writes the paths of the server and the fields of requests, for people. */
void document_write(struct buf *out);

#endif
