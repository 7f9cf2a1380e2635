/* ollama_models.h - the answers of Ollama's /api/tags, /api/ps and /api/show. */
#ifndef GALLOP_CHAT_DIALECT_OLLAMA_MODELS_H
#define GALLOP_CHAT_DIALECT_OLLAMA_MODELS_H

struct buf;
struct service;

/* Write the list of the names of the model, the list of what is loaded, and the description of the model. */
void ollama_put_tags(const struct service *s, struct buf *out);
void ollama_put_running(const struct service *s, struct buf *out);
void ollama_put_model(const struct service *s, struct buf *out);

#endif
