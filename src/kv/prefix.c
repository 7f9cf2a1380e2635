/* prefix.c - the tree of prefix.h, stored in arrays, with a hash table of the children of all nodes. */
#include "kv/prefix.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

static const char *const names[] = {"hash", "radix"};

bool prefix_kind_of_name(const char *name, enum prefix_kind *kind)
{
    for (int k = 0; k < 2; k++)
        if (strcmp(name, names[k]) == 0) {
            *kind = (enum prefix_kind)k;
            return true;
        }
    return false;
}

int prefix_open(struct prefix *p, enum prefix_kind kind, size_t n_nodes, size_t block, size_t n_groups,
                struct err *e)
{
    size_t n_buckets = 16, n_tokens, n_places;

    ASSERT(block <= PREFIX_MAX_BLOCK);
    *p = (struct prefix){
        .kind = kind, .block = block, .n_groups = n_groups, .n_nodes = n_nodes, .free = PREFIX_NONE};
    while (n_buckets < 2 * n_nodes)
        n_buckets *= 2;
    if (__builtin_mul_overflow(n_nodes, block, &n_tokens) ||
        __builtin_mul_overflow(n_nodes, n_groups, &n_places) || n_nodes >= PREFIX_NONE)
        return err_nomem(e, "the index of the prefix cache");
    p->n_buckets = n_buckets;
    p->node = mem_zalloc(n_nodes, sizeof(*p->node), MEM_KV);
    p->seed = mem_zalloc(n_nodes, sizeof(*p->seed), MEM_KV);
    p->chain = mem_zalloc(n_nodes, sizeof(*p->chain), MEM_KV);
    p->token = mem_zalloc(n_tokens, sizeof(*p->token), MEM_KV);
    p->place = mem_zalloc(n_places, sizeof(*p->place), MEM_KV);
    p->bucket = mem_zalloc(n_buckets, sizeof(*p->bucket), MEM_KV);
    if (!p->node || !p->seed || !p->chain || !p->token || !p->place || !p->bucket) {
        prefix_close(p);
        return err_nomem(e, "the index of the prefix cache");
    }
    memset(p->bucket, 0xff, n_buckets * sizeof(*p->bucket));
    memset(p->place, 0xff, n_places * sizeof(*p->place));
    for (size_t i = n_nodes; i--;) {
        p->node[i].next = p->free;
        p->free = (uint32_t)i;
    }
    return 0;
}

void prefix_close(struct prefix *p)
{
    mem_free(p->node);
    mem_free(p->seed);
    mem_free(p->chain);
    mem_free(p->token);
    mem_free(p->place);
    mem_free(p->bucket);
    *p = (struct prefix){0};
}

/* ---- finding ---- */

struct prefix_key prefix_chain(struct prefix_key above, const int32_t *token, size_t n)
{
    struct {
        struct prefix_key above;
        int32_t token[PREFIX_MAX_BLOCK];
    } text = {.above = above};
    XXH128_hash_t h;

    memcpy(text.token, token, n * sizeof(*token));
    h = XXH3_128bits(&text, sizeof(above) + n * sizeof(*token));
    return (struct prefix_key){{h.low64, h.high64}};
}

/* Returns the bucket of the children of PARENT whose first token is TOKEN[0]; in a hash index, of the
 * children whose tokens are the block at TOKEN. */
static uint32_t *bucket_of(const struct prefix *p, uint32_t parent, struct prefix_key seed,
                           const int32_t *token)
{
    const uint64_t key[] = {seed.w[0], seed.w[1], parent, (uint32_t)token[0]};
    uint64_t h;

    if (p->kind == PREFIX_RADIX)
        h = XXH3_64bits(key, sizeof(key));
    else
        h = prefix_chain(parent == PREFIX_NONE ? seed : p->chain[parent], token, p->block).w[0];
    return &p->bucket[h & (p->n_buckets - 1)];
}

static bool is_child(const struct prefix *p, uint32_t i, uint32_t parent, struct prefix_key seed)
{
    return p->node[i].parent == parent && memcmp(&p->seed[i], &seed, sizeof(seed)) == 0;
}

static size_t common_tokens(const struct prefix *p, uint32_t i, const int32_t *token, size_t n)
{
    const int32_t *own = p->token + i * p->block;
    size_t at = 0, most = n < p->node[i].n_tokens ? n : p->node[i].n_tokens;

    while (at < most && own[at] == token[at])
        at++;
    return at;
}

uint32_t prefix_find(const struct prefix *p, uint32_t parent, struct prefix_key seed, const int32_t *token,
                     size_t n, size_t *common)
{
    uint32_t best = PREFIX_NONE;

    *common = 0;
    if (n == 0 || (p->kind == PREFIX_HASH && n < p->block))
        return PREFIX_NONE;
    for (uint32_t i = *bucket_of(p, parent, seed, token); i != PREFIX_NONE; i = p->node[i].next) {
        size_t at = is_child(p, i, parent, seed) ? common_tokens(p, i, token, n) : 0;

        if (at > *common && (p->kind == PREFIX_RADIX || at == p->block)) {
            *common = at;
            best = i;
        }
    }
    return best;
}

/* ---- changing ---- */

uint32_t prefix_add(struct prefix *p, uint32_t parent, struct prefix_key seed, const int32_t *token, size_t n)
{
    uint32_t i, *bucket;

    ASSERT(n && n <= p->block, "%zu tokens of %zu", n, p->block);
    if (p->kind == PREFIX_HASH && n < p->block)
        return PREFIX_NONE;
    bucket = bucket_of(p, parent, seed, token);
    for (i = *bucket; i != PREFIX_NONE; i = p->node[i].next)
        if (is_child(p, i, parent, seed) && p->node[i].n_tokens == n && common_tokens(p, i, token, n) == n)
            return i;
    if ((i = p->free) == PREFIX_NONE)
        return PREFIX_NONE;
    p->free = p->node[i].next;
    p->n_used++;
    p->node[i] = (struct prefix_node){.parent = parent, .next = *bucket, .n_tokens = (uint32_t)n};
    p->seed[i] = seed;
    p->chain[i] = prefix_chain(parent == PREFIX_NONE ? seed : p->chain[parent], token, n);
    memcpy(p->token + i * p->block, token, n * sizeof(*token));
    *bucket = i;
    if (parent != PREFIX_NONE)
        p->node[parent].n_children++;
    return i;
}

/* Frees node I if it has neither block nor child and is not held; then treats its parent in the same way, and so on. */
static void prune(struct prefix *p, uint32_t i)
{
    while (i != PREFIX_NONE && !p->node[i].n_children && !p->node[i].n_holders && !p->node[i].n_places) {
        uint32_t parent = p->node[i].parent, *at = bucket_of(p, parent, p->seed[i], p->token + i * p->block);

        while (*at != i)
            at = &p->node[*at].next;
        *at = p->node[i].next;
        p->node[i].next = p->free;
        p->free = i;
        p->n_used--;
        if (parent != PREFIX_NONE)
            p->node[parent].n_children--;
        i = parent;
    }
}

uint32_t prefix_place(const struct prefix *p, uint32_t node, size_t group)
{
    return p->place[node * p->n_groups + group];
}

void prefix_set_place(struct prefix *p, uint32_t node, size_t group, uint32_t place)
{
    uint32_t *at = &p->place[node * p->n_groups + group];

    p->node[node].n_places += (place != PREFIX_NONE) - (*at != PREFIX_NONE);
    *at = place;
    prune(p, node);
}

void prefix_hold(struct prefix *p, uint32_t node)
{
    if (node != PREFIX_NONE)
        p->node[node].n_holders++;
}

void prefix_unhold(struct prefix *p, uint32_t node)
{
    if (node == PREFIX_NONE)
        return;
    ASSERT(p->node[node].n_holders);
    p->node[node].n_holders--;
    prune(p, node);
}

int prefix_check(const struct prefix *p, struct err *e)
{
    size_t n_found = 0, n_free = 0, n_children = 0, n_counted = 0;

    for (size_t b = 0; b < p->n_buckets; b++)
        for (uint32_t i = p->bucket[b]; i != PREFIX_NONE; i = p->node[i].next, n_found++) {
            const struct prefix_node *node = &p->node[i];
            size_t places = 0;

            for (size_t g = 0; g < p->n_groups; g++)
                places += prefix_place(p, i, g) != PREFIX_NONE;
            n_children += node->parent != PREFIX_NONE;
            n_counted += node->n_children;
            if (n_found > p->n_nodes || places != node->n_places)
                return err_set(e, ERR_INPUT, "node %u has blocks in %zu groups, but counts %u", i, places,
                               node->n_places);
            if (!places && !node->n_children && !node->n_holders)
                return err_set(e, ERR_INPUT, "node %u has no block, child or holder, but is not free", i);
        }
    for (uint32_t i = p->free; i != PREFIX_NONE && n_free <= p->n_nodes; i = p->node[i].next)
        n_free++;
    if (n_found != p->n_used || n_found + n_free != p->n_nodes || n_children != n_counted)
        return err_set(e, ERR_INPUT,
                       "%zu nodes are in buckets and %zu free of %zu; %zu are children, but %zu are counted",
                       n_found, n_free, p->n_nodes, n_children, n_counted);
    return 0;
}
