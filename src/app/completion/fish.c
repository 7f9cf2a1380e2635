/* fish.c - the completion script for fish. An option that several verbs share is one line of the script. */
#include "app/completion/fish.h"

#include <stdbool.h>
#include <string.h>

#include "app/completion/values.h"

static const char head[] =
    "# gallop - completion for fish, printed by `gallop help --completion fish`.\n"
    "function __gallop_verb -d 'whether the verb of the command line is one of the arguments, or missing'\n"
    "    set -l words (commandline -opc)\n"
    "    if test (count $argv) -eq 0\n"
    "        test (count $words) -eq 1\n"
    "    else\n"
    "        test (count $words) -gt 1; and contains -- $words[2] $argv\n"
    "    end\n"
    "end\n"
    "complete -c gallop -f\n"
    "complete -c gallop -n __gallop_verb -l help -s h -d 'list the verbs'\n"
    "complete -c gallop -n __gallop_verb -l version -s V -d 'print the version'\n"
    "complete -c gallop -n __gallop_verb -a help -d 'explain a verb, or print the manual'\n"
    "complete -c gallop -n '__gallop_verb help' -l man -d 'print the manual page'\n"
    "complete -c gallop -n '__gallop_verb help' -l api -d 'print the fields of requests'\n"
    "complete -c gallop -n '__gallop_verb help' -l completion -x -a 'bash zsh fish' -d 'print the completion of a "
    "shell'\n";

static void add_quoted(struct buf *out, const char *text, size_t n)
{
    buf_char(out, '\'');
    completion_escape(out, text, n, "'\\");
    buf_char(out, '\'');
}

static bool has_rows(const struct verb *verb, const struct opt_row *rows)
{
    const struct opt_part *part = verb->options;

    while (part->rows && part->rows != rows)
        part++;
    return part->rows != NULL;
}

/* Appends the names of the verbs that have ROWS. */
static void add_verbs(const struct verb_entry *verbs, size_t n, const struct opt_row *rows, struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb && has_rows(verbs[i].verb, rows))
            buf_fmt(out, " %s", verbs[i].verb->name);
}

static void add_line(const struct opt_row *row, struct buf *out)
{
    enum completion_kind kind = completion_kind(row);

    buf_fmt(out, " -l %s", row->name);
    if (row->brief)
        buf_fmt(out, " -s %c", row->brief);
    if (kind == COMPLETION_FILE) {
        buf_str(out, row->bare ? " -F" : " -r -F");
    } else if (kind == COMPLETION_FOLDER) {
        buf_str(out, " -x -a '(__fish_complete_directories)'");
    } else if (kind == COMPLETION_WORDS) {
        buf_str(out, " -x -a '");
        completion_list(out, completion_words(row));
        buf_char(out, '\'');
    } else if (kind == COMPLETION_TEXT) {
        buf_str(out, " -x");
    }
    buf_str(out, " -d ");
    add_quoted(out, row->help, opt_clause(row));
    buf_char(out, '\n');
}

/* Appends the options of verb I that no earlier verb has. */
static void add_options(const struct verb_entry *verbs, size_t n, size_t i, struct buf *out)
{
    for (const struct opt_part *part = verbs[i].verb->options; part->rows; part++) {
        bool done = false;

        for (size_t k = 0; k < i && !done; k++)
            done = verbs[k].verb && has_rows(verbs[k].verb, part->rows);
        for (const struct opt_row *r = part->rows; r->name && !done; r++) {
            buf_str(out, "complete -c gallop -n '__gallop_verb");
            add_verbs(verbs, n, part->rows, out);
            buf_char(out, '\'');
            add_line(r, out);
        }
    }
}

void completion_fish(const struct verb_entry *verbs, size_t n, struct buf *out)
{
    buf_str(out, head);
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb) {
            buf_fmt(out, "complete -c gallop -n '__gallop_verb; or __gallop_verb help' -a %s -d ",
                    verbs[i].verb->name);
            add_quoted(out, verbs[i].verb->summary, strlen(verbs[i].verb->summary));
            buf_char(out, '\n');
        }
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb)
            add_options(verbs, n, i, out);
}
