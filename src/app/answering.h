/* answering.h - the data with which `serve` and `run --batch` answer API requests, besides an engine: the names of the
 * model, its chat template, the markup of its tool calls and reasoning, and its embedder.
 */
#ifndef GALLOP_APP_ANSWERING_H
#define GALLOP_APP_ANSWERING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "app/input.h"
#include "base/err.h"
#include "base/opt.h"
#include "engine/embeddings/embedder.h"
#include "engine/engine.h"
#include "text/markup/markup.h"

struct checkpoint;
struct load;
struct service;

struct answering_options {
    struct param_list names;
    const char *template_kwargs, *tool_call_parser, *reasoning_parser, *reasoning_field;
    enum gallop_pooling pooling; /* GALLOP_POOL_NONE: auto */
};

extern const struct opt_row answering_rows[]; /* options that are read into struct answering_options */

/* Returns whether a value of O is not its default. */
bool answering_is_given(const struct answering_options *o);

struct answering {
    struct answering_options o;
    struct input_template template;
    struct err chat_missing; /* why chats cannot be answered; code 0: they can be answered */
    struct markup markup;    /* markup that the options choose, or else the template's */
    struct embedder embedder;
    json_t *kwargs;    /* default variables of the template; NULL: none */
    const char **name; /* [n_names] */
    size_t n_names;
    const char *path_name; /* the value of --model, which is accepted as a name and never shown; NULL: none */
    char own_name[512], hub_name[512];
};

/* Checks the options O as far as this needs no model, and copies them to the zeroed A. */
int answering_open(struct answering *a, const struct answering_options *o, struct err *e);
void answering_close(struct answering *a);

/* Without --served-model-name, gives the model its name on the hub, or the name of its folder. */
void answering_name(struct answering *a, const struct load *l);

/* Reads the chat template of MODEL, or that in FILE if it is not NULL, and the files about embeddings. A model without
 * a template is not an error. */
int answering_read(struct answering *a, struct checkpoint *model, const char *file, struct err *e);

/* Checks the contents of A against the model of ENGINE. */
int answering_check(const struct answering *a, const struct gallop *engine, struct err *e);

/* Fills S from A, and sets its engine. S borrows from A. */
void answering_serve(const struct answering *a, struct gallop *engine, struct service *s);

/* Logs which markup of tool calls and reasoning is parsed, and why. */
void answering_log_markup(const struct answering *a);

#endif
