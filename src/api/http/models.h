/* models.h - which model the server has. */
#ifndef GALLOP_API_HTTP_MODELS_H
#define GALLOP_API_HTTP_MODELS_H

struct api;
struct buf;

/* Writes the answer of Ollama's /api/show, which a worker gives. */
void models_ollama_show(const struct api *a, struct buf *out);

#endif
