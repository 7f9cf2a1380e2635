/* options.h - struct gallop_options by the rows of options.def. */
#ifndef GALLOP_ENGINE_OPTIONS_H
#define GALLOP_ENGINE_OPTIONS_H

#include <stdbool.h>

#include "base/err.h"
#include "gallop.h"

/* Checks what does not depend on the model: names among choices and ranges of numbers. IS_EXECUTOR: options that
 * an executor does not have are refused, too. The error has the member as its subject. */
int engine_options_check(const struct gallop_options *o, bool is_executor, struct err *e);

#endif
