/* load.h - how busy the server is at this moment. */
#ifndef GALLOP_API_HTTP_LOAD_H
#define GALLOP_API_HTTP_LOAD_H

struct api;
struct metrics_now;

void load_gauges(const struct api *a, struct metrics_now *now);

/* The time in which the queue will have room, about. */
double load_retry_s(const struct api *a);

/* Writes OpenAI's header lines about the limits of KEY; "" if it has none. */
enum { LOAD_LIMITS = 400 };
void load_limits(const struct api *a, const char *key, char out[LOAD_LIMITS]);

#endif
