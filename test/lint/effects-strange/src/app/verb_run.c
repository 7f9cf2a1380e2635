/* verb_run.c - a verb with an option of its own and one that it shares. */
#include "app/options.h"

static const struct opt_row rows[] = {{"file", 'f', PARAM_TEXT, "F", .help = "a file"}, {0}};

const struct verb verb_run = {
    .options = (const struct opt_row *const[]){rows, options_model, NULL},
};
