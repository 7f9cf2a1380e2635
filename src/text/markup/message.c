/* message.c - adds parsed pieces of an answer to a message, and drops the parts that were sent. */
#include "text/markup/message.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

void message_init(struct message *m, enum mem_tag tag)
{
    *m = (struct message){.text.tag = tag, .reasoning.tag = tag, .calls.text.tag = tag};
}

void message_fini(struct message *m)
{
    buf_fini(&m->text);
    buf_fini(&m->reasoning);
    buf_fini(&m->calls.text);
    mem_free(m->calls.v);
}

const char *message_call_name(const struct message_calls *c, const struct message_call *v)
{
    return v->begins ? c->text.data + v->name : NULL;
}

const char *message_call_arguments(const struct message_calls *c, const struct message_call *v)
{
    return c->text.data ? c->text.data + v->arguments : "";
}

/* Begins a call, or a further part of a call whose beginning was sent. */
static void begin_call(struct message_calls *c, const struct parser_piece *p)
{
    struct message_call *v;

    if (!mem_grow((void **)&c->v, &c->cap, c->n + 1, sizeof(*c->v), c->text.tag)) {
        c->text.oom = true;
        return;
    }
    v = &c->v[c->n++];
    *v = (struct message_call){.index = p->call, .begins = p->kind == PARSER_CALL, .name = c->text.len};
    if (v->begins) {
        memcpy(v->id, p->id, sizeof(v->id));
        v->n_name = p->len;
        buf_add(&c->text, p->text, p->len);
        buf_char(&c->text, 0);
    }
    v->arguments = c->text.len;
    if (c->when == MESSAGE_CALLS_STREAMED) {
        c->n_ready = c->n;
        c->n_given += v->begins;
    }
}

static void add_arguments(struct message_calls *c, const struct parser_piece *p)
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
static void end_call(struct message_calls *c, bool dropped)
{
    if (c->when == MESSAGE_CALLS_STREAMED || c->n == 0)
        return;
    if (dropped)
        cut_text(&c->text, c->v[--c->n].name);
    else
        c->n_given++;
    if (c->when == MESSAGE_CALLS_COMPLETE)
        c->n_ready = c->n;
}

int message_take(struct message *m, struct parser *parser, bool stopped)
{
    struct parser_piece p;

    while (parser_take(parser, &p)) {
        switch (p.kind) {
        case PARSER_CONTENT: buf_add(&m->text, p.text, p.len); break;
        case PARSER_REASONING:
            m->n_reasoning += p.len;
            if (!m->drops_reasoning)
                buf_add(&m->reasoning, p.text, p.len);
            break;
        case PARSER_CALL: begin_call(&m->calls, &p); break;
        case PARSER_ARGUMENTS: add_arguments(&m->calls, &p); break;
        case PARSER_CALL_END: end_call(&m->calls, m->calls.whole && stopped && !p.complete); break;
        }
    }
    return m->text.oom || m->reasoning.oom || m->calls.text.oom ? ERR_NOMEM : 0;
}

void message_sent(struct message *m)
{
    struct message_calls *c = &m->calls;
    size_t n_kept = c->n - c->n_ready, from = n_kept ? c->v[c->n_ready].name : c->text.len;

    buf_clear(&m->text);
    buf_clear(&m->reasoning);
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
