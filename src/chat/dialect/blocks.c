/* blocks.c - splits an answer into blocks, and opens, extends and closes them. */
#include "chat/dialect/blocks.h"

#include "base/buf.h"

static void change(const struct dialect_writer *w, struct blocks *b, const struct blocks_writer *to,
                   enum blocks_kind kind, struct buf *out)
{
    if (b->kind != BLOCKS_NONE) {
        b->is_last = kind == BLOCKS_NONE;
        to->close(w, out);
        b->n++;
    }
    b->kind = kind;
}

static void put_text(const struct dialect_writer *w, struct blocks *b, const struct blocks_writer *to,
                     enum blocks_kind kind, const struct buf *text, struct buf *out)
{
    if (!text->len)
        return;
    if (b->kind != kind) {
        change(w, b, to, kind, out);
        to->open(w, NULL, NULL, out);
    }
    to->add(w, text->data, text->len, out);
}

static void put_call(const struct dialect_writer *w, struct blocks *b, const struct blocks_writer *to,
                     const struct message_calls *calls, size_t i, struct buf *out)
{
    const struct message_call *v = &calls->v[i];

    if (v->begins) {
        change(w, b, to, BLOCKS_CALL, out);
        to->open(w, v->id, message_call_name(calls, v), out);
    }
    if (v->n_arguments)
        to->add(w, message_call_arguments(calls, v), v->n_arguments, out);
}

void blocks_put(const struct dialect_writer *w, struct blocks *b, const struct blocks_writer *to,
                const struct answer_choice *h, struct buf *out)
{
    const struct message_calls *calls = &h->said.calls;
    size_t i = 0;

    /* The rest of an open tool call is written first, since the model generated it before the new text. */
    if (calls->n_ready && b->kind == BLOCKS_CALL && !calls->v[0].begins)
        put_call(w, b, to, calls, i++, out);
    put_text(w, b, to, BLOCKS_REASONING, &h->said.reasoning, out);
    put_text(w, b, to, BLOCKS_TEXT, &h->said.text, out);
    for (; i < calls->n_ready; i++)
        put_call(w, b, to, calls, i, out);
    if (h->state == ANSWER_ENDED)
        change(w, b, to, BLOCKS_NONE, out);
}
