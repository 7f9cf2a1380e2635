/* environment.h - the environment variables that give the address of the hub, its cache and the token. */
#ifndef GALLOP_HUB_ENVIRONMENT_H
#define GALLOP_HUB_ENVIRONMENT_H

#include <stdbool.h>

#include "base/err.h"

struct hub_environment {
    char cache[2000];    /* HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub */
    char endpoint[1000]; /* HF_ENDPOINT, else https://huggingface.co; slashes at the end are removed */
    char token[1000];    /* HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; "" if none is set */
    bool offline;        /* HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is 1, on, yes or true */
    int connect_seconds; /* limit for connecting: HF_HUB_ETAG_TIMEOUT, else 10 */
    int stall_seconds;   /* limit without received bytes: HF_HUB_DOWNLOAD_TIMEOUT, else 10 */
};

/* Reads the variables into *H, with the precedence of huggingface_hub. An error names the variable. */
int hub_environment_read(struct hub_environment *h, struct err *e);

#endif
