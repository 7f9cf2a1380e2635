/* markup.h - how model families mark tool calls and reasoning in what they generate.
 *
 * There are two tables with a row for each markup, under the names of vLLM's parsers, so that
 * --tool-call-parser and --reasoning-parser mean the same as in vLLM. A row is found by its name or from the
 * model's chat template, which writes earlier answers of the model in the same markup. parser.h applies a
 * row.
 */
#ifndef GALLOP_API_MARKUP_MARKUP_H
#define GALLOP_API_MARKUP_MARKUP_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

/* What may follow the mark that opens tool calls. */
enum markup_shape {
    MARKUP_OBJECT = 1, /* {"name": "f", "arguments": {...}}, in any order, `parameters` as well */
    MARKUP_LIST = 2,   /* [object, object ...] */
    MARKUP_NAMED = 4,  /* f[ARGS]{...} or f[CALL_ID]id[ARGS]{...} or f{...} */
};

enum { MARKUP_MAX_OPEN = 2, MARKUP_MAX_STOP = 2 };

struct markup_calls {
    const char *name;
    const char *alias;                 /* another name that vLLM has for it, or NULL */
    const char *open[MARKUP_MAX_OPEN]; /* marks before tool calls; unused ones are NULL */
    const char *close;                 /* the mark after them, or NULL. It may be missing in an answer */
    unsigned shapes;
    bool bare;     /* an answer that begins with '{' may be calls, separated by ';' */
    bool special;  /* marks may be special tokens, which then have to stay in the text */
    bool channels; /* OpenAI's harmony: a header before each message says what it is */
    bool short_id; /* an id has 9 letters and digits, as the family's templates demand */
    /* Tokens that end an answer after a call, in addition to the end tokens of the model's configuration. */
    const char *stop[MARKUP_MAX_STOP];
    const char *example; /* a tool call as the model writes it, for readers and tests */
};

struct markup_reasoning {
    const char *name;
    const char *open, *close; /* NULL: channels */
    bool implied;  /* an answer begins with reasoning unless its prompt says otherwise, as with DeepSeek R1 */
    bool special;  /* as above */
    bool channels; /* as above */
};

/* Row I; NULL: there are no more. */
const struct markup_calls *markup_calls_row(size_t i);
const struct markup_reasoning *markup_reasoning_row(size_t i);

/* The row called NAME, or NULL. */
const struct markup_calls *markup_calls_named(const char *name);
const struct markup_reasoning *markup_reasoning_named(const char *name);

/* The row whose markup TEMPLATE, the source of a chat template, writes, or NULL. */
const struct markup_calls *markup_calls_shown(const char *template);
const struct markup_reasoning *markup_reasoning_shown(const char *template);

/* Appends the names of all rows, "hermes, llama3_json, ...", for messages. */
void markup_calls_names(struct buf *out);
void markup_reasoning_names(struct buf *out);

/* The rows that a model is served with. */
struct markup {
    const struct markup_calls *calls;         /* NULL: none */
    bool plain_calls;                         /* the operator chose "none": tool calls stay text */
    const struct markup_reasoning *reasoning; /* NULL: none */
};

/* Chooses the rows called CALLS and REASONING. "none" chooses no row, "auto" the one that TEMPLATE (NULL:
 * there is none) shows. ERR_USAGE: a name is unknown. */
int markup_choose(struct markup *out, const char *calls, const char *reasoning, const char *template,
                  struct err *e);

/* Returns whether the answer to a rendered prompt begins inside reasoning: the last mark of the prompt opens
 * reasoning, or the prompt has no mark and the row implies it. A prompt that ends with a closed pair, because
 * thinking is switched off, says no. R may be NULL. */
bool markup_begins_inside(const struct markup_reasoning *r, const char *prompt, size_t n);

/* Returns whether a rendered prompt ends with the mark that closes reasoning: the answer has none. */
bool markup_is_closed(const struct markup_reasoning *r, const char *prompt, size_t n);

#endif
