/* served.h - answers requests of `gallop run` through struct request (chat/request.h), as the server does, so that
 * fields, checks, prompts and answers are the same. Only sockets, API keys and the queue are missing.
 *
 * Bodies in lines of OpenAI's batch files have the dialect of their path. Gallop's own lines, and prompts of the
 * command line, are FIELDS_LINE of chat/fields.def; own.h has what is particular to them.
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
#include "engine/sampling/sampling.h"

struct batch_request;
struct checkpoint;

/* The data that all requests share: the model's names, its chat template and the defaults of requests. */
struct served {
    struct answering answering;
    /* services for OpenAI's lines, for own lines, and for own lines that need the chat template (own.h) */
    struct service service, own, own_chat;
    struct sampling sampling;                    /* sampling parameters of the command line */
    struct gallop_structured_outputs structured; /* constraint of requests without their own */
    struct checkpoint *model;                    /* borrowed: its chat template is used */
    const char *template_file;                   /* file that replaces the model's template; NULL: none */
    const char *system; /* system message that precedes a prompt of own lines; NULL: none */
    bool wrap;          /* prompts of own lines are wrapped in the template */
    bool json;          /* results are printed as JSON */
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

/* A line of a batch. */
struct served_line {
    struct json_str custom_id; /* NULL: none */
    struct json_str method, url;
    struct json_str body; /* the fields of the request: the member `body`, else the whole line */
    bool is_own;          /* the line has Gallop's own format, and not that of OpenAI's batch files */
};

/* Splits LINE [n], a JSON object. *OUT is valid as long as LINE and A. WHERE names the line in errors, after which the
 * members of *OUT that were found are set, too. */
int served_split(struct served_line *out, const char *line, size_t n, const char *where, struct arena *a,
                 struct err *e);

/* Unless --served-model-name is given, accepts the `model` of the first BODY of OpenAI's lines that has one as a name
 * of the model. */
void served_accept_name(struct served *s, const struct json_str *body, struct arena *a);

/* Reads LINE into B, whose index is set, to be answered with S. */
void served_read(struct served *s, struct batch_request *b, const struct served_line *line);

/* Submits B, unless it was refused, to ENGINE. Returns the number of tokens of its prompts. */
size_t served_submit(struct served *s, struct batch_request *b, struct gallop *engine);

/* Adds the event EV to the answers of the request whose prompt EV's user pointer is. */
void served_take(const struct gallop_event *ev);

/* Writes the result of B, a line of OpenAI's, to OUT: {"id", "custom_id", "response": {"status_code", "request_id",
 * "body"}, "error"}. If the answer was drawn with a seed that S chose, "response" has "seed". */
void served_put_line(const struct batch_request *b, struct buf *out);

/* Without --json, texts of B are printed: the generated text of each choice (for own requests to a model without a
 * tokenizer its token ids) or, if the answer has more than text (such as tool calls), the JSON body of the response
 * as the only text. These functions return the number of texts, and write text I. */
size_t served_n_texts(const struct batch_request *b);
void served_put_text(const struct batch_request *b, size_t i, struct buf *out);

#endif
