/* runbatch.h - a list of requests run together, answers in input order. A refused or failed request is said
 * on stderr (and in its JSON line), and the others go on. */
#ifndef GALLOP_APP_RUNBATCH_H
#define GALLOP_APP_RUNBATCH_H

#include "app/common.h"

struct runbatch_item;

struct runbatch {
    struct arena arena;
    struct gallop *engine;    /* owned */
    struct sampling sampling; /* of the command line */
    struct runbatch_item *item;
    size_t n, cap;
    bool json, no_special, keep_special, chat;
    bool stream; /* one request: text is printed as it comes */
    size_t n_failed;
};

void runbatch_init(struct runbatch *b);
void runbatch_fini(struct runbatch *b);
int runbatch_add_text(struct runbatch *b, const char *text, size_t len, struct err *e);
int runbatch_add_ids(struct runbatch *b, const int32_t *ids, size_t n, struct err *e);

/* A JSON object a line: "prompt" or "ids", sampling fields by their names with underscores. */
int runbatch_read(struct runbatch *b, const char *path, struct err *e);

/* Sequences at once by the number of requests. */
int runbatch_size(const struct runbatch *b, struct gallop_options *o, struct err *e);

/* 0: all done; -1: some failed and were reported; else a code with the sentence in E. MODEL: folder, for the
 * template. */
int runbatch_run(struct runbatch *b, const char *model, struct err *e);

#endif
