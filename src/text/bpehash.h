/* bpehash.h - the two hashes of bpe: rules by their pair of ids, junctions by their pair of characters. */
#ifndef GALLOP_TEXT_BPEHASH_H
#define GALLOP_TEXT_BPEHASH_H

#include <stddef.h>
#include <stdint.h>

#include "text/bpe.h"

static inline size_t bpehash_pair(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;

    return (size_t)((h ^ h >> 32) * 0xd6e8feb86659fd93u >> 32);
}

/* The slot of the pair, or the free one where it would go. N_SLOTS is a power of two and never full; LEFT is
 * plus one. */
static inline struct bpe_rule *bpehash_slot(struct bpe_rule *rule, size_t n_slots, uint32_t left,
                                            uint32_t right)
{
    size_t mask = n_slots - 1, i = bpehash_pair(left - 1, right) & mask;

    while (rule[i].left != 0 && (rule[i].left != left || rule[i].right != right))
        i = (i + 1) & mask;
    return &rule[i];
}

static inline size_t bpehash_junction(uint32_t x, uint32_t y)
{
    return (size_t)((x * 0x9e3779b1u ^ y * 0x85ebca77u) * (uint64_t)0xd6e8feb86659fd93u >> 40);
}

#endif
