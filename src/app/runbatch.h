/* runbatch.h - requests run together: one from the command line, or the lines of a batch as they come.
 *
 * A batch is read a line at a time, a bounded number of requests ahead of what is computed, so that it may be
 * a pipe that never ends. Each result is printed as soon as it is there, with --json in the order of input.
 * A refused or failed request is said on stderr (and in its JSON line), and the others go on. SIGINT and
 * SIGTERM cancel what runs; what is finished is printed whole.
 */
#ifndef GALLOP_APP_RUNBATCH_H
#define GALLOP_APP_RUNBATCH_H

#include "app/common.h"
#include "ckpt/checkpoint.h"
#include "text/jinja/jinja.h"

struct runbatch_item;

struct runbatch {
    struct arena arena;       /* lists of sampling */
    struct gallop *engine;    /* owned */
    struct folder folder;     /* of the model; its path is borrowed */
    struct checkpoint model;  /* opened when it is first needed */
    const char *template;     /* a file instead of the model's own template; borrowed, NULL: none */
    const char *system;       /* message in front of a prompt; borrowed, NULL: none */
    struct chat *chat;        /* owned; opened when something is to be rendered */
    struct jinja *jinja;      /* owned; of the file */
    struct sampling sampling; /* of the command line */
    bool json, no_special, keep_special;
    bool chat_prompts; /* prompts are wrapped in the template */
    bool stream;       /* one request: text is printed as it comes */

    struct runbatch_item *first, *last; /* in input order, not yet printed */
    struct runbatch_lines *lines;       /* owned; NULL: all requests are there */
    size_t n, n_open, n_failed;         /* requests so far, submitted ones that run, failed ones */
    int signal;                         /* that ended it; 0: none */
};

void runbatch_init(struct runbatch *b);
void runbatch_fini(struct runbatch *b);

/* A prompt as text, which is UTF-8, or as ids. */
int runbatch_add_text(struct runbatch *b, const char *text, size_t len, struct err *e);
int runbatch_add_ids(struct runbatch *b, const int32_t *ids, size_t n, struct err *e);

/* Lines of PATH ("-": standard input) are requests: JSON objects with "prompt", "ids" or "messages" and
 * sampling fields by their names with underscores or by OpenAI's; also lines of OpenAI's batch files. */
int runbatch_open_lines(struct runbatch *b, const char *path, struct err *e);

/* Opens b->model, unless that was done. */
int runbatch_open_model(struct runbatch *b, struct err *e);

/* Opens the template and wraps the prompt that was added; those of lines follow as they come. */
int runbatch_open_chat(struct runbatch *b, struct err *e);

/* How many sequences the engine shall compute at once. Reads that many lines ahead where that does not
 * wait. */
int runbatch_size(struct runbatch *b, struct gallop_options *o, struct err *e);

/* 0: all done; -1: some failed and were reported, or b->signal came; else a code with the sentence in E. */
int runbatch_run(struct runbatch *b, struct err *e);

#endif
