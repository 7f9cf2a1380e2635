/* parser.h - separates the text that a model generates into content, reasoning and tool calls.
 *
 * Text is fed as it comes, split anywhere between characters, and typed pieces are taken. Text that may still
 * become a mark is held back, and the joined pieces do not depend on how the text was split. Nothing is lost:
 * text that looked like a tool call and is not one comes out as text. The parser adds only ids, "{}" for a
 * call without arguments, and a line end between two messages of one kind.
 *
 * The arguments of a call come out as they were written. They need not be valid JSON: they end where their
 * brackets and quotes are closed. A call begins when its name is known and its arguments begin; an error
 * after that ends it. White space around calls, and line ends at the borders of reasoning, belong to the
 * marks. The parser knows neither HTTP nor the JSON of an API. It belongs to one thread at a time.
 */
#ifndef GALLOP_API_MARKUP_PARSER_H
#define GALLOP_API_MARKUP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/markup/markup.h"

struct err;

enum parser_kind {
    PARSER_CONTENT,
    PARSER_REASONING,
    PARSER_CALL,      /* the beginning of a call: its name and id */
    PARSER_ARGUMENTS, /* the next part of its arguments */
    PARSER_CALL_END,
};

enum {
    PARSER_MAX_CALLS = 128,  /* of an answer; text that looks like another call is content */
    PARSER_MAX_NAME = 256,   /* bytes of a function's name; text with a longer name is not a call */
    PARSER_MAX_HELD = 32768, /* bytes within which a call has to have its name; else it is text */
    PARSER_ID_SIZE = 30,
};

/* TEXT is valid until the next parser_feed() or parser_finish(). */
struct parser_piece {
    enum parser_kind kind;
    unsigned call;    /* CALL, ARGUMENTS, CALL_END: the number of the call, from 0 */
    const char *text; /* CONTENT, REASONING, ARGUMENTS; the name of a CALL. Not terminated */
    size_t len;
    char id[PARSER_ID_SIZE]; /* CALL: "call_" and 24 letters and digits, or what the row demands */
    bool complete;           /* CALL_END: the arguments are complete */
};

struct parser_options {
    const struct markup_calls *calls;         /* NULL: the parser does not look for calls */
    const struct markup_reasoning *reasoning; /* NULL: the parser does not look for reasoning */
    const char *prompt; /* the rendered text that the answer continues; NULL: an empty one */
    size_t prompt_len;
    /* The names of the request's functions, borrowed. If a call has no mark, or its recipient does not have
     * the form of a function, it is a call only if its name is one of these. */
    const char *const *names;
    size_t n_names;
    bool one_call; /* parallel_tool_calls is false: calls after the first are left out */
    uint64_t seed; /* of the ids */
};

struct parser;

int parser_open(struct parser **out, const struct parser_options *o, struct err *e); /* 0 or ERR_NOMEM */
void parser_close(struct parser *a);                                                 /* NULL is fine */

/* Feeds the next TEXT [n]. Pieces that were not taken yet stay. 0 or ERR_NOMEM. */
int parser_feed(struct parser *a, const char *text, size_t n, struct err *e);

enum parser_end {
    PARSER_ENDED,   /* the model has ended its answer */
    PARSER_CUT,     /* a limit has ended it */
    PARSER_STOPPED, /* a stop string has ended it: an incomplete call is left out */
};

/* The text is complete. */
int parser_finish(struct parser *a, enum parser_end end, struct err *e);

/* Takes the next piece. Adjacent pieces of one kind are joined. False: there are no more for now. */
bool parser_take(struct parser *a, struct parser_piece *p);

#endif
