/* openai.h - writes lines of OpenAI's result files. */
#ifndef GALLOP_APP_BATCH_OPENAI_H
#define GALLOP_APP_BATCH_OPENAI_H

#include <jansson.h>
#include <stdbool.h>

#include "app/batch/requests.h"
#include "app/input.h"
#include "base/err.h"
#include "text/markup/markup.h"
#include "text/tok/tok.h"

/* The tokenizer and markup of the model, which the result lines depend on. */
struct openai_form {
    bool is_open;
    bool keep_special;     /* special tokens stay in the texts of answers */
    const struct tok *tok; /* the tokenizer; NULL: the model has none */
    struct markup markup;
};

/* Initializes F with the tokenizer TOK and with the markup of T, the template that rendered the prompts. T is
 * closed (not open) if no prompt was rendered. */
int openai_open(struct openai_form *f, const struct tok *tok, struct input_template *t, struct err *e);

/* True if the text of the answers to Q must keep special tokens, because they mark tool calls or reasoning. */
bool openai_keeps_special(const struct openai_form *f, const struct request *q);

/* Returns the result line of the finished request Q, {"id", "custom_id", "response": {"status_code",
 * "request_id", "body"}, "error"}, or NULL if memory runs out. SEED: the seed of its sampling; NULL: no token
 * was drawn at random. */
json_t *openai_line(const struct openai_form *f, const struct request *q, json_t *seed);

#endif
