/* completion.h - completes the command line of gallop in shells.
 *
 * The script of a shell asks the program, `gallop help --complete WORD...`, and shows what it prints. */
#ifndef GALLOP_APP_COMPLETION_COMPLETION_H
#define GALLOP_APP_COMPLETION_COMPLETION_H

#include <stddef.h>

#include "app/verb.h"
#include "base/buf.h"

#define COMPLETION_SHELLS "bash|zsh|fish"

/* Returns the script for SHELL, one of COMPLETION_SHELLS, or NULL. */
const char *completion_script(const char *shell);

/* Appends what can stand in place of the last of WORDS [n], the words after the program's name. The first
 * line of OUT is `file` or `folder`, whose names the shell completes itself, or `words`: then each further
 * line is a word, and behind a tab its meaning. VERBS [n_verbs] are those of the program. */
void completion_write(const struct verb_entry *verbs, size_t n_verbs, char *const *words, size_t n,
                      struct buf *out);

#endif
