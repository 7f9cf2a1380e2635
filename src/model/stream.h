/* stream.h - reads the weights of a model one linear at a time, for executors that keep them elsewhere.
 *
 * With model_options.streams, model_pack() packs nothing but experts of integers, and keeps the files mapped.
 * Linears of floats are then read from the files; linears of integers are packed for as long as they are
 * read. Pages of files that were read are dropped. The weights of a packed checkpoint are mapped as without
 * this option. One thread at a time may read.
 */
#ifndef GALLOP_MODEL_STREAM_H
#define GALLOP_MODEL_STREAM_H

#include <stddef.h>

struct err;
struct linear;
struct model;
struct model_todo;
struct op_embed;
struct pool;

/* Returns the task of model_pack() that describes L, a linear of M, if L was left in the files; NULL if L is
 * packed or mapped. */
const struct model_todo *stream_of(const struct model *m, const struct linear *l);

/* Packs the linear of T, which has integers, on the threads of POOL unless it is packed already. Then its integers can
 * be read. */
int stream_pack(const struct model_todo *t, struct pool *pool, struct err *e);
void stream_unpack(const struct model_todo *t);

/* Writes row I of T to OUT [k] as fp32, as linear_row() does, but not rounded. linear_has_rows() must hold. */
void stream_row(const struct model_todo *t, size_t i, float *out);

/* Drops the file pages of L, whose stream_of() is T, or of the table of EMBED. They are read again when they are
 * needed. */
void stream_drop(const struct linear *l, const struct model_todo *t);
void stream_drop_table(const struct model *m, const struct op_embed *embed);

/* Returns RC, or ERR_INPUT if a file of M, or its file of scales, has become shorter while it was read. */
int stream_checked(const struct model *m, int rc, struct err *e);

#endif
