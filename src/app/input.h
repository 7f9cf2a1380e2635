/* input.h - reads the user's input: files, text, lists of token ids, messages. */
#ifndef GALLOP_APP_INPUT_H
#define GALLOP_APP_INPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/markup/conversation.h"
#include "text/markup/template.h"
#include "text/tok/ids.h"

struct chat;
struct checkpoint;
struct gallop_request;
struct jinja;
struct tok;

enum { INPUT_MAX_BYTES = 256 << 20 };

/* Appends the file PATH ("-": standard input) to OUT, whose data is then terminated by a zero. ERR_INPUT: the file is
 * longer than INPUT_MAX_BYTES. */
int input_file(const char *path, struct buf *out, struct err *e);

/* Reads a file as input_file() does, and checks that it is UTF-8. */
int input_text(const char *path, struct buf *out, struct err *e);

/* Calls EACH for each line LINE [n] of the file PATH that is not empty, up to the first error. WHAT names the line for
 * errors: "PATH: line 3". */
int input_lines(const char *path, int (*each)(void *ctx, const char *line, size_t n, const char *what),
                void *ctx, struct err *e);

/* Reads a file that holds one JSON value. */
int input_json(const char *path, json_t **out, struct err *e);

/* Parses TEXT, such as "1,2,3" or "1 2 3", into IDS, which the caller frees with tok_ids_fini(). ERR_USAGE:
 * TEXT is not such a list. */
int input_ids(const char *text, struct tok_ids *ids, struct err *e);

/* Appends the token ids in LIST to IDS. LIST is the value of the member KEY of a JSON object and must be an array of
 * integers from LEAST to INT32_MAX. */
int input_json_ids(const json_t *list, const char *key, int32_t least, struct tok_ids *ids, struct err *e);

/* Appends ID to IDS. False: out of memory. */
bool input_add_id(struct tok_ids *ids, int32_t id);

/* Appends to PREFIX the special tokens, such as BOS, with which the tokenizer T begins every text. */
int input_bos(const struct tok *t, struct tok_ids *prefix, struct err *e);

/* Checks that a window of CTX tokens fits into the context length CONTEXT, and that it has room for text
 * after the PREFIX special tokens at its beginning. */
int input_check_window(size_t ctx, size_t prefix, size_t context, struct err *e);

/* The template that renders messages: the model's own chat template, or a template from a file. */
struct input_template {
    bool is_open;
    bool is_examined; /* template_examine() has been called */
    struct chat *chat;
    struct buf text; /* contents of the template file */
    struct template template;
};

/* Opens the template in FILE, or the model's own template if FILE is NULL, unless T is open. ERR_INPUT: the model has
 * none. */
int input_template_open(struct input_template *t, struct checkpoint *model, const char *file, struct err *e);
void input_template_close(struct input_template *t);

/* Finds out, at the first call, which tools and roles the template T accepts, and which markup of tool calls and
 * reasoning it writes. A zeroed T writes none. */
int input_template_examine(struct input_template *t, struct err *e);

/* Sets the marks of reasoning and of tool calls in the request R (reasoning_open, reasoning_close, reasoning_begun,
 * tool_call_open, tool_call_close), as the template T shows them. TEXT is the rendered prompt of R, or NULL if no
 * template rendered it. */
int input_reasoning(struct input_template *t, const struct buf *text, struct gallop_request *r,
                    struct err *e);

/* Renders the conversation C with the template T, and appends the prompt to OUT. The function first sets the
 * template of C to T, and takes messages, tools and variables of C from GIVEN, which is a list of messages,
 * or an object of template variables with a list `messages`. */
int input_render(struct input_template *t, struct conversation *c, json_t *given, struct buf *out,
                 struct err *e);

/* Reads and parses the template in the file PATH. */
int input_jinja(const char *path, struct jinja **j, struct err *e);

#endif
