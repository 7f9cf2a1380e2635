/* openapi.h - the document at /openapi.json. */
#ifndef GALLOP_API_OPENAPI_H
#define GALLOP_API_OPENAPI_H

#include "api/api_priv.h"
#include "base/buf.h"

/* The answer of /openapi.json. */
void openapi_write(const struct api *a, struct buf *out);

#endif
