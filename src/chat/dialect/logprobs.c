/* logprobs.c - writes tokens with their texts, log-probabilities and most likely alternatives as JSON. */
#include "chat/dialect/logprobs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/request.h"
#include "chat/service.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"
#include "text/tok/tok.h"

#define LOWEST_LOGPROB (-9999.0f) /* written for minus infinity, which JSON cannot express */

static const char *data_of(const struct buf *b)
{
    return b->data ? b->data : "";
}

/* Appends the text of the token ID, decoded alone, to OUT. */
static void token_text(const struct request *q, int32_t id, struct buf *out)
{
    const struct tok *tok = engine_info(q->service->engine)->tok;

    if (q->field.output.tokens_as_ids)
        buf_fmt(out, "token_id:%d", id);
    else if (tok && tok_decode(tok, &id, 1, false, out, NULL) != 0)
        out->oom = true;
}

static void put_logprob(struct buf *out, float x)
{
    buf_json_float(out, isfinite(x) && x > LOWEST_LOGPROB ? x : LOWEST_LOGPROB);
}

/* Writes {"token":, "logprob":, "bytes":} without its closing brace. */
static void put_chat_token(const struct request *q, int32_t id, float logprob, struct buf *out)
{
    const struct tok *tok = engine_info(q->service->engine)->tok;
    struct buf text = {.tag = MEM_API};

    token_text(q, id, &text);
    buf_json_begin(out, '{');
    buf_json_key(out, "token");
    buf_json_str(out, data_of(&text), text.len);
    buf_json_key(out, "logprob");
    put_logprob(out, logprob);
    if (tok) { /* "bytes" has the token's bytes even if its text is written as token_id:N */
        if (q->field.output.tokens_as_ids) {
            buf_clear(&text);
            text.oom |= tok_decode(tok, &id, 1, false, &text, NULL) != 0;
        }
        tok_bytes(tok, id, &text); /* exact also for a part of a character, whose text is U+FFFD */
    }
    buf_json_key(out, "bytes");
    buf_json_begin(out, '[');
    for (size_t i = 0; i < text.len; i++)
        buf_json_int(out, (unsigned char)text.data[i]);
    buf_json_end(out, ']');
    out->oom |= text.oom;
    buf_fini(&text);
}

/* Writes top_logprobs of V: the most likely tokens or, with logprob_token_ids, V and then the requested tokens. */
static void put_chat_top(const struct request *q, const struct answer_tokens *t, const struct answer_token *v,
                         struct buf *out)
{
    size_t most = q->field.sampling->n_logprob_ids   ? v->n_top
                  : q->field.output.top_logprobs > 0 ? (size_t)q->field.output.top_logprobs
                                                     : 0;

    buf_json_key(out, "top_logprobs");
    buf_json_begin(out, '[');
    if (q->field.sampling->n_logprob_ids) {
        put_chat_token(q, v->id, v->logprob, out);
        buf_json_end(out, '}');
    }
    for (size_t k = 0; k < v->n_top && k < most; k++) {
        const struct gallop_logprob *p = &t->top[v->top + k];

        if (q->field.sampling->n_logprob_ids && p->id == v->id)
            continue;
        put_chat_token(q, p->id, p->logprob, out);
        buf_json_end(out, '}');
    }
    buf_json_end(out, ']');
}

void logprobs_put_chat(const struct request *q, const struct answer_tokens *t, struct buf *out)
{
    buf_str(out, ",\"logprobs\":");
    if (!q->field.output.chat_logprobs) {
        buf_str(out, "null");
        return;
    }
    buf_str(out, "{\"content\":[");
    for (size_t i = 0; i < t->n; i++) {
        const struct answer_token *v = &t->v[i];

        put_chat_token(q, v->id, v->logprob, out);
        put_chat_top(q, t, v, out);
        buf_json_end(out, '}');
    }
    buf_str(out, "]}");
}

size_t logprobs_n_characters(const struct buf *text)
{
    size_t count = 0;

    for (size_t i = 0; i < text->len; i++)
        count += ((unsigned char)text->data[i] & 0xc0) != 0x80;
    return count;
}

/* A range of a buffer that holds several texts one after another. */
struct span {
    size_t at, n; /* offset and length in bytes */
};

/* Returns whether the last range of SPAN [n] has the same bytes in TEXT as an earlier range. */
static bool is_repeated(const struct buf *text, const struct span *span, size_t n)
{
    const struct span *last = &span[n - 1];

    for (size_t i = 0; i + 1 < n; i++)
        if (span[i].n == last->n &&
            memcmp(data_of(text) + span[i].at, data_of(text) + last->at, last->n) == 0)
            return true;
    return false;
}

/* Writes V and at most MOST of its alternatives as an object of token text to log-probability. Of several
 * tokens with the same text, only one is written: V if it is among them, else the most likely one. */
static void put_top(const struct request *q, const struct answer_tokens *t, const struct answer_token *v,
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
        token_text(q, p ? p->id : v->id, &text);
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

/* Returns whether the special token ID is not in the text of the prompt at P, such as a BOS that the
 * tokenizer added. */
static bool lacks(const struct tok *tok, const struct logprobs_place *p, int32_t id)
{
    const char *piece;
    size_t n;

    return p->prompt && tok_is_special(tok, id) && tok_piece(tok, id, &piece, &n) &&
           (n > p->prompt->len - p->n_bytes || memcmp(data_of(p->prompt) + p->n_bytes, piece, n) != 0);
}

/* Advances P by the number of characters that the token ID adds to the text. An omitted special token adds 0;
 * a character that spans several tokens is counted at its last token. False: out of memory. */
static bool pass_token(const struct request *q, struct logprobs_place *p, int32_t id)
{
    const struct tok *tok = engine_info(q->service->engine)->tok;
    bool skips = !p->prompt && q->field.output.skip_special_tokens, good;
    struct buf text = {.tag = MEM_API};

    if (!tok || lacks(tok, p, id))
        return true;
    good = (p->stream || tok_stream_new(&p->stream, tok, skips, NULL) == 0) &&
           tok_stream_put(p->stream, id, &text, NULL) == 0 && !text.oom;
    p->at += logprobs_n_characters(&text);
    if (p->prompt)
        p->n_bytes += text.len < p->prompt->len - p->n_bytes ? text.len : p->prompt->len - p->n_bytes;
    buf_fini(&text);
    return good;
}

void logprobs_add(const struct request *q, struct logprobs_lists *l, struct logprobs_place *p,
                  const struct answer_tokens *t, const struct answer_token *v)
{
    struct buf text = {.tag = MEM_API};

    token_text(q, v->id, &text);
    buf_json_int(&l->offset, (int64_t)p->at);
    buf_json_str(&l->token, data_of(&text), text.len);
    if (t) {
        put_logprob(&l->logprob, v->logprob);
        put_top(q, t, v, p->most, &l->top);
    } else {
        buf_json_null(&l->logprob);
        buf_json_null(&l->top);
    }
    l->token.oom |= text.oom || !pass_token(q, p, v->id);
    buf_fini(&text);
}

void logprobs_init_lists(struct logprobs_lists *l)
{
    *l = (struct logprobs_lists){{.tag = MEM_API}, {.tag = MEM_API}, {.tag = MEM_API}, {.tag = MEM_API}};
}

void logprobs_fini_lists(struct logprobs_lists *l)
{
    buf_fini(&l->offset);
    buf_fini(&l->logprob);
    buf_fini(&l->token);
    buf_fini(&l->top);
}

void logprobs_free_stream(struct tok_stream *stream)
{
    tok_stream_free(stream);
}

/* Writes the member NAME, an array with the elements of PROMPT and then of LIST. */
static void put_list(const char *name, const struct buf *prompt, const struct buf *list, struct buf *out)
{
    buf_json_key(out, name);
    buf_char(out, '[');
    buf_add(out, data_of(prompt), prompt->len);
    buf_str(out, prompt->len && list->len ? "," : "");
    buf_add(out, data_of(list), list->len);
    buf_char(out, ']');
    out->oom |= prompt->oom || list->oom;
}

void logprobs_put_lists(const struct logprobs_lists *prompt, struct logprobs_lists *l, struct buf *out)
{
    static const struct logprobs_lists none;
    const struct logprobs_lists *p = prompt ? prompt : &none;

    buf_char(out, '{');
    put_list("text_offset", &p->offset, &l->offset, out);
    put_list("token_logprobs", &p->logprob, &l->logprob, out);
    put_list("tokens", &p->token, &l->token, out);
    put_list("top_logprobs", &p->top, &l->top, out);
    buf_char(out, '}');
    logprobs_fini_lists(l);
}

/* Writes the member of an element of prompt_logprobs for the token ID, with its log-probability and rank. */
static void put_ranked(const struct request *q, int32_t id, float logprob, size_t rank, struct buf *out)
{
    struct buf text = {.tag = MEM_API};
    char key[16];

    snprintf(key, sizeof(key), "%d", id);
    token_text(q, id, &text);
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

void logprobs_put_prompt(const struct request *q, const struct answer_prompt *p, struct buf *out)
{
    size_t most = q->field.output.prompt_logprobs > 0 ? (size_t)q->field.output.prompt_logprobs : 0;

    buf_str(out, ",\"prompt_logprobs\":[null");
    for (size_t i = 0; i < p->scored.n; i++) {
        const struct answer_token *v = &p->scored.v[i];
        size_t n = v->n_top < most ? v->n_top : most, rank = v->rank;

        for (size_t k = 0; k < n; k++) /* equally likely tokens rank in the order of the list */
            rank = p->scored.top[v->top + k].id == v->id ? k + 1 : rank;
        buf_json_begin(out, '{');
        put_ranked(q, v->id, v->logprob, rank, out);
        for (size_t k = 0; k < n; k++)
            if (p->scored.top[v->top + k].id != v->id)
                put_ranked(q, p->scored.top[v->top + k].id, p->scored.top[v->top + k].logprob, k + 1, out);
        buf_json_end(out, '}');
    }
    buf_str(out, "]");
}
