/* ahead.h - software prefetching for the kernels of all instruction sets: into the cache level that is
 * fastest on this processor, and for attention in the order in which a chunk is read from memory.
 *
 * That order is: the keys of the tiles [t0, t1), the values of these tiles, then the keys that the caller
 * uses next (kern_attn.next).
 */
#ifndef GALLOP_KERN_AHEAD_H
#define GALLOP_KERN_AHEAD_H

#include "base/cpu.h"
#include "kern/kern.h"

/* Prefetches the cache line at AT. LEVEL2 keeps it out of level 1; callers pass cpu_level2_ahead(), which
 * they read once for each call of a kernel. The level is part of the instruction, hence the branch, which
 * the processor always predicts. AT may be any address. */
static inline __attribute__((always_inline)) void ahead_line(const char *at, bool level2)
{
    if (level2)
        __builtin_prefetch(at, 0, 2);
    else
        __builtin_prefetch(at, 0, 3);
}

/* Prefetches up to LINES cache lines from AT on, none of them at END or beyond. Returns the address after
 * the last one. */
static inline __attribute__((always_inline)) const char *ahead_lines(const char *at, const char *end,
                                                                     size_t lines, bool level2)
{
    const char *stop = (size_t)(end - at) < 64 * lines ? end : at + 64 * lines;

    for (; at < stop; at += 64)
        ahead_line(at, level2);
    return at;
}

enum { AHEAD_LINE = 64 }; /* bytes of a cache line; a tile without its scales is a multiple of it */

/* Returns tile number I in the order of memory; for numbers beyond the end, some tile that exists. */
static inline __attribute__((always_inline)) const char *ahead_attn_tile(const struct kern_attn *a, size_t t0,
                                                                         size_t t1, size_t i)
{
    size_t n = t1 - t0;

    if (i < n)
        return a->k_tile[t0 + i];
    if (i < 2 * n)
        return a->v_tile[t0 + i - n];
    return i < 2 * n + a->n_next ? a->next[i - 2 * n] : a->v_tile[t1 - 1];
}

/* The state of prefetching the lines of one tile after the other. */
struct ahead_attn {
    const struct kern_attn *a;
    size_t t0, t1, tile_bytes;
    size_t far, end; /* the number of the tile in work; no tile from END on is prefetched */
    const char *at;  /* the next line of that tile */
    ptrdiff_t left;  /* bytes of the tile from AT on; 0 or less: no tile is left */
    bool level2;     /* keeps the lines out of level 1 */
};

/* Begins with the first line of tile number FAR, which exists if FAR is below END. */
static inline __attribute__((always_inline)) struct ahead_attn ahead_attn_from(const struct kern_attn *a,
                                                                               size_t t0, size_t t1,
                                                                               size_t tile_bytes, size_t far,
                                                                               size_t end)
{
    return (struct ahead_attn){.a = a,
                               .t0 = t0,
                               .t1 = t1,
                               .tile_bytes = tile_bytes,
                               .far = far,
                               .end = end,
                               .at = ahead_attn_tile(a, t0, t1, far),
                               .left = far < end ? (ptrdiff_t)tile_bytes : 0,
                               .level2 = cpu_level2_ahead()};
}

/* Moves on to the next tile. Not inlined, so that the loops that prefetch need few registers. */
static __attribute__((noinline, unused)) void ahead_attn_advance(struct ahead_attn *s)
{
    while (s->left <= 0 && ++s->far < s->end) {
        s->at = ahead_attn_tile(s->a, s->t0, s->t1, s->far) - s->left;
        s->left += (ptrdiff_t)s->tile_bytes;
    }
}

/* Prefetches the next LINES lines. Lines beyond the end of a tile often belong to the next tile; they are
 * not prefetched again there. */
static inline __attribute__((always_inline)) void ahead_attn_ask(struct ahead_attn *s, size_t lines)
{
    const char *at = s->at;

    if (s->left <= 0)
        return;
    for (size_t i = 0; i < lines; i++)
        ahead_line(at + i * AHEAD_LINE, s->level2);
    s->at = at + lines * AHEAD_LINE;
    s->left -= (ptrdiff_t)(lines * AHEAD_LINE);
    if (s->left <= 0)
        ahead_attn_advance(s);
}

#endif
