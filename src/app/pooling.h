/* pooling.h - reads from a model's files how its embeddings are pooled. */
#ifndef GALLOP_APP_POOLING_H
#define GALLOP_APP_POOLING_H

#include "base/err.h"
#include "engine/dense.h"
#include "engine/engine.h"

struct gguf_set;

/* Reads the pooling mode from the sentence-transformers files of the folder IN; without such files it is the last
 * token. Reads the Dense modules, which follow the pooling, into DENSE, which the caller closes. ERR_UNSUPPORTED:
 * a mode or module is not supported, which E names. */
int pooling_read(enum gallop_pooling *out, struct dense *dense, struct folder in, struct err *e);

/* Reads the pooling mode of a GGUF file from its key pooling_type; without the key it is the last token. */
int pooling_read_gguf(enum gallop_pooling *out, struct gguf_set *s, struct err *e);

/* Warns about modules of the folder IN that are not computed because --pooling was given. */
void pooling_left_out(struct folder in);

#endif
