/* openapi.h - the document at /openapi.json. */
#ifndef GALLOP_API_HTTP_OPENAPI_H
#define GALLOP_API_HTTP_OPENAPI_H

#include <stddef.h>

struct api;
struct buf;
struct route;

/* Writes the document of the routes R [n] that A offers. */
void openapi_write(const struct api *a, const struct route *r, size_t n, struct buf *out);

#endif
