/* fuzz_kvstore.c - any bytes as what a KV store returns: a record is accepted only if it has the content that
 * was sealed, and replies of a Redis server become keys or nothing. If the first byte of an input is 0, its
 * magic number and checksum are corrected, so that the checks after them are reached. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kv/store/record.h"
#include "kv/store/store.h"

#ifdef GALLOP_HIREDIS
#include "kv/store/redis.h"

static void count(void *ctx, struct prefix_key key)
{
    *(size_t *)ctx += key.w[0] != 1;
}

static void feed_replies(const uint8_t *data, size_t size)
{
    redisReader *reader = redisReaderCreate();
    struct redis_limit limit;
    void *reply = NULL;
    uint64_t cursor;
    size_t n = 0;

    ASSERT(reader != NULL);
    redis_limit(&limit, reader);
    if (redisReaderFeed(reader, (const char *)data, size) == REDIS_OK)
        while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
            redis_read_keys(reply, &cursor, count, &n);
            freeReplyObject(reply);
        }
    ASSERT(n <= size);
    redisReaderFree(reader);
}
#else
static void feed_replies(const uint8_t *data, size_t size)
{
    (void)data;
    (void)size;
}
#endif

/* Returns the key that a record of these bytes claims. */
static struct prefix_key key_in(const char *bytes, size_t size)
{
    struct prefix_key key = {{0}};

    if (size >= 80)
        memcpy(&key, bytes + 64, sizeof(key));
    return key;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t token[64];
    struct record_name name = {.n_tokens = 4, .n_bytes = 64};
    char *copy = malloc(size ? size : 1);

    ASSERT(copy != NULL);
    memcpy(copy, data, size);
    feed_replies(data, size);
    if (size >= RECORD_HEADER && copy[0] == 0) {
        struct record_name said = {0};

        memcpy(copy, "GALLOPKB", 8);
        memcpy(&said.n_tokens, copy + 16, 8);
        memcpy(&said.n_bytes, copy + 24, 8);
        if (record_bytes(&said) == size)
            record_seal(copy);
    }
    name.key = key_in(copy, size);
    if (record_is_whole(copy, size, name.key) && record_is_of(copy, &name, token))
        ASSERT(size == record_bytes(&name));
    free(copy);
    return 0;
}
