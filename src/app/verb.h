/* verb.h - what a verb is, and the list of all verbs: one file each, in src/app or src/lab, which main.c lists. */
#ifndef GALLOP_APP_VERB_H
#define GALLOP_APP_VERB_H

#include "base/err.h"
#include "base/opt.h"

struct verb {
    const char *name, *summary;
    const char *arguments; /* behind the name in the usage line: "[options] [\"prompt\"]" */
    const char *no_words;  /* what is expected instead of an argument; NULL: the verb takes arguments */
    const char *manual;    /* its paragraph of the manual page, as manual.c reads it */
    const struct opt_part *options; /* a table; a part without rows ends it */
    /* 0: done; a code: the work failed, and E says why; below 0: minus the exit status, and all was said. */
    int (*run)(const struct opt_values *v, struct err *e);
};

/* Of the product, src/app. */
extern const struct verb verb_run, verb_chat, verb_serve, verb_pack, verb_quantize, verb_calibrate,
    verb_inspect, verb_tokenize;
/* Of the laboratory, src/lab. */
extern const struct verb verb_logits, verb_ppl, verb_render, verb_sample, verb_grammar, verb_synth,
    verb_bench, verb_simulate;

/* The verbs in the order of `gallop --help`: an entry without a verb is a heading over those that follow. */
struct verb_entry {
    const char *heading;
    const struct verb *verb;
};

#endif
