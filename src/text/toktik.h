/* toktik.h - reads a tiktoken file: a line a token, base64 of its bytes, a blank, its rank (which is its
 * id). */
#ifndef GALLOP_TEXT_TOKTIK_H
#define GALLOP_TEXT_TOKTIK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/tokconf.h"

struct tok;

/* Does the text begin as such a file does? */
bool toktik_looks_like(const char *text, size_t len);

/* Fills and seals the new T. The file does not hold the pattern that cuts words; it is known from CONF's
 * tokenizer_class or the number of ranks, and an unknown one is ERR_UNSUPPORTED. T must be freed on
 * failure. */
int toktik_read(struct tok *t, const char *text, size_t len, const char *path, const struct tokconf *conf,
                struct err *e);

#endif
