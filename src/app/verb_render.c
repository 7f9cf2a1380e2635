/* verb_render.c - `gallop render`: exactly the bytes that a chat template makes of messages, or any Jinja
 * template of any variables. */
#include <string.h>
#include <time.h>

#include "app/common.h"
#include "app/out.h"
#include "app/verbs.h"
#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "text/jinja/jinja.h"

enum {
    RENDER_MESSAGES = COMMON_OWN,
    RENDER_NO_PROMPT,
    RENDER_TEMPLATE,
    RENDER_CONTEXT,
    RENDER_NOW,
    RENDER_IDS,
    RENDER_NAME
};

static const struct opt_row rows[] = {
    {.id = OPT_MODEL,
     .name = "model",
     .brief = 'm',
     .type = OPT_STRING,
     .arg = "MODEL",
     .env = "GALLOP_MODEL",
     .help =
         "checkpoint folder, .gguf file, or org/name[@revision][:FILE.gguf] on the Hugging Face hub; default: the demo "
         "model"},
    COMMON_REVISION_ROW,
    COMMON_LINKS_ROW,
    {.id = RENDER_MESSAGES,
     .name = "messages",
     .type = OPT_STRING,
     .arg = "F.json",
     .help =
         "a list of messages, or an object with messages, tools, documents and further variables (-: standard input)"},
    {.id = RENDER_NO_PROMPT,
     .name = "no-generation-prompt",
     .type = OPT_FLAG,
     .help = "do not open the assistant's turn"},
    {.id = RENDER_NAME,
     .name = "template-name",
     .type = OPT_STRING,
     .arg = "NAME",
     .help = "one of a model's named templates; default: default, or tool_use where tools are given"},
    {.id = RENDER_TEMPLATE,
     .name = "template",
     .type = OPT_STRING,
     .arg = "F.jinja",
     .help = "another template"},
    {.id = RENDER_CONTEXT,
     .name = "context",
     .type = OPT_STRING,
     .arg = "F.json",
     .help = "render --template with these variables and nothing else"},
    {.id = RENDER_NOW,
     .name = "now",
     .type = OPT_STRING,
     .arg = "TIME",
     .help = "fixes the clock, e.g. 2026-07-01T12:00:00"},
    {.id = RENDER_IDS, .name = "ids", .type = OPT_FLAG, .help = "print token ids instead of the text"},
    COMMON_OUTPUT_ROWS,
};

static int read_now(const struct opt_values *v, struct tm *tm, struct err *e)
{
    time_t now = time(NULL);
    const char *text = opt_string(v, RENDER_NOW), *end;

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

static int read_json(const char *path, json_t **out, struct err *e)
{
    struct buf text;
    json_error_t je;
    int rc;

    *out = NULL;
    buf_init(&text, MEM_APP);
    if ((rc = common_read_text(path, &text, e)) == 0) {
        *out = json_loadb(text.data ? text.data : "", text.len, JSON_ALLOW_NUL, &je);
        if (!*out)
            rc = err_set(e, ERR_INPUT, "%s: line %d: %s", path, je.line, je.text);
    }
    buf_fini(&text);
    return rc;
}

static int with_context(const struct opt_values *v, const struct tm *now, struct buf *out, struct err *e)
{
    const char *path = opt_string(v, RENDER_TEMPLATE), *context_path = opt_string(v, RENDER_CONTEXT);
    struct jinja *j = NULL;
    struct buf text, context;
    int rc;

    buf_init(&text, MEM_APP);
    buf_init(&context, MEM_APP);
    if ((rc = common_read_text(path, &text, e)) == 0 &&
        (rc = common_read_text(context_path, &context, e)) == 0 &&
        (rc = jinja_parse(&j, text.data ? text.data : "", text.len, path, e)) == 0)
        rc = jinja_render_text(j, context.data ? context.data : "", context.len, context_path, now, out, e);
    jinja_free(j);
    buf_fini(&text);
    buf_fini(&context);
    return rc;
}

/* The variables that the model's own template would get, given to another one. */
static int another_template(const struct opt_values *v, const struct chat *c, json_t *messages,
                            const struct tm *now, struct buf *out, struct err *e)
{
    const char *path = opt_string(v, RENDER_TEMPLATE);
    struct jinja *j = NULL;
    json_t *context = NULL;
    struct buf text;
    int rc;

    buf_init(&text, MEM_APP);
    if ((rc = common_read_text(path, &text, e)) == 0 &&
        (rc = jinja_parse(&j, text.data ? text.data : "", text.len, path, e)) == 0 &&
        (rc = chat_variables(c, messages, !opt_flag(v, RENDER_NO_PROMPT), &context, e)) == 0)
        rc = jinja_render(j, context, now, out, e);
    jinja_free(j);
    json_decref(context);
    buf_fini(&text);
    return rc;
}

/* The model's checkpoint, unless it is open. */
static int open_model(const struct opt_values *v, struct checkpoint *model, struct err *e)
{
    char path[4096];
    const char *found;

    if (model->in.path)
        return 0;
    found = common_model(v, HUB_TEXT, path, sizeof(path), e);
    return found ? checkpoint_open(model, common_folder(v, found), e) : e->code;
}

static int with_messages(const struct opt_values *v, struct checkpoint *model, const struct tm *now,
                         struct buf *out, struct err *e)
{
    struct chat *c = NULL;
    json_t *messages = NULL;
    int rc = open_model(v, model, e);

    if (rc == 0)
        rc = checkpoint_chat(&c, model, e);

    if (rc == 0 && (rc = read_json(opt_string(v, RENDER_MESSAGES), &messages, e)) == 0) {
        if (opt_given(v, RENDER_TEMPLATE))
            rc = another_template(v, c, messages, now, out, e);
        else if (!chat_has_template(c))
            rc = err_set(e, ERR_INPUT, "%s: this model has no chat template", model->in.path);
        else
            rc = chat_render(c, messages, opt_string(v, RENDER_NAME), !opt_flag(v, RENDER_NO_PROMPT), now,
                             out, e);
    }
    json_decref(messages);
    chat_close(c);
    return rc;
}

static int print_ids(const struct opt_values *v, struct checkpoint *model, const struct buf *out,
                     struct err *e)
{
    struct tok_ids ids = {0};
    struct tok *t = NULL;
    int rc = open_model(v, model, e);

    if (rc == 0 && (rc = checkpoint_tokenizer(&t, model, e)) == 0 &&
        (rc = tok_encode(t, out->data ? out->data : "", out->len, 0, &ids, e)) == 0) {
        out_text(opt_flag(v, OPT_JSON) ? "{\"ids\":[" : "");
        for (size_t i = 0; i < ids.n; i++)
            out_fmt(i ? ",%d" : "%d", (int)ids.id[i]);
        out_text(opt_flag(v, OPT_JSON) ? "]}\n" : "\n");
    }
    tok_ids_fini(&ids);
    tok_close(t);
    return rc;
}

static int check_combination(const struct opt_values *v, struct err *e)
{
    const char *file[] = {opt_string(v, RENDER_MESSAGES), opt_string(v, RENDER_TEMPLATE),
                          opt_string(v, RENDER_CONTEXT)};
    bool context = opt_given(v, RENDER_CONTEXT);
    int n_stdin = 0;

    if (v->n_args)
        return err_set(e, ERR_USAGE, "found \"%s\", expected options only", v->args[0]);
    if (opt_given(v, RENDER_MESSAGES) == context || (context && !opt_given(v, RENDER_TEMPLATE)))
        return err_set(e, ERR_USAGE, "either --messages is needed, or --template with --context");
    for (int i = 0; i < 3; i++)
        n_stdin += file[i] && strcmp(file[i], "-") == 0;
    if (n_stdin > 1)
        return err_set(e, ERR_USAGE, "only one file can come from standard input (-)");
    if (opt_given(v, RENDER_NAME) && opt_given(v, RENDER_TEMPLATE))
        log_warn("--template-name changes nothing with --template");
    if (opt_flag(v, RENDER_NO_PROMPT) && context)
        log_warn(
            "--no-generation-prompt changes nothing with --context, which may hold add_generation_prompt");
    if (opt_source(v, OPT_MODEL) == OPT_GIVEN && context && !opt_flag(v, RENDER_IDS))
        log_warn("--model changes nothing with --context, unless --ids are asked for");
    return 0;
}

int verb_render(int argc, char **argv)
{
    struct checkpoint model = {.in.path = NULL};
    struct opt_values v;
    struct err e = {0};
    struct buf out;
    struct tm now;
    int rc = common_parse("render", "--messages F.json [options]", rows, sizeof(rows) / sizeof(rows[0]), argc,
                          argv, &v);

    if (rc >= 0)
        return rc;
    buf_init(&out, MEM_APP);
    if ((rc = check_combination(&v, &e)) == 0 && (rc = read_now(&v, &now, &e)) == 0)
        rc = opt_given(&v, RENDER_CONTEXT) ? with_context(&v, &now, &out, &e)
                                           : with_messages(&v, &model, &now, &out, &e);
    if (rc == 0 && opt_flag(&v, RENDER_IDS))
        rc = print_ids(&v, &model, &out, &e);
    else if (rc == 0 && opt_flag(&v, OPT_JSON))
        common_print_json(json_pack("{s:s%}", "text", out.data ? out.data : "", out.len));
    else if (rc == 0)
        out_bytes(out.data, out.len);
    checkpoint_close(&model);
    buf_fini(&out);
    opt_fini(&v);
    return rc ? common_fail(&e) : 0;
}
