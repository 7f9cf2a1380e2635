/* chat.h - the chat template of a checkpoint folder, and the special tokens its configuration names.
 *
 * Reads what transformers reads: tokenizer_config.json; special_tokens_map.json where the former has no table
 * of added tokens; chat_template.jinja and additional_chat_templates/NAME.jinja, which replace the templates
 * of tokenizer_config.json; and chat_template.json when there is no other. What a rendering is given is what
 * apply_chat_template() of transformers 5 passes: a message's members that are null are dropped, and a
 * message with reasoning has it as `thinking` and as `reasoning_content`. Immutable after chat_open(): many
 * threads may render at once.
 */
#ifndef GALLOP_TEXT_CHAT_H
#define GALLOP_TEXT_CHAT_H

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

#include "base/err.h"
#include "base/folder.h"
#include "base/mem.h"

struct chat;

/* Opens the folder IN. A folder without these files, or without a template, opens fine; one whose files
 * are no JSON does not. A template that cannot be parsed is reported when it is to be rendered. */
int chat_open(struct chat **out, struct folder in, struct err *e);

/* The same from the text of a tokenizer_config.json alone; PATH is for messages. */
int chat_open_text(struct chat **out, const char *text, size_t len, const char *path, struct err *e);

void chat_close(struct chat *c); /* NULL is fine */

bool chat_has_template(const struct chat *c);

/* Number of templates, and the name of one of them ("default", "tool_use" ...). */
size_t chat_n_templates(const struct chat *c);
const char *chat_template_name(const struct chat *c, size_t i);

/* Token strings; NULL: the configuration names none. */
const char *chat_bos(const struct chat *c);
const char *chat_eos(const struct chat *c);
const char *chat_token(const struct chat *c, const char *name); /* by attribute: "pad_token" */

/* add_bos_token and add_eos_token of tokenizer_config.json; *given is false when it does not say. */
bool chat_add_bos(const struct chat *c, bool *given);
bool chat_add_eos(const struct chat *c, bool *given);

/* Renders MESSAGES (borrowed, unchanged): a list of messages, or an object with `messages`, `tools`,
 * `documents` and any further variables, which win over the special tokens and over ADD_GENERATION_PROMPT.
 * TEMPLATE_NAME NULL: "tool_use" when there are tools and such a template, else "default". Appends to OUT. */
int chat_render(const struct chat *c, json_t *messages, const char *template_name, bool add_generation_prompt,
                const struct tm *now, struct buf *out, struct err *e);

/* The variables chat_render() gives the template, as a new object; for rendering another template with
 * them. */
int chat_variables(const struct chat *c, json_t *messages, bool add_generation_prompt, json_t **out,
                   struct err *e);

#endif
