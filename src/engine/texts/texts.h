/* texts.h - what the functions of gallop.h about text need of an open engine: the tokenizer, the chat template with
 * the markup that it shows, the embedder, and the description of the model.
 *
 * Everything is made when the engine is opened and is then immutable, so that all threads may read it; the cache of
 * templates has a lock.
 */
#ifndef GALLOP_ENGINE_TEXTS_H
#define GALLOP_ENGINE_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/embeddings/embedder.h"
#include "gallop.h"
#include "text/markup/template.h"
#include "text/markup/tools.h"

struct llm;
struct markup;
struct sampling;
struct template_cache;
struct template_entry;
struct tok;

struct texts {
    bool is_open;
    const struct tok *tok;            /* borrowed; NULL: the checkpoint has no tokenizer */
    struct chat *chat;                /* NULL: the files of the chat template are damaged */
    struct err chat_missing;          /* why the model's own template cannot be rendered; code 0: it can */
    struct template own;              /* without `chat` if it cannot be rendered */
    struct template_cache *templates; /* those of programs */
    struct embedder embedder;
    struct err embedder_missing; /* why the embedder cannot be used; code 0: it can */
    struct gallop_model_info info;
    struct arena arena; /* memory of `info` */
};

/* Sets *INFO to the sizes, formats and names of M, without what its tokenizer and its chat template say. Strings are
 * borrowed from M. */
void texts_describe_model(struct gallop_model_info *info, const struct llm *m);

/* Reads the chat template and the embedder of M and describes M. MODEL is the name or path that the user gave. Files
 * that cannot be used are no error here. M and CONFIG, the model's generation config, are borrowed. */
int texts_open(struct texts *t, const struct llm *m, const struct sampling *config, const char *model,
               struct err *e);
void texts_close(struct texts *t); /* T may be zeroed */

/* Returns what the functions of gallop.h about text read. Only gallop_open() makes it. */
const struct texts *engine_texts(const struct gallop *g);

/* Returns an error that says why T has no tokenizer, or 0. */
int texts_need_tok(const struct texts *t, struct err *e);

/* Sets *OUT to what GALLOP_POOL_AUTO applies, or to NULL for another POOLING. */
int texts_embedder(const struct texts *t, enum gallop_pooling pooling, const struct embedder **out,
                   struct err *e);

/* A use of a template. */
struct texts_use {
    const struct template *template;
    struct template_entry *entry; /* NULL: the template is the model's own */
};

/* Begins a use of the template SOURCE; NULL: of the model's own. ERR_INPUT: there is no usable template. */
int texts_template_open(const struct texts *t, const char *source, struct texts_use *out, struct err *e);
void texts_template_close(const struct texts *t, struct texts_use *x); /* X may be zeroed */

/* Chooses the markup of answers by the names CALLS and REASONING (NULL: "auto") and the template SOURCE (NULL: the
 * model's own). ERR_INPUT: a name is unknown. */
int texts_markup(const struct texts *t, const char *calls, const char *reasoning, const char *source,
                 struct markup *out, struct err *e);

/* The tools of a conversation. */
struct texts_tools {
    json_t *list; /* owned; NULL: there are none, or tool_choice is "none" */
    enum tools_choice choice;
    json_t *names; /* owned: the functions that tool_choice allows; NULL: all */
};

/* Reads tool_choice, a word or a JSON object; NULL: "auto". */
int texts_tool_choice(const char *text, struct texts_tools *out, struct err *e);

/* Reads and checks the tools of C. Only VERBATIM conversations may have tools of another form than OpenAI's.
 * texts_tools_close() frees *OUT, also after an error. */
int texts_tools_read(const struct gallop_chat *c, struct texts_tools *out, struct err *e);
void texts_tools_close(struct texts_tools *x);

/* Appends the text of the last of MESSAGES, a JSON array, to OUT. */
int texts_last_message(const char *messages, struct buf *out, struct err *e);

/* Moves the text of B, which is then empty, to the caller as *TEXT, terminated, and *LEN. ERR_NOMEM: B ran out of
 * memory while it was filled. */
int texts_give(struct buf *b, char **text, size_t *len, struct err *e);

#endif
