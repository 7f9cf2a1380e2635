/* endpoint.h - requests by their paths: the COMPUTED rows of routes.def. */
#ifndef GALLOP_CHAT_ENDPOINT_H
#define GALLOP_CHAT_ENDPOINT_H

#include <stddef.h>

struct request;
struct service;

/* Initializes the zeroed Q as a request to PATH [n], which S answers. Returns 0, or ERR_INPUT after the status and the
 * reply of Q were set to an error: there is no such path. */
int endpoint_open(struct request *q, const struct service *s, const char *path, size_t n);

#endif
