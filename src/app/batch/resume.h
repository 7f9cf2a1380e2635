/* resume.h - finds the results that an earlier run of a batch wrote. */
#ifndef GALLOP_APP_BATCH_RESUME_H
#define GALLOP_APP_BATCH_RESUME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct batch_request; /* requests.h */

/* The results in the file of --output. */
struct resume {
    const char *path;
    json_t *by_index; /* object that maps the index of a request to its custom_id, or to null */
    json_t *by_id;    /* object that maps the custom_id of an OpenAI line to its number of results */
    size_t n;         /* number of results */
};

/* Reads the results in the file PATH, if it exists, and removes errors and an incomplete last line from the file. */
int resume_open(struct resume *r, const char *path, struct err *e);
void resume_close(struct resume *r);

/* Sets *HAS to whether the file has a result of Q that no earlier call of resume_has() has counted.
 * ERR_INPUT: the file belongs to another batch. */
int resume_has(struct resume *r, const struct batch_request *q, bool *has, struct err *e);

#endif
