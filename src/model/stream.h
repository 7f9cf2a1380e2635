/* stream.h - reads the weights of a model one linear at a time, for executors that keep them elsewhere.
 *
 * With model_options.streams, model_pack() packs nothing but experts of integers, and keeps the files mapped. Linears of
 * floats are then read from the files; linears of integers are packed for as long as they are read. Pages of files that
 * were read are dropped. The weights of a packed checkpoint are mapped as ever. One thread at a time may read.
 */
#ifndef GALLOP_MODEL_STREAM_H
#define GALLOP_MODEL_STREAM_H

#include "model/model.h"

/* Returns whether model_pack() left L, a linear of M, to be read here. */
bool stream_has(const struct model *m, const struct linear *l);

/* Begins to read L: packs it on the threads of POOL if it has integers. stream_end() follows after success. */
int stream_begin(const struct model *m, const struct linear *l, struct pool *pool, struct err *e);
void stream_end(const struct model *m, const struct linear *l);

/* Writes row I of L to OUT [k] as fp32, as linear_row() does, but not rounded. linear_has_rows() must hold. */
void stream_row(const struct model *m, const struct linear *l, size_t i, float *out);

/* Drops the pages of files that hold L, or the table of EMBED; they are read again when they are needed. */
void stream_drop(const struct model *m, const struct linear *l);
void stream_drop_table(const struct model *m, const struct op_embed *embed);

/* Returns RC, or ERR_INPUT if a file of M has become shorter while it was read. */
int stream_checked(const struct model *m, int rc, struct err *e);

#endif
