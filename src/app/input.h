/* input.h - reads the user's input: files, text, lists of token ids, messages. */
#ifndef GALLOP_APP_INPUT_H
#define GALLOP_APP_INPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/tok/ids.h"

struct chat;
struct checkpoint;
struct gallop_request;
struct jinja;
struct markup;
struct tok;

enum { INPUT_MAX_BYTES = 256 << 20 };

/* Reads a whole file ("-": standard input) into OUT, whose data is then a string. ERR_INPUT: it is longer than
 * INPUT_MAX_BYTES. */
int input_file(const char *path, struct buf *out, struct err *e);

/* The same, and checks that the text is UTF-8. */
int input_text(const char *path, struct buf *out, struct err *e);

/* Reads a file that holds one JSON value. */
int input_json(const char *path, json_t **out, struct err *e);

/* Reads "1,2,3" or "1 2 3" into IDS (freed by tok_ids_fini); anything else is ERR_USAGE. */
int input_ids(const char *text, struct tok_ids *ids, struct err *e);

/* Adds LIST, the member KEY of a JSON object, to IDS: a list of integers from LEAST to INT32_MAX. */
int input_json_ids(const json_t *list, const char *key, int32_t least, struct tok_ids *ids, struct err *e);

/* False: out of memory. */
bool input_add_id(struct tok_ids *ids, int32_t id);

/* Adds the tokens that T puts before a text: those of an empty text, unless they include an end token. */
int input_bos(const struct tok *t, struct tok_ids *prefix, struct err *e);

/* Checks that windows of CTX tokens, which begin with PREFIX special ones, fit into the context length CONTEXT and
 * have room for text. */
int input_check_window(size_t ctx, size_t prefix, size_t context, struct err *e);

/* A template that renders messages: the model's own chat template, or one from a file. */
struct input_template {
    struct chat *chat;
    struct jinja *jinja; /* NULL: the model's own */
    struct buf source;   /* of JINJA */
};

/* FILE may be NULL; then the model must have a template. */
int input_template_open(struct input_template *t, struct checkpoint *model, const char *file, struct err *e);
void input_template_close(struct input_template *t);

/* Chooses how answers are parsed, by the source of the template; T may be zeroed: no way is known. */
int input_template_markup(const struct input_template *t, struct markup *out, struct err *e);

/* Tells R, an answer to the rendered prompt TEXT (NULL: to other tokens), how the model of the template marks its
 * reasoning. */
int input_reasoning(const struct input_template *t, const struct buf *text, struct gallop_request *r,
                    struct err *e);

struct input_messages {
    json_t *messages;     /* a list, or an object with further variables; borrowed */
    const char *file;     /* they came from, for error messages; NULL: none */
    const char *name;     /* of one of the model's named templates; NULL: the default or tool_use */
    bool generate;        /* the assistant's answer is begun */
    const struct tm *now; /* NULL: the current time */
    /* Receives where each byte of the text came from, see jinja_render_marked(). NULL: not wanted. */
    struct buf *origin;
};
int input_render(const struct input_template *t, const struct input_messages *m, struct buf *out,
                 struct err *e);

/* Reads a template from a file. */
int input_jinja(const char *path, struct jinja **j, struct err *e);

#endif
