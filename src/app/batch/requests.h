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
#include "base/arena.h"
#include "base/err.h"
#include "chat/request.h"

/* A request and its answers. */
struct batch_request {
    struct request q; /* found by the user pointers of events; must be the first member */
    struct batch_request *next;
    size_t index;
    bool is_own;     /* Gallop's own format: the prompt of the command line, or no line of OpenAI's */
    char where[256]; /* for messages: where the request is from, as "F: line 3"; empty: the command line */
    json_t *custom_id;
    struct arena arena; /* holds the texts of the line's members */
    size_t n;           /* number of answers; answer I is sampled with seed + I */
    struct err fault;   /* why the request was refused or failed */
    bool skipped;       /* the file of --resume contains the result of this request */

    bool random_seed; /* the program chose the seed */
    uint64_t seed;
    bool done;      /* all answers are finished, or the request was refused */
    bool cancelled; /* one of the answers was cancelled */
    size_t n_open;  /* answers that are not finished */
    /* Of requests in Gallop's own form: */
    struct gallop_event *end; /* [n] the FINISHED events, without what they point to */
    bool default_limit;       /* max_new_tokens was not given, and is the program's default */
    bool drawn;               /* tokens are drawn at random, with the seed above */
};

struct requests {
    /* Set by the caller; pointers are borrowed. */
    struct served *served;             /* data for answering the requests */
    const volatile sig_atomic_t *stop; /* nonzero when waiting for a line must stop; NULL: never */
    struct resume *resume; /* results of an earlier run, for skipping their requests; NULL: none */

    size_t n_skipped;                   /* number of skipped requests */
    struct batch_request *first, *last; /* list of requests in input order; finished requests are removed */
    size_t n, n_answers;                /* number of requests so far, and of their answers */
    struct requests_lines *lines;       /* owned; NULL: all requests have been read */
};

void requests_close(struct requests *r);

/* Adds the request of the command line: BODY [n], a JSON object as a line in Gallop's own format has it. */
int requests_add_own(struct requests *r, const char *body, size_t n, struct err *e);

/* Opens PATH ("-": standard input), whose lines are requests in Gallop's own format (own.h) or that of OpenAI's batch
 * files. */
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
