/* embeddings.h - OpenAI's Embeddings, and Ollama's two forms of them. */
#ifndef GALLOP_API_EMBEDDINGS_H
#define GALLOP_API_EMBEDDINGS_H

#include "api/dialect.h"

extern const struct dialect embeddings_form, embeddings_ollama_form, embeddings_ollama_one_form;

#endif
