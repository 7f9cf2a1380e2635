/* completion.h - completes the command line of gallop in shells.
 *
 * The script of a shell asks the program, `gallop help --complete WORD...`, and shows its output. */
#ifndef GALLOP_APP_COMPLETION_COMPLETION_H
#define GALLOP_APP_COMPLETION_COMPLETION_H

#include <stddef.h>

#include "app/verb.h"
#include "base/buf.h"

#define COMPLETION_SHELLS "bash|zsh|fish"

/* Returns the script for SHELL, one of COMPLETION_SHELLS, or NULL. */
const char *completion_script(const char *shell);

/* Appends the completions of the last of WORDS [n], which are the words after the program's name. The first
 * line of OUT is `file`, `folder` or `words`. After `file` and `folder` the shell completes file names
 * itself. After `words`, each further line is a completion, followed by a tab and its meaning if it has one.
 * VERBS [n_verbs] are the verbs of the program. */
void completion_write(const struct verb_entry *verbs, size_t n_verbs, char *const *words, size_t n,
                      struct buf *out);

#endif
