/* ahead.h - asking for lines of cache before they are read, into the level that this processor is fastest
 * with; and what a chunk of attention reads, in the order of memory, for the rows of every ISA folder.
 *
 * The order is: keys of the tiles [t0, t1), their values, then the keys that come next (kern_attn.next).
 */
#ifndef GALLOP_KERN_AHEAD_H
#define GALLOP_KERN_AHEAD_H

#include "base/cpu.h"
#include "kern/kern.h"

/* Asks for the line at AT. LEVEL2: not into level 1; cpu_level2_ahead(), read once a call of a kernel. The
 * hint is part of the instruction, hence the branch, which is always foreseen. Nothing needs to be at AT. */
static inline __attribute__((always_inline)) void ahead_line(const char *at, bool level2)
{
    if (level2)
        __builtin_prefetch(at, 0, 2);
    else
        __builtin_prefetch(at, 0, 3);
}

/* Asks for so many LINES from AT on, of those in front of END; returns where to go on. */
static inline __attribute__((always_inline)) const char *ahead_lines(const char *at, const char *end,
                                                                     size_t lines, bool level2)
{
    const char *stop = (size_t)(end - at) < 64 * lines ? end : at + 64 * lines;

    for (; at < stop; at += 64)
        ahead_line(at, level2);
    return at;
}

enum { AHEAD_LINE = 64 }; /* bytes of a cache line; a tile has a multiple of them, without its scales */

/* Tile number I of what is read; beyond the end one that is there anyway. */
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

/* Lines that are asked for one after the other. */
struct ahead_attn {
    const struct kern_attn *a;
    size_t t0, t1, tile_bytes;
    size_t far, end; /* the tile in work; none from END on */
    const char *at;  /* its next line, */
    ptrdiff_t left;  /* of which and those behind it so many bytes remain; 0 and less: none of any tile */
    bool level2;     /* into level 2 only */
};

/* From the first line of tile number FAR on, which is there. */
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

/* Goes on to the next tile. By itself, so that the loops that ask need few registers. */
static __attribute__((noinline, unused)) void ahead_attn_advance(struct ahead_attn *s)
{
    while (s->left <= 0 && ++s->far < s->end) {
        s->at = ahead_attn_tile(s->a, s->t0, s->t1, s->far) - s->left;
        s->left += (ptrdiff_t)s->tile_bytes;
    }
}

/* Asks for some more lines. What goes beyond the end of a tile, often into the next one, is not asked for
 * again there. */
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
