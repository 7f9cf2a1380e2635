/* load.h - the model that the options name. */
#ifndef GALLOP_APP_LOAD_H
#define GALLOP_APP_LOAD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "engine/engine.h"

struct checkpoint;

/* A model as the options name it, and what an engine is opened with. options_model, options_source, options_engine
 * and options_scheduling are read into it. */
struct load {
    struct gallop_options o; /* o.model is PATH when load_prepare() was called */
    const char *name;        /* what -m says; NULL: the bundled demo model */
    enum opt_source name_source;
    const char *revision; /* what --revision says; set by load_prepare(), until then it is in O */
    bool pack_cache, no_prefix_caching, max_num_seqs_given;
    enum opt_source block_size_source, layout_source, splits_source;
    bool headless;   /* set by the caller: a model without a language model head is accepted, too */
    char path[4096]; /* of the model */
};

void load_init(struct load *l); /* before options are read into it */

/* Checks L's options (options_check_engine()), finds the model, which is fetched from the hub if it is there and not
 * here, and completes L. */
int load_prepare(struct load *l, struct err *e);

/* Opens the files of the model of which tokenizer and templates are wanted; nothing if MODEL is open. Needs no
 * load_prepare(). */
int load_text(const struct load *l, struct checkpoint *model, struct err *e);

/* Opens the files of the model, for verbs that need more of them than an engine. */
int load_checkpoint(const struct load *l, struct checkpoint *model, struct err *e);

/* Opens an engine, with a progress bar. MODEL is what load_checkpoint() opened and outlives the engine, or
 * NULL. */
int load_engine(struct load *l, struct checkpoint *model, struct gallop **g, struct err *e);

#endif
