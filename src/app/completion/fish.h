/* fish.h - the completion script for fish. */
#ifndef GALLOP_APP_COMPLETION_FISH_H
#define GALLOP_APP_COMPLETION_FISH_H

#include <stddef.h>

#include "app/verb.h"
#include "base/buf.h"

/* Appends the script for the VERBS [n]. */
void completion_fish(const struct verb_entry *verbs, size_t n, struct buf *out);

#endif
