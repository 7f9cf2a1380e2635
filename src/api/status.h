/* status.h - the models, gauges and requests of a server, as JSON for its clients. */
#ifndef GALLOP_API_STATUS_H
#define GALLOP_API_STATUS_H

#include <stdbool.h>

#include "api/api_priv.h"
#include "api/metrics.h"
#include "base/buf.h"

struct request;

void status_gauges(const struct api *a, struct metrics_now *now);
void status_models(const struct api *a, const char *only, struct buf *out); /* ONLY NULL: all */
void status_pace_health(const struct api *a, struct buf *out);
void status_pace_queue(const struct api *a, struct buf *out);
void status_pace_metrics(const struct api *a, struct buf *out);
/* What is computed of ID, for its client. */
bool status_request(const struct api *a, const char *id, const char *key,
                    struct buf *out); /* false: no such */
double status_retry_s(const struct api *a);
/* OpenAI's lines of headers about the limits of KEY; "" where it has none. */
enum { STATUS_LIMITS = 400 };
void status_limits(const struct api *a, const char *key, char out[STATUS_LIMITS]);

/* The next call behind BEHIND (NULL: the first) that its client, who has KEY (NULL: any), knows as ID. */
const struct request *status_find(const struct api *a, const char *id, const char *key,
                                  const struct request *behind);

#endif
