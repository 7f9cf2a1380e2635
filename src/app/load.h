/* load.h - finds and opens the model that the command line names. */
#ifndef GALLOP_APP_LOAD_H
#define GALLOP_APP_LOAD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "engine/engine.h"
#include "gallop.h"

struct checkpoint;
struct gallop;

/* The options of a model and of its engine. The rows of options_model, options_source, options_engine and
 * options_scheduling are read into it. */
struct load {
    struct gallop_options o; /* load_prepare() sets o.model to PATH */
    const char *name;        /* value of -m; NULL: the bundled demo model */
    enum opt_source name_source;
    const char *revision; /* value of --revision, which load_prepare() moves here from o.revision */
    bool pack_cache, no_prefix_caching, max_num_seqs_given;
    enum opt_source block_size_source, layout_source, splits_source;
    bool headless;   /* set by the caller: a model without a language model head is accepted, too */
    char path[4096]; /* path of the model; set by load_prepare() */
};

/* Sets the defaults of L, before options are read into it. */
void load_init(struct load *l);

/* Checks L's options (options_check_engine()) and finds the model, which is fetched from the hub if it is not on this
 * machine. Sets the members of L that depend on it. */
int load_prepare(struct load *l, struct err *e);

/* Opens MODEL to use its tokenizer and chat templates; a model on a hub is downloaded without its weights.
 * Does nothing if MODEL is open. load_prepare() need not be called before. */
int load_text(const struct load *l, struct checkpoint *model, struct err *e);

/* Opens the checkpoint of the model, for verbs that also read files or tensors that an engine does not
 * read. */
int load_checkpoint(const struct load *l, struct checkpoint *model, struct err *e);

/* Opens an engine and shows a progress bar. MODEL is NULL, or the checkpoint that load_checkpoint() opened; it must
 * outlive the engine. */
int load_engine(struct load *l, struct checkpoint *model, struct gallop **g, struct err *e);

#endif
