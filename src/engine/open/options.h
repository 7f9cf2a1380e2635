/* options.h - checks struct gallop_options by the rows of options.def. */
#ifndef GALLOP_ENGINE_OPTIONS_H
#define GALLOP_ENGINE_OPTIONS_H

#include <stdbool.h>

#include "base/err.h"

struct gallop_options;

/* Checks names and ranges that do not depend on the model. IS_EXECUTOR: options that executors do not have
 * are refused. The error has the member as its subject. */
int engine_options_check(const struct gallop_options *o, bool is_executor, struct err *e);

#endif
