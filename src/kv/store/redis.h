/* redis.h - reads the replies of a Redis server, independently of the connection; redis.c is the medium. */
#ifndef GALLOP_KV_STORE_REDIS_H
#define GALLOP_KV_STORE_REDIS_H

#include <hiredis/hiredis.h>

#include "kv/store/store.h"

enum { REDIS_MOST_ELEMENTS = 1 << 16 }; /* in an array of a reply */

/* The functions of a reader, with a limit on the memory that the announced length of an array takes. */
struct redis_limit {
    redisReplyObjectFunctions fn;
    void *(*array)(const redisReadTask *task, int n); /* hiredis's own function */
};
void redis_limit(struct redis_limit *own, redisReader *r); /* OWN must live as long as R */

/* Reads a reply to SCAN: calls FOUND for each key of a record. False: the reply is something else. */
bool redis_read_keys(const redisReply *r, uint64_t *cursor, store_found_fn *found, void *ctx);

#endif
