/* completion.h - scripts by which shells complete the command line of gallop, printed from the tables of options.
 *
 * A script is complete in itself: the shell does not start the program to complete a word. */
#ifndef GALLOP_APP_COMPLETION_COMPLETION_H
#define GALLOP_APP_COMPLETION_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

#include "app/verb.h"
#include "base/buf.h"

#define COMPLETION_SHELLS "bash|zsh|fish"

/* Appends the script for SHELL, one of COMPLETION_SHELLS. False: there is no such shell. */
bool completion_write(const char *shell, const struct verb_entry *verbs, size_t n, struct buf *out);

#endif
