/* requests.h - the requests of `gallop run`: one prompt of the command line, or the lines of a batch.
 *
 * A batch is read a line at a time, so that it may be a pipe that never ends. A faulty line becomes a request whose
 * member FAULT names the line. */
#ifndef GALLOP_APP_BATCH_REQUESTS_H
#define GALLOP_APP_BATCH_REQUESTS_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "app/batch/resume.h"
#include "app/batch/served.h"
#include "app/input.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "chat/request.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"
#include "text/tok/ids.h"

struct checkpoint;
struct served_request;

/* One answer to a request. */
struct request_answer {
    struct tok_ids ids;
    struct buf text, special; /* SPECIAL: gallop_event.special of each byte of TEXT */
    json_t *logprobs;         /* NULL: none */
    struct gallop_event end;  /* the FINISHED event */
    char *stop_string;        /* the stop string that ended the answer, in the request's arena; NULL: none */
};

/* A request, its prompt and its answers. */
struct batch_request {
    struct request_prompt prompt; /* user pointer of the events; must be the first member */
    struct batch_request *next;
    size_t index;
    /* A line of OpenAI's batch files, with its answers; NULL: the request is in the format of Gallop's own lines. */
    struct served_request *served;
    char where[256];    /* for messages: where the request is from, as "F: line 3"; empty: the command line */
    bool is_text;       /* the prompt is text, not ids */
    bool rendered;      /* a template rendered the text, with its own BOS */
    struct buf text;    /* text of the prompt */
    const char *suffix; /* [n_suffix] text after the gap that the answer fills, borrowed; NULL: no gap */
    size_t n_suffix;
    struct buf origin;  /* with --user-text plain, the origin of each byte of TEXT (jinja_render_marked()) */
    struct tok_ids ids; /* tokens of the prompt; if the prompt is text, verb_run.c sets them */
    json_t *custom_id;
    struct arena arena; /* holds lists and texts of the request */
    struct sampling sampling;
    struct gallop_structured_outputs structured; /* texts are in ARENA, or borrowed */
    size_t n;                                    /* number of answers; answer I is sampled with seed + I */
    int prompt_logprobs;                         /* -1: none */
    bool plain;                                  /* without speculative decoding ("speculative": false) */
    int priority;
    const char *user, *salt; /* in the arena; NULL: not given */
    struct err fault;        /* why the request was refused or failed */

    /* Set by verb_run.c. */
    bool default_limit;            /* max_new_tokens was not given, and is the program's default */
    bool skipped;                  /* the file of --resume contains the result of this request */
    bool drawn;                    /* tokens are drawn at random, with the seed */
    bool random_seed;              /* the program chose the seed */
    bool done;                     /* all answers are finished, or the request was refused */
    bool cancelled;                /* one of the answers was cancelled */
    size_t n_open;                 /* answers that are not finished */
    struct request_answer *answer; /* [n], in the arena; NULL: refused */
    json_t *warnings;              /* list of sentences about ignored keywords of a JSON Schema; NULL: none */
    json_t *scored;                /* log-probabilities of the prompt's tokens; NULL: not wanted */
};

struct requests {
    /* Set by the caller; pointers are borrowed. */
    struct checkpoint *model;                    /* checkpoint whose chat template is used */
    struct served *served;                       /* the data that all OpenAI lines share */
    const char *template_file;                   /* file that replaces the model's template; NULL: none */
    const char *system;                          /* system message that precedes a prompt; NULL: none */
    bool wrap;                                   /* prompts are wrapped in the template */
    bool plain_user_text;                        /* --user-text plain */
    struct sampling sampling;                    /* default sampling parameters of requests */
    struct gallop_structured_outputs structured; /* constraint of requests without their own; borrowed */
    const volatile sig_atomic_t *stop;           /* nonzero when waiting for a line must stop; NULL: never */
    struct resume *resume; /* results of an earlier run, for skipping their requests; NULL: none */

    size_t n_skipped;                   /* number of skipped requests */
    struct batch_request *first, *last; /* list of requests in input order; finished requests are removed */
    size_t n, n_answers;                /* number of requests so far, and of their answers */
    struct requests_lines *lines;       /* owned; NULL: all requests have been read */
};

void requests_close(struct requests *r);

/* Adds a request whose prompt is TEXT [len] in UTF-8, or token ids. */
int requests_add_text(struct requests *r, const char *text, size_t len, struct err *e);
int requests_add_ids(struct requests *r, const struct tok_ids *ids, struct err *e);

/* Opens the template, unless it is open. */
int requests_open_template(struct requests *r, struct err *e);

/* Opens the template and replaces the text of the last added prompt by its rendering as a user's message. */
int requests_wrap(struct requests *r, struct err *e);

/* Opens PATH ("-": standard input), whose lines are requests: JSON objects with "prompt", "ids" or "messages"
 * and sampling fields (named as in Hugging Face's generation config or as in OpenAI's API), or lines of
 * OpenAI's batch files. */
int requests_open_lines(struct requests *r, const char *path, struct err *e);

/* Counts the requests in the file of lines. False: it is not a regular file. */
bool requests_count_lines(const struct requests *r, size_t *n);

/* Returns the path of the file of lines, "standard input", or "--batch" if the file is closed. */
const char *requests_name(const struct requests *r);

/* True if lines are read from a regular file, so that reading never waits. */
bool requests_never_wait(const struct requests *r);

/* Reads the next request if a line is available; with WAIT, waits for a line. Closes the file after the last
 * line. Sets *GOT to whether a request was read. */
int requests_read_line(struct requests *r, bool wait, bool *got, struct err *e);

/* Frees a request that was removed from the list. */
void requests_free(struct batch_request *q);

#endif
