/* texts.c - opens the chat template of an engine's model, and describes the model. */
#include "chat/texts.h"

#include <string.h>
#include <time.h>

#include "base/json/json_pull.h"
#include "chat/template_cache.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"
#include "text/chat.h"
#include "text/markup/conversation.h"
#include "text/tok/tok.h"

/* ---- templates ---- */

/* Reads the chat template of the checkpoint. Returns only ERR_NOMEM as an error. Other errors are kept
 * in t->chat_missing, and later calls that need the template return them. */
static int open_chat(struct texts *t, const struct gallop *g, struct err *e)
{
    struct err *missing = &t->chat_missing;
    int rc = engine_open_chat(g, &t->chat, missing);

    if (rc == 0 && !chat_has_template(t->chat)) {
        err_set(missing, ERR_INPUT, "this model has no chat template; chat_template takes the text of one");
    } else if (rc == 0) {
        t->own.chat = t->chat;
        return template_examine(&t->own, e);
    }
    if (rc == ERR_NOMEM && e)
        *e = *missing;
    return rc == ERR_NOMEM ? rc : 0;
}

int texts_template_open(struct texts *t, const char *source, struct texts_use *out, struct err *e)
{
    int rc;

    *out = (struct texts_use){.template = &t->own};
    if (t->chat_missing.code && (!source || !t->chat)) {
        if (e)
            *e = t->chat_missing;
        return t->chat_missing.code;
    }
    if (!source)
        return 0;
    rc = template_cache_get(&t->templates, t->chat, source, &out->entry, e);
    if (rc == 0)
        out->template = &out->entry->template;
    return rc;
}

void texts_template_close(struct texts *t, struct texts_use *x)
{
    template_cache_release(&t->templates, x->entry);
    *x = (struct texts_use){.entry = NULL};
}

int texts_markup(struct texts *t, const char *calls, const char *reasoning, const char *source,
                 struct markup *out, struct err *e)
{
    struct texts_use use = {.template = &t->own};
    struct markup found = {0};
    int rc = source ? texts_template_open(t, source, &use, e) : 0;

    if (rc == 0)
        found = use.template->markup;
    else if (rc != ERR_NOMEM) /* SOURCE cannot be rendered, but its marks can be searched for */
        markup_shown(source, &found);
    if (rc != ERR_NOMEM)
        rc = markup_choose(out, calls ? calls : "auto", reasoning ? reasoning : "auto", &found, e);
    texts_template_close(t, &use);
    if (rc != ERR_USAGE)
        return rc;
    if (e)
        e->code = ERR_INPUT;
    return ERR_INPUT;
}

/* ---- tools ---- */

int texts_tool_choice(const char *text, struct texts_tools *out, struct err *e)
{
    json_t *choice = NULL;
    int rc = 0;

    if (!text)
        return 0;
    if (text[0] == '{')
        rc = json_pull_load_exact(&choice, text, strlen(text), "tool_choice", e);
    else if (!(choice = json_string(text)))
        rc = err_about(e, ERR_INPUT, "tool_choice", "the text is not UTF-8");
    if (rc == 0)
        rc = tools_choose(choice, &out->choice, &out->names, e);
    json_decref(choice);
    return rc;
}

int texts_tools_read(const struct gallop_chat *c, struct texts_tools *out, struct err *e)
{
    int rc;

    *out = (struct texts_tools){.choice = TOOLS_AUTO};
    if ((rc = texts_tool_choice(c->tool_choice, out, e)) != 0)
        return rc;
    if (c->tools && (rc = json_pull_load_exact(&out->list, c->tools, strlen(c->tools), "tools", e)) != 0)
        return rc;
    if (out->list && !json_is_array(out->list))
        return err_about(e, ERR_INPUT, "tools", "expected a JSON array");
    if (out->list && !c->verbatim && (rc = tools_check(out->list, NULL, e)) != 0)
        return rc;
    if (out->choice == TOOLS_NONE || json_array_size(out->list) == 0) {
        json_decref(out->list);
        out->list = NULL;
    }
    return 0;
}

void texts_tools_close(struct texts_tools *x)
{
    json_decref(x->list);
    json_decref(x->names);
    *x = (struct texts_tools){0};
}

int texts_last_message(const char *messages, struct buf *out, struct err *e)
{
    json_t *list = NULL;
    int rc = json_pull_load_exact(&list, messages, strlen(messages), "messages", e);

    conversation_last_text(list, out);
    json_decref(list);
    return rc || !out->oom ? rc : err_nomem(e, "messages");
}

/* ---- the description ---- */

/* Sets *OUT to a copy of S [n] in the arena of T. */
static int copy(struct texts *t, const char *s, size_t n, const char **out, struct err *e)
{
    *out = arena_strndup(&t->arena, s, n);
    return *out ? 0 : err_nomem(e, "the description of the model");
}

/* Returns the id of the special token that the files of the chat template call NAME (such as "bos_token"), or
 * OTHERWISE if there is none. */
static int32_t named_id(struct texts *t, const char *name, int32_t otherwise)
{
    size_t n = 0;
    const char *text = t->chat ? chat_token(t->chat, name, &n) : NULL;
    int32_t id;

    return text && t->tok && tok_id_of(t->tok, text, n, &id) ? id : otherwise;
}

/* Describes the special token ID. */
static int describe_token(struct texts *t, int32_t id, struct gallop_special_token *out, struct err *e)
{
    const char *piece = "", *name = NULL;
    size_t n = 0;

    tok_piece(t->tok, id, &piece, &n);
    for (size_t i = 0; t->chat && !name; i++) {
        size_t len;
        const char *own = chat_token_name(t->chat, i), *text = own ? chat_token(t->chat, own, &len) : NULL;

        if (!own)
            break;
        if (text && len == n && memcmp(text, piece, n) == 0)
            name = own;
    }
    *out = (struct gallop_special_token){.id = id, .text_len = n, .name = name};
    return copy(t, piece, n, &out->text, e);
}

static int describe_tokens(struct texts *t, struct err *e)
{
    struct gallop_special_token *list;
    size_t n_ids = tok_n_ids(t->tok), n = 0;
    int rc = 0;

    for (size_t i = 0; i < n_ids; i++)
        n += tok_is_special(t->tok, (int32_t)i);
    list = arena_zalloc(&t->arena, n, sizeof(*list));
    if (!list)
        return err_nomem(e, "the description of the model");
    n = 0;
    for (size_t i = 0; i < n_ids && rc == 0; i++)
        if (tok_is_special(t->tok, (int32_t)i))
            rc = describe_token(t, (int32_t)i, &list[n++], e);
    t->info.special_tokens = list;
    t->info.n_special_tokens = n;
    t->info.n_tokenizer_ids = n_ids;
    t->info.tokenizer = tok_kind(t->tok);
    return rc;
}

static int describe_all(struct texts *t, const struct engine_info *engine, struct err *e)
{
    struct gallop_model_info *info = &t->info;
    struct markup markup;
    int rc;

    *info = *engine->model;
    info->bos_id = named_id(t, "bos_token", engine->defaults->bos);
    info->eos_id = t->tok ? tok_eos(t->tok) : -1;
    info->unk_id = named_id(t, "unk_token", -1);
    info->pad_id = named_id(t, "pad_token", engine->defaults->pad);
    info->end_ids = engine->defaults->eos;
    info->n_end_ids = engine->defaults->n_eos;
    info->chat_template = t->chat ? chat_template_source(t->chat, "default") : NULL;
    if (!info->chat_template)
        info->chat_template = t->own.source;
    info->no_chat_template = t->chat_missing.code ? t->chat_missing.msg : NULL;
    info->has_tools = t->own.tools.place != TOOLS_NOWHERE;
    if ((rc = texts_markup(t, NULL, NULL, NULL, &markup, e)) != 0)
        return rc;
    info->tool_call_parser = markup.calls ? markup.calls->name : NULL;
    info->reasoning_parser = markup.reasoning ? markup.reasoning->name : NULL;
    return t->tok ? describe_tokens(t, e) : 0;
}

/* ---- opening ---- */

/* Initializes t->service, with which gallop_answer() answers request bodies, from the model's files. */
static void open_service(struct texts *t, struct gallop *g)
{
    const struct embedder *x;
    bool has_embedder = engine_embedder(g, GALLOP_POOL_AUTO, &x, &t->embedder_missing) == 0;

    t->service = (struct service){.engine = g,
                                  .name = &t->info.name,
                                  .n_names = 1,
                                  .path_name = t->info.path,
                                  .template = &t->own,
                                  .chat_missing = t->chat_missing.msg,
                                  .markup = &t->own.markup,
                                  .reasoning_field = "reasoning",
                                  .embedder = x,
                                  .embedder_missing = has_embedder ? NULL : t->embedder_missing.msg,
                                  .priorities = engine_info(g)->has_priorities,
                                  .created = (int64_t)time(NULL),
                                  .max_logprobs = -1};
    service_complete(&t->service);
}

int texts_open(struct texts **out, struct gallop *g, struct err *e)
{
    struct texts *t = *out = mem_zalloc(1, sizeof(*t), MEM_ENGINE);
    int rc;

    if (!t)
        return err_nomem(e, "the chat template");
    arena_init(&t->arena, MEM_ENGINE);
    template_cache_init(&t->templates);
    t->tok = engine_info(g)->tok;
    mem_lib_failed(); /* resets the flag of an earlier failure */
    if ((rc = open_chat(t, g, e)) == 0)
        rc = describe_all(t, engine_info(g), e);
    if (mem_lib_failed()) /* a failed allocation in jansson may look like a template that refuses messages */
        rc = err_nomem(e, "a chat template");
    if (rc == 0)
        open_service(t, g);
    else
        texts_close(t);
    return rc;
}

void texts_close(struct texts *t)
{
    if (!t)
        return;
    template_cache_fini(&t->templates);
    chat_close(t->chat);
    arena_fini(&t->arena);
    mem_free(t);
}

int texts_need_tok(struct texts *t, struct err *e)
{
    return t->tok ? 0
                  : err_set(e, ERR_UNSUPPORTED, "this model has no tokenizer: %.900s", t->info.no_tokenizer);
}

int texts_give(struct buf *b, char **text, size_t *len, struct err *e)
{
    buf_str(b, ""); /* makes an empty buffer an empty string */
    if (b->oom)
        return err_nomem(e, "a text");
    *text = b->data;
    *len = b->len;
    *b = (struct buf){.tag = b->tag};
    return 0;
}
