/* ollama.h - Ollama's API for answers: /api/generate and /api/chat. */
#ifndef GALLOP_API_DIALECT_OLLAMA_H
#define GALLOP_API_DIALECT_OLLAMA_H

#include <stdbool.h>

#include "api/dialect/dialect.h"

extern const struct schema ollama_error_schema;
void ollama_error(struct buf *out, int status, const char *message, const char *param);

/* PATH is one of Ollama's. */
bool ollama_owns(const char *path);

/* Q has neither a prompt nor messages: so Ollama's clients load or unload a model. The model stays loaded,
 * which ollama_put_loaded() says. */
bool ollama_loads(const struct request *q);
void ollama_put_loaded(const struct request *q, struct buf *out);

#endif
