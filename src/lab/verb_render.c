/* verb_render.c - `gallop render`: prints the prompt that a chat template renders for messages, or the text
 * of any Jinja template for given variables. */
#include <jansson.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "text/jinja/jinja.h"
#include "text/tok/tok.h"

struct render_options {
    struct load load;
    struct options_output out;
    const char *messages, *chat_template, *template_name, *context, *now;
    bool no_generation_prompt, ids, plain_user_text;
};

#define INTO(member) OPT_INTO(struct render_options, member)

static const struct opt_row rows[] = {
    {"messages", 0, PARAM_TEXT, "F.json", EVERYDAY,
     .help =
         "JSON file with a list of messages, or an object with messages, tools, documents and other variables of the "
         "template (-: standard input)",
     INTO(messages)},
    {"no-generation-prompt", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help = "set add_generation_prompt to false, so that the prompt does not end with the head of an answer",
     INTO(no_generation_prompt)},
    {"chat-template", 0, PARAM_TEXT, "F.jinja", EVERYDAY,
     .help = "use the Jinja template in this file instead of the model's (-: standard input)",
     .aliases = "template", INTO(chat_template)},
    {"template-name", 0, PARAM_TEXT, "NAME", EVERYDAY, .help = "use the model's template of this name",
     .otherwise = "tool_use if tools are given, else default", INTO(template_name)},
    {"context", 0, PARAM_TEXT, "F.json", EVERYDAY,
     .help =
         "render --chat-template with the variables of this JSON file only, without messages (-: standard input)",
     INTO(context)},
    {"now", 0, PARAM_TEXT, "TIME", EVERYDAY,
     .help = "local time for strftime_now() of templates: 2026-07-01T12:00:00",
     .otherwise = "the current time", INTO(now)},
    {"ids", 0, PARAM_FLAG, NULL, OUTPUT, .help = "print the token ids of the text instead of the text",
     INTO(ids)},
    OPTION_USER_TEXT(EVERYDAY, INTO(plain_user_text)),
    {0}};

static int read_now(const char *text, struct tm *tm, struct err *e)
{
    time_t now = time(NULL);
    const char *end;

    if (!text) {
        localtime_r(&now, tm);
        return 0;
    }
    *tm = (struct tm){.tm_isdst = -1};
    end = strptime(text, "%Y-%m-%dT%H:%M:%S", tm);
    if (!end || *end)
        return err_set(e, ERR_USAGE, "--now: found '%s', expected a time such as 2026-07-01T12:00:00", text);
    return 0;
}

/* Renders the template with the variables of --context to OUT. ORIGIN marks the bytes that come from
 * variables (jinja_render_marked()). */
static int with_context(const struct render_options *o, const struct tm *now, struct buf *out,
                        struct buf *origin, struct err *e)
{
    struct jinja *j = NULL;
    json_t *variables = NULL;
    int rc;

    if ((rc = input_jinja(o->chat_template, &j, e)) == 0 && (rc = input_json(o->context, &variables, e)) == 0)
        rc = json_is_object(variables)
                 ? jinja_render_marked(j, variables, NULL, now, out, origin, e)
                 : err_set(e, ERR_INPUT, "%s: a JSON object with the variables of the template is expected",
                           o->context);
    jinja_free(j);
    json_decref(variables);
    return rc;
}

/* Renders the messages with the chat template of the model or of --chat-template to OUT and ORIGIN. */
static int with_messages(const struct render_options *o, struct checkpoint *model, const struct tm *now,
                         struct buf *out, struct buf *origin, struct err *e)
{
    struct conversation c = {.file = o->messages,
                             .template_name = o->template_name,
                             .verbatim = true,
                             .add_generation_prompt = !o->no_generation_prompt,
                             .now = now,
                             .origin = origin};
    struct input_template t = {0};
    json_t *given = NULL;
    int rc;

    if ((rc = load_text(&o->load, model, e)) == 0 &&
        (rc = input_template_open(&t, model, o->chat_template, e)) == 0 &&
        (rc = input_json(c.file, &given, e)) == 0)
        rc = input_render(&t, &c, given, out, e);
    json_decref(given);
    input_template_close(&t);
    return rc;
}

static int print_encoded(const struct render_options *o, struct checkpoint *model, const struct buf *text,
                         const char *origin, struct err *e)
{
    struct tok_ids ids = {0};
    struct tok *t = NULL;
    int rc = load_text(&o->load, model, e);

    if (rc == 0 && (rc = checkpoint_tokenizer(&t, model, e)) == 0 &&
        (rc = tok_encode_marked(t, text->data ? text->data : "", origin, text->len, 0, &ids, e)) == 0) {
        if (o->out.json) {
            print_json(json_pack("{s:o}", "ids", print_json_ids(&ids)));
        } else {
            print_ids(&ids);
            print_text("\n");
        }
    }
    tok_ids_fini(&ids);
    tok_close(t);
    return rc;
}

static int check_combination(const struct render_options *o, const struct opt_values *v, struct err *e)
{
    const char *file[] = {o->messages, o->chat_template, o->context};
    int n_stdin = 0;

    if (v->n_args)
        return err_set(e, ERR_USAGE, "found \"%s\", expected options only", v->args[0]);
    if ((o->messages != NULL) == (o->context != NULL) || (o->context && !o->chat_template))
        return err_set(e, ERR_USAGE, "expected either --messages, or --chat-template with --context");
    for (int i = 0; i < 3; i++)
        n_stdin += file[i] && strcmp(file[i], "-") == 0;
    if (n_stdin > 1)
        return err_set(e, ERR_USAGE,
                       "only one of --messages, --chat-template and --context can be standard input (-)");
    if (o->template_name && o->chat_template)
        log_warn("--template-name changes nothing with --chat-template");
    if (o->no_generation_prompt && o->context)
        log_warn(
            "--no-generation-prompt changes nothing with --context, which can set add_generation_prompt");
    if (o->plain_user_text && !o->ids)
        log_warn("--user-text changes nothing without --ids");
    if (o->load.name_source == OPT_GIVEN && o->context && !o->ids)
        log_warn("--model changes nothing with --context unless --ids is given");
    return 0;
}

static int render_run(const struct opt_values *v, struct err *e)
{
    struct render_options o = {.messages = NULL};
    struct checkpoint model = {.in.path = NULL};
    struct buf out = {.tag = MEM_APP}, origin = {.tag = MEM_APP};
    struct tm now;
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    if ((rc = check_combination(&o, v, e)) == 0 && (rc = read_now(o.now, &now, e)) == 0)
        rc = o.context ? with_context(&o, &now, &out, &origin, e)
                       : with_messages(&o, &model, &now, &out, &origin, e);
    if (rc == 0 && o.ids)
        rc = print_encoded(&o, &model, &out, o.plain_user_text ? origin.data : NULL, e);
    else if (rc == 0 && o.out.json)
        print_json(json_pack("{s:s%}", "text", out.data ? out.data : "", out.len));
    else if (rc == 0)
        print_foreign(out.data, out.len);
    buf_fini(&out);
    buf_fini(&origin);
    checkpoint_close(&model);
    return rc;
}

const struct verb verb_render = {
    .name = "render",
    .summary = "render messages with a chat template",
    .arguments = "--messages F.json [options]",
    .manual =
        "Renders messages with a model's chat template, and prints exactly the bytes of the prompt. With "
        "--chat-template and --context, renders any Jinja template with any variables.",
    .options = (const struct opt_part[]){OPT_PART(struct render_options, load, options_model),
                                         OPT_OWN(struct render_options, rows),
                                         OPT_PART(struct render_options, load, options_source),
                                         OPT_PART(struct render_options, out, options_json),
                                         OPT_PART(struct render_options, out, options_help), OPT_END},
    .run = render_run,
};
