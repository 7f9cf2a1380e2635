/* served.h - lines of OpenAI's batch files: their bodies are answered as the server answers them.
 *
 * Each line becomes a struct request (chat/request.h), as in the server, so that paths, fields, checks,
 * prompts and answers are the same. Only sockets, API keys and the queue are missing.
 */
#ifndef GALLOP_APP_BATCH_SERVED_H
#define GALLOP_APP_BATCH_SERVED_H

#include <stdbool.h>
#include <stddef.h>

#include "app/answering.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/rng.h"
#include "chat/once.h"
#include "chat/service.h"

struct batch_request;
struct checkpoint;
struct sampling;
struct served_request;

/* The data that all lines of a batch share: the model's names, its chat template and the defaults of requests. */
struct served {
    struct answering answering;
    struct service service;
    struct once once;
    struct rng_seeds seeds;
    /* The name of the model and, without --served-model-name, the value of the first `model` in a line. It is
     * accepted because all lines of a batch are for one model. */
    const char *name[2];
    char first_name[512];
    bool no_special, keep_special; /* options: defaults for bodies without the corresponding fields */
    bool is_started;               /* the template and the files about embeddings were read */
    struct err fault;              /* why these files cannot be used; code 0: they can */
};

/* A line of OpenAI's batch files. */
struct served_line {
    struct json_str custom_id, method, url, body;
};

/* Returns whether LINE [n] is a JSON object with exactly the keys custom_id, method, url and body, and sets *OUT
 * to their values, which are valid as long as LINE and A. */
bool served_split(struct served_line *out, const char *line, size_t n, struct arena *a);

/* Prepares B, whose index is set, as the request of LINE, to be answered with S. False: out of memory. */
bool served_open(struct served *s, struct batch_request *b, const struct served_line *line);
void served_free(struct served_request *r); /* R may be NULL */

/* Reads LINE into B. GIVEN: the sampling parameters of the command line, for bodies that do not have their own. */
void served_read(struct served *s, struct batch_request *b, const struct served_line *line,
                 const struct sampling *given);

/* Submits B to ENGINE. MODEL, FILE: the checkpoint and the file of --chat-template, from which the chat template is
 * read at the first call. Returns the number of tokens of its prompts. */
size_t served_submit(struct served *s, struct batch_request *b, struct gallop *engine,
                     struct checkpoint *model, const char *file);

/* Adds the event EV to the answers of the line whose prompt EV's user pointer is. */
void served_take(const struct gallop_event *ev);

/* Writes the result line of B, {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}, to
 * OUT. If the answer was drawn with a seed that S chose, "response" has "seed". */
void served_put_line(const struct batch_request *b, struct buf *out);

/* Without --json, texts of B are printed: the generated text of each choice or, if the answer has more than
 * text (such as tool calls), the JSON body of the response as the only text. These functions return the
 * number of texts, and write text I. */
size_t served_n_texts(const struct batch_request *b);
void served_put_text(const struct batch_request *b, size_t i, struct buf *out);

#endif
