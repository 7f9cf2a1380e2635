/* openapi.h - generates the OpenAPI document at /openapi.json. */
#ifndef GALLOP_API_HTTP_OPENAPI_H
#define GALLOP_API_HTTP_OPENAPI_H

#include <stddef.h>

struct api;
struct buf;
struct route;

/* Writes the OpenAPI document. It contains the routes of the table R [n] that A serves. */
void openapi_write(const struct api *a, const struct route *r, size_t n, struct buf *out);

#endif
