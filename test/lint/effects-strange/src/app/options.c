/* options.c - an option of several verbs. */
#include "app/options.h"

const struct opt_row options_model[] = {{"model", 0, PARAM_TEXT, "M", .help = "a model"}, {0}};
