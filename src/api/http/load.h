/* load.h - the current load of the server: gauges for the metrics, and headers for retries and rate
 * limits.
 */
#ifndef GALLOP_API_HTTP_LOAD_H
#define GALLOP_API_HTTP_LOAD_H

struct api;
struct metrics_now;

void load_gauges(const struct api *a, struct metrics_now *now);

/* Returns a rough estimate of the seconds until the queue has room, from 1 to 60 (for Retry-After). */
double load_retry_s(const struct api *a);

/* Writes the x-ratelimit-* header lines of OpenAI's API for the key KEY; "" if the key has no limit. */
enum { LOAD_LIMITS = 400 };
void load_limits(const struct api *a, const char *key, char out[LOAD_LIMITS]);

#endif
