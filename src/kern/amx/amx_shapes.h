/* amx_shapes.h - the shapes of tile registers, as the processor reads them from memory. */
#ifndef GALLOP_KERN_AMX_SHAPES_H
#define GALLOP_KERN_AMX_SHAPES_H

#include <stdint.h>

enum {
    AMX_ROWS = 16,  /* rows of a tile */
    AMX_WORDS = 16, /* words of a row */
    AMX_LINE = 64,  /* bytes of a row */
};

/* The shapes of the tiles as TILECFG reads them from memory, palette 1. */
struct amx_shapes {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16]; /* bytes of a row of each tile */
    uint8_t rows[16];
};

#endif
