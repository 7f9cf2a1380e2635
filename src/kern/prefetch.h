/* prefetch.h - software prefetching for the kernels of all instruction sets: into the cache level that is
 * fastest on this processor, and for attention in the order in which a kernel reads the tiles of a chunk.
 *
 * An attention kernel reads the keys of the tiles [t0, t1), then the values of the same tiles. The tiles of
 * keys that the caller uses next (kern_attn.next) come last.
 */
#ifndef GALLOP_KERN_PREFETCH_H
#define GALLOP_KERN_PREFETCH_H

#include "base/cpu.h"
#include "kern/attention.h"

struct kern_attn;

/* Prefetches the cache line at AT, any address: with LEVEL2 into the L2 cache only, otherwise into L1.
 * Callers pass cpu_prefetches_to_l2(), which they read once for each call of a kernel. The cache level is part of
 * the instruction, so a branch selects it; the branch always goes the same way and is predicted. */
static inline __attribute__((always_inline)) void prefetch_line(const char *at, bool level2)
{
    if (level2)
        __builtin_prefetch(at, 0, 2);
    else
        __builtin_prefetch(at, 0, 3);
}

/* Prefetches up to LINES cache lines from AT on, stopping at END. Returns the address after the last line. */
static inline __attribute__((always_inline)) const char *prefetch_lines(const char *at, const char *end,
                                                                        size_t lines, bool level2)
{
    const char *stop = (size_t)(end - at) < 64 * lines ? end : at + 64 * lines;

    for (; at < stop; at += 64)
        prefetch_line(at, level2);
    return at;
}

enum { PREFETCH_LINE = 64 }; /* bytes of a cache line; the size of a tile without its scales is a multiple */

/* Returns the address of tile number I in the order in which the kernel reads tiles. For an I beyond the last
 * tile it returns the address of some valid tile. */
static inline __attribute__((always_inline)) const char *prefetch_attn_tile(const struct kern_attn *a,
                                                                            size_t t0, size_t t1, size_t i)
{
    size_t n = t1 - t0;

    if (i < n)
        return a->k_tile[t0 + i];
    if (i < 2 * n)
        return a->v_tile[t0 + i - n];
    return i < 2 * n + a->n_next ? a->next[i - 2 * n] : a->v_tile[t1 - 1];
}

/* A cursor that prefetches the cache lines of one tile after the other. */
struct prefetch_attn {
    const struct kern_attn *a;
    size_t t0, t1, tile_bytes;
    size_t far, end; /* numbers of the current tile and of the one at which the cursor ends */
    const char *at;  /* the next cache line to prefetch */
    ptrdiff_t left;  /* bytes of the current tile from AT on; at most 0 at the end */
    bool level2;     /* prefetch into L2 only */
};

/* Returns a cursor at the first line of tile number FAR. If FAR >= END, the cursor prefetches nothing. */
static inline __attribute__((always_inline)) struct prefetch_attn prefetch_attn_from(
    const struct kern_attn *a, size_t t0, size_t t1, size_t tile_bytes, size_t far, size_t end)
{
    return (struct prefetch_attn){.a = a,
                                  .t0 = t0,
                                  .t1 = t1,
                                  .tile_bytes = tile_bytes,
                                  .far = far,
                                  .end = end,
                                  .at = prefetch_attn_tile(a, t0, t1, far),
                                  .left = far < end ? (ptrdiff_t)tile_bytes : 0,
                                  .level2 = cpu_prefetches_to_l2()};
}

/* Moves the cursor to the next tile. Not inlined, so that the loops that prefetch need few registers. */
static __attribute__((noinline, unused)) void prefetch_attn_advance(struct prefetch_attn *s)
{
    while (s->left <= 0 && ++s->far < s->end) {
        s->at = prefetch_attn_tile(s->a, s->t0, s->t1, s->far) - s->left;
        s->left += (ptrdiff_t)s->tile_bytes;
    }
}

/* Prefetches LINES lines from the cursor on, even beyond the end of its tile. The next tile often follows in
 * memory; the cursor therefore skips as many lines at the beginning of the next tile. */
static inline __attribute__((always_inline)) void prefetch_attn_ask(struct prefetch_attn *s, size_t lines)
{
    const char *at = s->at;

    if (s->left <= 0)
        return;
    for (size_t i = 0; i < lines; i++)
        prefetch_line(at + i * PREFETCH_LINE, s->level2);
    s->at = at + lines * PREFETCH_LINE;
    s->left -= (ptrdiff_t)(lines * PREFETCH_LINE);
    if (s->left <= 0)
        prefetch_attn_advance(s);
}

#endif
