/* markup.h - how families of models mark what they write: calls of tools, and reasoning.
 *
 * Two tables, a row for each way of marking, under the names that vLLM gives its parsers, so that
 * --tool-call-parser and --reasoning-parser mean what they mean there. A row is found by name or from the
 * text of the model's chat template, which shows the model's own earlier answers in the same marks. What is
 * done with a row is parser.h's.
 */
#ifndef GALLOP_API_MARKUP_MARKUP_H
#define GALLOP_API_MARKUP_MARKUP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* What may follow the mark that opens calls. */
enum markup_shape {
    MARKUP_OBJECT = 1, /* {"name": "f", "arguments": {...}}, in any order, `parameters` as well */
    MARKUP_LIST = 2,   /* [object, object ...] */
    MARKUP_NAMED = 4,  /* f[ARGS]{...} or f[CALL_ID]id[ARGS]{...} or f{...} */
};

enum { MARKUP_MAX_OPEN = 2, MARKUP_MAX_STOP = 2 };

struct markup_calls {
    const char *name;
    const char *alias;                 /* another name of vLLM's for the same, or NULL */
    const char *open[MARKUP_MAX_OPEN]; /* marks in front of calls; unused ones are NULL */
    const char *close;                 /* behind them, or NULL. A close mark that is missing is no fault */
    unsigned shapes;
    bool bare;     /* an answer that begins with '{' may be calls, with ';' between them */
    bool special;  /* marks may be special tokens, which a request must ask to keep in the text */
    bool channels; /* OpenAI's harmony: a header in front of each message says what it is */
    bool short_id; /* an id is 9 letters and digits, as the template of the family demands */
    /* Tokens that end an answer behind a call, beside those that the model's configuration names. */
    const char *stop[MARKUP_MAX_STOP];
    const char *example; /* a call as the model writes it, for people and tests */
};

struct markup_reasoning {
    const char *name;
    const char *open, *close; /* NULL: channels */
    bool implied;  /* an answer whose prompt says nothing of it begins with reasoning, as with DeepSeek R1 */
    bool special;  /* as above */
    bool channels; /* as above */
};

/* The rows; I beyond the last: NULL. */
const struct markup_calls *markup_calls_row(size_t i);
const struct markup_reasoning *markup_reasoning_row(size_t i);

/* The row called NAME, or NULL. */
const struct markup_calls *markup_calls_named(const char *name);
const struct markup_reasoning *markup_reasoning_named(const char *name);

/* The row that TEMPLATE (the source of a chat template) shows, or NULL. */
const struct markup_calls *markup_calls_shown(const char *template);
const struct markup_reasoning *markup_reasoning_shown(const char *template);

/* Appends the names of all rows, "hermes, llama3_json, ...", for messages. */
void markup_calls_names(struct buf *out);
void markup_reasoning_names(struct buf *out);

/* The rows a model is served with. */
struct markup {
    const struct markup_calls *calls;         /* NULL: none */
    bool plain_calls;                         /* because that was asked for: they come as text */
    const struct markup_reasoning *reasoning; /* NULL: none */
};

/* Chooses the rows called CALLS and REASONING: "none", or "auto" for what TEMPLATE (NULL: there is none)
 * shows. ERR_USAGE: a name that is not known. */
int markup_choose(struct markup *out, const char *calls, const char *reasoning, const char *template,
                  struct err *e);

/* Whether the answer to a rendered prompt begins inside reasoning: the prompt ends with the mark that opens
 * it, or with none of the two and the row implies it. A prompt that ends with a closed pair (thinking
 * switched off by whatever variable of the template) says no. R may be NULL. */
bool markup_begins_inside(const struct markup_reasoning *r, const char *prompt, size_t n);

#endif
