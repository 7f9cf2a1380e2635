/* dialect.h - the interface of a dialect: the JSON of one vendor's API for requests and answers.
 *
 * A dialect converts its requests into chat messages in OpenAI's format, and writes answers in its own format. It
 * reads a request and its answers, and does not depend on sockets, threads or the engine.
 */
#ifndef GALLOP_CHAT_DIALECT_DIALECT_H
#define GALLOP_CHAT_DIALECT_DIALECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/answer.h"

struct buf;
struct err;
struct request;
struct schema;

/* The arguments of the functions with which a dialect writes an answer: request, answer and state. */
struct dialect_writer {
    const struct request *q;
    const struct answer *a;
    void *state; /* the dialect's state between open() and close() */
};

/* A dialect. A NULL function has nothing to do. */
struct dialect {
    const char *prefix; /* prefix of answer ids */
    const char *type;   /* content type of a stream */
    const char *ping;   /* text that keeps a stream alive while no token comes; NULL: none */
    const struct schema *error_schema;
    /* When tool calls are passed to part(): streamed, complete or at the end. */
    enum message_calls_when calls;

    /* Converts the fields of Q into messages and tools in OpenAI's chat format. */
    int (*read)(struct request *q, struct err *e);
    /* Creates the state when the numbers of prompts and choices are known. False: out of memory. */
    bool (*open)(struct dialect_writer *w);
    void (*close)(struct dialect_writer *w);
    /* Writes a complete answer. */
    void (*whole)(const struct dialect_writer *w, struct buf *out);
    /* Writes the beginning of a stream, as soon as the request is accepted. */
    void (*begin)(const struct dialect_writer *w, struct buf *out);
    /* Writes the events before the first token of a stream. Called when this token is available, because clients
     * measure the time to the first event with content. */
    void (*introduce)(const struct dialect_writer *w, struct buf *out);
    /* Returns the number of log-probabilities that format_logprobs() has to format before the next part. */
    size_t (*n_logprobs_left)(const struct dialect_writer *w);
    /* Formats the log-probabilities that n_logprobs_left() counted, perhaps on another thread. Called only if there are
     * many. */
    void (*format_logprobs)(const struct dialect_writer *w);
    /* Writes the unsent part of choice I. */
    void (*part)(const struct dialect_writer *w, size_t i, struct buf *out);
    /* Writes the end of a stream. STATUS: 0, or the HTTP status of an error that SENTENCE describes. */
    void (*end)(const struct dialect_writer *w, int status, const char *sentence, struct buf *out);
    void (*error)(struct buf *out, int status, const char *message, const char *param);
};

/* Declares the dialects and answer schemas of routes.def; each dialect's file defines its own. */
#define COMPUTED(letter, name, path, needs, form, gives, says) \
    extern const struct dialect form;                          \
    extern const struct schema gives;
#define HANDLED(letter, name, path, needs, access, function, gives, says)
#define ANSWERED(path, access, function, gives, says)
#define WRITTEN(path, access, function, gives, says)
#include "chat/routes.def"
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

/* Copies SENTENCE, the reason why a request was refused, to OUT [size] for the log. Quoted text with white
 * space or more than 64 bytes, which may come from a prompt, is replaced by "...". */
enum { DIALECT_REASON = 200 };
void dialect_reason(const char *sentence, char *out, size_t size);

/* Appends TEXT [n], the arguments of a tool call, as an object, because clients expect one: as generated, but on one
 * line. Arguments that are not an object (cut off by a limit, or invalid JSON) become the string member `arguments` of
 * an object. */
void dialect_put_arguments(const char *text, size_t n, struct buf *out);

/* An SSE comment that keeps a stream of OpenAI's APIs alive. No empty line follows it, because some clients
 * take any empty line for the end of an event. */
#define dialect_ping ": ping\n"

/* Returns whether V is a JSON string equal to TEXT. */
bool dialect_is(const json_t *v, const char *text);

/* Appends S as a JSON string, or null if S is NULL. */
void dialect_put_string(struct buf *out, const char *s);

/* Appends the bytes of B as a JSON string. */
void dialect_put_text(struct buf *out, const struct buf *b);

/* Appends the member "warnings" if A has warnings, which are complete once one of its choices has ended. */
void dialect_put_warnings(const struct answer *a, struct buf *out);

/* Appends the Unix time SECONDS as a JSON string in RFC 3339 format. */
void dialect_put_time(int64_t seconds, struct buf *out);

/* The JSON Schema of OpenAI's error object, and the function that writes this object. Paths without a dialect
 * use them, too. */
extern const struct schema dialect_error_schema;
void dialect_error(struct buf *out, int status, const char *message, const char *param);

#endif
