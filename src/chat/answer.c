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

/* Moves the parser's pieces to H->said. STOPPED: a stop string or stop token ended the answer. */
static int take_pieces(struct answer_choice *h, bool stopped)
{
    size_t before = h->said.n_reasoning;
    int rc = message_take(&h->said, h->parser, stopped);

    if (h->said.n_reasoning > before)
        h->n_reasoning = h->n_output;
    return rc;
}

int answer_add_text(struct answer_choice *h, const char *text, const char *special, size_t n)
{
    int rc;

    if (!h->parser) {
        buf_add(&h->said.text, text, n);
        return h->said.text.oom ? ERR_NOMEM : 0;
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
        h->said.calls.n_ready = h->said.calls.n;
    return rc;
}

bool answer_has_news(const struct answer_choice *h)
{
    return h->state == ANSWER_ENDED || h->said.text.len || h->said.reasoning.len || h->said.calls.n_ready ||
           h->tokens.n || (h->n_new && !h->parser);
}

void answer_sent(struct answer_choice *h)
{
    h->progress = h->state == ANSWER_ENDED ? ANSWER_CLOSED : ANSWER_BEGUN;
    h->n_new = 0;
    h->tokens.n = h->tokens.n_top = 0;
    message_sent(&h->said);
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

        message_fini(&h->said);
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
