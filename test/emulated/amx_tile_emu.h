/* amx_tile_emu.h - the AMX tile registers in plain C, for tests on machines without them. No installed object
 * contains it.
 *
 * Operands that the instructions refuse (a tile without a shape, or rows of A that do not fit those of B)
 * abort the program.
 */
#ifndef GALLOP_TEST_EMULATED_AMX_TILE_EMU_H
#define GALLOP_TEST_EMULATED_AMX_TILE_EMU_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kern/amx/amx_shapes.h"

static _Thread_local struct {
    struct amx_shapes shapes;
    uint32_t word[8][AMX_ROWS][AMX_WORDS];
} amx_emu;

static inline size_t amx_emu_rows(int t)
{
    if (amx_emu.shapes.palette != 1 || amx_emu.shapes.rows[t] == 0)
        abort();
    return amx_emu.shapes.rows[t];
}

static inline size_t amx_emu_bytes(int t)
{
    return amx_emu.shapes.bytes[t];
}

static inline void amx_emu_shapes(const struct amx_shapes *s)
{
    memset(&amx_emu, 0, sizeof(amx_emu));
    if (s)
        amx_emu.shapes = *s;
    for (int i = 0; s && i < 8; i++)
        if (s->rows[i] > AMX_ROWS || s->bytes[i] > AMX_LINE || !s->rows[i] != !s->bytes[i])
            abort();
}

static inline void amx_emu_load(int t, const void *p, size_t by)
{
    memset(amx_emu.word[t], 0, sizeof(amx_emu.word[t]));
    for (size_t r = 0; r < amx_emu_rows(t); r++)
        memcpy(amx_emu.word[t][r], (const char *)p + r * by, amx_emu_bytes(t));
}

static inline void amx_emu_store(int t, void *p, size_t by)
{
    for (size_t r = 0; r < amx_emu_rows(t); r++)
        memcpy((char *)p + r * by, amx_emu.word[t][r], amx_emu_bytes(t));
}

static inline float amx_emu_flush(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}

/* Returns the upper half (ODD) or the lower half of W as a float. */
static inline float amx_emu_bf16(uint32_t w, int odd)
{
    float f;

    w = odd ? w & 0xffff0000u : w << 16;
    memcpy(&f, &w, sizeof(f));
    return amx_emu_flush(f);
}

static inline void amx_emu_fits(int c, int a, int b)
{
    if (amx_emu_rows(c) != amx_emu_rows(a) || amx_emu_bytes(a) != 4 * amx_emu_rows(b) ||
        amx_emu_bytes(c) != amx_emu_bytes(b))
        abort();
}

static inline void amx_emu_dot(int c, int a, int b)
{
    amx_emu_fits(c, a, b);
    for (size_t r = 0; r < amx_emu_rows(c); r++)
        for (size_t n = 0; n < amx_emu_bytes(c) / 4; n++) {
            float even = 0, odd = 0, sum;

            for (size_t k = 0; k < amx_emu_rows(b); k++) {
                uint32_t x = amx_emu.word[a][r][k], y = amx_emu.word[b][k][n];

                even = amx_emu_flush(fmaf(amx_emu_bf16(x, 0), amx_emu_bf16(y, 0), even));
                odd = amx_emu_flush(fmaf(amx_emu_bf16(x, 1), amx_emu_bf16(y, 1), odd));
            }
            memcpy(&sum, &amx_emu.word[c][r][n], sizeof(sum));
            sum = amx_emu_flush(amx_emu_flush(sum) + amx_emu_flush(even + odd));
            memcpy(&amx_emu.word[c][r][n], &sum, sizeof(sum));
        }
}

static inline void amx_emu_dot8(int c, int a, int b, bool sign)
{
    amx_emu_fits(c, a, b);
    for (size_t r = 0; r < amx_emu_rows(c); r++)
        for (size_t n = 0; n < amx_emu_bytes(c) / 4; n++)
            for (size_t k = 0; k < 4 * amx_emu_rows(b); k++) {
                uint8_t byte = (uint8_t)(amx_emu.word[a][r][k / 4] >> k % 4 * 8);
                int x = sign ? (int8_t)byte : byte;
                int8_t y = (int8_t)(amx_emu.word[b][k / 4][n] >> k % 4 * 8);

                amx_emu.word[c][r][n] += (uint32_t)(x * y);
            }
}

#define AMX_SHAPES(s)                    amx_emu_shapes(s)
#define AMX_RELEASE()                    amx_emu_shapes(NULL)
#define AMX_ZERO(t)                      memset(amx_emu.word[t], 0, sizeof(amx_emu.word[t]))
#define AMX_LOAD(t, p, by)               amx_emu_load(t, p, by)
#define AMX_LOAD_PASSING(t, p, by)       amx_emu_load(t, p, by)
#define AMX_STORE(t, p, by)              amx_emu_store(t, p, by)
#define AMX_LOAD_TIMES(t, p, by, times)  amx_emu_load(t, p, (by) * (times))
#define AMX_STORE_TIMES(t, p, by, times) amx_emu_store(t, p, (by) * (times))
#define AMX_BF16(c, a, b)                amx_emu_dot(c, a, b)
#define AMX_I8(c, a, b)                  amx_emu_dot8(c, a, b, false)
#define AMX_S8(c, a, b)                  amx_emu_dot8(c, a, b, true)

#endif
