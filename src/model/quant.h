/* quant.h - what the linears' weights become, kind by kind: what --quant says, and what a packed checkpoint
 * writes down. */
#ifndef GALLOP_MODEL_QUANT_H
#define GALLOP_MODEL_QUANT_H

#include <stddef.h>

#include "base/err.h"
#include "ops/linear.h"

enum quant {
    QUANT_AS_STORED,   /* integers in blocks stay so (linear_blocks.c); the rest is as with none */
    QUANT_NONE,        /* of the computing type */
    QUANT_INT8,        /* a scale a column (linear_panels.c) */
    QUANT_INT8_STATIC, /* and inputs with scales found before (calibration.h) */
    QUANT_INT4,        /* in groups of 32, */
    QUANT_INT4_128,    /* or 128 (linear_int4.c) */
    QUANT_MXFP4,       /* linear_mxfp4.c */
    QUANT_N
};

/* [OP_N_KINDS]; of kinds that are no linears it means nothing. */
struct quant_map {
    enum quant of[OP_N_KINDS];
};

enum { QUANT_TEXT_MAX = 160 };

/* TEXT is a name ("none", "int8", "int8-static", "int4", "int4-g128", "mxfp4") or a JSON object of operator
 * kind to name, in which kinds that it leaves out stay as they are stored; NULL: all do. With int4 and mxfp4
 * the head is int8: it reads the last norm's output alone, and its errors go to the logits as they are. */
int quant_read(struct quant_map *q, const char *text, struct err *e);

/* To OUT the name of all kinds together, or the object that says them. All as stored are called STORED. */
void quant_text(const struct quant_map *q, const char *stored, char out[QUANT_TEXT_MAX]);

/* No kind is QUANT_AS_STORED, or all are. */
bool quant_is(const struct quant_map *q, enum quant all);

#endif
