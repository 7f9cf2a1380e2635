/* options.c - an option of several verbs. */
#include "app/options.h"

const struct opt_row options_model[] = {{"model", 0, OPT_STRING, "M", .help = "a model"}, {0}};
