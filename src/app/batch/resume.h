/* resume.h - the results that an earlier run of a batch wrote. */
#ifndef GALLOP_APP_BATCH_RESUME_H
#define GALLOP_APP_BATCH_RESUME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct request; /* requests.h */

struct resume {
    const char *path;
    json_t *by_index; /* index -> custom_id or null */
    json_t *by_id;    /* custom_id of OpenAI's form -> number of results */
    size_t n;
};

/* Reads the results in the file PATH, if it exists, and removes incomplete ones and errors from it. */
int resume_open(struct resume *r, const char *path, struct err *e);
void resume_close(struct resume *r);
int resume_has(struct resume *r, const struct request *q, bool *has, struct err *e);

#endif
