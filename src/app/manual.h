/* manual.h - the help pages and the manual page, which are made from the tables of verbs and options. */
#ifndef GALLOP_APP_MANUAL_H
#define GALLOP_APP_MANUAL_H

#include <stdbool.h>
#include <stddef.h>

#include "app/verb.h"
#include "base/buf.h"

void manual_overview(const struct verb_entry *verbs, size_t n, struct buf *out); /* gallop --help */
/* gallop VERB --help: the everyday options, and the names of the others; ALL: --help all. */
void manual_verb(const struct verb *verb, bool all, struct buf *out);
void manual_page(const struct verb_entry *verbs, size_t n, struct buf *out); /* gallop help --man, in troff */

#endif
