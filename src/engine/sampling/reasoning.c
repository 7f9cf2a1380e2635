/* reasoning.c - counts the tokens of an answer that its parser finds inside reasoning. */
#include "engine/sampling/reasoning.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

enum { PROMPT_END = 32 /* last tokens of a prompt that are searched for the opening mark */ };

/* Returns whether the prompt ends with the mark TEXT. White space before and after the mark is ignored. */
static bool prompt_ends_with(const struct tok *tok, const int32_t *ids, size_t n, const char *text)
{
    struct buf end = {.tag = MEM_ENGINE};
    size_t length = strlen(text), skip = n > PROMPT_END ? n - PROMPT_END : 0;
    bool found;

    tok_decode(tok, ids + skip, n - skip, false, &end, NULL);
    while (end.len && utf8_is_blank(end.data[end.len - 1]))
        end.len--;
    while (length && utf8_is_blank(text[length - 1]))
        length--;
    found = length && end.len >= length && memcmp(end.data + end.len - length, text, length) == 0;
    buf_fini(&end);
    return found;
}

/* Copies the tokens of the closing mark. */
static int read_forced(struct reasoning *r, struct arena *a, struct err *e)
{
    struct tok_ids ids = {0};
    int32_t *copy = NULL;
    int rc = tok_encode(r->tok, r->marks.close, strlen(r->marks.close), 0, &ids, e);

    if (rc == 0 && ids.n == 0)
        rc = err_about(e, ERR_UNSUPPORTED, "reasoning_close", "the tokenizer makes no token of %s",
                       r->marks.close);
    if (rc == 0 && !(copy = arena_alloc(a, ids.n * sizeof(*copy))))
        rc = err_nomem(e, "a request");
    if (rc == 0)
        memcpy(copy, ids.id, ids.n * sizeof(*copy));
    r->forced = copy;
    r->n_forced = ids.n;
    tok_ids_fini(&ids);
    return rc;
}

/* Copies the mark FROM, which may be NULL, to *TO. */
static int copy_mark(const char **to, const char *from, const char *subject, struct arena *a, struct err *e)
{
    if (!from)
        return 0;
    if (!*from || strlen(from) > REASONING_MAX_MARK)
        return err_about(e, ERR_INPUT, subject, "expected marks of 1 to %d bytes", REASONING_MAX_MARK);
    *to = arena_strndup(a, from, strlen(from));
    return *to ? 0 : err_nomem(e, "a request");
}

int reasoning_init(struct reasoning *r, const struct reasoning_request *q, const int32_t *ids, size_t n,
                   const struct tok *tok, struct arena *a, struct err *e)
{
    const struct markup_calls *mistral = markup_calls_named("mistral");
    int rc;

    *r = (struct reasoning){.budget = q->budget};
    if (!q->is_limited)
        return 0;
    if (!tok || !q->open || !q->close)
        return err_about(e, ERR_UNSUPPORTED, "thinking_token_budget", "%s",
                         tok ? "no marks of this model's reasoning are known"
                             : "this model has no tokenizer");
    r->calls = (struct markup_calls){.shapes = MARKUP_OBJECT | MARKUP_LIST};
    if (!q->call_close) { /* a function name may directly follow the mark */
        r->calls = *mistral;
        r->calls.open[0] = NULL;
    }
    if ((rc = copy_mark(&r->marks.open, q->open, "reasoning_open", a, e)) != 0 ||
        (rc = copy_mark(&r->marks.close, q->close, "reasoning_close", a, e)) != 0 ||
        (rc = copy_mark(&r->calls.close[0], q->call_close, "tool_call_close", a, e)) != 0)
        return rc;
    for (size_t i = 0, n_open = 0; i < REASONING_CALLS; i++) {
        if ((rc = copy_mark(&r->calls.open[n_open], q->call[i], "tool_call_open", a, e)) != 0)
            return rc;
        n_open += q->call[i] != NULL;
    }
    r->tok = tok;
    r->begins_inside = q->begun || prompt_ends_with(tok, ids, n, q->open);
    r->begun = r->marks;
    r->begun.implied = true;
    return read_forced(r, a, e);
}

/* Opens the parser of S, whose text begins inside reasoning if IS_INSIDE. Returns 0 or ERR_NOMEM. */
static int open_parser(struct reasoning_run *s, bool is_inside)
{
    const struct parser_options o = {.calls = &s->r->calls,
                                     .reasoning = is_inside ? &s->r->begun : &s->r->marks,
                                     .tok = s->r->tok,
                                     .is_silent = true};
    int rc;

    parser_close(s->parser);
    rc = parser_open(&s->parser, &o, NULL);
    s->place = rc ? PARSER_IN_TEXT : parser_place(s->parser);
    return rc;
}

int reasoning_run_open(struct reasoning_run *s, const struct reasoning *r)
{
    int rc;

    *s = (struct reasoning_run){.text = {.tag = MEM_ENGINE}, .special = {.tag = MEM_ENGINE}};
    if (!r->tok)
        return 0;
    s->r = r;
    rc = open_parser(s, r->begins_inside);
    return rc ? rc : tok_stream_new(&s->stream, r->tok, false, NULL);
}

void reasoning_run_close(struct reasoning_run *s)
{
    tok_stream_free(s->stream);
    parser_close(s->parser);
    buf_fini(&s->text);
    buf_fini(&s->special);
    *s = (struct reasoning_run){0};
}

/* Returns whether the next token is reasoning, or part of the closing mark. */
static bool is_inside(const struct reasoning_run *s)
{
    return s->place == PARSER_IN_REASONING || s->place == PARSER_AT_CALL;
}

int32_t reasoning_run_forced(const struct reasoning_run *s)
{
    if (!s->r || !is_inside(s) || (s->n_spent < s->r->budget && !s->n_forced) ||
        (s->place == PARSER_AT_CALL && s->n_spent - s->r->budget < REASONING_PATIENCE))
        return -1;
    return s->r->forced[s->n_forced];
}

size_t reasoning_run_free(const struct reasoning_run *s)
{
    if (!s->r || s->place == PARSER_IN_TEXT)
        return SIZE_MAX;
    return s->n_spent < s->r->budget && !s->n_forced ? s->r->budget - s->n_spent - 1 : 0;
}

/* Feeds the text of the token ID to the parser. */
static int read_token(struct reasoning_run *s, int32_t id, struct err *e)
{
    size_t n_special;
    int rc;

    buf_clear(&s->text);
    buf_clear(&s->special);
    if ((rc = tok_stream_put(s->stream, id, &s->text, e)) != 0)
        return rc;
    n_special = tok_stream_n_special(s->stream);
    for (size_t i = 0; i < s->text.len; i++)
        buf_char(&s->special, i + n_special >= s->text.len);
    if (s->text.oom || s->special.oom)
        return err_nomem(e, "a request");
    return s->text.len ? parser_feed(s->parser, s->text.data, s->special.data, s->text.len, e) : 0;
}

int reasoning_run_add(struct reasoning_run *s, int32_t id, struct err *e)
{
    bool was_forced = s->r && reasoning_run_forced(s) == id, was_inside = s->r && is_inside(s);
    enum parser_place before = s->place;
    int rc;

    if (!s->r || before == PARSER_IN_TEXT)
        return 0;
    if ((rc = read_token(s, id, e)) != 0)
        return rc;
    s->place = parser_place(s->parser);
    if (before == PARSER_AT_CALL && !is_inside(s)) /* a tool call has begun */
        s->n_spent = s->n_before_call;
    else if (before != PARSER_AT_CALL)
        s->n_before_call = s->n_spent;
    s->n_spent += was_inside && is_inside(s) && !was_forced;
    s->n_forced = was_forced ? s->n_forced + 1 : 0;
    /* the forced tokens were all generated, but their text was not read as the closing mark */
    if (s->n_forced == s->r->n_forced && is_inside(s))
        rc = open_parser(s, false);
    if (!is_inside(s))
        s->n_forced = 0;
    return rc ? err_nomem(e, "a request") : 0;
}
