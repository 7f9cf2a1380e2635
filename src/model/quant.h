/* quant.h - the quantization of a model's linears by kind: the option `quant`, and its text in a packed
 * checkpoint. */
#ifndef GALLOP_MODEL_QUANT_H
#define GALLOP_MODEL_QUANT_H

#include <stddef.h>

#include "base/err.h"
#include "ops/linear.h"

enum quant {
    /* Weights that are stored as quantized integers stay so (linear_blocks.c); others as QUANT_NONE. */
    QUANT_AS_STORED,
    /* Weights have the type of the arithmetic. */
    QUANT_NONE,
    /* One scale per column (linear_panels.c). */
    QUANT_INT8,
    /* The same, and inputs have scales that calibration found (calibration.h). */
    QUANT_INT8_STATIC,
    /* Groups of 32 or of 128 (linear_int4.c). */
    QUANT_INT4,
    QUANT_INT4_128,
    /* linear_mxfp4.c */
    QUANT_MXFP4,
    QUANT_N
};

/* The quantization of each kind of operator; that of kinds that are not linears is ignored. */
struct quant_map {
    enum quant of[OP_N_KINDS];
};

enum { QUANT_TEXT_MAX = 160 };

/* Reads TEXT: a name ("none", "int8", "int8-static", "int4", "int4-g128", "mxfp4") or a JSON object of
 * operator kinds and names, in which missing kinds stay as stored; NULL: all kinds stay as stored. With int4
 * and mxfp4 as a single name, the head is int8, because its errors reach the logits directly. */
int quant_read(struct quant_map *q, const char *text, struct err *e);

/* Writes to OUT the one name of all kinds, or the JSON object. STORED is the name for QUANT_AS_STORED. */
void quant_text(const struct quant_map *q, const char *stored, char out[QUANT_TEXT_MAX]);

/* True if Q is the map that the name of ALL gives. */
bool quant_is(const struct quant_map *q, enum quant all);

#endif
