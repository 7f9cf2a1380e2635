/* quant.h - the option `quant`: the quantization of each kind of linear, and its text. */
#ifndef GALLOP_MODEL_QUANT_H
#define GALLOP_MODEL_QUANT_H

#include <stddef.h>

#include "base/err.h"
#include "ops/linear.h"

enum quant {
    /* Weights that are stored as quantized integers stay so (linear_blocks.c); others are as with QUANT_NONE. */
    QUANT_AS_STORED,
    /* Weights have the type of the arithmetic. */
    QUANT_NONE,
    /* 8-bit weights with one scale per column (linear_panels.c). */
    QUANT_INT8,
    /* The same weights; the inputs have fixed scales from a calibration file (calibration.h). */
    QUANT_INT8_STATIC,
    /* 4-bit weights in groups of 32 or 128 (linear_int4.c). */
    QUANT_INT4,
    QUANT_INT4_128,
    /* MXFP4 weights (linear_mxfp4.c). */
    QUANT_MXFP4,
    QUANT_N
};

/* The quantization of each kind of operator. Kinds that are not linears are ignored. */
struct quant_map {
    enum quant of[OP_N_KINDS];
};

enum { QUANT_TEXT_MAX = 160 };

/* Parses TEXT: a name ("none", "int8", "int8-static", "int4", "int4-g128", "mxfp4") for all kinds, or a JSON
 * object that maps operator kinds to names. Kinds that are missing there, or all kinds if TEXT is NULL, get
 * QUANT_AS_STORED. A single name int4, int4-g128 or mxfp4 gives the head int8, because its errors reach the
 * logits directly. */
int quant_read(struct quant_map *q, const char *text, struct err *e);

/* Writes Q to OUT as a single name or a JSON object. STORED is the name for QUANT_AS_STORED. */
void quant_text(const struct quant_map *q, const char *stored, char out[QUANT_TEXT_MAX]);

/* Returns whether Q equals the map that quant_read() makes of the name of ALL. */
bool quant_is(const struct quant_map *q, enum quant all);

#endif
