/* zsh.h - the completion script for zsh. */
#ifndef GALLOP_APP_COMPLETION_ZSH_H
#define GALLOP_APP_COMPLETION_ZSH_H

#include <stddef.h>

#include "app/verb.h"
#include "base/buf.h"

/* Appends the script for the VERBS [n]. */
void completion_zsh(const struct verb_entry *verbs, size_t n, struct buf *out);

#endif
