/* endpoint.h - the paths of requests that are answered from their bodies: the COMPUTED rows of routes.def. */
#ifndef GALLOP_CHAT_ENDPOINT_H
#define GALLOP_CHAT_ENDPOINT_H

#include <stddef.h>

struct dialect;

struct endpoint {
    const char *path;
    unsigned endpoint; /* FIELDS_<NAME> */
    const struct dialect *dialect;
};

/* Returns the endpoint at PATH [n]; NULL: there is none. */
const struct endpoint *endpoint_at(const char *path, size_t n);

#endif
