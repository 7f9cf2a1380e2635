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

#include "base/buf.h"
#include "base/err.h"
#include "base/folder.h"

struct chat;
struct jinja;

/* Opens the folder IN. A folder without these files, or without a template, opens fine; one whose files
 * are no JSON does not. A template that cannot be parsed is reported when it is to be rendered. */
int chat_open(struct chat **out, struct folder in, struct err *e);

/* The same from the text of a tokenizer_config.json alone; PATH is for messages. */
int chat_open_text(struct chat **out, const char *text, size_t len, const char *path, struct err *e);

void chat_close(struct chat *c); /* NULL is fine */

bool chat_has_template(const struct chat *c);

/* The source of the template called NAME ("default", "tool_use" ...), or NULL. */
const char *chat_template_source(const struct chat *c, const char *name);

/* The variables a template is given for MESSAGES (borrowed, unchanged), as a new object: a list of messages,
 * or an object with `messages`, `tools`, `documents` and any further variables, which win over the special
 * tokens and over ADD_GENERATION_PROMPT. */
int chat_variables(const struct chat *c, json_t *messages, bool add_generation_prompt, json_t **out,
                   struct err *e);

/* Renders with these VARIABLES (borrowed) and appends to OUT. TEMPLATE_NAME NULL: "tool_use" when there are
 * tools and such a template, else "default". */
int chat_render(const struct chat *c, json_t *variables, const char *template_name, const struct tm *now,
                struct buf *out, struct err *e);

/* The same, and says where each byte of the text came from: see jinja_render_marked(). JINJA: the template,
 * or NULL: that of C. The special tokens of C are the template's. */
int chat_render_marked(const struct chat *c, const struct jinja *jinja, json_t *variables,
                       const char *template_name, const struct tm *now, struct buf *out, struct buf *origin,
                       struct err *e);

#endif
