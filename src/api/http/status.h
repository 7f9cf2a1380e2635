/* status.h - the state of the server at this moment. */
#ifndef GALLOP_API_HTTP_STATUS_H
#define GALLOP_API_HTTP_STATUS_H

#include <stdbool.h>

struct api;
struct metrics_now;

void status_gauges(const struct api *a, struct metrics_now *now);

/* The time in which the queue will have room, about. */
double status_retry_s(const struct api *a);

/* Writes OpenAI's header lines about the limits of KEY; "" where it has none. */
enum { STATUS_LIMITS = 400 };
void status_limits(const struct api *a, const char *key, char out[STATUS_LIMITS]);

/* The engine has been in one step for longer than --step-timeout. The log says so once for each such step,
 * and again when the step ends. */
bool status_stalled(struct api *a);

#endif
