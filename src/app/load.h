/* load.h - the model that the options name. */
#ifndef GALLOP_APP_LOAD_H
#define GALLOP_APP_LOAD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"

/* The model is that of -m, fetched from the hub if it is there and not here, or the bundled demo model. */

/* What an engine is opened with. */
struct load {
    struct gallop_options o;
    char path[4096]; /* of the model */
    bool headless;   /* a model without a head is taken, too */
};

/* Checks options_engine, finds the model and sets L. */
int load_options(const struct opt_values *v, struct load *l, struct err *e);

/* Adds what options_scheduling says. */
void load_scheduling(const struct opt_values *v, struct gallop_options *o);

/* The files of that model, for those who need more of them than an engine. */
int load_checkpoint(const struct opt_values *v, const struct load *l, struct checkpoint *model,
                    struct err *e);

/* Opens an engine, with a progress bar. MODEL is what load_checkpoint() opened and outlives the engine, or
 * NULL. */
int load_engine(struct load *l, struct checkpoint *model, struct gallop **g, struct err *e);

#endif
