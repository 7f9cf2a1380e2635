/* tokfile.h - which form of tokenizer a path holds. */
#ifndef GALLOP_TEXT_TOKFILE_H
#define GALLOP_TEXT_TOKFILE_H

#include "base/err.h"
#include "base/folder.h"

struct tok;

/* Fills and seals the new T from IN, a folder or a file (see tok_open()). T must be freed on failure. */
int tokfile_read(struct tok *t, struct folder in, struct err *e);

#endif
