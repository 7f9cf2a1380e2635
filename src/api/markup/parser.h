/* parser.h - tells apart what a model writes: content, reasoning, and calls of tools.
 *
 * Text goes in as it comes, cut anywhere between characters; typed pieces come out. Nothing is given out that
 * may still turn out to be a mark, and what comes out, put together, does not depend on how the text was cut.
 * Nothing is lost: what looked like a call and is none comes back as the text it was. Nothing is invented but
 * the ids, "{}" where a call has no arguments, and a line end between two messages of one kind.
 *
 * The arguments of a call are given out as they were written and are not proved to be JSON: their end is
 * where brackets and quotes are closed. A call begins when its name is known and its arguments begin; what
 * breaks behind that, ends it. White space beside calls, and line ends at the borders of reasoning, belong to
 * the marks. Knows neither HTTP nor the shape of anyone's responses. One thread at a time.
 */
#ifndef GALLOP_API_MARKUP_PARSER_H
#define GALLOP_API_MARKUP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/markup/markup.h"
#include "base/err.h"

enum parser_kind {
    PARSER_CONTENT,
    PARSER_REASONING,
    PARSER_CALL,      /* a call begins: its name and id */
    PARSER_ARGUMENTS, /* more of its arguments */
    PARSER_CALL_END,
};

enum {
    PARSER_MAX_CALLS = 128,  /* what looks like a further one is content */
    PARSER_MAX_NAME = 256,   /* bytes of a function's name; a longer one is none */
    PARSER_MAX_HELD = 32768, /* bytes in which a call must show its name, or is none */
    PARSER_ID_SIZE = 30,
};

struct parser_piece { /* text is valid until the next call of parser_feed() or parser_finish() */
    enum parser_kind kind;
    unsigned call;    /* CALL, ARGUMENTS, CALL_END: its number, from 0 */
    const char *text; /* CONTENT, REASONING, ARGUMENTS; the name of a CALL. Not terminated */
    size_t len;
    char id[PARSER_ID_SIZE]; /* CALL: "call_" and 24 letters and digits, or what the row demands */
    bool complete;           /* CALL_END: the arguments came to their end */
};

struct parser_options {
    const struct markup_calls *calls;         /* NULL: none are looked for */
    const struct markup_reasoning *reasoning; /* NULL: none is split off */
    const char *prompt;                       /* rendered, as the answer continues it; NULL: as if empty */
    size_t prompt_len;
    /* Names of the functions that there are, borrowed: where no mark stands in front of a call, or its
     * recipient is not among the functions by its form, only these are calls. */
    const char *const *names;
    size_t n_names;
    bool one_call; /* parallel_tool_calls is false: calls behind the first are left out */
    uint64_t seed; /* of the ids */
};

struct parser;

int parser_open(struct parser **out, const struct parser_options *o, struct err *e); /* 0 or ERR_NOMEM */
void parser_close(struct parser *a);                                                 /* NULL is fine */

/* The next text. The pieces that came of the text before and were not taken stay. 0 or ERR_NOMEM. */
int parser_feed(struct parser *a, const char *text, size_t n, struct err *e);

enum parser_end {
    PARSER_ENDED,   /* the model has ended its answer */
    PARSER_CUT,     /* a limit has */
    PARSER_STOPPED, /* a stop string has: what looks like a call and is not complete is left out */
};

/* There is no more. */
int parser_finish(struct parser *a, enum parser_end end, struct err *e);

/* The next piece. Neighbours of one kind come as one. false: there are no more for now. */
bool parser_take(struct parser *a, struct parser_piece *p);

#endif
