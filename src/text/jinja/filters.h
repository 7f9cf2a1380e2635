/* filters.h - the tables of filters and tests. */
#ifndef GALLOP_TEXT_JINJA_FILTERS_H
#define GALLOP_TEXT_JINJA_FILTERS_H

#include "text/jinja/builtin.h"

extern const struct builtin jinja_filters[], jinja_tests[];

#endif
