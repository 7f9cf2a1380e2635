/* lookup.c - allocates the index of a sequence. */
#include "engine/guess/lookup.h"

#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"

struct guess_lookup *guess_lookup_new(size_t capacity, size_t max_length, const uint8_t *salt,
                                      size_t n_skipped)
{
    size_t most = capacity < MATCH_MAX_TOKENS ? capacity : MATCH_MAX_TOKENS;
    /* The index follows the struct, whose size is a multiple of its alignment. The pages of a large index take memory
     * when they are first written. */
    struct guess_lookup *l = mem_zalloc(1, sizeof(*l) + match_bytes(most), MEM_ENGINE);
    uint64_t realm[2] = {0, 0};

    if (!l)
        return NULL;
    if (salt)
        memcpy(realm, salt, sizeof(realm));
    match_init(&l->own, l + 1, most, max_length < MATCH_MAX_LENGTH ? max_length : MATCH_MAX_LENGTH,
               strmap_seed());
    l->writer = history_writer(realm, n_skipped);
    return l;
}

void guess_lookup_free(struct guess_lookup *l)
{
    mem_free(l);
}
