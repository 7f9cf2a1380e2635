/* bash.c - the completion script for bash, which works with and without the package bash-completion.
 *
 * The function _gallop_VERB of the script sets the options of a verb, and what is completed after the option $1. */
#include "app/completion/bash.h"

#include <string.h>

#include "app/completion/values.h"

static const char head[] = "# gallop - completion for bash, printed by `gallop help --completion bash`.\n";

static const char complete[] =
    "    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local verb=${COMP_WORDS[1]} kind='' values='' options='' aliases='' words=0 i\n"
    "    COMPREPLY=()\n"
    "    # The shell splits --name=value into three words.\n"
    "    if [[ $current == = ]]; then\n"
    "        current=\n"
    "    elif [[ $option == = ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        values=\"$verbs help --help --version\"\n"
    "    elif [[ $verb == help && $option == --completion ]]; then\n"
    "        values='bash zsh fish'\n"
    "    elif [[ $verb == help ]]; then\n"
    "        ((COMP_CWORD > 2)) || values=\"$verbs --man --api --completion\"\n"
    "    elif [[ \" $verbs \" == *\" $verb \"* ]]; then\n"
    "        _gallop_\"$verb\" \"$option\"\n"
    "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "            [[ ${COMP_WORDS[i]} != -- ]] || return 0\n"
    "        done\n"
    "        case $kind in\n"
    "        file) compopt -o default && return 0 ;;\n"
    "        folder) compopt -o dirnames && return 0 ;;\n"
    "        '') [[ $current == -* || ($current == '' && $words == 0) ]] && values=$options ;;\n"
    "        esac\n"
    "    fi\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$current\")\n"
    "    if ((${#COMPREPLY[@]} == 0)) && [[ $values == \"$options\" ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$aliases\" -- \"$current\")\n"
    "    fi\n"
    "}\n"
    "complete -F _gallop gallop\n";

/* Appends the names of ROW as a pattern of `case`. */
static void add_pattern(struct buf *out, const struct opt_row *row)
{
    if (row->brief)
        buf_fmt(out, "-%c | ", row->brief);
    buf_fmt(out, "--%s", row->name);
    for (const char *p = row->aliases; p && *p; p += strcspn(p, "|"), p += *p == '|')
        buf_fmt(out, " | --%.*s", (int)strcspn(p, "|"), p);
}

static void add_values(struct buf *out, const struct opt_row *row)
{
    static const char *const name[] = {[COMPLETION_TEXT] = "text",
                                       [COMPLETION_WORDS] = "words",
                                       [COMPLETION_FILE] = "file",
                                       [COMPLETION_FOLDER] = "folder"};
    enum completion_kind kind = completion_kind(row);

    if (kind == COMPLETION_NONE)
        return;
    buf_str(out, "    ");
    add_pattern(out, row);
    buf_fmt(out, ") kind=%s", name[kind]);
    if (kind == COMPLETION_WORDS) {
        buf_str(out, " values='");
        completion_list(out, completion_words(row));
        buf_char(out, '\'');
    }
    buf_str(out, " ;;\n");
}

static void add_verb(struct buf *out, const struct verb *verb)
{
    const char *blank = "";

    buf_fmt(out, "\n_gallop_%s()\n{\n    words=%d options='", verb->name, verb->no_words ? 0 : 1);
    for (const struct opt_part *part = verb->options; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++, blank = " ")
            buf_fmt(out, "%s--%s", blank, r->name);
    buf_str(out, "' aliases='");
    blank = "";
    for (const struct opt_part *part = verb->options; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            for (const char *p = r->aliases; p && *p; p += strcspn(p, "|"), p += *p == '|', blank = " ")
                buf_fmt(out, "%s--%.*s", blank, (int)strcspn(p, "|"), p);
    buf_str(out, "'\n    case $1 in\n");
    for (const struct opt_part *part = verb->options; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            add_values(out, r);
    buf_str(out, "    esac\n}\n");
}

void completion_bash(const struct verb_entry *verbs, size_t n, struct buf *out)
{
    const char *blank = "";

    buf_str(out, head);
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb)
            add_verb(out, verbs[i].verb);
    buf_str(out, "\n_gallop()\n{\n    local verbs='");
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb) {
            buf_fmt(out, "%s%s", blank, verbs[i].verb->name);
            blank = " ";
        }
    buf_str(out, "'\n");
    buf_str(out, complete);
}
