/* pooling.h - what pooling.c does. */
#ifndef GALLOP_APP_POOLING_H
#define GALLOP_APP_POOLING_H

#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "engine/dense.h"
#include "engine/engine.h"

/* How the files of sentence-transformers in the folder say that embeddings are pooled, without them by the
 * last token, and what follows in DENSE, which is the caller's to close. ERR_UNSUPPORTED names a mode or a
 * module that is not computed here. */
int pooling_read(enum gallop_pooling *out, struct dense *dense, struct folder in, struct err *e);

/* The same of GGUF files, which have a pooling_type. */
int pooling_read_gguf(enum gallop_pooling *out, struct gguf_set *s, struct err *e);

/* Warns of the modules of the folder that a --pooling of the user's leaves out. */
void pooling_left_out(struct folder in);

#endif
