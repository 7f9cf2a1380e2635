/* pooling.h - reads from a model's files how its embeddings are pooled. */
#ifndef GALLOP_APP_POOLING_H
#define GALLOP_APP_POOLING_H

#include "base/err.h"
#include "engine/dense.h"
#include "engine/engine.h"

struct gguf_set;

/* Reads the pooling mode from the sentence-transformers files of the folder IN; without such files the mode
 * is GALLOP_POOL_LAST. Reads the Dense modules, which follow the pooling, into DENSE, which the caller
 * closes. ERR_UNSUPPORTED: E names the mode or module that is not supported. */
int pooling_read(enum gallop_pooling *out, struct dense *dense, struct folder in, struct err *e);

/* Reads the pooling mode of a GGUF file from its key pooling_type; without the key the mode is
 * GALLOP_POOL_LAST. */
int pooling_read_gguf(enum gallop_pooling *out, struct gguf_set *s, struct err *e);

/* Warns about modules of the folder IN that are not computed because --pooling was given. */
void pooling_left_out(struct folder in);

#endif
