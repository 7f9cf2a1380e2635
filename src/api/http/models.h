/* models.h - the lists and descriptions of the served model. */
#ifndef GALLOP_API_HTTP_MODELS_H
#define GALLOP_API_HTTP_MODELS_H

struct api;
struct buf;

/* Writes the answer to /api/show of Ollama's API. A worker calls this. */
void models_ollama_show(const struct api *a, struct buf *out);

#endif
