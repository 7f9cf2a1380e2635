/* form.h - how requests and answers of one API look: OpenAI's chat and completions, and those of others,
 * which are turned into a chat and whose answers are written in their own words.
 */
#ifndef GALLOP_API_FORM_H
#define GALLOP_API_FORM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

struct call;
struct call_choice;

struct form {
    const char *prefix; /* of the ids of answers */
    const char *type;   /* of a stream */
    const char *ping;   /* what a stream says in silence; NULL: nothing */
    /* On a thread of the front, after the fields were read: makes messages and tools of them as OpenAI has
     * them. NULL: they are so already. */
    int (*read)(struct call *c, struct err *e);
    void (*whole)(struct call *c, struct buf *out);
    void (*begin)(struct call *c,
                  struct buf *out); /* of a stream, as soon as it is accepted; NULL: nothing */
    /* Of a stream, when the first token of an answer is there: it is what clients measure. NULL: nothing. */
    void (*introduce)(struct call *c, struct buf *out);
    void (*part)(struct call *c, size_t i, struct buf *out); /* of choice I what is not sent of it */
    /* Of a stream; STATUS is 0, or that of an error, with its SENTENCE. */
    void (*end)(struct call *c, int status, const char *sentence, struct buf *out);
    void (*error)(struct buf *out, int status, const char *message, const char *param);
    const char *error_schema; /* its name in openapi.c */
};

extern const struct form answer_completions_form, answer_chat_form, anthropic_form, responses_form,
    embeddings_form, ollama_form, embeddings_ollama_form, embeddings_ollama_one_form, ollama_show_form;

/* A writer of answers in blocks, in which reasoning, text and calls of tools stand one behind another. */
enum form_block { FORM_NO_BLOCK, FORM_REASONING, FORM_TEXT, FORM_CALL };

struct form_blocks {
    void (*open)(struct call *c, struct call_choice *h, const char *id, const char *name, struct buf *out);
    void (*add)(struct call *c, struct call_choice *h, const char *text, size_t n, struct buf *out);
    void (*close)(struct call *c, struct call_choice *h, struct buf *out);
};

/* What of choice H is not sent yet, as blocks; the last stays open unless H has ended. */
void form_put_blocks(struct call *c, struct call_choice *h, const struct form_blocks *b, struct buf *out);

/* What was written of H is sent. */
void form_sent(struct call_choice *h);

/* The calls of tools of H that are not sent yet, elements of OpenAI's tool_calls. New reference; NULL: none,
 * or OUT has no memory. */
json_t *form_calls(struct call_choice *h, struct buf *out);

/* Why a request was refused, for the log: SENTENCE to OUT [size]. Texts that are quoted in it and that may be
 * of a prompt (with white space, or longer than a name) become "...", and so does what a chat template says,
 * which may be anything. */
enum { FORM_REASON = 200 };
void form_reason(const char *sentence, char *out, size_t size);

/* V is the string TEXT. */
bool form_is(const json_t *v, const char *text);

/* Appends S as a string of JSON, or null. */
void form_put_string(struct buf *out, const char *s);

/* Appends Unix time as a string of JSON, as RFC 3339 has it. */
void form_put_time(int64_t seconds, struct buf *out);

/* Ollama's error. */
void ollama_error(struct buf *out, int status, const char *message, const char *param);

/* OpenAI's error. */
void form_error(struct buf *out, int status, const char *message, const char *param);

#endif
