/* verb.h - struct verb, which describes a command such as `gallop run`, and the declarations of all commands.
 * Each verb has a file in src/app or src/lab; main.c lists them. */
#ifndef GALLOP_APP_VERB_H
#define GALLOP_APP_VERB_H

#include "base/err.h"
#include "base/opt.h"

struct verb {
    const char *name, *summary;
    const char *arguments; /* the usage line after the name: "[options] [\"prompt\"]" */
    /* For verbs without arguments: the words after "expected" in the error that an argument causes. NULL: the verb
     * takes arguments. */
    const char *no_words;
    const char *manual;             /* text of the manual page; manual.c describes its markup */
    const struct opt_part *options; /* the tables of options; an entry without rows ends the list */
    /* Does the work. Returns 0, an error code with the reason in E, or the negated exit status if all errors
     * have been reported already. */
    int (*run)(const struct opt_values *v, struct err *e);
};

/* Verbs of the product, in src/app. */
extern const struct verb verb_run, verb_chat, verb_serve, verb_pack, verb_quantize, verb_calibrate,
    verb_inspect, verb_tokenize, verb_compile;
/* Verbs of the laboratory, in src/lab. */
extern const struct verb verb_logits, verb_ppl, verb_render, verb_parse, verb_sample, verb_grammar,
    verb_synth, verb_bench, verb_simulate;

/* A line of `gallop --help`: a verb, or (VERB is NULL) a heading above the verbs that follow. */
struct verb_entry {
    const char *heading;
    const struct verb *verb;
};

#endif
