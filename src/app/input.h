/* input.h - what is read: files, text, lists of token ids, messages. */
#ifndef GALLOP_APP_INPUT_H
#define GALLOP_APP_INPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "text/jinja/jinja.h"
#include "text/tok/tok.h"

enum { INPUT_MAX_BYTES = 256 << 20 };

/* The whole file ("-": standard input) into OUT, whose data is a string then; ERR_INPUT where it does not end
 * within INPUT_MAX_BYTES. */
int input_file(const char *path, struct buf *out, struct err *e);

/* The same, and proves that it is UTF-8. */
int input_text(const char *path, struct buf *out, struct err *e);

/* A file of one JSON value. */
int input_json(const char *path, json_t **out, struct err *e);

/* "1,2,3" or "1 2 3" into IDS (freed by tok_ids_fini); anything else is ERR_USAGE. */
int input_ids(const char *text, struct tok_ids *ids, struct err *e);

/* The member KEY of a JSON object, a list of integers from LEAST to INT32_MAX, behind what is in IDS. */
int input_json_ids(const json_t *list, const char *key, int32_t least, struct tok_ids *ids, struct err *e);

/* False: out of memory. */
bool input_add_id(struct tok_ids *ids, int32_t id);

/* Adds the tokens that T puts in front of a text: those of an empty one, if they do not include an end. */
int input_bos(const struct tok *t, struct tok_ids *prefix, struct err *e);

/* Windows of CTX tokens, PREFIX of them in front, are no longer than CONTEXT and have room for text. */
int input_check_window(size_t ctx, size_t prefix, size_t context, struct err *e);

/* A template that makes text of messages: a model's own chat template, or a file with its variables. */
struct input_template {
    struct chat *chat;
    struct jinja *jinja; /* NULL: the model's own */
};

/* FILE may be NULL; then the model must have a template. */
int input_template_open(struct input_template *t, struct checkpoint *model, const char *file, struct err *e);
void input_template_close(struct input_template *t); /* a zeroed one is fine */

struct input_messages {
    json_t *messages;     /* a list, or an object with further variables; borrowed */
    const char *file;     /* they came from, which sentences about their shape begin with; NULL: none */
    const char *name;     /* of one of the model's named templates; NULL: the one that fits */
    bool generate;        /* the assistant's turn is opened */
    const struct tm *now; /* NULL: the clock's */
    struct buf
        *origin; /* gets where each byte of the text came from, see jinja_render_marked(); NULL: nothing */
};
int input_render(const struct input_template *t, const struct input_messages *m, struct buf *out,
                 struct err *e);

/* A template of a file. */
int input_jinja(const char *path, struct jinja **j, struct err *e);

#endif
