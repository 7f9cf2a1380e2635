/* bash.h - the completion script for bash. */
#ifndef GALLOP_APP_COMPLETION_BASH_H
#define GALLOP_APP_COMPLETION_BASH_H

#include <stddef.h>

#include "app/verb.h"
#include "base/buf.h"

/* Appends the script for the VERBS [n]. */
void completion_bash(const struct verb_entry *verbs, size_t n, struct buf *out);

#endif
