/* openai.c - writes the first members, the usage and the end of answers in OpenAI's format. */
#include "chat/dialect/openai.h"
#include "chat/schema.h"
#include "chat/service.h"

#include "base/buf.h"
#include "text/markup/markup.h"

void openai_put_head(const struct request *q, const char *object, struct buf *out)
{
    buf_str(out, "{\"id\":");
    dialect_put_string(out, q->id);
    buf_fmt(out, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object, (long long)q->origin.created);
    dialect_put_string(out, request_model(q));
    buf_str(out, ",\"choices\":[");
}

/* Writes element I of tool_calls. IS_PART: it has an index, and elements with the same index may carry parts of the
 * arguments. */
static void put_call(const struct message_calls *calls, size_t i, bool is_part, struct buf *out)
{
    const struct message_call *v = &calls->v[i];

    buf_str(out, i ? ",{" : "{");
    if (is_part)
        buf_fmt(out, "\"index\":%u,", v->index);
    if (v->begins) {
        buf_fmt(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", v->id);
        buf_json_str(out, message_call_name(calls, v), v->n_name);
        buf_str(out, ",\"arguments\":");
    } else {
        buf_str(out, "\"function\":{\"arguments\":");
    }
    buf_json_str(out, message_call_arguments(calls, v), v->n_arguments);
    buf_str(out, "}}");
}

void openai_put_message(const struct message *m, const char *reasoning_field, bool is_part, bool with_content,
                        struct buf *out)
{
    if (m->text.len || with_content) {
        buf_json_key(out, "content");
        if (m->text.len || !(m->reasoning.len || m->calls.n_ready))
            dialect_put_text(out, &m->text);
        else
            buf_json_null(out);
    }
    if (m->reasoning.len) {
        buf_json_key(out, reasoning_field);
        dialect_put_text(out, &m->reasoning);
    }
    if (m->calls.n_ready) {
        buf_json_key(out, "tool_calls");
        buf_char(out, '[');
        for (size_t i = 0; i < m->calls.n_ready; i++)
            put_call(&m->calls, i, is_part, out);
        buf_char(out, ']');
    }
}

const struct schema openai_usage_schema = {
    "Usage",
    "{'type':'object','required':['prompt_tokens','completion_tokens','total_tokens'],"
    "'properties':{'prompt_tokens':{'type':'integer'},'completion_tokens':{'type':'integer'},"
    "'total_tokens':{'type':'integer'},'prompt_tokens_details':{'type':'object'},"
    "'completion_tokens_details':{'type':'object'}}}",
    NULL};

/* Numbers of tokens. */
struct usage {
    size_t n_prompt, n_cached; /* N_CACHED of the N_PROMPT prompt tokens are from the prefix cache */
    size_t n_output, n_reasoning;
};

static void put_usage(const struct request *q, const struct usage *u, struct buf *out)
{
    buf_fmt(out,
            ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
            "\"prompt_tokens_details\":{\"cached_tokens\":%zu}",
            u->n_prompt, u->n_output, u->n_prompt + u->n_output, u->n_cached);
    if (q->endpoint == FIELDS_CHAT && q->service->markup->reasoning)
        buf_fmt(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%zu}", u->n_reasoning);
    buf_char(out, '}');
}

void openai_put_all_usage(const struct dialect_writer *w, struct buf *out)
{
    struct usage u = {.n_prompt = w->q->n_prompt_tokens,
                      .n_output = answer_n_output(w->a),
                      .n_cached = answer_n_cached(w->a)};

    for (size_t i = 0; i < w->a->n_choices; i++)
        u.n_reasoning += w->a->choice[i].n_reasoning;
    put_usage(w->q, &u, out);
}

/* Writes the usage of choice I so far or, if BEGINS, before its first token. */
static void put_choice_usage(const struct dialect_writer *w, size_t i, bool begins, struct buf *out)
{
    const struct answer_choice *h = &w->a->choice[i];
    const struct usage u = {.n_prompt = w->q->prompt[i / w->q->n].n_ids,
                            .n_output = begins ? 0 : h->n_output,
                            .n_cached = w->a->prompt[i / w->q->n].n_cached,
                            .n_reasoning = begins ? 0 : h->n_reasoning};

    put_usage(w->q, &u, out);
}

const struct schema openai_finish_schema = {"FinishReason", "{'enum':['stop','length','tool_calls','abort']}",
                                            NULL};

void openai_put_finish(const struct answer_choice *h, struct buf *out)
{
    bool called = h->finish == GALLOP_FINISH_STOP && h->said.calls.n_given > 0;
    const char *reason = called                              ? "tool_calls"
                         : h->finish == GALLOP_FINISH_STOP   ? "stop"
                         : h->finish == GALLOP_FINISH_LENGTH ? "length"
                                                             : "abort";

    if (h->state != ANSWER_ENDED) {
        buf_str(out, ",\"finish_reason\":null");
        return;
    }
    buf_fmt(out, ",\"finish_reason\":\"%s\",\"stop_reason\":", reason);
    if (!called && !h->stop_string && h->stop_token >= 0)
        buf_fmt(out, "%d", h->stop_token);
    else
        dialect_put_string(out, called ? NULL : h->stop_string);
    if (h->has_score)
        buf_fmt(out, ",\"score\":%.9g,\"cumulative_logprob\":%.9g", h->score, h->cumulative_logprob);
}

void openai_put_ids(const char *name, const int32_t *id, size_t n, struct buf *out)
{
    buf_fmt(out, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        buf_fmt(out, i ? ",%d" : "%d", id[i]);
    buf_str(out, "]");
}

void openai_put_token_ids(const struct answer_tokens *t, struct buf *out)
{
    buf_str(out, ",\"token_ids\":[");
    for (size_t i = 0; i < t->n; i++)
        buf_fmt(out, i ? ",%d" : "%d", t->v[i].id);
    buf_str(out, "]");
}

/* ---- events ---- */

void openai_begin_event(const struct request *q, const char *object, size_t i, struct buf *out)
{
    buf_str(out, "data: ");
    openai_put_head(q, object, out);
    buf_fmt(out, "{\"index\":%zu", i);
}

void openai_end_event(const struct dialect_writer *w, size_t i, bool begins, struct buf *out)
{
    if (!begins && w->a->choice[i].state == ANSWER_ENDED)
        dialect_put_warnings(w->a, out);
    if (w->q->field.output.continuous_usage)
        put_choice_usage(w, i, begins, out);
    buf_str(out, "}\n\n");
}

static void put_usage_event(const struct dialect_writer *w, const char *object, struct buf *out)
{
    buf_str(out, "data: ");
    openai_put_head(w->q, object, out);
    buf_str(out, "]");
    openai_put_all_usage(w, out);
    buf_str(out, "}\n\n");
}

void openai_put_end(const struct dialect_writer *w, const char *object, int status, const char *sentence,
                    struct buf *out)
{
    if (status) {
        buf_str(out, "data: ");
        dialect_error(out, status, sentence, NULL);
        buf_str(out, "\n\n");
    } else if (w->q->field.output.include_usage) {
        put_usage_event(w, object, out);
    }
    buf_str(out, "data: [DONE]\n\n");
}
