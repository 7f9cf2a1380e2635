/* ollama.h - Ollama's paths that generate answers: /api/generate and /api/chat. */
#ifndef GALLOP_CHAT_DIALECT_OLLAMA_H
#define GALLOP_CHAT_DIALECT_OLLAMA_H

#include <stdbool.h>

#include "chat/dialect/dialect.h"

extern const struct schema ollama_error_schema;
void ollama_error(struct buf *out, int status, const char *message, const char *param);

/* Returns whether PATH belongs to Ollama's API. */
bool ollama_owns(const char *path);

/* Returns whether Q has neither a prompt nor messages. Ollama's clients send a request without both to load
 * or unload a model. Gallop's model is always loaded; ollama_put_loaded() writes an answer that reports
 * so. */
bool ollama_loads(const struct request *q);
void ollama_put_loaded(const struct request *q, struct buf *out);

#endif
