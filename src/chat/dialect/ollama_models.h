/* ollama_models.h - writes the response bodies of Ollama's /api/tags, /api/ps and /api/show. */
#ifndef GALLOP_CHAT_DIALECT_OLLAMA_MODELS_H
#define GALLOP_CHAT_DIALECT_OLLAMA_MODELS_H

struct buf;
struct service;

/* Write the response bodies: the model under each of its names, the loaded model, and the model's
 * description. */
void ollama_put_tags(const struct service *s, struct buf *out);
void ollama_put_running(const struct service *s, struct buf *out);
void ollama_put_model(const struct service *s, struct buf *out);

#endif
