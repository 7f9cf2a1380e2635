/* spm.h - reads a sentencepiece model (tokenizer.model): a protobuf of pieces with scores, and how to
 * normalise. */
#ifndef GALLOP_TEXT_SPM_H
#define GALLOP_TEXT_SPM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/tokconf.h"

struct tok;

/* Does the file begin as such a model does? */
bool spm_looks_like(const char *bytes, size_t n);

/* Fills and seals the new T. Control and user-defined pieces become added tokens; BOS stands before a text
 * where CONF asks for it, or says nothing and the model has one. ERR_UNSUPPORTED for word and character
 * models and what else is not understood. T must be freed on failure. */
int spm_read(struct tok *t, const char *bytes, size_t n, const char *path, const struct tokconf *conf,
             struct err *e);

#endif
