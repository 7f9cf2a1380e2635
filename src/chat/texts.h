/* texts.h - data of an open engine that the text functions of gallop.h read: the tokenizer, the chat template
 * with the markup of tool calls and reasoning found in it, and the description of the model.
 *
 * Everything is made when the engine is opened and is then immutable, so that all threads may read it; the cache of
 * templates has a lock.
 */
#ifndef GALLOP_CHAT_TEXTS_H
#define GALLOP_CHAT_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "chat/service.h"
#include "chat/template_cache.h"
#include "gallop.h"
#include "text/markup/markup.h"

struct tok;

struct texts {
    struct service service;          /* borrows from the other members */
    const struct tok *tok;           /* borrowed; NULL: the checkpoint has no tokenizer */
    struct chat *chat;               /* NULL: the files of the chat template are damaged */
    struct err embedder_missing;     /* why no embeddings can be made; code 0: they can */
    struct err chat_missing;         /* why the model's own template cannot be rendered; code 0: it can */
    struct template own;             /* its `chat` is NULL if it cannot be rendered */
    struct template_cache templates; /* templates that callers of gallop.h give */
    struct gallop_model_info info;
    struct arena arena; /* memory of `info` */
};

/* Reads the chat template of G's model and describes the model. Files that cannot be used are not an error here. *OUT
 * borrows from G. */
int texts_open(struct texts **out, struct gallop *g, struct err *e);
void texts_close(struct texts *t); /* T may be NULL */

/* Returns an error that says why T has no tokenizer, or 0. */
int texts_need_tok(struct texts *t, struct err *e);

/* A template in use, from texts_template_open() to texts_template_close(). */
struct texts_use {
    const struct template *template;
    struct template_entry *entry; /* NULL: the template is the model's own */
};

/* Sets *OUT to the template with the text SOURCE (NULL: the model's own). ERR_INPUT: there is no usable
 * template. */
int texts_template_open(struct texts *t, const char *source, struct texts_use *out, struct err *e);
void texts_template_close(struct texts *t, struct texts_use *x); /* X may be zeroed */

/* Chooses the markup of answers by the names CALLS and REASONING (NULL: "auto") and the template SOURCE (NULL: the
 * model's own). ERR_INPUT: a name is unknown. */
int texts_markup(struct texts *t, const char *calls, const char *reasoning, const char *source,
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

/* Sets *TEXT, zero-terminated, and *LEN to the text of B. The caller owns *TEXT, and B is then empty.
 * ERR_NOMEM: B ran out of memory while it was filled. */
int texts_give(struct buf *b, char **text, size_t *len, struct err *e);

#endif
