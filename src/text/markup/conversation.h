/* conversation.h - converts the messages of a conversation in OpenAI's format for a model's chat template.
 *
 * Templates expect messages of one form. Content that is a list of parts becomes one string with a line
 * end between parts, as in vLLM. Missing content, which clients send beside tool calls, becomes an empty
 * string. System messages and tool calls are converted as roles.h and tools.h describe.
 */
#ifndef GALLOP_TEXT_MARKUP_CONVERSATION_H
#define GALLOP_TEXT_MARKUP_CONVERSATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct roles_style;
struct tools_style;

/* The arguments of conversation_fit(). */
struct conversation {
    const json_t *messages; /* a list of messages; they are not modified */
    const json_t *tools;    /* a list of functions; NULL: none */
    const struct roles_style *roles;
    const struct tools_style *style;
    /* The answer continues the last message. A tag that conversation_leave_open() finds is appended to it. */
    bool is_open;
};

/* Sets *OUT to a new list of the messages of C in the form that the template accepts. ERR_INPUT,
 * ERR_UNSUPPORTED, ERR_NOMEM. */
int conversation_fit(const struct conversation *c, json_t **out, struct err *e);

/* Truncates OUT after the text of the last message. The rendered conversation, with is_open set, begins at
 * offset FROM of OUT. ERR_INPUT: the template does not write the last message. */
int conversation_leave_open(struct buf *out, size_t from, struct err *e);

/* Appends the text of the last of MESSAGES, which the answer continues, to OUT: its parts are joined by line
 * ends. */
void conversation_last_text(const json_t *messages, struct buf *out);

/* Returns the text of PART, an element of a message's content, borrowed: a JSON string or null; another
 * JSON value if the text is missing or has a wrong type; NULL if parts of this type have no text. */
const json_t *conversation_part_text(const json_t *part);

#endif
