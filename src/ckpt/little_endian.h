/* little_endian.h - reads little-endian integers from bytes at any alignment. The caller checks bounds. */
#ifndef GALLOP_CKPT_LITTLE_ENDIAN_H
#define GALLOP_CKPT_LITTLE_ENDIAN_H

#include <stdint.h>

static inline uint16_t little_u16(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    return (uint16_t)(b[0] | (b[1] << 8));
}

static inline uint32_t little_u32(const char *p)
{
    return (uint32_t)little_u16(p) | ((uint32_t)little_u16(p + 2) << 16);
}

static inline uint64_t little_u64(const char *p)
{
    return (uint64_t)little_u32(p) | ((uint64_t)little_u32(p + 4) << 32);
}

#endif
