/* hubenv.h - the environment variables that say where the hub is, where its cache is, and who asks. */
#ifndef GALLOP_CKPT_HUBENV_H
#define GALLOP_CKPT_HUBENV_H

#include <stdbool.h>

#include "base/err.h"

struct hubenv {
    char cache[2000];    /* HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub */
    char endpoint[1000]; /* HF_ENDPOINT, else https://huggingface.co; without a slash at its end */
    char token[1000];    /* HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; "" without one */
    bool offline;        /* HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE: 1, on, yes or true */
    int connect_seconds; /* HF_HUB_ETAG_TIMEOUT, else 10 */
    int stall_seconds;   /* HF_HUB_DOWNLOAD_TIMEOUT, else 10 */
};

/* Reads them as huggingface_hub does; an error names the variable. */
int hubenv_read(struct hubenv *h, struct err *e);

#endif
