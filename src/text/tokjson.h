/* tokjson.h - reads a tokenizer.json into a struct tok. */
#ifndef GALLOP_TEXT_TOKJSON_H
#define GALLOP_TEXT_TOKJSON_H

#include <stddef.h>

#include "base/err.h"

struct tok;

/* Fills and seals the new T from the bytes of a tokenizer.json; PATH is for messages. T must be freed on
 * failure. */
int tokjson_read(struct tok *t, const char *text, size_t len, const char *path, struct err *e);

#endif
