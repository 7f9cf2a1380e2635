/* parser.h - splits the text of a model into content, reasoning and tool calls.
 *
 * The caller feeds text in portions that may end at any character, and takes typed pieces. Text that may be the
 * beginning of a mark (a delimiter such as <tool_call>) is held back until it is decided. The joined pieces do not
 * depend on how the text was split. A mark that is a special token of the tokenizer counts only where this token was
 * generated, so that a model can mention marks, and copy them from a document. No text is lost: text that looked like a
 * tool call but is not one becomes content. The parser adds only ids, "{}" for a call without arguments, and a line end
 * between two messages of one kind.
 *
 * The arguments of a call are passed on unchanged and need not be valid JSON: they end where their brackets and quotes
 * are closed. A call begins when its name is known and its arguments begin; a syntax error after that ends the call.
 * White space around calls and line ends around reasoning are dropped with the marks. The parser is independent of HTTP
 * and of the JSON of any API. One thread at a time may use a parser.
 */
#ifndef GALLOP_TEXT_MARKUP_PARSER_H
#define GALLOP_TEXT_MARKUP_PARSER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/markup/markup.h"

struct err;
struct tok;

enum parser_kind {
    PARSER_CONTENT,
    PARSER_REASONING,
    PARSER_CALL,      /* beginning of a tool call: its name and id */
    PARSER_ARGUMENTS, /* next part of the call's arguments */
    PARSER_CALL_END,
};

enum {
    PARSER_MAX_CALLS = 128,  /* calls in an answer; the text of further calls is content */
    PARSER_MAX_NAME = 256,   /* bytes of a function's name; text with a longer name is not a call */
    PARSER_MAX_HELD = 32768, /* a call whose name is not complete within this many bytes is text */
    PARSER_ID_SIZE = 30,
};

/* A typed piece of the answer. TEXT is valid until the next parser_feed() or parser_finish(). */
struct parser_piece {
    enum parser_kind kind;
    unsigned call; /* CALL, ARGUMENTS, CALL_END: index of the call in the answer, from 0 */
    /* CONTENT, REASONING, ARGUMENTS: the text; CALL: the function's name. No terminating zero */
    const char *text;
    size_t len;
    /* CALL: "call_" and 24 letters and digits, or 9 letters and digits (markup_calls.short_id) */
    char id[PARSER_ID_SIZE];
    bool complete; /* CALL_END: the arguments were complete, not cut off */
};

struct parser_options {
    const struct markup_calls *calls;         /* NULL: the parser does not look for calls */
    const struct markup_reasoning *reasoning; /* NULL: the parser does not look for reasoning */
    /* Used by parser_open() only. A mark that begins with a special token of TOK counts only where the model generated
     * this token; NULL: marks count everywhere */
    const struct tok *tok;
    const char *prompt; /* the rendered prompt; NULL: an empty prompt */
    size_t prompt_len;
    /* The text of the last message if the answer continues it (markup_place()); NULL: the answer is a new
     * message */
    const char *continued;
    size_t n_continued;
    /* The names of the request's functions, borrowed. Calls without a mark, and harmony messages to a recipient without
     * the prefix "functions.", are tool calls only if their name is in this list. */
    const char *const *names;
    size_t n_names;
    /* The request's functions as a JSON array in OpenAI's form; NULL: none. Formats that write values as text
     * take the types of the values from their JSON Schemas; for these, the parser keeps a reference. */
    const json_t *tools;
    bool one_call; /* the answer has one call at most: calls after the first are dropped */
    /* Tool calls are forced. Text beside them can only be the beginning of another call that was cut, and is
     * dropped */
    bool is_forced;
    bool is_silent; /* the caller takes no pieces, and only asks for parser_place() */
    uint64_t seed;  /* seed of the random ids */
};

struct parser;

int parser_open(struct parser **out, const struct parser_options *o, struct err *e); /* 0 or ERR_NOMEM */
void parser_close(struct parser *a);                                                 /* A may be NULL */

/* Feeds the next TEXT [n]. SPECIAL [n] is not 0 for the bytes that special tokens wrote; NULL: this is unknown, and
 * marks count everywhere. Pieces that were not taken yet stay available. 0 or ERR_NOMEM. */
int parser_feed(struct parser *a, const char *text, const char *special, size_t n, struct err *e);

enum parser_end {
    PARSER_ENDED,   /* the model ended its answer */
    PARSER_CUT,     /* a limit (tokens, time, cancellation) ended the answer */
    PARSER_STOPPED, /* a stop string ended the answer: an incomplete call is dropped */
};

/* Decides about text that was held back, since no more text follows. 0 or ERR_NOMEM. */
int parser_finish(struct parser *a, enum parser_end end, struct err *e);

/* Where the text that was fed ends. */
enum parser_place {
    PARSER_BEFORE,       /* outside of reasoning, which may still open */
    PARSER_IN_REASONING, /* inside reasoning */
    PARSER_AT_CALL, /* inside reasoning, after a mark of tool calls: later text decides if a call begins */
    PARSER_IN_TEXT, /* content has begun, and no reasoning opens in it */
};

enum parser_place parser_place(const struct parser *a);

/* Takes the next piece. Adjacent pieces of one kind are joined. Returns false if there is no piece now. */
bool parser_take(struct parser *a, struct parser_piece *p);

#endif
