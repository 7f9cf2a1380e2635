/* completion.c - chooses the completion script of a shell. */
#include "app/completion/completion.h"

#include <string.h>

#include "app/completion/bash.h"
#include "app/completion/fish.h"
#include "app/completion/zsh.h"

bool completion_write(const char *shell, const struct verb_entry *verbs, size_t n, struct buf *out)
{
    if (strcmp(shell, "bash") == 0)
        completion_bash(verbs, n, out);
    else if (strcmp(shell, "zsh") == 0)
        completion_zsh(verbs, n, out);
    else if (strcmp(shell, "fish") == 0)
        completion_fish(verbs, n, out);
    else
        return false;
    return true;
}
