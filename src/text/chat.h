/* chat.h - the chat template of a checkpoint folder, and the special tokens of its configuration.
 *
 * The files are those that transformers reads: tokenizer_config.json; special_tokens_map.json if
 * tokenizer_config.json has no table of added tokens; chat_template.jinja and
 * additional_chat_templates/NAME.jinja, which replace the templates of tokenizer_config.json; and
 * chat_template.json if there is no other template. A rendering gets the variables that apply_chat_template()
 * of transformers 5 passes: members of messages that are null are dropped, and the reasoning of a message is
 * passed as `thinking` and as `reasoning_content`. Immutable after chat_open(): many threads may render at
 * once.
 */
#ifndef GALLOP_TEXT_CHAT_H
#define GALLOP_TEXT_CHAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/files/folder.h"

struct chat;
struct jinja;

/* Opens the folder IN. A folder may lack these files, and may lack a template; a file that is not JSON is an
 * error. A template that cannot be parsed is reported when it is rendered. */
int chat_open(struct chat **out, struct folder in, struct err *e);

/* Opens a chat from TEXT, the contents of a tokenizer_config.json, alone. PATH is for messages. */
int chat_open_text(struct chat **out, const char *text, size_t len, const char *path, struct err *e);

void chat_close(struct chat *c); /* C may be NULL */

/* Returns false if the folder has no template; rendering then fails. */
bool chat_has_template(const struct chat *c);

/* Returns the source of the template called NAME ("default", "tool_use" ...), or NULL. */
const char *chat_template_source(const struct chat *c, const char *name);

/* Returns the JSON of the folder's response_template, borrowed; NULL: there is none. */
const char *chat_response_template(const struct chat *c);

/* Returns the text of the special token called NAME ("eos_token"), borrowed, and its bytes in *N; NULL: the
 * configuration has no such token. */
const char *chat_token(const struct chat *c, const char *name, size_t *n);

/* Returns the name of the I-th special token that the configuration names, borrowed; NULL after the last one. */
const char *chat_token_name(const struct chat *c, size_t i);

/* Makes the variables of a template for MESSAGES (borrowed, unchanged), as a new object. MESSAGES is a list
 * of messages, or an object with `messages`, `tools`, `documents` and other variables, which override the
 * special tokens and ADD_GENERATION_PROMPT. */
int chat_variables(const struct chat *c, json_t *messages, bool add_generation_prompt, json_t **out,
                   struct err *e);

/* Renders JINJA with VARIABLES (borrowed) and appends the text to OUT. JINJA NULL: the template of C that is called
 * TEMPLATE_NAME or, without a name, "tool_use" if VARIABLES has tools and the folder has such a template, else
 * "default". NOW: the time that the template's strftime_now() formats. ORIGIN, unless it is NULL, gets the origin of
 * each byte (jinja_render_marked()), where the special tokens of C count as text of the template. */
int chat_render(const struct chat *c, const struct jinja *jinja, json_t *variables, const char *template_name,
                const struct tm *now, struct buf *out, struct buf *origin, struct err *e);

#endif
