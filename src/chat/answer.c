/* answer.c - adds the engine's output to answers as typed pieces, and drops the pieces that were sent. */
#include "chat/answer.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/markup/parser.h"

bool answer_add_token(struct answer_tokens *t, const struct gallop_event *ev,
                      const struct gallop_logprob *top)
{
    if (!mem_grow((void **)&t->v, &t->cap, t->n + 1, sizeof(*t->v), MEM_API) ||
        !mem_grow((void **)&t->top, &t->cap_top, t->n_top + ev->n_top, sizeof(*t->top), MEM_API))
        return false;
    t->v[t->n++] = (struct answer_token){ev->token, ev->logprob, ev->rank, t->n_top, ev->n_top};
    if (ev->n_top)
        memcpy(t->top + t->n_top, top, ev->n_top * sizeof(*t->top));
    t->n_top += ev->n_top;
    return true;
}

/* ---- tool calls ---- */

const char *answer_call_name(const struct answer_calls *c, const struct answer_call *v)
{
    return v->begins ? c->text.data + v->name : NULL;
}

const char *answer_call_arguments(const struct answer_calls *c, const struct answer_call *v)
{
    return c->text.data ? c->text.data + v->arguments : "";
}

/* Begins a call, or a further part of a call whose beginning was sent. */
static void begin_call(struct answer_calls *c, const struct parser_piece *p)
{
    struct answer_call *v;

    if (!mem_grow((void **)&c->v, &c->cap, c->n + 1, sizeof(*c->v), MEM_API)) {
        c->text.oom = true;
        return;
    }
    v = &c->v[c->n++];
    *v = (struct answer_call){.index = p->call, .begins = p->kind == PARSER_CALL, .name = c->text.len};
    if (v->begins) {
        _Static_assert(sizeof(v->id) == sizeof(p->id), "ids of tool calls");
        memcpy(v->id, p->id, sizeof(v->id));
        v->n_name = p->len;
        buf_add(&c->text, p->text, p->len);
        buf_char(&c->text, 0);
    }
    v->arguments = c->text.len;
    if (c->when == ANSWER_CALLS_STREAMED) {
        c->n_ready = c->n;
        c->n_given += v->begins;
    }
}

static void add_arguments(struct answer_calls *c, const struct parser_piece *p)
{
    if (c->n == 0)
        begin_call(c, p);
    if (c->n == 0)
        return;
    buf_add(&c->text, p->text, p->len);
    c->v[c->n - 1].n_arguments += p->len;
}

static void cut_text(struct buf *text, size_t n)
{
    text->len = n;
    text->data[n] = 0;
}

/* Ends the last call. DROPPED: it is incomplete and is removed. */
static void end_call(struct answer_calls *c, bool dropped)
{
    if (c->when == ANSWER_CALLS_STREAMED || c->n == 0)
        return;
    if (dropped)
        cut_text(&c->text, c->v[--c->n].name);
    else
        c->n_given++;
    if (c->when == ANSWER_CALLS_COMPLETE)
        c->n_ready = c->n;
}

/* Removes the calls that were sent. */
static void drop_sent_calls(struct answer_calls *c)
{
    size_t n_kept = c->n - c->n_ready, from = n_kept ? c->v[c->n_ready].name : c->text.len;

    if (n_kept == 0) {
        buf_clear(&c->text);
    } else if (c->n_ready) {
        memmove(c->text.data, c->text.data + from, c->text.len - from);
        cut_text(&c->text, c->text.len - from);
        memmove(c->v, c->v + c->n_ready, n_kept * sizeof(*c->v));
        for (size_t i = 0; i < n_kept; i++) {
            c->v[i].name -= from;
            c->v[i].arguments -= from;
        }
    }
    c->n = n_kept;
    c->n_ready = 0;
}

/* ---- pieces ---- */

/* Moves the parser's pieces to H. STOPPED: a stop string or stop token ended the answer. */
static int take_pieces(struct answer_choice *h, bool stopped)
{
    struct parser_piece p;

    while (parser_take(h->parser, &p)) {
        switch (p.kind) {
        case PARSER_CONTENT: buf_add(&h->text, p.text, p.len); break;
        case PARSER_REASONING:
            h->n_reasoning = h->n_output;
            if (!h->drops_reasoning)
                buf_add(&h->reasoning, p.text, p.len);
            break;
        case PARSER_CALL: begin_call(&h->calls, &p); break;
        case PARSER_ARGUMENTS: add_arguments(&h->calls, &p); break;
        case PARSER_CALL_END: end_call(&h->calls, h->calls.whole && stopped && !p.complete); break;
        }
    }
    return h->text.oom || h->reasoning.oom || h->calls.text.oom ? ERR_NOMEM : 0;
}

int answer_add_text(struct answer_choice *h, const char *text, const char *special, size_t n)
{
    int rc;

    if (!h->parser) {
        buf_add(&h->text, text, n);
        return h->text.oom ? ERR_NOMEM : 0;
    }
    rc = parser_feed(h->parser, text, special, n, NULL);
    return rc ? rc : take_pieces(h, false);
}

int answer_end(struct answer_choice *h, bool stopped)
{
    int rc = 0;

    if (h->parser)
        rc = parser_finish(h->parser,
                           stopped                           ? PARSER_STOPPED
                           : h->finish == GALLOP_FINISH_STOP ? PARSER_ENDED
                                                             : PARSER_CUT,
                           NULL);
    if (rc == 0 && h->parser)
        rc = take_pieces(h, stopped);
    if (rc)
        h->finish = GALLOP_FINISH_ERROR;
    h->state = h->finish == GALLOP_FINISH_ERROR || h->finish == GALLOP_FINISH_DEADLINE ? ANSWER_FAILED
                                                                                       : ANSWER_ENDED;
    if (h->state == ANSWER_ENDED)
        h->calls.n_ready = h->calls.n;
    return rc;
}

bool answer_has_news(const struct answer_choice *h)
{
    return h->state == ANSWER_ENDED || h->text.len || h->reasoning.len || h->calls.n_ready || h->tokens.n ||
           (h->n_new && !h->parser);
}

void answer_sent(struct answer_choice *h)
{
    h->progress = h->state == ANSWER_ENDED ? ANSWER_CLOSED : ANSWER_BEGUN;
    h->n_new = 0;
    h->tokens.n = h->tokens.n_top = 0;
    buf_clear(&h->text);
    buf_clear(&h->reasoning);
    drop_sent_calls(&h->calls);
}

/* ---- all answers to a request ---- */

bool answer_add_warnings(struct answer *a, const char *const *warnings, size_t n)
{
    struct buf all = {.tag = MEM_API};

    if (n == 0 || a->n_warnings)
        return true;
    for (size_t i = 0; i < n; i++)
        buf_add(&all, warnings[i], strlen(warnings[i]) + 1);
    if (all.oom)
        buf_fini(&all);
    a->warnings = all.data;
    a->n_warnings = all.data ? n : 0;
    return all.data != NULL;
}

size_t answer_n_output(const struct answer *a)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n_choices; i++)
        n += a->choice[i].n_output;
    return n;
}

size_t answer_n_cached(const struct answer *a)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n_prompts; i++)
        n += a->prompt[i].n_cached;
    return n;
}

size_t answer_n_numbers(const struct answer *a)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n_prompts; i++)
        n += a->prompt[i].n_embedding + a->prompt[i].scored.n + a->prompt[i].scored.n_top;
    for (size_t i = 0; i < a->n_choices; i++)
        n += a->choice[i].tokens.n + a->choice[i].tokens.n_top;
    return n;
}

static void free_tokens(struct answer_tokens *t)
{
    mem_free(t->v);
    mem_free(t->top);
}

void answer_fini(struct answer *a)
{
    mem_free(a->warnings);
    for (size_t i = 0; i < a->n_choices; i++) {
        struct answer_choice *h = &a->choice[i];

        buf_fini(&h->text);
        buf_fini(&h->reasoning);
        buf_fini(&h->calls.text);
        mem_free(h->calls.v);
        parser_close(h->parser);
        free_tokens(&h->tokens);
        mem_free(h->error);
        mem_free(h->stop_string);
    }
    for (size_t i = 0; i < a->n_prompts; i++) {
        free_tokens(&a->prompt[i].scored);
        mem_free(a->prompt[i].embedding);
    }
}
