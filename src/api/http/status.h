/* status.h - whether the engine goes on. */
#ifndef GALLOP_API_HTTP_STATUS_H
#define GALLOP_API_HTTP_STATUS_H

#include <stdbool.h>

struct api;

/* The engine has been in one step for longer than --step-timeout. The log says so once for each such step,
 * and again when the step ends. */
bool status_stalled(struct api *a);

#endif
