/* redis.h - reads the replies of a Redis server, independently of the connection. redis.c owns the connection
 * and implements the KV store on a Redis server. */
#ifndef GALLOP_KV_STORE_REDIS_H
#define GALLOP_KV_STORE_REDIS_H

#include <hiredis/hiredis.h>

#include "kv/store/store.h"

enum { REDIS_MOST_ELEMENTS = 1 << 16 }; /* maximum length of an array in a reply */

/* The functions of a hiredis reader, with REDIS_MOST_ELEMENTS as the maximum length of an array. */
struct redis_limit {
    redisReplyObjectFunctions fn;
    void *(*array)(const redisReadTask *task, int n); /* hiredis's original function */
};
/* installs the limit in R; OWN must live as long as R */
void redis_limit(struct redis_limit *own, redisReader *r);

/* Reads a reply to SCAN: sets *CURSOR and calls FOUND for each record's key. False: malformed reply. */
bool redis_read_keys(const redisReply *r, uint64_t *cursor, store_found_fn *found, void *ctx);

#endif
