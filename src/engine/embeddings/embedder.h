/* embedder.h - the settings in a model's files for making embeddings of texts.
 *
 * Folders of sentence-transformers (6.2) have them in modules.json, the config.json of the Pooling module,
 * sentence_bert_config.json and config_sentence_transformers.json, GGUF files in pooling_type. embed.h applies them. An
 * embedder is constant after it was opened, so that all threads may read it.
 */
#ifndef GALLOP_ENGINE_EMBEDDINGS_EMBEDDER_H
#define GALLOP_ENGINE_EMBEDDINGS_EMBEDDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/embeddings/dense.h"
#include "gallop.h"

struct chat;
struct checkpoint;
struct err;

/* Members are in the order in which they are applied. If all but POOLING are zero, texts and embeddings are not
 * changed. */
struct embedder {
    bool is_known;     /* the model's files are those of sentence-transformers */
    json_t *prompt;    /* the default prompt, a string before each text, owned; NULL: none */
    bool is_message;   /* texts are rendered by the chat template, the prompt as a system message */
    struct chat *chat; /* the chat template, owned */
    bool has_parts; /* the content of a message is a list with a part of type text; false: it is the text */
    json_t *variables;           /* further variables of the template, owned; NULL: none */
    size_t most;                 /* maximum number of tokens of a text; 0: no limit */
    bool keeps_end;              /* a longer text loses its beginning; false: its end */
    bool drops_behind;           /* the text of the template after the message may be cut */
    enum gallop_pooling pooling; /* GALLOP_POOL_LAST if the files do not set it */
    struct dense dense;
    size_t dimensions; /* number of elements of an embedding that are returned; 0: all */
};

/* Reads the files of C. ERR_UNSUPPORTED: E names the mode or module that is not supported. The caller calls
 * embedder_close() also after an error. */
int embedder_open(struct embedder *x, struct checkpoint *c, struct err *e);
void embedder_close(struct embedder *x); /* X may be zeroed */

/* Warns about modules and the chat template of the folder IN that are not used because the user chose the pooling. */
void embedder_left_out(struct folder in);

#endif
