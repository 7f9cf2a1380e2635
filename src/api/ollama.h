/* ollama.h - Ollama's API, mapped to chats and plain prompts, and what it tells of the model. */
#ifndef GALLOP_API_OLLAMA_H
#define GALLOP_API_OLLAMA_H

#include <stdbool.h>

#include "api/api_priv.h"
#include "api/dialect.h"
#include "base/buf.h"

struct request;

/* The answers of /api/tags, /api/ps and /api/show. */
void ollama_tags(const struct api *a, struct buf *out);
void ollama_running(const struct api *a, struct buf *out);
void ollama_show(const struct api *a, struct buf *out);

/* C asks for nothing: so Ollama's clients have a model loaded, or let go of. Here it stays, which is said. */
bool ollama_loads(const struct request *c);
void ollama_loaded(const struct request *c, struct buf *out);

/* Ollama's error. */
void ollama_error(struct buf *out, int status, const char *message, const char *param);

extern const struct dialect ollama_form, ollama_show_form;

#endif
