/* message.h - collects the pieces of an answer (parser.h) into a message: text, reasoning and tool calls.
 *
 * A message may be sent in parts: message_sent() drops the parts that were sent, so that the message then
 * contains only the newer ones.
 */
#ifndef GALLOP_TEXT_MARKUP_MESSAGE_H
#define GALLOP_TEXT_MARKUP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "text/markup/parser.h"

/* A tool call, or a further part of the arguments of a call whose beginning was sent already. */
struct message_call {
    unsigned index; /* index of the call in its answer, from 0 */
    bool begins;    /* this is the beginning of the call: ID and NAME are set */
    char id[PARSER_ID_SIZE];
    size_t name, n_name; /* offset and length in message_calls.text; a zero byte follows the name */
    size_t arguments, n_arguments;
};

/* When a tool call may be sent. */
enum message_calls_when {
    MESSAGE_CALLS_STREAMED, /* in parts, while the model generates the call */
    MESSAGE_CALLS_COMPLETE, /* when the call is complete, because a stop string may end the answer inside it */
    MESSAGE_CALLS_AT_END,   /* when the whole answer has ended */
};

struct message_calls {
    enum message_calls_when when;
    bool whole;             /* drop a call that a stop string or stop token cut off */
    struct message_call *v; /* [n] */
    size_t n, cap;
    size_t n_ready;   /* calls at the beginning of V that may be sent */
    unsigned n_given; /* calls that became ready since the beginning of the answer */
    struct buf text;
};

struct message {
    struct buf text, reasoning;
    struct message_calls calls;
    bool drops_reasoning; /* REASONING stays empty */
    size_t n_reasoning;   /* bytes of reasoning since the beginning of the answer */
};

void message_init(struct message *m, enum mem_tag tag);
void message_fini(struct message *m); /* M may be zeroed */

/* Takes the pieces of P. STOPPED: a stop string or stop token ended the answer. 0 or ERR_NOMEM. */
int message_take(struct message *m, struct parser *p, bool stopped);

/* Drops the text, the reasoning and the ready calls of M, which were sent. */
void message_sent(struct message *m);

/* Return the name of a call (zero-terminated; NULL unless the call begins in V), and its arguments
 * (n_arguments bytes, not terminated). */
const char *message_call_name(const struct message_calls *c, const struct message_call *v);
const char *message_call_arguments(const struct message_calls *c, const struct message_call *v);

#endif
