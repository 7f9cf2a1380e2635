/* markup.h - the markup by which model families mark tool calls and reasoning in generated text.
 *
 * There are two tables, for tool calls and for reasoning, with a row for each markup. Rows have the names
 * of vLLM's parsers, so that the server's options tool-call-parser and reasoning-parser mean the same as
 * in vLLM. A row is found by its name, or by the marks in the source of the model's chat template, which writes earlier
 * answers in the same markup. parser.h applies a row to generated text.
 */
#ifndef GALLOP_TEXT_MARKUP_MARKUP_H
#define GALLOP_TEXT_MARKUP_MARKUP_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

/* Bits: the formats that may follow the mark that opens tool calls. */
enum markup_shape {
    /* {"name": "f", "arguments": {...}} in any order; `parameters` is read like `arguments` */
    MARKUP_OBJECT = 1,
    MARKUP_LIST = 2,  /* [object, object ...] */
    MARKUP_NAMED = 4, /* f[ARGS]{...} or f[CALL_ID]id[ARGS]{...} or f{...} */
};

enum { MARKUP_MAX_OPEN = 2, MARKUP_MAX_STOP = 2 };

struct markup_calls {
    const char *name;
    const char *alias;                 /* vLLM's second name of the parser, or NULL */
    const char *open[MARKUP_MAX_OPEN]; /* marks that open tool calls; unused entries are NULL */
    const char *close;                 /* mark that closes tool calls, optional in an answer; NULL: none */
    unsigned shapes;
    bool bare;    /* an answer that begins with '{' may consist of calls without marks, separated by ';' */
    bool special; /* marks may be special tokens, so special tokens must be kept in the text */
    /* OpenAI's harmony format: a header before each message states its channel and recipient */
    bool channels;
    bool short_id; /* ids of calls have 9 letters and digits, as the family's templates require */
    /* Tokens that end an answer after a tool call, besides the model's end tokens. */
    const char *stop[MARKUP_MAX_STOP];
    const char *example; /* an example of the markup, for documentation and tests */
};

struct markup_reasoning {
    const char *name;
    const char *open, *close; /* marks around the reasoning; NULL if CHANNELS is set */
    bool implied;  /* an answer begins inside reasoning unless its prompt closes it, as with DeepSeek R1 */
    bool special;  /* marks may be special tokens, as in markup_calls */
    bool channels; /* OpenAI's harmony format, as in markup_calls */
};

/* Returns row I of the table, or NULL if I is beyond the last row. */
const struct markup_calls *markup_calls_row(size_t i);
const struct markup_reasoning *markup_reasoning_row(size_t i);

/* Returns the row called NAME, or NULL. */
const struct markup_calls *markup_calls_named(const char *name);
const struct markup_reasoning *markup_reasoning_named(const char *name);

/* Returns the row whose markup occurs in TEMPLATE, the source of a chat template, or NULL. */
const struct markup_calls *markup_calls_shown(const char *template);
const struct markup_reasoning *markup_reasoning_shown(const char *template);

/* Appends the names of all rows, "hermes, llama3_json, ...", for messages. */
void markup_calls_names(struct buf *out);
void markup_reasoning_names(struct buf *out);

/* The rows chosen for the served model. */
struct markup {
    const struct markup_calls *calls;         /* NULL: no tool calls are parsed */
    bool plain_calls;                         /* "none" was chosen: tool calls stay text */
    const struct markup_reasoning *reasoning; /* NULL: no reasoning is parsed */
};

/* Chooses the rows called CALLS and REASONING. "none" chooses no row; "auto" chooses the row whose markup
 * occurs in TEMPLATE (NULL: no template). ERR_USAGE: a name is unknown; the subject is tool_call_parser or
 * reasoning_parser. */
int markup_choose(struct markup *out, const char *calls, const char *reasoning, const char *template,
                  struct err *e);

/* Returns whether the answer to a rendered prompt begins inside reasoning: the prompt ends with the opening
 * mark, or R->implied is set and the prompt does not end with the closing mark, by which templates switch
 * thinking off. R may be NULL. */
bool markup_begins_inside(const struct markup_reasoning *r, const char *prompt, size_t n);

/* Returns whether a rendered prompt ends with the mark that closes reasoning; the answer then contains no
 * reasoning. */
bool markup_is_closed(const struct markup_reasoning *r, const char *prompt, size_t n);

#endif
