/* requests.h - what `gallop run` is asked for: one prompt of the command line, or the lines of a batch as
 * they come.
 *
 * A batch is read a line at a time, so that it may be a pipe that never ends. A line that is wrong is a
 * request with a fault, which names the line.
 */
#ifndef GALLOP_APP_REQUESTS_H
#define GALLOP_APP_REQUESTS_H

#include <signal.h>

#include "app/app.h"

struct request {
    struct request *next;
    size_t index;
    char where[256];    /* "F: line 3"; empty: the command line */
    bool is_text;       /* the prompt is text, */
    bool rendered;      /* which a template wrote, with its own BOS */
    struct buf text;    /* of the prompt */
    struct tok_ids ids; /* of the prompt; of a text from verb_run.c on */
    json_t *custom_id;
    struct arena arena; /* lists of the sampling */
    struct sampling sampling;
    struct err fault; /* refused or failed */

    /* The answer, which verb_run.c fills. */
    bool default_limit; /* max_new_tokens is the program's */
    bool done;
    struct tok_ids out;
    struct buf answer;
    json_t *logprobs;
    struct gallop_event end;
    char *stop_string; /* in the arena */
};

struct requests {
    /* Set by the caller, who lends what is pointed to. */
    struct checkpoint *model;          /* for the template */
    const char *template_file;         /* instead of the model's own template; NULL: none */
    const char *system;                /* message in front of a prompt; NULL: none */
    bool wrap;                         /* prompts are wrapped in the template */
    struct sampling sampling;          /* what a request has that says nothing else */
    const volatile sig_atomic_t *stop; /* not 0: waiting for a line ends */

    struct request *first, *last;   /* in input order; what is answered is taken out */
    size_t n;                       /* requests so far */
    struct requests_lines *lines;   /* owned; NULL: all requests are there */
    struct input_template template; /* open when something was rendered */
    bool template_is_open;
};

void requests_close(struct requests *r); /* a zeroed one is fine */

/* A prompt as text, which is UTF-8, or as ids. */
int requests_add_text(struct requests *r, const char *text, size_t len, struct err *e);
int requests_add_ids(struct requests *r, const struct tok_ids *ids, struct err *e);

/* Opens the template and wraps the prompt that was added. */
int requests_wrap(struct requests *r, struct err *e);

/* Lines of PATH ("-": standard input) are requests: JSON objects with "prompt", "ids" or "messages" and
 * sampling fields by their names with underscores or by OpenAI's; also lines of OpenAI's batch files. */
int requests_open_lines(struct requests *r, const char *path, struct err *e);

/* The name of the file of lines, "standard input", or "--batch" when it is closed. */
const char *requests_name(const struct requests *r);
bool requests_never_wait(const struct requests *r); /* reading a line takes no time: it is a file */

/* Takes the next line if there is one, and closes the file behind the last; WAIT: waits for it. *GOT: there
 * was. */
int requests_read_line(struct requests *r, bool wait, bool *got, struct err *e);

void requests_free(struct request *q); /* one that was taken out */

#endif
