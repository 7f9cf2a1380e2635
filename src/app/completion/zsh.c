/* zsh.c - the completion script for zsh: a function _gallop for a folder of $fpath, which may also be sourced. */
#include "app/completion/zsh.h"

#include <stdbool.h>
#include <string.h>

#include "app/completion/values.h"

static const char head[] = "#compdef gallop\n"
                           "# _gallop - completion for zsh, printed by `gallop help --completion zsh`.\n"
                           "_gallop() {\n"
                           "    local context state state_descr line\n"
                           "    local -a verbs\n"
                           "    typeset -A opt_args\n"
                           "    verbs=(\n";

static const char choose[] =
    "    )\n"
    "    _arguments -C '(- *)'{-h,--help}'[list the verbs]' '(- *)'{-V,--version}'[print the version]' \\\n"
    "        '1:verb:->verb' '*::argument:->argument' && return\n"
    "    case $state in\n"
    "    verb) _describe -t verbs verb verbs && return ;;\n"
    "    argument) ;;\n"
    "    *) return 1 ;;\n"
    "    esac\n"
    "    case $words[1] in\n"
    "    help)\n"
    "        _arguments '--man[print the manual page]' '--api[print the fields of requests]' \\\n"
    "            '--completion[print the completion of a shell]:shell:(bash zsh fish)' \\\n"
    "            '1:verb:('\"${(j: :)${(@)verbs%%:*}}\"')' ;;\n";

static const char tail[] = "    esac\n"
                           "}\n"
                           "if [[ $funcstack[1] == _gallop ]]; then\n"
                           "    _gallop \"$@\"\n"
                           "else\n"
                           "    compdef _gallop gallop\n"
                           "fi\n";

/* Appends TEXT [n] between single quotes that are already open. */
static void add_quoted(struct buf *out, const char *text, size_t n, const char *special)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\'')
            buf_str(out, "'\\''");
        else
            completion_escape(out, text + i, 1, special);
}

/* Appends what follows the names of ROW in its specification: '[clause]:placeholder:action'. */
static void add_rest(struct buf *out, const struct opt_row *row)
{
    enum completion_kind kind = completion_kind(row);
    const char *placeholder = row->type == OPT_CHOICE ? row->name : opt_arg(row);

    buf_str(out, "'[");
    add_quoted(out, row->help, opt_clause(row), "]\\");
    buf_char(out, ']');
    if (kind != COMPLETION_NONE) {
        buf_str(out, row->bare ? "::" : ":");
        add_quoted(out, placeholder, strlen(placeholder), ":\\");
        buf_char(out, ':');
    }
    if (kind == COMPLETION_WORDS) {
        buf_char(out, '(');
        completion_list(out, completion_words(row));
        buf_char(out, ')');
    } else if (kind == COMPLETION_FILE) {
        buf_str(out, "_files");
    } else if (kind == COMPLETION_FOLDER) {
        buf_str(out, "_files -/");
    }
    buf_char(out, '\'');
}

static void add_specification(struct buf *out, const struct opt_row *row)
{
    bool value = row->type != OPT_FLAG;

    buf_str(out, " \\\n            ");
    if (row->repeat)
        buf_str(out, "'*'");
    else if (row->brief)
        buf_fmt(out, "'(-%c --%s)'", row->brief, row->name);
    if (row->brief)
        buf_fmt(out, "{-%c%s,--%s%s}", row->brief, value ? "+" : "", row->name, value ? "=" : "");
    else
        buf_fmt(out, "--%s%s", row->name, value ? "=" : "");
    add_rest(out, row);
    for (const char *p = row->aliases; p && *p; p += strcspn(p, "|"), p += *p == '|') {
        buf_fmt(out, " \\\n            '!%s'--%.*s%s", row->repeat ? "*" : "", (int)strcspn(p, "|"), p,
                value ? "=" : "");
        add_rest(out, row);
    }
}

static void add_verb(struct buf *out, const struct verb *verb)
{
    buf_fmt(out, "    %s)\n        _arguments -S", verb->name);
    for (const struct opt_part *part = verb->options; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            add_specification(out, r);
    if (!verb->no_words)
        buf_str(out, " \\\n            '*:text:()'");
    buf_str(out, " ;;\n");
}

void completion_zsh(const struct verb_entry *verbs, size_t n, struct buf *out)
{
    buf_str(out, head);
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb) {
            buf_fmt(out, "        '%s:", verbs[i].verb->name);
            add_quoted(out, verbs[i].verb->summary, strlen(verbs[i].verb->summary), ":\\");
            buf_str(out, "'\n");
        }
    buf_str(out, "        'help:explain a verb, or print the manual'\n");
    buf_str(out, choose);
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb)
            add_verb(out, verbs[i].verb);
    buf_str(out, tail);
}
