/* requests.h - what `gallop run` is asked for: one prompt of the command line, or the lines of a batch as
 * they come.
 *
 * A batch is read a line at a time, so that it may be a pipe that never ends. A line that is wrong is a
 * request with a fault, which names the line. */
#ifndef GALLOP_APP_REQUESTS_H
#define GALLOP_APP_REQUESTS_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "app/input.h"
#include "app/resume.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "text/tok/tok.h"

struct request_answer {
    struct tok_ids ids;
    struct buf text;
    json_t *logprobs; /* NULL: none */
    struct gallop_event end;
    char *stop_string; /* in the request's arena */
};

/* The form of a line, and of its result. */
enum request_form {
    REQUEST_OWN,
    REQUEST_OPENAI_CHAT, /* of OpenAI's batch files: url /v1/chat/completions, */
    REQUEST_OPENAI_TEXT, /* or /v1/completions */
};

struct request {
    struct request *next;
    size_t index;
    enum request_form form;
    char where[256];    /* "F: line 3"; empty: the command line */
    bool is_text;       /* the prompt is text, */
    bool rendered;      /* which a template wrote, with its own BOS */
    struct buf text;    /* of the prompt */
    struct buf origin;  /* of its bytes, with --user-text plain: see jinja_render_marked() */
    struct tok_ids ids; /* of the prompt; of a text from verb_run.c on */
    json_t *custom_id;
    json_t *model;     /* what an OpenAI line calls it; NULL: nothing */
    json_t *tools;     /* that an OpenAI line brings, whose names are in tool; NULL: none */
    const char **tool; /* [n_tools] in the arena */
    size_t n_tools;
    struct arena arena; /* lists of the sampling */
    struct sampling sampling;
    struct gallop_structured_outputs structured; /* its texts are in an arena */
    size_t n;                                    /* answers, which draw with seed, seed + 1, ... */
    int prompt_logprobs;                         /* -1: none */
    int priority;
    const char *user, *salt; /* in the arena; NULL: not given */
    struct err fault;        /* refused or failed */

    /* The answers, which verb_run.c fills. */
    bool default_limit;            /* max_new_tokens is the program's */
    bool skipped;                  /* its result is in the file of --resume */
    bool drawn;                    /* tokens are drawn at random: the seed counts */
    bool random_seed;              /* and the program chose it */
    bool done;                     /* all of them, or refused */
    bool cancelled;                /* one of them */
    size_t n_open;                 /* of them run */
    struct request_answer *answer; /* [n], in the arena; NULL: refused */
    json_t *scored;                /* log-probabilities of the prompt's tokens; NULL: not asked for */
};

struct requests {
    /* Set by the caller, who lends what is pointed to. */
    struct checkpoint *model;                    /* for the template */
    const char *template_file;                   /* instead of the model's own template; NULL: none */
    const char *system;                          /* message in front of a prompt; NULL: none */
    bool wrap;                                   /* prompts are wrapped in the template */
    bool plain_user_text;                        /* --user-text plain */
    struct sampling sampling;                    /* what a request has that says nothing else */
    struct gallop_structured_outputs structured; /* likewise, and what it points to is lent */
    const volatile sig_atomic_t *stop;           /* not 0: waiting for a line ends */
    struct resume *resume; /* requests that have their result are left out; NULL: none have */

    size_t n_skipped;               /* that were left out */
    struct request *first, *last;   /* in input order; what is answered is taken out */
    size_t n, n_answers;            /* requests so far, and the answers they ask for */
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

/* How many requests the file of lines holds. False: that cannot be told, it is no file. */
bool requests_count_lines(const struct requests *r, size_t *n);

/* The name of the file of lines, "standard input", or "--batch" when it is closed. */
const char *requests_name(const struct requests *r);
bool requests_never_wait(const struct requests *r); /* reading a line takes no time: it is a file */

/* Takes the next line if there is one, and closes the file behind the last; WAIT: waits for it. *GOT: there
 * was. */
int requests_read_line(struct requests *r, bool wait, bool *got, struct err *e);

void requests_free(struct request *q); /* one that was taken out */

#endif
