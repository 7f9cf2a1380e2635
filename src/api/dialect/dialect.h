/* dialect.h - how requests and answers look in the API of one vendor.
 *
 * A dialect turns its requests into those of OpenAI's chat, and writes answers in its own words. It reads a
 * request and its answers and knows nothing of sockets, threads or the engine.
 */
#ifndef GALLOP_API_DIALECT_DIALECT_H
#define GALLOP_API_DIALECT_DIALECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/answer.h"
#include "api/schema.h"

struct buf;
struct err;
struct request;

/* What the writers of a dialect read. */
struct dialect_writer {
    const struct request *q;
    const struct answer *a;
    void *state; /* the dialect's own, from open() to close() */
};

/* A NULL function does nothing. */
struct dialect {
    const char *prefix; /* of the ids of answers */
    const char *type;   /* content type of a stream */
    const char *ping;   /* what a stream sends in a long silence; NULL: nothing */
    const struct schema *error_schema;
    enum answer_calls_when calls; /* AT_END: a stream has no parts of tool calls */

    /* On a worker thread, when the fields are read: makes messages and tools of them as OpenAI's chat has
     * them. */
    int (*read)(struct request *q, struct err *e);
    /* Creates the state, once the numbers of prompts and choices are known. False: out of memory. */
    bool (*open)(struct dialect_writer *w);
    void (*close)(struct dialect_writer *w);
    /* Writes a complete answer. */
    void (*whole)(const struct dialect_writer *w, struct buf *out);
    /* Writes what a stream begins with, as soon as the request is accepted. */
    void (*begin)(const struct dialect_writer *w, struct buf *out);
    /* Writes what precedes the first token of a stream, when that token is there: clients measure its time.
     */
    void (*introduce)(const struct dialect_writer *w, struct buf *out);
    /* Count the numbers that have to be written before the next part, and write them on a worker thread. */
    size_t (*n_ahead)(const struct dialect_writer *w);
    void (*write_ahead)(const struct dialect_writer *w);
    /* Writes what choice I has that was not sent. */
    void (*part)(const struct dialect_writer *w, size_t i, struct buf *out);
    /* Writes the end of a stream; STATUS is 0, or that of an error, with its SENTENCE. */
    void (*end)(const struct dialect_writer *w, int status, const char *sentence, struct buf *out);
    void (*error)(struct buf *out, int status, const char *message, const char *param);
};

/* The dialects and schemas of routes.def, each defined in the file of its name. */
#define COMPUTED(letter, name, path, needs, form, gives, says) \
    extern const struct dialect form;                          \
    extern const struct schema gives;
#define HANDLED(letter, name, path, needs, access, function, gives, says)
#define ANSWERED(path, access, function, gives, says)
#define WRITTEN(path, access, function, gives, says)
#include "api/routes.def"
#undef COMPUTED
#undef HANDLED
#undef ANSWERED
#undef WRITTEN

/* Copies SENTENCE, which says why a request was refused, to OUT [size] for the log. Quoted texts that may
 * come from a prompt (they have white space, or are longer than a name) become "...", and so does the message
 * of a chat template. */
enum { DIALECT_REASON = 200 };
void dialect_reason(const char *sentence, char *out, size_t size);

/* Returns whether V is the string TEXT. */
bool dialect_is(const json_t *v, const char *text);

/* Appends S as a JSON string, or null. */
void dialect_put_string(struct buf *out, const char *s);

/* Appends the bytes of B as a JSON string. */
void dialect_put_text(struct buf *out, const struct buf *b);

/* Appends the member "warnings", if A has any. They are there when one of its answers has ended. */
void dialect_put_warnings(const struct answer *a, struct buf *out);

/* Appends Unix time as a JSON string, in the form of RFC 3339. */
void dialect_put_time(int64_t seconds, struct buf *out);

/* OpenAI's error, which paths without a dialect use, too. */
extern const struct schema dialect_error_schema;
void dialect_error(struct buf *out, int status, const char *message, const char *param);

#endif
