/* pooling.h - how the files of a model say that embeddings are pooled. */
#ifndef GALLOP_APP_POOLING_H
#define GALLOP_APP_POOLING_H

#include "base/err.h"
#include "engine/dense.h"
#include "engine/engine.h"

struct gguf_set;

/* Reads the pooling from the files of sentence-transformers in the folder (the last token if there are none), and the
 * modules after it into DENSE, which the caller closes. ERR_UNSUPPORTED names a mode or module that is not
 * supported. */
int pooling_read(enum gallop_pooling *out, struct dense *dense, struct folder in, struct err *e);

/* The same for GGUF files, which have a pooling_type. */
int pooling_read_gguf(enum gallop_pooling *out, struct gguf_set *s, struct err *e);

/* Warns of the modules of the folder that a --pooling of the user's leaves out. */
void pooling_left_out(struct folder in);

#endif
