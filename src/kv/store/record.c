/* record.c - writes and checks headers and checksums of records. */
#include "kv/store/record.h"

#include <string.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they are");

struct header {
    char magic[8];
    uint32_t version, zero;
    uint64_t n_tokens, n_bytes;
    struct prefix_key context, seed, key;
    uint64_t zeros[4];
    struct prefix_key sum;
};
_Static_assert(sizeof(struct header) == RECORD_HEADER, "no holes");
enum { SUMMED = offsetof(struct header, sum) };

static const char magic[8] = {'G', 'A', 'L', 'L', 'O', 'P', 'K', 'B'};

static bool same(struct prefix_key a, struct prefix_key b)
{
    return a.w[0] == b.w[0] && a.w[1] == b.w[1];
}

struct prefix_key record_key(struct prefix_key context, struct prefix_key chain)
{
    const struct prefix_key both[] = {context, chain};
    XXH128_hash_t h = XXH3_128bits(both, sizeof(both));

    return (struct prefix_key){{h.low64, h.high64}};
}

size_t record_tiles(size_t n_tokens)
{
    return RECORD_HEADER + (n_tokens * sizeof(int32_t) + 63) / 64 * 64;
}

size_t record_bytes(const struct record_name *r)
{
    size_t bytes;

    if (r->n_tokens > UINT32_MAX || __builtin_add_overflow(record_tiles(r->n_tokens), r->n_bytes, &bytes))
        return SIZE_MAX;
    return bytes;
}

void record_begin(void *out, const struct record_name *r)
{
    struct header h = {.version = RECORD_VERSION,
                       .n_tokens = r->n_tokens,
                       .n_bytes = r->n_bytes,
                       .context = r->context,
                       .seed = r->seed,
                       .key = r->key};
    size_t end = RECORD_HEADER + r->n_tokens * sizeof(int32_t);

    memcpy(h.magic, magic, sizeof(magic));
    memcpy(out, &h, sizeof(h));
    memset((char *)out + end, 0, record_tiles(r->n_tokens) - end);
}

static struct prefix_key sum_of(const char *record, size_t n)
{
    XXH128_hash_t part[2] = {XXH3_128bits(record, SUMMED),
                             XXH3_128bits(record + RECORD_HEADER, n - RECORD_HEADER)};
    XXH128_hash_t h = XXH3_128bits(part, sizeof(part));

    return (struct prefix_key){{h.low64, h.high64}};
}

/* Returns the bytes of a record with header H. */
static size_t bytes_of(const struct header *h)
{
    const struct record_name r = {.n_tokens = h->n_tokens, .n_bytes = h->n_bytes};

    return record_bytes(&r);
}

void record_seal(void *record)
{
    struct header h;

    memcpy(&h, record, sizeof(h));
    h.sum = sum_of(record, bytes_of(&h));
    memcpy(record, &h, sizeof(h));
}

bool record_is_whole(const void *bytes, size_t n, struct prefix_key key)
{
    struct header h;

    if (n < RECORD_HEADER)
        return false;
    memcpy(&h, bytes, sizeof(h));
    return memcmp(h.magic, magic, sizeof(magic)) == 0 && h.version == RECORD_VERSION && same(h.key, key) &&
           n == bytes_of(&h) && same(h.sum, sum_of(bytes, n));
}

bool record_is_of(const void *bytes, const struct record_name *r, const int32_t *token)
{
    struct header h;

    memcpy(&h, bytes, sizeof(h));
    return h.n_tokens == r->n_tokens && h.n_bytes == r->n_bytes && same(h.context, r->context) &&
           same(h.seed, r->seed) && same(h.key, r->key) &&
           memcmp((const char *)bytes + RECORD_HEADER, token, r->n_tokens * sizeof(*token)) == 0;
}
