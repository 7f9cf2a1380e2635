/* texts.c - opens the chat template and the embedder of an engine's model, and describes the model. */
#include "engine/texts/texts.h"

#include <string.h>

#include "base/json/json_pull.h"
#include "base/threads/pool.h"
#include "ckpt/checkpoint.h"
#include "engine/find_model.h"
#include "engine/llm.h"
#include "engine/sampling/sampling.h"
#include "engine/texts/template_cache.h"
#include "text/chat.h"
#include "text/markup/conversation.h"
#include "text/tok/tok.h"

/* ---- templates ---- */

/* Reads the chat template of the checkpoint. Only ERR_NOMEM is an error; others are kept for later calls. */
static int open_chat(struct texts *t, const struct llm *m, struct err *e)
{
    struct err *missing = &t->chat_missing;
    int rc = checkpoint_chat(&t->chat, m->model.checkpoint, missing);

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

/* Reads how embeddings are made. Only ERR_NOMEM is an error; others are kept for later calls. */
static int open_embedder(struct texts *t, const struct llm *m, struct err *e)
{
    struct err *missing = &t->embedder_missing;
    int rc = embedder_open(&t->embedder, m->model.checkpoint, missing);

    if (rc == 0)
        rc = dense_check(&t->embedder.dense, m->model.info.hidden, missing);
    if (rc == ERR_NOMEM && e)
        *e = *missing;
    return rc == ERR_NOMEM ? rc : 0;
}

int texts_embedder(const struct texts *t, enum gallop_pooling pooling, const struct embedder **out,
                   struct err *e)
{
    *out = NULL;
    if (pooling != GALLOP_POOL_AUTO)
        return 0;
    if (t->embedder_missing.code && e)
        *e = t->embedder_missing;
    *out = &t->embedder;
    return t->embedder_missing.code;
}

int texts_template_open(const struct texts *t, const char *source, struct texts_use *out, struct err *e)
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
    rc = template_cache_get(t->templates, t->chat, source, &out->entry, e);
    if (rc == 0)
        out->template = &out->entry->template;
    return rc;
}

void texts_template_close(const struct texts *t, struct texts_use *x)
{
    template_cache_release(t->templates, x->entry);
    *x = (struct texts_use){.entry = NULL};
}

int texts_markup(const struct texts *t, const char *calls, const char *reasoning, const char *source,
                 struct markup *out, struct err *e)
{
    struct texts_use use = {.template = &t->own};
    struct markup found = {0};
    int rc = source ? texts_template_open(t, source, &use, e) : 0;

    if (rc == 0)
        found = use.template->markup;
    else if (rc != ERR_NOMEM) /* a template that cannot be rendered */
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

/* Returns the id of the special token that the files of the chat template call NAME; OTHERWISE: there is
 * none. */
static int32_t named_id(const struct texts *t, const char *name, int32_t otherwise)
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

void texts_describe_model(struct gallop_model_info *info, const struct llm *m)
{
    const struct model_info *sizes = &m->model.info;

    *info = (struct gallop_model_info){.bos_id = -1, .eos_id = -1, .unk_id = -1, .pad_id = -1};
    info->path = m->model.checkpoint ? m->model.checkpoint->in.path : NULL;
    info->architecture = m->model.arch->class_name;
    info->model_type = m->model.arch->model_type;
    info->n_params = m->model.n_params;
    info->weight_bytes = m->model.packed_bytes;
    info->n_layers = sizes->n_layers;
    info->hidden_size = sizes->hidden;
    info->intermediate_size = sizes->inner;
    info->n_heads = sizes->n_heads;
    info->n_kv_heads = sizes->n_kv;
    info->vocab_size = sizes->vocab;
    info->context_length = sizes->max_len;
    info->max_model_len = m->max_len;
    info->max_step_tokens = m->max_tokens;
    info->dtype = m->model.opt.dtype == DT_F32 ? "fp32" : "bf16";
    info->quant = m->model.quant;
    info->kv_cache_type = m->kv.type->name;
    info->kv_cache_dtype = llm_kv_dtype(m);
    info->isa = m->isa;
    info->threads = pool_threads(m->pool);
    info->no_generation = sizes->headless ? m->model.headless : NULL;
    info->no_tokenizer = m->tok ? NULL : m->tok_missing.msg;
}

static int describe_all(struct texts *t, const struct llm *m, const struct sampling *config,
                        const char *model, struct err *e)
{
    struct gallop_model_info *info = &t->info;
    struct markup markup;
    char name[512];
    int rc;

    texts_describe_model(info, m);
    info->bos_id = named_id(t, "bos_token", config->bos);
    info->eos_id = t->tok ? tok_eos(t->tok) : -1;
    info->unk_id = named_id(t, "unk_token", -1);
    info->pad_id = named_id(t, "pad_token", config->pad);
    info->end_ids = config->eos;
    info->n_end_ids = config->n_eos;
    info->chat_template = t->chat ? chat_template_source(t->chat, "default") : NULL;
    if (!info->chat_template)
        info->chat_template = t->own.source;
    info->no_chat_template = t->chat_missing.code ? t->chat_missing.msg : NULL;
    info->has_tools = t->own.tools.place != TOOLS_NOWHERE;
    if ((rc = texts_markup(t, NULL, NULL, NULL, &markup, e)) != 0)
        return rc;
    info->tool_call_parser = markup.calls ? markup.calls->name : NULL;
    info->reasoning_parser = markup.reasoning ? markup.reasoning->name : NULL;
    find_model_name(model, model, name, sizeof(name));
    rc = copy(t, name, strlen(name), &info->name, e);
    return rc || !t->tok ? rc : describe_tokens(t, e);
}

/* ---- all of it ---- */

int texts_open(struct texts *t, const struct llm *m, const struct sampling *config, const char *model,
               struct err *e)
{
    int rc;

    *t = (struct texts){.is_open = true, .tok = m->tok};
    arena_init(&t->arena, MEM_ENGINE);
    if (!(t->templates = mem_zalloc(1, sizeof(*t->templates), MEM_ENGINE))) {
        texts_close(t);
        return err_nomem(e, "the cache of templates");
    }
    template_cache_init(t->templates);
    mem_lib_failed(); /* resets the flag of an earlier failure */
    if ((rc = open_chat(t, m, e)) == 0 && (rc = open_embedder(t, m, e)) == 0)
        rc = describe_all(t, m, config, model, e);
    if (mem_lib_failed()) /* a failure inside jansson may have been taken for a template that refuses messages */
        rc = err_nomem(e, "a chat template");
    if (rc)
        texts_close(t);
    return rc;
}

void texts_close(struct texts *t)
{
    if (t->templates)
        template_cache_fini(t->templates);
    mem_free(t->templates);
    chat_close(t->chat);
    embedder_close(&t->embedder);
    arena_fini(&t->arena);
    *t = (struct texts){0};
}

int texts_need_tok(const struct texts *t, struct err *e)
{
    return t->tok ? 0
                  : err_set(e, ERR_UNSUPPORTED, "this model has no tokenizer: %.900s", t->info.no_tokenizer);
}

int texts_give(struct buf *b, char **text, size_t *len, struct err *e)
{
    buf_str(b, ""); /* an empty text is an empty string */
    if (b->oom)
        return err_nomem(e, "a text");
    *text = b->data;
    *len = b->len;
    *b = (struct buf){.tag = b->tag};
    return 0;
}
