/* lookup.c - allocates the indexes of a sequence and of a prompt. */
#include "engine/guess/lookup.h"

#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"

/* Returns the maximum length of a match: MAX_LENGTH, but at most MATCH_MAX_LENGTH. */
static size_t longest(size_t max_length)
{
    return max_length < MATCH_MAX_LENGTH ? max_length : MATCH_MAX_LENGTH;
}

struct match *guess_lookup_prompt(size_t n, size_t max_length)
{
    size_t most = n < MATCH_MAX_TOKENS ? n : MATCH_MAX_TOKENS;
    struct match *m = mem_zalloc(1, sizeof(*m) + match_bytes(most), MEM_ENGINE);

    if (m)
        match_init(m, m + 1, most, longest(max_length), strmap_seed());
    return m;
}

void guess_lookup_free_prompt(struct match *m)
{
    mem_free(m);
}

struct guess_lookup *guess_lookup_new(const struct match *prompt, size_t capacity, size_t max_length,
                                      const uint8_t *salt, size_t n_skipped)
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
    match_init(&l->own, l + 1, most, longest(max_length), strmap_seed());
    if (prompt)
        match_follow(&l->own, prompt);
    l->writer = history_writer(realm, n_skipped);
    return l;
}

void guess_lookup_free(struct guess_lookup *l)
{
    mem_free(l);
}
