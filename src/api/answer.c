/* answer.c - answers as JSON, whole or in events, in the forms of chat and of completions. */
#include <math.h>
#include <string.h>

#include "api/answer.h"
#include "api/request.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "engine/engine.h"

#define LOWEST_LOGPROB (-9999.0f) /* what stands for minus infinity, which JSON has not */

static const char *data_of(const struct buf *b)
{
    return b->data ? b->data : "";
}

static const struct request_prompt *prompt_of(const struct request *c, size_t i)
{
    return &c->prompt[i / c->n];
}

static bool is_chat(const struct request *c)
{
    return c->endpoint == FIELDS_CHAT;
}

/* ---- parts of a text ---- */

/* Appends S, which goes on inside a string of JSON. */
static void continue_string(struct buf *out, const char *s, size_t n)
{
    struct buf one = {.tag = MEM_API};

    buf_json_str(&one, s, n);
    if (!one.oom)
        buf_add(out, one.data + 1, one.len - 2);
    out->oom |= one.oom;
    buf_fini(&one);
}

/* The next element of tool_calls; in a stream each has its number, and its arguments may come in several. */
static void begin_element(const struct request *c, struct request_choice *h, const struct parser_piece *p)
{
    struct buf *out = h->holds ? &h->held : &h->calls;

    if (out->len)
        buf_char(out, ',');
    buf_char(out, '{');
    if (c->f.stream)
        buf_fmt(out, "\"index\":%u,", p->call);
    h->n_calls += p->kind == PARSER_CALL && !h->holds;
    if (p->kind == PARSER_CALL) {
        buf_fmt(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", p->id);
        buf_json_str(out, p->text, p->len);
        buf_str(out, ",\"arguments\":\"");
    } else {
        buf_str(out, "\"function\":{\"arguments\":\"");
    }
    h->in_call = true;
}

void answer_end_call(struct request_choice *h)
{
    if (h->holds)
        return;
    if (h->in_call)
        buf_str(&h->calls, "\"}}");
    h->in_call = false;
}

/* The tool call that was held is complete. */
static void hand_out_held(struct request_choice *h, bool complete)
{
    if (h->in_call && (complete || !h->drops)) {
        if (h->calls.len)
            buf_char(&h->calls, ',');
        buf_add(&h->calls, data_of(&h->held), h->held.len);
        buf_str(&h->calls, "\"}}");
        h->n_calls++;
    }
    h->calls.oom |= h->held.oom;
    buf_clear(&h->held);
    h->in_call = false;
}

static int take_pieces(const struct request *c, struct request_choice *h)
{
    struct parser_piece p;

    while (parser_take(h->parts, &p)) {
        switch (p.kind) {
        case PARSER_CONTENT: buf_add(&h->text, p.text, p.len); break;
        case PARSER_REASONING:
            h->n_reasoning = h->n_output;
            if (c->f.include_reasoning)
                buf_add(&h->reasoning, p.text, p.len);
            break;
        case PARSER_CALL: begin_element(c, h, &p); break;
        case PARSER_ARGUMENTS:
            if (!h->in_call)
                begin_element(c, h, &p);
            continue_string(h->holds ? &h->held : &h->calls, p.text, p.len);
            break;
        case PARSER_CALL_END:
            if (h->holds)
                hand_out_held(h, p.complete);
            else
                answer_end_call(h);
            break;
        }
    }
    return h->text.oom || h->reasoning.oom || h->calls.oom || h->held.oom ? ERR_NOMEM : 0;
}

int answer_take(const struct request *c, struct request_choice *h, const char *text, size_t n)
{
    int rc;

    if (!h->parts) {
        buf_add(&h->text, text, n);
        return h->text.oom ? ERR_NOMEM : 0;
    }
    rc = parser_feed(h->parts, text, n, NULL);
    return rc ? rc : take_pieces(c, h);
}

int answer_take_end(const struct request *c, struct request_choice *h, enum gallop_finish finish,
                    bool stopped)
{
    int rc = h->parts ? parser_finish(h->parts,
                                      stopped                        ? PARSER_STOPPED
                                      : finish == GALLOP_FINISH_STOP ? PARSER_ENDED
                                                                     : PARSER_CUT,
                                      NULL)
                      : 0;

    h->drops = stopped;
    return rc || !h->parts ? rc : take_pieces(c, h);
}

bool answer_has_news(const struct request *c, const struct request_choice *h)
{
    return h->ended || h->text.len || h->reasoning.len || h->calls.len ||
           (h->n_new && (!h->parts || c->keep_tokens));
}

/* Members content, reasoning and tool_calls, as far as there is something. WITH_CONTENT: content also if it
 * is empty; it is null where there is something else instead. */
static void put_parts(const struct request *c, struct request_choice *h, bool with_content, struct buf *out)
{
    bool other = h->reasoning.len || h->calls.len;

    answer_end_call(h);
    if (h->text.len || with_content) {
        buf_json_key(out, "content");
        if (h->text.len || !other)
            buf_json_str(out, data_of(&h->text), h->text.len);
        else
            buf_json_null(out);
    }
    if (h->reasoning.len) {
        buf_json_key(out, c->api->opt.reasoning_field);
        buf_json_str(out, h->reasoning.data, h->reasoning.len);
    }
    if (h->calls.len) {
        buf_json_key(out, "tool_calls");
        buf_fmt(out, "[%s]", h->calls.data);
    }
}

/* ---- tokens ---- */

/* The text of token ID alone, appended to OUT. */
static void token_text(const struct request *c, int32_t id, struct buf *out)
{
    const struct tok *tok = engine_info(c->api->opt.engine)->tok;

    if (c->f.tokens_as_ids)
        buf_fmt(out, "token_id:%d", id);
    else if (tok && tok_decode(tok, &id, 1, false, out, NULL) != 0)
        out->oom = true;
}

static void put_logprob(struct buf *out, float x)
{
    buf_json_float(out, isfinite(x) && x > LOWEST_LOGPROB ? x : LOWEST_LOGPROB);
}

/* {"token":, "logprob":, "bytes":} without its closing brace. */
static void put_chat_token(const struct request *c, int32_t id, float logprob, struct buf *out)
{
    const struct tok *tok = engine_info(c->api->opt.engine)->tok;
    struct buf text = {.tag = MEM_API};

    token_text(c, id, &text);
    buf_json_begin(out, '{');
    buf_json_key(out, "token");
    buf_json_str(out, data_of(&text), text.len);
    buf_json_key(out, "logprob");
    put_logprob(out, logprob);
    if (tok) { /* those of the token, whatever stands for it as text */
        if (c->f.tokens_as_ids) {
            buf_clear(&text);
            text.oom |= tok_decode(tok, &id, 1, false, &text, NULL) != 0;
        }
        tok_bytes(tok, id, &text); /* of a part of a character too, for which the text has U+FFFD */
    }
    buf_json_key(out, "bytes");
    buf_json_begin(out, '[');
    for (size_t i = 0; i < text.len; i++)
        buf_json_int(out, (unsigned char)text.data[i]);
    buf_json_end(out, ']');
    out->oom |= text.oom;
    buf_fini(&text);
}

/* With logprob_token_ids the token itself stands in front of those. */
static void put_chat_top(const struct request *c, const struct request_tokens *t,
                         const struct request_token *v, struct buf *out)
{
    size_t most = c->f.logprob_ids ? v->n_top : c->f.top_logprobs > 0 ? (size_t)c->f.top_logprobs : 0;

    buf_json_key(out, "top_logprobs");
    buf_json_begin(out, '[');
    if (c->f.logprob_ids) {
        put_chat_token(c, v->id, v->logprob, out);
        buf_json_end(out, '}');
    }
    for (size_t k = 0; k < v->n_top && k < most; k++) {
        const struct gallop_logprob *p = &t->top[v->top + k];

        if (c->f.logprob_ids && p->id == v->id)
            continue;
        put_chat_token(c, p->id, p->logprob, out);
        buf_json_end(out, '}');
    }
    buf_json_end(out, ']');
}

static void put_chat_logprobs(const struct request *c, const struct request_tokens *t, struct buf *out)
{
    buf_str(out, ",\"logprobs\":");
    if (!c->f.chat_logprobs) {
        buf_str(out, "null");
        return;
    }
    buf_str(out, "{\"content\":[");
    for (size_t i = 0; i < t->n; i++) {
        const struct request_token *v = &t->v[i];

        put_chat_token(c, v->id, v->logprob, out);
        put_chat_top(c, t, v, out);
        buf_json_end(out, '}');
    }
    buf_str(out, "]}");
}

/* Where tokens are listed: at which character of the text they begin, and how many stand beside each. */
struct place {
    struct tok_stream **pieces; /* makes tokens text; opened with the first */
    size_t at, most;
};

static size_t n_characters(const char *s, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

/* One of several texts that lie behind one another. */
struct span {
    size_t at, n;
};

/* Whether the last of SPAN [N] in TEXT is one of those before. */
static bool is_repeated(const struct buf *text, const struct span *span, size_t n)
{
    const struct span *last = &span[n - 1];

    for (size_t i = 0; i + 1 < n; i++)
        if (span[i].n == last->n &&
            memcmp(data_of(text) + span[i].at, data_of(text) + last->at, last->n) == 0)
            return true;
    return false;
}

/* V and MOST of the tokens beside it, as an object: of those that have the same text it can hold one, which
 * is V, or the likeliest. */
static void put_top(const struct request *c, const struct request_tokens *t, const struct request_token *v,
                    size_t most, struct buf *out)
{
    struct span span[1 + SAMPLING_MAX_LOGPROBS];
    struct buf text = {.tag = MEM_API};
    size_t n = 0;

    buf_json_begin(out, '{');
    for (size_t k = 0; k <= v->n_top && k <= most; k++) {
        const struct gallop_logprob *p = k ? &t->top[v->top + k - 1] : NULL;

        if (p && p->id == v->id)
            continue;
        span[n].at = text.len;
        token_text(c, p ? p->id : v->id, &text);
        span[n].n = text.len - span[n].at;
        if (text.oom)
            break;
        if (is_repeated(&text, span, ++n)) {
            text.len = span[--n].at;
            continue;
        }
        buf_json_str(out, data_of(&text) + span[n - 1].at, span[n - 1].n);
        buf_char(out, ':');
        put_logprob(out, p ? p->logprob : v->logprob);
    }
    buf_json_end(out, '}');
    out->oom |= text.oom;
    buf_fini(&text);
}

/* P goes on behind the text of token ID as it stands among the others: special ones that are left out have
 * none, a character of several tokens is that of the last. */
static bool pass_token(const struct request *c, struct place *p, int32_t id)
{
    const struct tok *tok = engine_info(c->api->opt.engine)->tok;
    struct buf text = {.tag = MEM_API};
    bool good;

    if (!tok)
        return true;
    good = (*p->pieces || tok_stream_new(p->pieces, tok, c->f.skip_special_tokens, NULL) == 0) &&
           tok_stream_put(*p->pieces, id, &text, NULL) == 0 && !text.oom;
    p->at += n_characters(data_of(&text), text.len);
    buf_fini(&text);
    return good;
}

/* Token V of T; T NULL: the first of a prompt, which nothing foretells. */
static void add_to_lists(const struct request *c, struct request_lists *l, struct place *p,
                         const struct request_tokens *t, const struct request_token *v)
{
    struct buf text = {.tag = MEM_API};

    token_text(c, v->id, &text);
    buf_json_int(&l->offset, (int64_t)p->at);
    buf_json_str(&l->token, data_of(&text), text.len);
    if (t) {
        put_logprob(&l->logprob, v->logprob);
        put_top(c, t, v, p->most, &l->top);
    } else {
        buf_json_null(&l->logprob);
        buf_json_null(&l->top);
    }
    l->token.oom |= text.oom || !pass_token(c, p, v->id);
    buf_fini(&text);
}

static size_t most_beside(const struct request *c)
{
    return c->f.logprobs > 0 ? (size_t)c->f.logprobs : 0;
}

void answer_list_prompt(const struct request *c, struct request_prompt *p)
{
    struct tok_stream *pieces = NULL;
    struct place at = {.pieces = &pieces, .most = most_beside(c)};

    p->lists = (struct request_lists){{.tag = MEM_API}, {.tag = MEM_API}, {.tag = MEM_API}, {.tag = MEM_API}};
    if (p->ids.n)
        add_to_lists(c, &p->lists, &at, NULL, &(struct request_token){.id = p->ids.id[0]});
    for (size_t k = 0; k < p->scored.n; k++)
        add_to_lists(c, &p->lists, &at, &p->scored, &p->scored.v[k]);
    tok_stream_free(pieces);
}

/* Ends a list that PROMPT's elements stand in front of. */
static void put_list(const char *name, const struct buf *prompt, struct buf *list, struct buf *out)
{
    buf_json_key(out, name);
    buf_char(out, '[');
    buf_add(out, data_of(prompt), prompt->len);
    buf_str(out, prompt->len && list->len ? "," : "");
    buf_add(out, data_of(list), list->len);
    buf_char(out, ']');
    out->oom |= prompt->oom || list->oom;
    buf_fini(list);
}

/* WITH_PROMPT: its tokens stand in front. */
static void put_completion_logprobs(struct request *c, size_t i, bool with_prompt, struct buf *out)
{
    static const struct request_lists none;
    struct request_prompt *p = &c->prompt[i / c->n];
    struct request_choice *h = &c->choice[i];
    const struct request_lists *before = with_prompt ? &p->lists : &none;
    struct request_lists l = {{.tag = MEM_API}, {.tag = MEM_API}, {.tag = MEM_API}, {.tag = MEM_API}};
    struct place at = {.pieces = &h->pieces,
                       .at = with_prompt ? n_characters(data_of(&p->text), p->text.len) : h->n_characters,
                       .most = c->f.logprob_ids ? FIELDS_MAX_LOGPROB_IDS : most_beside(c)};

    buf_str(out, ",\"logprobs\":");
    if (c->f.logprobs < 0) {
        buf_str(out, "null");
        return;
    }
    if (with_prompt && !p->listed)
        answer_list_prompt(c, p);
    p->listed |= with_prompt;
    for (size_t k = 0; k < h->tokens.n; k++)
        add_to_lists(c, &l, &at, &h->tokens, &h->tokens.v[k]);
    h->n_characters = at.at;
    buf_char(out, '{');
    put_list("text_offset", &before->offset, &l.offset, out);
    put_list("token_logprobs", &before->logprob, &l.logprob, out);
    put_list("tokens", &before->token, &l.token, out);
    put_list("top_logprobs", &before->top, &l.top, out);
    buf_char(out, '}');
}

/* An element of prompt_logprobs. */
static void put_ranked(const struct request *c, int32_t id, float logprob, size_t rank, struct buf *out)
{
    struct buf text = {.tag = MEM_API};
    char key[16];

    snprintf(key, sizeof(key), "%d", id);
    token_text(c, id, &text);
    buf_json_key(out, key);
    buf_json_begin(out, '{');
    buf_json_key(out, "logprob");
    put_logprob(out, logprob);
    buf_json_key(out, "rank");
    buf_json_int(out, (int64_t)rank);
    buf_json_key(out, "decoded_token");
    buf_json_str(out, data_of(&text), text.len);
    buf_json_end(out, '}');
    out->oom |= text.oom;
    buf_fini(&text);
}

/* vLLM's prompt_logprobs: for each token of the prompt an object of id to log-probability, its own first. */
static void put_prompt_logprobs(const struct request *c, const struct request_prompt *p, struct buf *out)
{
    size_t most = c->f.prompt_logprobs > 0 ? (size_t)c->f.prompt_logprobs : 0;

    buf_str(out, ",\"prompt_logprobs\":[null");
    for (size_t i = 0; i < p->scored.n; i++) {
        const struct request_token *v = &p->scored.v[i];
        size_t n = v->n_top < most ? v->n_top : most, rank = v->rank;

        for (size_t k = 0; k < n; k++) /* where several are as likely, the place in the list counts */
            rank = p->scored.top[v->top + k].id == v->id ? k + 1 : rank;
        buf_json_begin(out, '{');
        put_ranked(c, v->id, v->logprob, rank, out);
        for (size_t k = 0; k < n; k++)
            if (p->scored.top[v->top + k].id != v->id)
                put_ranked(c, p->scored.top[v->top + k].id, p->scored.top[v->top + k].logprob, k + 1, out);
        buf_json_end(out, '}');
    }
    buf_str(out, "]");
}

static void put_ids(const char *name, const int32_t *id, size_t n, struct buf *out)
{
    buf_fmt(out, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        buf_fmt(out, i ? ",%d" : "%d", id[i]);
    buf_str(out, "]");
}

static void put_token_ids(const struct request_tokens *t, struct buf *out)
{
    buf_str(out, ",\"token_ids\":[");
    for (size_t i = 0; i < t->n; i++)
        buf_fmt(out, i ? ",%d" : "%d", t->v[i].id);
    buf_str(out, "]");
}

/* ---- parts of both forms ---- */

static void put_head(const struct request *c, const char *object, struct buf *out)
{
    const char *model = c->f.model ? c->f.model : c->api->opt.name[0];

    buf_str(out, "{\"id\":");
    buf_json_str(out, c->id, strlen(c->id));
    buf_fmt(out, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object, (long long)c->created);
    buf_json_str(out, model, strlen(model));
    buf_str(out, ",\"choices\":[");
}

/* N_OUTPUT tokens were made of N_PROMPT, of which N_CACHED rows were there. */
static void put_usage(size_t n_prompt, size_t n_output, size_t n_cached, struct buf *out)
{
    buf_fmt(out,
            ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
            "\"prompt_tokens_details\":{\"cached_tokens\":%zu}}",
            n_prompt, n_output, n_prompt + n_output, n_cached);
}

static void put_all_usage(const struct request *c, struct buf *out)
{
    size_t n_output = 0, n_cached = 0;

    for (size_t i = 0; i < c->n_prompts * c->n; i++)
        n_output += c->choice[i].n_output;
    for (size_t i = 0; i < c->n_prompts; i++)
        n_cached += c->prompt[i].n_cached;
    put_usage(c->n_prompt_tokens, n_output, n_cached, out);
}

static void put_finish(const struct request_choice *h, struct buf *out)
{
    const char *reason = h->finish == GALLOP_FINISH_STOP     ? h->n_calls ? "tool_calls" : "stop"
                         : h->finish == GALLOP_FINISH_LENGTH ? "length"
                                                             : "abort";

    if (!h->ended) {
        buf_str(out, ",\"finish_reason\":null");
        return;
    }
    buf_fmt(out, ",\"finish_reason\":\"%s\",\"stop_reason\":", reason);
    if (h->stop_string)
        buf_json_str(out, h->stop_string, strlen(h->stop_string));
    else if (h->stop_token >= 0)
        buf_fmt(out, "%d", h->stop_token);
    else
        buf_str(out, "null");
}

/* ---- whole answers ---- */

/* Choice I, which is answer number INDEX. */
static void put_choice(struct request *c, size_t i, size_t index, struct buf *out)
{
    const struct request_prompt *p = prompt_of(c, i);
    struct request_choice *h = &c->choice[i];

    buf_fmt(out, index ? ",{\"index\":%zu" : "{\"index\":%zu", index);
    if (is_chat(c)) {
        buf_str(out, ",\"message\":{\"role\":\"assistant\"");
        put_parts(c, h, true, out);
        buf_str(out, ",\"refusal\":null}");
        put_chat_logprobs(c, &h->tokens, out);
    } else {
        struct buf text = {.tag = MEM_API};

        buf_add(&text, data_of(&p->text), p->text.len);
        buf_add(&text, data_of(&h->text), h->text.len);
        buf_str(out, ",\"text\":");
        buf_json_str(out, data_of(&text), text.len);
        out->oom |= text.oom;
        buf_fini(&text);
        put_completion_logprobs(c, i, c->f.echo, out);
    }
    put_finish(h, out);
    if (c->f.return_token_ids)
        put_token_ids(&h->tokens, out);
    if (!is_chat(c) && c->f.return_token_ids)
        put_ids("prompt_token_ids", p->ids.id, p->ids.n, out);
    if (!is_chat(c) && c->f.prompt_logprobs >= 0)
        put_prompt_logprobs(c, p, out);
    buf_str(out, "}");
}

/* Of the choices of prompt P that are not written yet, the one with the highest log-probability per token;
 * of equals the first. */
static size_t best_choice(struct request *c, size_t p)
{
    size_t best = SIZE_MAX;
    double highest = 0;

    for (size_t i = p * c->n; i < (p + 1) * c->n; i++) {
        const struct request_choice *h = &c->choice[i];
        double mean = h->n_output ? h->logprob / (double)h->n_output : 0;

        if (!h->written && (best == SIZE_MAX || mean > highest)) {
            best = i;
            highest = mean;
        }
    }
    c->choice[best].written = true;
    return best;
}

static void put_whole(struct request *c, struct buf *out)
{
    size_t n = (size_t)c->f.n;

    put_head(c, is_chat(c) ? "chat.completion" : "text_completion", out);
    for (size_t i = 0; i < c->n_prompts * n; i++)
        put_choice(c, c->n > n ? best_choice(c, i / n) : i, i, out);
    buf_str(out, "]");
    put_all_usage(c, out);
    if (is_chat(c) && c->f.return_token_ids)
        put_ids("prompt_token_ids", c->prompt->ids.id, c->prompt->ids.n, out);
    if (is_chat(c) && c->f.prompt_logprobs >= 0)
        put_prompt_logprobs(c, c->prompt, out);
    buf_str(out, "}");
}

/* ---- events ---- */

/* The events in front of all others of a chat, one for each choice: who speaks, and nothing yet. */
static void put_roles(struct request *c, struct buf *out)
{
    for (size_t i = 0; i < c->n_prompts * c->n; i++) {
        const struct request_prompt *p = prompt_of(c, i);

        buf_str(out, "data: ");
        put_head(c, "chat.completion.chunk", out);
        buf_fmt(out,
                "{\"index\":%zu,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                "\"finish_reason\":null}]",
                i);
        if (c->f.return_token_ids)
            put_ids("prompt_token_ids", p->ids.id, p->ids.n, out);
        if (c->f.continuous_usage)
            put_usage(p->ids.n, 0, p->n_cached, out);
        buf_str(out, "}\n\n");
    }
}

/* How much of what came can be shown: text ends with a whole character, and so does each event. */
static void put_chat_part(struct request *c, struct request_choice *h, struct buf *out)
{
    buf_str(out, ",\"delta\":{");
    put_parts(c, h, !h->parts, out);
    buf_str(out, "}");
    put_chat_logprobs(c, &h->tokens, out);
}

static void put_completion_part(struct request *c, size_t i, struct request_choice *h, struct buf *out)
{
    const struct request_prompt *p = prompt_of(c, i);
    bool with_prompt = c->f.echo && !h->introduced;
    struct buf text = {.tag = MEM_API};

    if (with_prompt)
        buf_add(&text, data_of(&p->text), p->text.len);
    buf_add(&text, data_of(&h->text), h->text.len);
    buf_str(out, ",\"text\":");
    buf_json_str(out, data_of(&text), text.len);
    put_completion_logprobs(c, i, with_prompt, out);
    out->oom |= text.oom;
    buf_fini(&text);
}

static void answer_put_part(struct request *c, size_t i, struct buf *out)
{
    const struct request_prompt *p = prompt_of(c, i);
    struct request_choice *h = &c->choice[i];

    buf_str(out, "data: ");
    put_head(c, is_chat(c) ? "chat.completion.chunk" : "text_completion", out);
    buf_fmt(out, "{\"index\":%zu", i);
    if (is_chat(c))
        put_chat_part(c, h, out);
    else
        put_completion_part(c, i, h, out);
    put_finish(h, out);
    if (c->f.return_token_ids) {
        put_token_ids(&h->tokens, out);
        if (!is_chat(c) && !h->introduced)
            put_ids("prompt_token_ids", p->ids.id, p->ids.n, out);
    }
    buf_str(out, "}]");
    if (c->f.continuous_usage)
        put_usage(p->ids.n, h->n_output, p->n_cached, out);
    buf_str(out, "}\n\n");
    dialect_sent(h);
}

static void put_usage_event(struct request *c, struct buf *out)
{
    buf_str(out, "data: ");
    put_head(c, is_chat(c) ? "chat.completion.chunk" : "text_completion", out);
    buf_str(out, "]");
    put_all_usage(c, out);
    buf_str(out, "}\n\n");
}

static void put_end(struct request *c, int status, const char *sentence, struct buf *out)
{
    if (status) {
        buf_str(out, "data: ");
        dialect_error(out, status, sentence, NULL);
        buf_str(out, "\n\n");
    } else if (c->f.include_usage) {
        put_usage_event(c, out);
    }
    buf_str(out, "data: [DONE]\n\n");
}

const struct dialect answer_completions_form = {.prefix = "cmpl-",
                                                .type = "text/event-stream; charset=utf-8",
                                                .ping = ": ping\n\n",
                                                .whole = put_whole,
                                                .part = answer_put_part,
                                                .end = put_end,
                                                .error = dialect_error,
                                                .error_schema = "Error"};
const struct dialect answer_chat_form = {.prefix = "chatcmpl-",
                                         .type = "text/event-stream; charset=utf-8",
                                         .ping = ": ping\n\n",
                                         .whole = put_whole,
                                         .introduce = put_roles,
                                         .part = answer_put_part,
                                         .end = put_end,
                                         .error = dialect_error,
                                         .error_schema = "Error"};
