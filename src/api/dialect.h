/* dialect.h - how requests and answers of one API look: OpenAI's chat and completions, and those of others,
 * which are turned into a chat and whose answers are written in their own words.
 */
#ifndef GALLOP_API_DIALECT_H
#define GALLOP_API_DIALECT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct request;
struct request_choice;

struct dialect {
    const char *prefix; /* of the ids of answers */
    const char *type;   /* of a stream */
    const char *ping;   /* what a stream says in silence; NULL: nothing */
    /* On a thread of the front, after the fields were read: makes messages and tools of them as OpenAI has
     * them. NULL: they are so already. */
    int (*read)(struct request *c, struct err *e);
    void (*whole)(struct request *c, struct buf *out);
    void (*begin)(struct request *c,
                  struct buf *out); /* of a stream, as soon as it is accepted; NULL: nothing */
    /* Of a stream, when the first token of an answer is there: it is what clients measure. NULL: nothing. */
    void (*introduce)(struct request *c, struct buf *out);
    void (*part)(struct request *c, size_t i, struct buf *out); /* of choice I what is not sent of it */
    /* Of a stream; STATUS is 0, or that of an error, with its SENTENCE. */
    void (*end)(struct request *c, int status, const char *sentence, struct buf *out);
    void (*error)(struct buf *out, int status, const char *message, const char *param);
    const char *error_schema; /* its name in openapi.c */
};

/* A writer of answers in blocks, in which reasoning, text and calls of tools stand one behind another. */
enum dialect_block { DIALECT_NO_BLOCK, DIALECT_REASONING, DIALECT_TEXT, DIALECT_CALL };

struct dialect_blocks {
    void (*open)(struct request *c, struct request_choice *h, const char *id, const char *name,
                 struct buf *out);
    void (*add)(struct request *c, struct request_choice *h, const char *text, size_t n, struct buf *out);
    void (*close)(struct request *c, struct request_choice *h, struct buf *out);
};

/* What of choice H is not sent yet, as blocks; the last stays open unless H has ended. */
void dialect_put_blocks(struct request *c, struct request_choice *h, const struct dialect_blocks *b,
                        struct buf *out);

/* What was written of H is sent. */
void dialect_sent(struct request_choice *h);

/* The calls of tools of H that are not sent yet, elements of OpenAI's tool_calls. New reference; NULL: none,
 * or OUT has no memory. */
json_t *dialect_calls(struct request_choice *h, struct buf *out);

/* Why a request was refused, for the log: SENTENCE to OUT [size]. Texts that are quoted in it and that may be
 * of a prompt (with white space, or longer than a name) become "...", and so does what a chat template says,
 * which may be anything. */
enum { DIALECT_REASON = 200 };
void dialect_reason(const char *sentence, char *out, size_t size);

/* V is the string TEXT. */
bool dialect_is(const json_t *v, const char *text);

/* Appends S as a string of JSON, or null. */
void dialect_put_string(struct buf *out, const char *s);

/* Appends Unix time as a string of JSON, as RFC 3339 has it. */
void dialect_put_time(int64_t seconds, struct buf *out);

/* OpenAI's error. */
void dialect_error(struct buf *out, int status, const char *message, const char *param);

#endif
