/* answering.c - opens the data with which API requests are answered, besides an engine. */
#include "app/answering.h"

#include <string.h>

#include "app/load.h"
#include "app/options.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "base/mem.h"
#include "chat/service.h"
#include "ckpt/checkpoint.h"
#include "engine/open/find_model.h"
#include "text/chat.h"

#define INTO(member) OPT_INTO(struct answering_options, member)

const struct opt_row answering_rows[] = {
    {"served-model-name", 0, PARAM_TEXT, "NAME", EVERYDAY,
     .help =
         "name of the model in the API; all names of the option are accepted, and the first is shown to clients",
     .otherwise = "the model's name on the hub or that of its folder, or the value of --model",
     .repeat = true, INTO(names)},
    {"default-chat-template-kwargs", 0, PARAM_TEXT, "JSON", SERVER,
     .help = "variables for the chat template of requests (a JSON object)", INTO(template_kwargs)},
    {"tool-call-parser", 0, PARAM_TEXT, "NAME", SERVER,
     .help =
         "format of the model's tool calls: auto finds it in the chat template, none leaves tool calls in the text; "
         "or the name of a parser as in vLLM, hermes, llama3_json, mistral, phi4_mini_json or openai",
     .values = "auto|none|hermes|llama3_json|mistral|phi4_mini_json|openai", .fallback = "auto",
     INTO(tool_call_parser)},
    {"reasoning-parser", 0, PARAM_TEXT, "NAME", SERVER,
     .help =
         "format of the model's reasoning: auto finds it in the chat template, none leaves reasoning in the content; "
         "or the name of a parser as in vLLM, deepseek_r1, qwen3, mistral, gemma4 or openai_gptoss",
     .values = "auto|none|deepseek_r1|qwen3|mistral|gemma4|openai_gptoss", .fallback = "auto",
     INTO(reasoning_parser)},
    {"reasoning-field", 0, PARAM_CHOICE, NULL, SERVER, .help = "field of an answer that holds the reasoning",
     .values = "reasoning|reasoning_content", .fallback = "reasoning", INTO(reasoning_field)},
    {"pooling", 0, PARAM_CHOICE, NULL, SERVER,
     .help =
         "how embeddings are made of hidden states: last takes that of the last token, mean the average of all "
         "tokens, auto what the model's files name (modules.json, 1_Pooling, pooling_type of GGUF), else last",
     .values = "auto|last|mean", .fallback = "auto", INTO(pooling)},
    {0}};

/* Reads the names of --served-model-name; a->name has room for one more, which answering_name() adds if there
 * are none. */
static int read_names(struct answering *a, struct err *e)
{
    const struct param_list *names = &a->o.names;

    a->name = mem_zalloc(names->n + 1, sizeof(*a->name), MEM_APP);
    if (!a->name)
        return err_nomem(e, "names");
    for (size_t i = 0; i < names->n; i++) {
        a->name[a->n_names++] = names->value[i].text;
        if (!a->name[i][0])
            return err_set(e, ERR_USAGE, "--served-model-name: found '', expected a name");
        for (const char *p = a->name[i]; *p; p++)
            if ((unsigned char)*p < 0x20 || *p == 0x7f)
                return err_set(
                    e, ERR_USAGE,
                    "--served-model-name: found a control character (%d), expected a printable name", *p);
    }
    return 0;
}

void answering_name(struct answering *a, const struct load *l)
{
    const char *model = l->name;

    if (a->n_names)
        return;
    if (model && find_model_address(model, a->hub_name, sizeof(a->hub_name)))
        model = a->hub_name;
    find_model_name(model, l->path, a->own_name, sizeof(a->own_name));
    a->name[a->n_names++] = a->own_name;
    a->path_name = model;
}

static int read_kwargs(struct answering *a, struct err *e)
{
    static const char flag[] = "--default-chat-template-kwargs";
    const char *text = a->o.template_kwargs;

    if (text && json_pull_load_exact(&a->kwargs, text, strlen(text), flag, e) != 0)
        return e->code = ERR_USAGE;
    return !text || json_is_object(a->kwargs) ? 0 : err_set(e, ERR_USAGE, "%s: expected a JSON object", flag);
}

bool answering_is_given(const struct answering_options *o)
{
    return o->names.n || o->template_kwargs || strcmp(o->tool_call_parser, "auto") != 0 ||
           strcmp(o->reasoning_parser, "auto") != 0 || strcmp(o->reasoning_field, "reasoning") != 0 ||
           o->pooling != GALLOP_POOL_NONE;
}

int answering_open(struct answering *a, const struct answering_options *o, struct err *e)
{
    struct markup markup;
    int rc;

    a->o = *o;
    if ((rc = read_names(a, e)) != 0 || (rc = read_kwargs(a, e)) != 0)
        return rc;
    return markup_choose(&markup, o->tool_call_parser, o->reasoning_parser, NULL, e);
}

static int read_template(struct answering *a, struct checkpoint *model, const char *file, struct err *e)
{
    struct input_template *t = &a->template;
    int rc = input_template_open(t, model, file, &a->chat_missing);

    if (rc && (file || !t->chat || chat_has_template(t->chat))) {
        *e = a->chat_missing;
        return rc;
    }
    if (rc)
        err_set(&a->chat_missing, ERR_INPUT,
                "this model has no chat template; --chat-template names a file with one");
    else if ((rc = input_template_examine(t, e)) != 0)
        return rc;
    return markup_choose(&a->markup, a->o.tool_call_parser, a->o.reasoning_parser, &t->template.markup, e);
}

/* Chooses how embeddings are pooled: by the option, else by the model's files, else by the last token. */
static int read_pooling(struct answering *a, struct checkpoint *model, struct err *e)
{
    if (a->o.pooling == GALLOP_POOL_NONE)
        return embedder_open(&a->embedder, model, e);
    a->embedder.pooling = a->o.pooling;
    if (!model->gguf.n)
        embedder_left_out(model->in);
    return 0;
}

int answering_read(struct answering *a, struct checkpoint *model, const char *file, struct err *e)
{
    int rc = read_template(a, model, file, e);

    return rc ? rc : read_pooling(a, model, e);
}

int answering_check(const struct answering *a, const struct gallop *engine, struct err *e)
{
    return dense_check(&a->embedder.dense, engine_info(engine)->model->hidden_size, e);
}

void answering_serve(const struct answering *a, struct gallop *engine, struct service *s)
{
    s->engine = engine;
    s->template = &a->template.template;
    s->chat_missing = a->chat_missing.msg;
    s->template_kwargs = a->kwargs;
    s->markup = &a->markup;
    s->reasoning_field = a->o.reasoning_field;
    s->embedder = &a->embedder;
    s->name = a->name;
    s->n_names = a->n_names;
    s->path_name = a->path_name;
}

void answering_log_markup(const struct answering *a)
{
    const struct markup *m = &a->markup;

    log_info("tool calls are parsed as %s, reasoning as %s (%s; %s)", m->calls ? m->calls->name : "none",
             m->reasoning ? m->reasoning->name : "none", markup_origin_name(m->calls_origin),
             markup_origin_name(m->reasoning_origin));
}

void answering_close(struct answering *a)
{
    input_template_close(&a->template);
    embedder_close(&a->embedder);
    json_decref(a->kwargs);
    mem_free((void *)a->name);
    *a = (struct answering){.n_names = 0};
}
