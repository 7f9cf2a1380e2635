/* completion.c - finds completions in the tables of verbs and options. The completion scripts for shells only show the
 * results. */
#include "app/completion/completion.h"

#include <stdbool.h>
#include <string.h>

#include "base/opt.h"

static const char bash[] =
    "# gallop - completion for bash, printed by `gallop help --completion bash`.\n"
    "_gallop()\n"
    "{\n"
    "    local word last='' words=() found=()\n"
    "    # The shell splits --name=value into three words.\n"
    "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD}\"; do\n"
    "        if [[ ${#words[@]} != 0 && ($word == = || $last == =) ]]; then\n"
    "            words[-1]+=$word\n"
    "        else\n"
    "            words+=(\"$word\")\n"
    "        fi\n"
    "        last=$word\n"
    "    done\n"
    "    mapfile -t found < <(\"${COMP_WORDS[0]/#\\~/$HOME}\" help --complete \"${words[@]}\" 2>/dev/null)\n"
    "    COMPREPLY=(\"${found[@]:1}\")\n"
    "    COMPREPLY=(\"${COMPREPLY[@]%%$'\\t'*}\")\n"
    "    [[ ${words[-1]} != --*=* ]] || COMPREPLY=(\"${COMPREPLY[@]#*=}\")\n"
    "    case ${found[0]-} in\n"
    "    file) compopt -o default ;;\n"
    "    folder) compopt -o dirnames ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _gallop gallop\n";

static const char zsh[] =
    "#compdef gallop\n"
    "# _gallop - completion for zsh, printed by `gallop help --completion zsh`. It may also be sourced.\n"
    "_gallop() {\n"
    "    local -a found names lines\n"
    "    found=(\"${(@f)$(${~words[1]} help --complete \"${(@)words[2,CURRENT-1]}\" \"$PREFIX\" 2>/dev/null)}\")\n"
    "    case $found[1] in\n"
    "    file) compset -P '--*='; _files ;;\n"
    "    folder) compset -P '--*='; _files -/ ;;\n"
    "    words)\n"
    "        shift found\n"
    "        names=(\"${(@)found%%$'\\t'*}\") lines=(\"${(@)found/$'\\t'/  -- }\")\n"
    "        compadd -l -d lines -a names ;;\n"
    "    esac\n"
    "}\n"
    "if [[ $funcstack[1] == _gallop ]]; then\n"
    "    _gallop \"$@\"\n"
    "else\n"
    "    compdef _gallop gallop\n"
    "fi\n";

static const char fish[] =
    "# gallop - completion for fish, printed by `gallop help --completion fish`.\n"
    "function __gallop_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l last (commandline -ct)\n"
    "    set -l found ($words[1] help --complete $words[2..-1] \"$last\" 2>/dev/null)\n"
    "    set -l option (string match -r -- '^--[^=]*=' \"$last\")\n"
    "    switch \"$found[1]\"\n"
    "        case file\n"
    "            printf \"$option%s\\n\" (__fish_complete_path (string replace -- \"$option\" '' \"$last\"))\n"
    "        case folder\n"
    "            printf \"$option%s\\n\" (__fish_complete_directories (string replace -- \"$option\" '' \"$last\"))\n"
    "        case '*'\n"
    "            printf '%s\\n' $found[2..-1]\n"
    "    end\n"
    "end\n"
    "complete -c gallop -f -a '(__gallop_complete)'\n";

const char *completion_script(const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        return bash;
    if (strcmp(shell, "zsh") == 0)
        return zsh;
    return strcmp(shell, "fish") == 0 ? fish : NULL;
}

/* The word that is completed, and the output for the shell. */
struct search {
    const char *word;
    size_t n_option; /* length of "--name=" at the beginning of WORD; 0: WORD does not begin so */
    struct buf *out;
};

/* Appends a completion and its meaning HELP [n_help]. The completion is DASHES followed by NAME [n]; if the
 * searched word begins with --name=, so does the completion. Returns false, and appends nothing, if the
 * completion does not begin with the searched word. */
static bool offer(struct search *s, const char *dashes, const char *name, size_t n, const char *help,
                  size_t n_help)
{
    size_t at = s->out->len, typed = strlen(s->word);

    buf_fmt(s->out, "%.*s%s%.*s", (int)s->n_option, s->word, dashes, (int)n, name);
    if (s->out->oom || s->out->len - at < typed || memcmp(s->out->data + at, s->word, typed) != 0) {
        s->out->len = at;
        return false;
    }
    if (n_help)
        buf_fmt(s->out, "\t%.*s", (int)n_help, help);
    buf_char(s->out, '\n');
    return true;
}

static void offer_word(struct search *s, const char *word, const char *help)
{
    offer(s, "", word, strlen(word), help, strlen(help));
}

/* Offers DASHES followed by A, and by B, for the LIST "A|B" of any length. LIST may be NULL. */
static void offer_list(struct search *s, const char *dashes, const char *list)
{
    for (size_t n; list && *list; list += n + (list[n] == '|')) {
        n = strcspn(list, "|");
        offer(s, dashes, list, n, "", 0);
    }
}

static void offer_verbs(struct search *s, const struct verb_entry *verbs, size_t n_verbs)
{
    for (size_t i = 0; i < n_verbs; i++)
        if (verbs[i].verb)
            offer_word(s, verbs[i].verb->name, verbs[i].verb->summary);
}

/* Returns the option of VERB that WORD [n] names, --name or -n, or NULL. */
static const struct opt_row *find_option(const struct verb *verb, const char *word, size_t n)
{
    for (const struct opt_part *part = verb->options; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            if ((n == 2 && word[0] == '-' && r->brief && word[1] == r->brief) ||
                (n > 2 && memcmp(word, "--", 2) == 0 && opt_has_name(r, word + 2, n - 2)))
                return r;
    return NULL;
}

/* Offers the options of VERB. Their alternative names are offered only if no main name begins with the
 * word. */
static void offer_options(struct search *s, const struct verb *verb)
{
    bool found = false;

    for (const struct opt_part *part = verb->options; part->rows; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            found |= offer(s, "--", r->name, strlen(r->name), r->help, opt_clause(r));
    for (const struct opt_part *part = verb->options; part->rows && !found; part++)
        for (const struct opt_row *r = part->rows; r->name; r++)
            offer_list(s, "--", r->aliases);
}

/* Returns whether ARG, the placeholder of a value in the help, stands for the path of a file: F, F.json,
 * FILE, MODEL. */
static bool is_file(const char *arg)
{
    static const char *const names[] = {"[FILE]", "FILE", "MODEL", "PATH", "SCALES"};
    bool found = arg[0] == 'F' && (arg[1] == 0 || arg[1] == '.');

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++)
        found = strcmp(arg, names[i]) == 0;
    return found;
}

/* Appends the kind of values of the option ROW (a file, a folder or words), and the words that it accepts. */
static void write_value(struct search *s, const struct opt_row *row)
{
    const char *words = row->type == PARAM_TEXT || row->type == PARAM_CHOICE ? row->values : NULL;
    const char *arg = words || row->type != PARAM_TEXT ? "" : opt_arg(row);

    buf_str(s->out, is_file(arg) ? "file\n" : strcmp(arg, "DIR") == 0 ? "folder\n" : "words\n");
    offer_list(s, "", words);
}

static void write_of_verb(struct search *s, const struct verb *verb, char *const *words, size_t n)
{
    const struct opt_row *before = n > 2 ? find_option(verb, words[n - 2], strlen(words[n - 2])) : NULL;
    const struct opt_row *row = NULL;
    size_t name = strcspn(s->word, "=");

    for (size_t i = 1; i + 1 < n; i++)
        if (strcmp(words[i], "--") == 0) {
            buf_str(s->out, "words\n");
            return;
        }
    if (s->word[name] && (row = find_option(verb, s->word, name)) != NULL)
        s->n_option = name + 1;
    else if (before && before->type != PARAM_FLAG && !(before->bare && s->word[0] == '-'))
        row = before;
    if (row) {
        write_value(s, row);
        return;
    }
    buf_str(s->out, "words\n");
    if (s->word[0] == '-' || (!s->word[0] && verb->no_words))
        offer_options(s, verb);
}

void completion_write(const struct verb_entry *verbs, size_t n_verbs, char *const *words, size_t n,
                      struct buf *out)
{
    struct search s = {.word = n ? words[n - 1] : "", .out = out};

    for (size_t i = 0; i < n_verbs && n > 1; i++)
        if (verbs[i].verb && strcmp(verbs[i].verb->name, words[0]) == 0) {
            write_of_verb(&s, verbs[i].verb, words, n);
            return;
        }
    buf_str(out, "words\n");
    if (n < 2) {
        offer_verbs(&s, verbs, n_verbs);
        offer_word(&s, "help", "explain a verb, or print the manual");
        offer_word(&s, "--help", "list the verbs");
        offer_word(&s, "--version", "print the version");
    } else if (strcmp(words[0], "help") == 0 && strcmp(words[n - 2], "--completion") == 0) {
        offer_list(&s, "", COMPLETION_SHELLS);
    } else if (strcmp(words[0], "help") == 0 && n == 2) {
        offer_verbs(&s, verbs, n_verbs);
        offer_word(&s, "--man", "print the manual page");
        offer_word(&s, "--api", "print the fields of requests");
        offer_word(&s, "--completion", "print the completion of a shell");
    }
}
