/* values.c - what shells complete after an option, and the quoting of the scripts. */
#include "app/completion/values.h"

#include <stdbool.h>
#include <string.h>

/* The placeholder of a text says whether it is the path of a file: F, F.json, FILE, MODEL. */
static bool is_file(const char *arg)
{
    static const char *const names[] = {"[FILE]", "FILE", "MODEL", "PATH", "SCALES"};

    if (arg[0] == 'F' && (arg[1] == 0 || arg[1] == '.'))
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(arg, names[i]) == 0)
            return true;
    return false;
}

enum completion_kind completion_kind(const struct opt_row *row)
{
    if (row->type == OPT_FLAG)
        return COMPLETION_NONE;
    if (row->type == OPT_CHOICE || row->values)
        return COMPLETION_WORDS;
    if (row->type != OPT_STRING)
        return COMPLETION_TEXT;
    if (strcmp(opt_arg(row), "DIR") == 0)
        return COMPLETION_FOLDER;
    return is_file(opt_arg(row)) ? COMPLETION_FILE : COMPLETION_TEXT;
}

const char *completion_words(const struct opt_row *row)
{
    return row->values ? row->values : row->choices;
}

void completion_list(struct buf *out, const char *list)
{
    for (; *list; list++)
        buf_char(out, *list == '|' ? ' ' : *list);
}

void completion_escape(struct buf *out, const char *text, size_t n, const char *special)
{
    for (size_t i = 0; i < n; i++) {
        if (strchr(special, text[i]))
            buf_char(out, '\\');
        buf_char(out, text[i]);
    }
}
