/* ahead.h - asking for a line of cache before it is read, into the level that this processor is fastest
 * with. */
#ifndef GALLOP_KERN_AHEAD_H
#define GALLOP_KERN_AHEAD_H

#include "base/cpu.h"

/* Asks for the line at AT. LEVEL2: not into level 1; cpu_level2_ahead(), read once a call of a kernel. The
 * hint is part of the instruction, hence the branch, which is always foreseen. Nothing needs to be at AT. */
static inline __attribute__((always_inline)) void ahead_line(const char *at, bool level2)
{
    if (level2)
        __builtin_prefetch(at, 0, 2);
    else
        __builtin_prefetch(at, 0, 3);
}

#endif
