/* jinja_glob.h - the functions every chat template may call: range, dict, namespace, raise_exception and
 * so on. */
#ifndef GALLOP_TEXT_JINJA_GLOB_H
#define GALLOP_TEXT_JINJA_GLOB_H

#include "text/jinja_args.h"

/* A dict of all of them by name. */
struct jdict *jinja_glob_new(struct jrun *r);

#endif
