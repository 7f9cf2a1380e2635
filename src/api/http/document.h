/* document.h - generates docs/API.md. */
#ifndef GALLOP_API_HTTP_DOCUMENT_H
#define GALLOP_API_HTTP_DOCUMENT_H

struct buf;

/* Appends the Markdown text of docs/API.md: the server's paths and the fields of their requests. */
void document_write(struct buf *out);

#endif
