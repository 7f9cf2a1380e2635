/* redis.h - what is taken from the replies of a Redis server, apart from the connection they come over. */
#ifndef GALLOP_KV_STORE_REDIS_H
#define GALLOP_KV_STORE_REDIS_H

#include <hiredis/hiredis.h>

#include "kv/store/store.h"

enum { REDIS_MOST_ELEMENTS = 1 << 16 }; /* of an array in a reply */

/* The functions of a reader, with a limit on the memory that the mere announcement of an array takes. */
struct redis_limit {
    redisReplyObjectFunctions fn;
    void *(*array)(const redisReadTask *task, int n); /* hiredis's own */
};
void redis_limit(struct redis_limit *own, redisReader *r); /* OWN lives as long as R */

/* A reply to SCAN: calls FOUND for each key of a record. False: it is something else. */
bool redis_read_keys(const redisReply *r, uint64_t *cursor, store_found_fn *found, void *ctx);

#endif
