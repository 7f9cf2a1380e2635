/* verb_parse.c - `gallop parse`: splits generated texts into content, reasoning and tool calls, as the server does,
 * lists the formats, and detects the formats of a chat template. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/json/json_tree.h"
#include "base/opt.h"
#include "base/utf8.h"
#include "ckpt/checkpoint.h"
#include "text/markup/message.h"
#include "text/tok/tok.h"

struct parse_options {
    struct load load;
    struct options_output out;
    const char *messages, *batch, *chat_template, *calls, *reasoning;
    uint64_t stream;
    bool list, detect;
};

#define INTO(member) OPT_INTO(struct parse_options, member)

static const struct opt_row rows[] = {
    {"messages", 0, PARAM_TEXT, "F.json", EVERYDAY,
     .help = "JSON file with the messages that the text answers, or an object with messages and tools",
     INTO(messages)},
    {"batch", 0, PARAM_TEXT, "F.jsonl", EVERYDAY,
     .help =
         "file with {\"text\":..., \"tools\":..., \"prompt\":..., \"finish\":...} on each line; \"pieces\": "
         "[[text, is_special], ...] may stand for \"text\"",
     INTO(batch)},
    {"tool-call-parser", 0, PARAM_TEXT, "NAME", EVERYDAY,
     .help = "format of tool calls (see --list), none or auto",
     .otherwise = "auto with a model or a template, else none", INTO(calls)},
    {"reasoning-parser", 0, PARAM_TEXT, "NAME", EVERYDAY,
     .help = "format of reasoning (see --list), none or auto",
     .otherwise = "auto with a model or a template, else none", INTO(reasoning)},
    {"chat-template", 0, PARAM_TEXT, "F.jinja", EVERYDAY,
     .help = "use the Jinja template in this file instead of the model's", INTO(chat_template)},
    {"list", 0, PARAM_FLAG, NULL, EVERYDAY, .help = "list the formats", INTO(list)},
    {"detect", 0, PARAM_FLAG, NULL, EVERYDAY, .help = "print the formats that the chat template shows",
     INTO(detect)},
    {"stream", 0, PARAM_BITS, "N", OUTPUT, .help = "feed N characters at a time to the parser",
     .otherwise = "the whole text at once", INTO(stream)},
    {0}};

struct job {
    const struct parse_options *o;
    struct checkpoint model;
    struct input_template template;
    bool has_template;
    struct markup markup;
    struct tok *tok; /* NULL: every mark counts as a token */
    struct err *e;
};

/* ---- formats ---- */

/* Returns a new list of NAMES, "a|b". */
static json_t *names_of(const char *names)
{
    json_t *list = json_array();

    for (const char *p = names; p && *p; p += strcspn(p, "|"), p += *p == '|')
        json_array_append_new(list, json_stringn(p, strcspn(p, "|")));
    return list;
}

static int list_formats(const struct job *j)
{
    json_t *calls = json_array(), *reasoning = json_array();
    const struct markup_calls *c;
    const struct markup_reasoning *r;

    for (size_t i = 0; (c = markup_calls_row(i)) != NULL; i++) {
        struct buf example = {.tag = MEM_APP};

        markup_example(c, &example);
        json_array_append_new(calls, json_pack("{s:s,s:o,s:s,s:o}", "name", c->name, "aliases",
                                               names_of(c->aliases), "models", c->models, "example",
                                               print_json_string(example.data, example.len)));
        buf_fini(&example);
    }
    for (size_t i = 0; (r = markup_reasoning_row(i)) != NULL; i++)
        json_array_append_new(reasoning, json_pack("{s:s,s:o,s:s,s:s?,s:s?}", "name", r->name, "aliases",
                                                   names_of(r->aliases), "models", r->models, "open", r->open,
                                                   "close", r->close));
    if (j->o->out.json) {
        print_json(json_pack("{s:o,s:o}", "tool_call_parsers", calls, "reasoning_parsers", reasoning));
        return print_flush(j->e);
    }
    for (size_t i = 0; (c = markup_calls_row(i)) != NULL; i++)
        print_fmt("tool calls  %s%s%s\n", c->name, c->aliases ? "|" : "", c->aliases ? c->aliases : "");
    for (size_t i = 0; (r = markup_reasoning_row(i)) != NULL; i++)
        print_fmt("reasoning   %s%s%s\n", r->name, r->aliases ? "|" : "", r->aliases ? r->aliases : "");
    json_decref(calls);
    json_decref(reasoning);
    return print_flush(j->e);
}

static int open_template(struct job *j)
{
    int rc = load_text(&j->o->load, &j->model, j->e);

    rc = rc ? rc : input_template_open(&j->template, &j->model, j->o->chat_template, j->e);
    j->has_template = rc == 0;
    return rc;
}

/* Chooses the formats by their names, or the formats of the template. */
static int choose(struct job *j)
{
    const struct parse_options *o = j->o;
    bool is_given = o->load.name_source == OPT_GIVEN || o->chat_template || o->messages || o->detect;
    const char *otherwise = is_given ? "auto" : "none", *calls = o->calls ? o->calls : otherwise,
               *reasoning = o->reasoning ? o->reasoning : otherwise;
    struct markup found = {0};
    int rc = 0;

    if (is_given || strcmp(calls, "auto") == 0 || strcmp(reasoning, "auto") == 0)
        rc = open_template(j);
    if (rc == 0 && j->has_template)
        rc = input_template_examine(&j->template, j->e);
    if (rc == 0 && j->has_template)
        found = j->template.template.markup;
    return rc ? rc : markup_choose(&j->markup, calls, reasoning, &found, j->e);
}

static int detect(struct job *j)
{
    print_json(markup_json(&j->markup));
    return print_flush(j->e);
}

/* ---- texts ---- */

/* A text, and the known facts of its request. */
struct text {
    struct buf text, special; /* SPECIAL: for each byte, whether a special token wrote it; empty: unknown */
    const json_t *tools;      /* NULL: none */
    const char *prompt;
    size_t n_prompt;
    enum parser_end end;
};

/* Feeds T to PARSER, STREAM characters at a time, and takes the parts. */
static int feed(struct parser *parser, const struct text *t, uint64_t stream, struct message *m,
                struct err *e)
{
    int rc = 0;

    for (size_t at = 0, end; rc == 0 && at < t->text.len; at = end) {
        bool good;

        end = stream ? at : t->text.len;
        for (uint64_t i = 0; i < stream && end < t->text.len; i++)
            end += utf8_sequence(t->text.data + end, t->text.len - end, &good);
        rc =
            parser_feed(parser, t->text.data + at, t->special.len ? t->special.data + at : NULL, end - at, e);
        message_take(m, parser, false);
    }
    rc = rc ? rc : parser_finish(parser, t->end, e);
    return rc || message_take(m, parser, false) == 0 ? rc : err_nomem(e, "an answer");
}

static json_t *text_or_null(const struct buf *b, bool null)
{
    return null && !b->len ? json_null() : print_json_string(b->data ? b->data : "", b->len);
}

static void print_message(const struct message *m, enum parser_end end)
{
    const struct message_calls *c = &m->calls;
    json_t *calls = json_array();

    for (size_t i = 0; i < c->n; i++)
        json_array_append_new(
            calls, json_pack("{s:o,s:o}", "name",
                             print_json_string(message_call_name(c, &c->v[i]), c->v[i].n_name), "arguments",
                             print_json_string(message_call_arguments(c, &c->v[i]), c->v[i].n_arguments)));
    print_json(json_pack("{s:o,s:o,s:o,s:s}", "content", text_or_null(&m->text, c->n || m->reasoning.len),
                         "reasoning", text_or_null(&m->reasoning, true), "tool_calls", calls, "finish_reason",
                         end == PARSER_CUT ? "length"
                         : c->n            ? "tool_calls"
                                           : "stop"));
}

static int parse(const struct job *j, const struct text *t)
{
    struct message m;
    size_t n = json_array_size(t->tools);
    const char **names = mem_zalloc(n + 1, sizeof(*names), MEM_APP);
    const struct parser_options o = {.calls = j->markup.calls,
                                     .reasoning = j->markup.reasoning,
                                     .tok = t->special.len ? j->tok : NULL,
                                     .prompt = t->prompt,
                                     .prompt_len = t->n_prompt,
                                     .names = names,
                                     .n_names = n,
                                     .tools = t->tools};
    struct parser *parser = NULL;
    int rc = names ? tools_check(t->tools, names, j->e) : err_nomem(j->e, "tools");

    message_init(&m, MEM_APP);
    if (rc == 0 && (rc = parser_open(&parser, &o, j->e)) == 0)
        rc = feed(parser, t, j->o->stream, &m, j->e);
    if (rc == 0) {
        print_message(&m, t->end);
        rc = print_flush(j->e);
    }
    parser_close(parser);
    message_fini(&m);
    mem_free(names);
    return rc;
}

/* ---- lines ---- */

/* Reads "pieces" into T. */
static int read_pieces(const json_t *pieces, struct text *t, const char *what, struct err *e)
{
    const json_t *piece;
    size_t i;

    json_array_foreach(pieces, i, piece)
    {
        const json_t *text = json_array_get(piece, 0), *special = json_array_get(piece, 1);

        if (!json_is_string(text) || !json_is_boolean(special))
            return err_set(e, ERR_INPUT, "%s: pieces[%zu]: expected a list of a string and true or false",
                           what, i);
        buf_add(&t->text, json_string_value(text), json_string_length(text));
        for (size_t k = 0; k < json_string_length(text); k++)
            buf_char(&t->special, json_is_true(special));
    }
    return t->text.oom || t->special.oom ? err_nomem(e, "a text") : 0;
}

static int read_fields(const json_t *line, struct text *t, const char *what, struct err *e)
{
    const json_t *text = json_object_get(line, "text"), *pieces = json_object_get(line, "pieces"),
                 *prompt = json_object_get(line, "prompt");
    const char *finish = json_string_value(json_object_get(line, "finish"));

    t->tools = json_object_get(line, "tools");
    t->prompt = json_is_string(prompt) ? json_string_value(prompt) : "";
    t->n_prompt = json_string_length(prompt);
    t->end = finish && strcmp(finish, "length") == 0 ? PARSER_CUT : PARSER_ENDED;
    if (json_is_array(pieces))
        return read_pieces(pieces, t, what, e);
    if (!json_is_string(text))
        return err_set(e, ERR_INPUT, "%s: expected an object with the string text, or the list pieces", what);
    buf_add(&t->text, json_string_value(text), json_string_length(text));
    return t->text.oom ? err_nomem(e, "a text") : 0;
}

/* Opens the model's tokenizer or, without a model, makes one whose special tokens are the special pieces of
 * LINES. */
static int open_tokenizer(struct job *j, const json_t *lines)
{
    json_t *tokens = json_array(), *seen = json_object(), *line, *piece, *text;
    struct buf json = {.tag = MEM_APP};
    size_t i, k;
    int rc = 0;

    if (j->o->load.name_source == OPT_GIVEN)
        rc = checkpoint_tokenizer(&j->tok, &j->model, j->e);
    json_array_foreach(lines, i, line) json_array_foreach(json_object_get(line, "pieces"), k, piece)
    {
        text = json_array_get(piece, 0);
        if (json_is_true(json_array_get(piece, 1)) && json_string_length(text) &&
            !json_object_get(seen, json_string_value(text))) {
            json_object_set(seen, json_string_value(text), text);
            json_array_append_new(tokens,
                                  json_pack("{s:I,s:O,s:b}", "id", (json_int_t)json_array_size(tokens) + 1,
                                            "content", text, "special", 1));
        }
    }
    if (rc == 0 && !j->tok && json_array_size(tokens)) {
        buf_str(&json, "{\"model\":{\"merges\":[],\"vocab\":{\"a\":0}},\"added_tokens\":");
        buf_json_tree(&json, tokens, false);
        buf_char(&json, '}');
        rc = json.oom ? err_nomem(j->e, "the special tokens")
                      : tok_open_json(&j->tok, json.data, json.len, "pieces", j->e);
    }
    buf_fini(&json);
    json_decref(tokens);
    json_decref(seen);
    return rc;
}

struct kept_lines {
    json_t *lines; /* a list of their values */
    struct err *e;
};

/* Appends the JSON value of a line. */
static int keep_line(void *ctx, const char *line, size_t n, const char *what)
{
    struct kept_lines *r = ctx;
    json_t *o;
    int rc = json_pull_load(&o, line, n, what, r->e);

    return rc || json_array_append_new(r->lines, o) == 0 ? rc : err_nomem(r->e, "a file");
}

static int batch(struct job *j)
{
    json_t *lines = json_array(), *line;
    int rc = input_lines(j->o->batch, keep_line, &(struct kept_lines){lines, j->e}, j->e);
    size_t i;

    rc = rc ? rc : open_tokenizer(j, lines);
    json_array_foreach(lines, i, line)
    {
        struct text t = {{.tag = MEM_APP}, {.tag = MEM_APP}, NULL, "", 0, PARSER_ENDED};
        char what[256];

        snprintf(what, sizeof(what), "%s: text %zu", j->o->batch, i + 1);
        rc = rc ? rc : read_fields(line, &t, what, j->e);
        rc = rc ? rc : parse(j, &t);
        buf_fini(&t.text);
        buf_fini(&t.special);
    }
    json_decref(lines);
    return rc;
}

/* Parses standard input as the answer to --messages. */
static int single(struct job *j)
{
    struct text t = {{.tag = MEM_APP}, {.tag = MEM_APP}, NULL, "", 0, PARSER_ENDED};
    struct conversation c = {.file = j->o->messages, .verbatim = true, .add_generation_prompt = true};
    struct buf prompt = {.tag = MEM_APP};
    json_t *given = NULL;
    int rc = input_text("-", &t.text, j->e);

    if (rc == 0 && c.file && (rc = input_json(c.file, &given, j->e)) == 0 &&
        (rc = input_render(&j->template, &c, given, &prompt, j->e)) == 0) {
        t.tools = c.tools;
        t.prompt = prompt.data ? prompt.data : "";
        t.n_prompt = prompt.len;
    }
    rc = rc ? rc : parse(j, &t);
    json_decref(given);
    buf_fini(&prompt);
    buf_fini(&t.text);
    return rc;
}

static int parse_run(const struct opt_values *v, struct err *e)
{
    struct parse_options o = {.list = false};
    struct job j = {.o = &o, .e = e};
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    if (o.list)
        return list_formats(&j);
    if (o.batch && o.messages)
        return err_set(e, ERR_USAGE, "found --batch and --messages, expected one of the two");
    rc = choose(&j);
    if (rc == 0)
        rc = o.detect ? detect(&j) : o.batch ? batch(&j) : single(&j);
    tok_close(j.tok);
    input_template_close(&j.template);
    checkpoint_close(&j.model);
    return rc;
}

const struct verb verb_parse = {
    .name = "parse",
    .summary = "separate a model's text into content, reasoning and tool calls",
    .arguments = "[options] < answer",
    .no_words = "an answer on standard input",
    .manual =
        "Separates the text of an answer, on standard input or in the lines of --batch, into content, reasoning "
        "and tool calls, and prints each answer as a line of JSON. --list names the formats, and --detect "
        "those that a chat template shows.",
    .options = (const struct opt_part[]){OPT_PART(struct parse_options, load, options_model),
                                         OPT_OWN(struct parse_options, rows),
                                         OPT_PART(struct parse_options, load, options_source),
                                         OPT_PART(struct parse_options, out, options_json),
                                         OPT_PART(struct parse_options, out, options_help), OPT_END},
    .run = parse_run,
};
