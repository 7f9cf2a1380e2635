/* amx_shapes.h - the shapes of the AMX tile registers, in the memory layout that LDTILECFG reads. */
#ifndef GALLOP_KERN_AMX_SHAPES_H
#define GALLOP_KERN_AMX_SHAPES_H

#include <stdint.h>

enum {
    AMX_ROWS = 16,  /* rows of a tile */
    AMX_WORDS = 16, /* 32-bit words of a row */
    AMX_LINE = 64,  /* bytes of a row */
};

/* The operand of LDTILECFG, palette 1. */
struct amx_shapes {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16]; /* bytes of a row of each tile */
    uint8_t rows[16];   /* rows of each tile */
};

#endif
