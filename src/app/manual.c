/* manual.c - prints the help pages and the manual page from the verbs' tables.
 *
 * The texts for the manual page (in struct verb, in struct opt_row and below) are plain text, in which a line break
 * begins a new paragraph. Text between backquotes and words that look like options are printed in bold.
 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "app/manual.h"
#include "app/options.h"
#include "app/verb.h"
#include "base/buf.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "gallop.h"

static const char description[] =
    "`gallop` runs large language models on CPUs: it opens an unmodified Hugging Face checkpoint folder or a GGUF "
    "file and generates text, in one process. It uses the network only to fetch a model that is named as on the "
    "Hugging Face hub and is not in the cache yet, to serve, and for --kv-store on a Redis server. Without -m it uses "
    "the small model that is installed with it. Results go to standard output, everything else to standard "
    "error.\n`gallop VERB --help` (or `gallop help VERB`) explains the everyday options of a verb and lists the "
    "others; `gallop VERB --help all` explains every option. `gallop --version` (-V) prints the version, `gallop help "
    "--man` this page, `gallop help --api` the fields of the server's requests, and `gallop help --completion SHELL` a "
    "script by which the shell bash, zsh or fish completes command lines.";

static const char sampling[] =
    "These options override the model's `generation_config.json`, which overrides neutral defaults (greedy "
    "decoding).";

static const char hub_variables[] =
    "They have the same meaning as for the Python package huggingface_hub: the folder of its cache (HF_HOME, "
    "HF_HUB_CACHE), 1 to use no network (HF_HUB_OFFLINE), the access token (HF_TOKEN), the address of the hub "
    "(HF_ENDPOINT), and the seconds to wait for it (HF_HUB_DOWNLOAD_TIMEOUT).";

static const char exit_status[] =
    "0: success. 1: the work failed; one sentence on standard error names the file, tensor, field or flag. 2: wrong "
    "usage. It is a failure if results cannot be written. If the reader of standard output is gone (as in gallop ... "
    "| head), the status is 1 and no sentence is printed. If SIGINT or SIGTERM ends `run`, the status is 130 or 143.";

static const char examples[] =
    "gallop run -n 100 \"Once upon a time\"\n"
    "gallop run --batch requests.jsonl --json -o answers.jsonl\n"
    "gallop chat -m ~/models/Llama-3.2-1B-Instruct\n"
    "gallop logits -m DIR --ids 1,2,3 --npy logits.npy --dtype fp32\n"
    "gallop synth llama-3.2-1b -o /var/tmp/shape && gallop bench -m /var/tmp/shape\n";

/* ---- --help ---- */

void manual_overview(const struct verb_entry *verbs, size_t n, struct buf *out)
{
    buf_str(out, "usage: gallop VERB [options]\n");
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb)
            buf_fmt(out, "  %-10s %s\n", verbs[i].verb->name, verbs[i].verb->summary);
        else
            buf_fmt(out, "\n%s:\n", verbs[i].heading);
    buf_str(out, "\n`gallop VERB --help` explains a verb's options, `gallop --version` prints the\n"
                 "version. Without -m the bundled demo model is used. Tab completes options after\n"
                 "`eval \"$(gallop help --completion bash)\"` (also zsh; fish: | source).\n"
                 "Try: gallop run \"Once upon a time\"\n");
}

/* A help page with at most this number of options is always shown in full. */
enum { FEW_OPTIONS = 24 };

void manual_verb(const struct verb *verb, bool all, struct buf *out)
{
    size_t n = opt_count_rows(verb->options);

    all |= n <= FEW_OPTIONS;
    buf_fmt(out, "usage: gallop %s %s\n", verb->name, verb->arguments);
    opt_help(verb->options, options_headings, all ? OUTPUT + 1 : EVERYDAY + 1, out);
    if (!all)
        buf_fmt(out, "\n`gallop %s --help all` explains all %zu options.\n", verb->name, n);
}

/* ---- troff ---- */

static void add_character(struct buf *out, char c)
{
    if (c == '\\')
        buf_str(out, "\\e");
    else if (c == '-')
        buf_str(out, "\\-");
    else
        buf_char(out, c);
}

/* Returns the length of the option name that P begins with, such as "-m" or "--top-k"; 0 if there is none. */
static size_t option_length(const char *p)
{
    size_t dashes = p[0] != '-' ? 0 : p[1] != '-' ? 1 : 2, n = dashes;

    if (dashes == 0 || !isalpha((unsigned char)p[n]))
        return 0;
    while (isalnum((unsigned char)p[n]) || (p[n] == '-' && isalnum((unsigned char)p[n + 1])))
        n++;
    return n;
}

/* Appends TEXT with each sentence on its own line; PARAGRAPH is the troff request between two paragraphs. */
static void add_text(struct buf *out, const char *text, const char *paragraph)
{
    bool bold = false;

    for (const char *p = text; *p; p++) {
        size_t n = p == text || strchr(" (\n", p[-1]) ? option_length(p) : 0;

        if (n && !bold) {
            buf_str(out, "\\fB");
            for (size_t i = 0; i < n; i++)
                add_character(out, p[i]);
            buf_str(out, "\\fR");
            p += n - 1;
        } else if (*p == '`') {
            bold = !bold;
            buf_str(out, bold ? "\\fB" : "\\fR");
        } else if (*p == '\n') {
            buf_fmt(out, "\n%s\n", paragraph);
        } else if (*p == ' ' && p > text && p[-1] == '.' && !islower((unsigned char)p[1])) {
            buf_char(out, '\n');
        } else {
            add_character(out, *p);
        }
    }
    buf_char(out, '\n');
}

static void add_option(struct buf *out, const struct opt_row *row)
{
    struct buf sentence = {.tag = MEM_APP};
    char brief[] = {'-', row->brief, ',', ' ', 0};

    buf_str(out, ".TP\n\\fB");
    for (const char *p = row->brief ? brief : ""; *p; p++)
        add_character(out, *p);
    buf_str(out, "\\-\\-");
    for (const char *p = row->name; *p; p++)
        add_character(out, *p);
    buf_str(out, "\\fR");
    if (row->type != PARAM_FLAG)
        buf_fmt(out, " \\fI%s\\fR", opt_arg(row));
    buf_char(out, '\n');
    opt_sentence(row, &sentence);
    if (sentence.data)
        sentence.data[0] = (char)toupper((unsigned char)sentence.data[0]);
    buf_fmt(&sentence, ".%s%s", row->manual ? " " : "", row->manual ? row->manual : "");
    if (!sentence.oom)
        add_text(out, sentence.data, ".IP");
    out->oom |= sentence.oom;
    buf_fini(&sentence);
}

static void add_verb(struct buf *out, const struct verb *verb)
{
    buf_fmt(out, ".TP\n.B %s\n", verb->name);
    add_text(out, verb->manual, ".IP");
    buf_str(out, ".RS\n");
    for (const struct opt_part *part = verb->options; part->rows; part++) {
        const struct opt_row *const *shared = options_shared;

        while (*shared && *shared != part->rows)
            shared++;
        for (const struct opt_row *r = part->rows; r->name && !*shared; r++)
            add_option(out, r);
    }
    buf_str(out, ".RE\n");
}

static void add_shared_options(struct buf *out)
{
    for (int group = 0; options_headings[group]; group++) {
        if (group == PROMPT) /* in this group each verb has its own options */
            continue;
        buf_fmt(out, ".SS %s\n", options_headings[group]);
        if (group == SAMPLING)
            add_text(out, sampling, ".PP");
        for (const struct opt_row *const *a = options_shared; *a; a++)
            for (const struct opt_row *r = *a; r->name; r++)
                if (r->group == group)
                    add_option(out, r);
    }
}

static void add_environment(struct buf *out)
{
    char text[128];

    buf_str(out, ".SH ENVIRONMENT\n");
    for (const struct opt_row *const *a = options_shared; *a; a++)
        for (const struct opt_row *r = *a; r->name; r++)
            if (r->env) {
                snprintf(text, sizeof(text), "The default of --%s.", r->name);
                buf_fmt(out, ".TP\n.B %s\n", r->env);
                add_text(out, text, ".IP");
            }
    buf_str(
        out,
        ".TP\n.B HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HF_TOKEN, HF_ENDPOINT, HF_HUB_DOWNLOAD_TIMEOUT\n");
    add_text(out, hub_variables, ".IP");
    buf_str(out, ".TP\n.B NO_COLOR\nIf it is set, output has no colours.\n");
}

void manual_page(const struct verb_entry *verbs, size_t n, struct buf *out)
{
    buf_fmt(out,
            ".\\\" gallop.1 - printed by `gallop help --man` from the tables of its verbs.\n"
            ".TH GALLOP 1 \"\" \"gallop %s\" \"User Commands\"\n"
            ".SH NAME\ngallop \\- run large language models on CPUs\n"
            ".SH SYNOPSIS\n.nf\n"
            "\\fBgallop\\fR \\fIVERB\\fR [\\fIoptions\\fR]\n"
            "\\fBgallop run\\fR [\\fB\\-m\\fR \\fIMODEL\\fR] \"\\fIprompt\\fR\"\n"
            "\\fBgallop chat\\fR [\\fB\\-m\\fR \\fIMODEL\\fR]\n.fi\n"
            ".SH DESCRIPTION\n",
            gallop_version());
    add_text(out, description, ".PP");
    buf_str(out, ".SH VERBS\n");
    for (size_t i = 0; i < n; i++)
        if (verbs[i].verb)
            add_verb(out, verbs[i].verb);
        else
            buf_fmt(out, ".SS %s\n", verbs[i].heading);
    buf_str(out, ".SH OPTIONS OF SEVERAL VERBS\n");
    add_shared_options(out);
    add_environment(out);
    buf_str(out, ".SH EXIT STATUS\n");
    add_text(out, exit_status, ".PP");
    buf_str(out, ".SH FILES\n.TP\n.I ../share/gallop/models/demo\nThe bundled model, beside the program.\n"
                 ".SH EXAMPLES\n.nf\n");
    for (const char *p = examples; *p; p++)
        add_character(out, *p);
    buf_str(out, ".fi\n");
}
