/* functions.h - the table of the global functions of templates. */
#ifndef GALLOP_TEXT_JINJA_FUNCTIONS_H
#define GALLOP_TEXT_JINJA_FUNCTIONS_H

#include "text/jinja/builtin.h"

extern const struct builtin jinja_functions[];

#endif
