/* endpoint.h - opens a request by its URL path. The paths are those of the COMPUTED rows of routes.def. */
#ifndef GALLOP_CHAT_ENDPOINT_H
#define GALLOP_CHAT_ENDPOINT_H

#include <stddef.h>

struct request;
struct service;

/* Initializes the zeroed Q as a request to PATH [n], which S answers. Returns 0. If there is no such
 * path, sets the status and the reply of Q to an error and returns ERR_INPUT. */
int endpoint_open(struct request *q, const struct service *s, const char *path, size_t n);

#endif
