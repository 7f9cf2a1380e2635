/* status.h - detects an engine that hangs in a step. */
#ifndef GALLOP_API_HTTP_STATUS_H
#define GALLOP_API_HTTP_STATUS_H

#include <stdbool.h>

struct api;

/* Returns whether the engine has been in one step for longer than --step-timeout. Logs one line when such a
 * step is detected and one line when the step ends. */
bool status_stalled(struct api *a);

#endif
