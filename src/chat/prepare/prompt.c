/* prompt.c - converts texts, token ids or messages to the tokens of prompts. */
#include "chat/prepare/prompt.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "chat/once.h"
#include "chat/prepare/refuse.h"
#include "chat/request.h"
#include "chat/service.h"
#include "engine/constraints/constrain.h"
#include "engine/constraints/structured.h"
#include "engine/embeddings/embed.h"
#include "engine/embeddings/embedder.h"
#include "engine/engine.h"
#include "text/markup/conversation.h"
#include "text/markup/markup.h"
#include "text/markup/parser.h"
#include "text/markup/template.h"
#include "text/tok/ids.h"
#include "text/tok/infill.h"
#include "text/tok/tok.h"

static const struct engine_info *info_of(const struct request *q)
{
    return engine_info(q->service->engine);
}

int prompt_add_ids(struct tok_ids *ids, const json_t *list, struct err *e)
{
    size_t n = json_array_size(list);

    if (!mem_grow((void **)&ids->id, &ids->cap, n, sizeof(*ids->id), MEM_TEXT))
        return err_nomem(e, "a prompt");
    for (size_t i = 0; i < n; i++)
        ids->id[ids->n++] = (int32_t)json_integer_value(json_array_get(list, i));
    return 0;
}

/* Sets E to the error about a prompt of N tokens that is too long. AT_LEAST: "at least " if N is a lower
 * bound, or "". Clients recognize this error by its text: OpenAI's clients by "maximum context length",
 * Anthropic's clients by "prompt is too long". */
static int say_too_long(const struct request *q, const char *at_least, size_t n, struct err *e)
{
    size_t context = info_of(q)->model->max_model_len, least = request_max_tokens(q) == 0 ? 0 : 1;

    if (q->endpoint == FIELDS_MESSAGES)
        return err_set(e, ERR_INPUT, "prompt is too long: %s%zu tokens > %zu maximum", at_least, n,
                       context - least);
    return err_set(e, ERR_INPUT,
                   "This model's maximum context length is %zu tokens. However, your request has %s%zu input "
                   "tokens%s. Please reduce the length of the input messages.",
                   context, at_least, n, n == context ? ", and no room for an answer" : "");
}

/* Refuses a prompt of N bytes that exceeds the context even with the longest tokens, before it is
 * tokenized. */
static int check_bytes(const struct request *q, size_t n, struct err *e)
{
    const struct engine_info *m = info_of(q);
    size_t most;

    if (!q->prompt || q->field.input.truncate_prompt_tokens || n <= m->model->max_model_len)
        return 0;
    most = tok_most_bytes(m->tok);
    if (n / most < m->model->max_model_len || (n / most == m->model->max_model_len && n % most == 0))
        return 0;
    return say_too_long(q, "at least ", n / most + (n % most != 0), e);
}

static int say_no_tokenizer(const struct request *q, struct err *e)
{
    if (q->endpoint == FIELDS_LINE) /* the client owns the model's files */
        return err_set(e, ERR_INPUT, "a prompt that is text needs a tokenizer: %s",
                       info_of(q)->model->no_tokenizer);
    return err_set(e, ERR_UNSUPPORTED, "this model has no tokenizer: give the prompt as token ids");
}

int prompt_encode(const struct request *q, const char *text, const char *origin, size_t n, bool special,
                  struct tok_ids *ids, struct err *e)
{
    const struct engine_info *m = info_of(q);
    int rc;

    if (!m->tok)
        return say_no_tokenizer(q, e);
    rc = check_bytes(q, n, e);
    return rc ? rc : tok_encode_marked(m->tok, text, origin, n, special ? TOK_ADD_SPECIAL : 0, ids, e);
}

bool prompt_adds_special(const struct request *q, bool otherwise)
{
    return q->field.input.has_add_special ? q->field.input.add_special_tokens : otherwise;
}

/* Encodes a fill-in-the-middle prompt: V (NULL: "") is the text before the gap, the request's suffix the text
 * after it. */
static int encode_infill(struct request *q, const json_t *v, struct tok_ids *ids, struct err *e)
{
    const json_t *suffix = q->field.input.suffix;
    const struct engine_info *m = info_of(q);
    int rc = 0;

    fields_blame(&q->field, "suffix", 0);
    if (!m->tok)
        return say_no_tokenizer(q, e);
    if (!infill_is_known(m->tok))
        return infill_refuse(e);
    if (v && !json_is_string(v))
        return err_set(e, ERR_INPUT,
                       "suffix: the prompt, the text before the gap, must be text and not token ids");
    fields_blame(&q->field, prompt_field(q), 0);
    if ((rc = check_bytes(q, json_string_length(v), e)) == 0 &&
        (rc = check_bytes(q, json_string_length(suffix), e)) == 0)
        rc = infill_encode(m->tok, v ? json_string_value(v) : "", json_string_length(v),
                           json_string_value(suffix), json_string_length(suffix),
                           prompt_adds_special(q, true) ? TOK_ADD_SPECIAL : 0, ids, e);
    return rc;
}

/* Reads V, a string or a list of token ids, as the input of an embedding. */
static int read_embedded(struct request *q, const json_t *v, struct tok_ids *ids, struct err *e)
{
    const struct embedder *x = q->service->embedder;
    size_t n_cut = 0;
    int rc;

    if (!json_is_string(v)) {
        const int32_t *kept;

        rc = prompt_add_ids(ids, v, e);
        kept = ids->id;
        n_cut = embed_ids(x, &kept, &ids->n);
        if (n_cut)
            memmove(ids->id, kept, ids->n * sizeof(*kept));
    } else if (!info_of(q)->tok) {
        rc = say_no_tokenizer(q, e);
    } else {
        rc = embed_text(x, info_of(q)->tok, json_string_value(v), json_string_length(v),
                        prompt_adds_special(q, true), ids, &n_cut, e);
    }
    if (rc == 0 && n_cut && !q->field.input.truncate)
        return err_set(e, ERR_INPUT, "found %zu tokens, but this model reads at most %zu tokens of a text",
                       ids->n + n_cut, x->most);
    q->n_cut_tokens += n_cut;
    return rc;
}

/* Reads V, a string or a list of token ids, as a prompt. Appends its tokens to IDS and, for `echo`, its
 * text to TEXT. */
static int read_prompt(struct request *q, const json_t *v, struct tok_ids *ids, struct buf *text,
                       struct err *e)
{
    int rc;

    if (q->field.input.suffix) {
        rc = encode_infill(q, v, ids, e);
    } else if ((q->endpoint & FIELDS_POOLED) && q->service->embedder && q->service->embedder->is_known) {
        rc = read_embedded(q, v, ids, e);
    } else if (json_is_string(v)) {
        rc = prompt_encode(q, json_string_value(v), NULL, json_string_length(v), prompt_adds_special(q, true),
                           ids, e);
        if (rc == 0 && q->field.output.echo)
            buf_add(text, json_string_value(v), json_string_length(v));
    } else {
        rc = prompt_add_ids(ids, v, e);
        if (rc == 0 && q->field.output.echo && info_of(q)->tok)
            rc = tok_decode(info_of(q)->tok, ids->id, ids->n, q->field.output.skip_special_tokens, text, e);
    }
    return rc || !text->oom ? rc : err_nomem(e, "a prompt");
}

/* Opens a parser for each answer to PROMPT, if the model has markup of tool calls or reasoning. CONTINUED:
 * the text of the message that the answers continue; empty: they are new messages. */
static int open_parsers(struct request *q, struct answer *a, struct rng_seeds *seeds,
                        const struct buf *prompt, const struct buf *continued, struct err *e)
{
    const struct markup *m = q->service->markup;
    bool is_parsed = q->endpoint != FIELDS_LINE; /* lines get the generated text as it is */
    struct parser_options o = {.calls = is_parsed && request_has_tools(q) ? m->calls : NULL,
                               .reasoning = m->reasoning,
                               .tok = info_of(q)->tok,
                               .prompt = prompt->data ? prompt->data : "",
                               .prompt_len = prompt->len,
                               .continued = continued->data,
                               .n_continued = continued->len,
                               .tools = q->field.input.tools,
                               .one_call = !q->field.output.parallel_tool_calls,
                               .is_forced = tools_forces(q->field.input.tool_choice)};
    int rc;

    if (!o.calls && !o.reasoning)
        return 0;
    q->place = markup_place(o.reasoning, o.prompt, o.prompt_len, o.continued, o.n_continued);
    if (!is_parsed)
        return constrain_place(&q->structured, o.reasoning, NULL, q->place, o.prompt, o.prompt_len, e);
    /* the names are copied, because the request frees its list before the answer is parsed */
    rc = tools_copy_names(o.tools, &q->arena, &o.names, &o.n_names, e);
    for (size_t i = 0; i < a->n_choices && rc == 0; i++) {
        o.seed = rng_seeds_next(seeds);
        rc = parser_open(&a->choice[i].parser, &o, e);
    }
    q->keeps_special = (o.calls && o.calls->special) || (o.reasoning && o.reasoning->special);
    q->calls = o.calls;
    return rc ? rc
              : constrain_place(&q->structured, o.reasoning, o.calls, q->place, o.prompt, o.prompt_len, e);
}

/* Checks that the model and its template support the request's tools. ANSWERS: an answer is generated. */
static int check_tools(struct request *q, bool answers, struct err *e)
{
    const struct service *o = q->service;

    if (!request_has_tools(q) || !o->template->chat || q->endpoint == FIELDS_LINE)
        return 0;
    if (o->template->tools.place == TOOLS_NOWHERE)
        return fields_blame(
            &q->field, "tools",
            err_set(e, ERR_UNSUPPORTED, "tools: the model's chat template does not write them"));
    if (answers && !o->markup->calls && !o->markup->plain_calls)
        return fields_blame(
            &q->field, "tools",
            err_set(e, ERR_UNSUPPORTED,
                    "tools: the chat template does not show how this model writes calls; the server "
                    "needs the name of their format (option tool-call-parser), or none for calls as text"));
    return 0;
}

const char *prompt_field(const struct request *q)
{
    const char *needs = fields_needed(q->endpoint);

    return needs ? needs : q->field.input.messages && q->endpoint != FIELDS_GENERATE ? "messages" : "prompt";
}

/* Adds the chat template's variables to O: first the service's, then Q's, which replace them. */
static int set_variables(const struct request *q, json_t *o)
{
    const struct fields *f = &q->field;
    int bad = 0;

    if (q->service->template_kwargs)
        bad |= json_object_update(o, (json_t *)(uintptr_t)q->service->template_kwargs);
    if (f->input.reasoning_effort)
        bad |= json_object_set_new(o, "reasoning_effort", json_string(f->input.reasoning_effort));
    if (f->input.thinking != FIELDS_THINKING_UNSAID) { /* most templates read these */
        bad |=
            json_object_set_new(o, "enable_thinking", json_boolean(f->input.thinking == FIELDS_THINKING_ON));
        bad |= json_object_set_new(o, "thinking", json_boolean(f->input.thinking == FIELDS_THINKING_ON));
    }
    if (f->input.thinking == FIELDS_THINKING_OFF) { /* templates of Cohere and Seed-OSS read these */
        bad |= json_object_set_new(o, "reasoning", json_false());
        bad |= json_object_set_new(o, "thinking_budget", json_integer(0));
    }
    if (f->input.kwargs)
        bad |= json_object_update(o, (json_t *)(uintptr_t)f->input.kwargs);
    if (f->input.tools && q->endpoint == FIELDS_LINE) /* tools may have any form that the template reads */
        bad |= json_object_set(o, "tools", (json_t *)(uintptr_t)f->input.tools);
    if (f->input.documents)
        bad |= json_object_set(o, "documents", (json_t *)(uintptr_t)f->input.documents);
    return bad;
}

/* Renders the conversation of Q with the model's chat template and appends it to OUT. With --user-text plain,
 * ORIGIN gets one byte for each byte of the prompt, as tok_encode_marked() expects; otherwise ORIGIN stays
 * empty. */
static int render_messages(struct request *q, struct buf *out, struct buf *origin, struct err *e)
{
    const struct fields *f = &q->field;
    struct conversation c = {.template = q->service->template,
                             .tools = request_has_tools(q) ? (json_t *)(uintptr_t)f->input.tools : NULL,
                             .messages = (json_t *)(uintptr_t)f->input.messages,
                             .add_generation_prompt = f->input.add_generation_prompt,
                             .is_open = f->input.continue_final_message,
                             .origin = q->service->plain_user_text ? origin : NULL};
    int rc;

    if (c.is_open && c.add_generation_prompt)
        return fields_blame(
            &q->field, "continue_final_message",
            err_set(e, ERR_INPUT, "continue_final_message and add_generation_prompt cannot both be true"));
    if (!c.template->chat)
        return err_set(e, ERR_INPUT, "%s", q->service->chat_missing);
    c.variables = json_object();
    rc = c.variables && set_variables(q, c.variables) == 0 ? conversation_render(&c, out, e)
                                                           : err_nomem(e, "messages");
    json_decref(c.variables);
    return rc;
}

int prompt_read_messages(struct request *q, struct answer *a, struct rng_seeds *seeds, struct tok_ids *ids,
                         struct err *e)
{
    struct buf text = {.tag = MEM_API}, origin = {.tag = MEM_API}, continued = {.tag = MEM_API};
    int rc = check_tools(q, a != NULL, e);

    if (rc == 0)
        rc = render_messages(q, &text, &origin, e);
    if (rc == 0 && mem_lib_failed()) /* a failed allocation in jansson may have gone unnoticed until here */
        rc = err_nomem(e, "messages");
    if (q->field.input.continue_final_message)
        conversation_last_text(q->field.input.messages, &continued);
    if (rc == 0 && continued.oom)
        rc = err_nomem(e, "messages");
    if (rc == 0 && a)
        rc = open_parsers(q, a, seeds, &text, &continued, e);
    if (rc == 0)
        rc = prompt_encode(q, text.data ? text.data : "", origin.data, text.len,
                           prompt_adds_special(q, false), ids, e);
    buf_fini(&text);
    buf_fini(&origin);
    buf_fini(&continued);
    return rc;
}

/* Truncates the prompt to truncate_prompt_tokens. */
static void cut_prompt(struct request *q, struct tok_ids *ids)
{
    const struct engine_info *m = info_of(q);
    /* a bidirectional model processes the whole prompt in one step */
    bool whole = m->is_bidirectional && m->model->max_step_tokens < m->model->max_model_len;
    int64_t max_tokens = request_max_tokens(q), most = q->field.input.truncate_prompt_tokens,
            context = (int64_t)(whole ? m->model->max_step_tokens : m->model->max_model_len);

    if (most == 0)
        return;
    if (most < 0)
        most = context - (max_tokens >= 0 && max_tokens < context ? max_tokens : 1);
    if (ids->n <= (size_t)most)
        return;
    q->n_cut_tokens += ids->n - (size_t)most;
    if (!q->field.input.truncation_side || strcmp(q->field.input.truncation_side, "left") == 0)
        memmove(ids->id, ids->id + (ids->n - (size_t)most), (size_t)most * sizeof(*ids->id));
    ids->n = (size_t)most;
}

/* Checks that the prompt and one generated token fit the context. Longer answers end at the context
 * length. */
static int check_room(struct request *q, const struct request_prompt *p)
{
    size_t least = request_max_tokens(q) == 0 ? 0 : 1;
    struct err e = {0};

    if (p->n_ids + least <= info_of(q)->model->max_model_len)
        return 0;
    say_too_long(q, "", p->n_ids, &e);
    return refuse_field(q, prompt_field(q), e.msg);
}

/* For echo, begins each answer with the text of the last message if the answer continues that message. */
static bool echo_message(const struct request *q, struct answer *a)
{
    const json_t *list = q->field.input.messages, *m = json_array_get(list, json_array_size(list) - 1);
    bool good = true;

    if (q->field.input.add_generation_prompt && !dialect_is(json_object_get(m, "role"), "assistant"))
        return true;
    for (size_t i = 0; i < a->n_choices; i++) {
        conversation_last_text(list, &a->choice[i].said.text);
        good &= !a->choice[i].said.text.oom;
    }
    return good;
}

bool prompt_is_list(const json_t *prompt)
{
    return json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0));
}

int prompt_read_all(struct request *q, struct rng_seeds *seeds)
{
    bool list = prompt_is_list(q->field.input.prompt);
    struct err e = {0};
    int rc = 0;

    for (size_t i = 0; i < q->n_prompts; i++) {
        struct request_prompt *p = &q->prompt[i];
        struct tok_ids ids = {0};

        if (refuse_late(q))
            return ERR_INPUT;
        fields_blame(&q->field, prompt_field(q), 0);
        rc = q->field.input.messages
                 ? prompt_read_messages(q, &q->answer, seeds, &ids, &e)
                 : read_prompt(q, list ? json_array_get(q->field.input.prompt, i) : q->field.input.prompt,
                               &ids, &p->text, &e);
        cut_prompt(q, &ids);
        p->id = ids.id;
        p->n_ids = ids.n;
        if (rc)
            return refuse_error(q, &e);
        if ((rc = check_room(q, p)) != 0)
            return rc;
        if (q->field.input.messages && q->field.output.echo && !echo_message(q, &q->answer))
            return refuse_memory(q);
        q->n_prompt_tokens += p->n_ids;
    }
    if ((q->endpoint & FIELDS_POOLED) && q->n_cut_tokens)
        once_warn(
            q->once, q->origin.route, "truncated_tokens",
            "a text was cut to the tokens that the model reads; '%s' of usage counts those that were cut");
    return 0;
}
