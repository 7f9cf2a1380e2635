/* conversation.h - renders conversations in OpenAI's format with a chat template.
 *
 * Templates expect messages of one form. Content that is a list of parts becomes one string with a line
 * end between parts, as in vLLM. Missing content, which clients send beside tool calls, becomes an empty
 * string. System messages, tools and tool calls are converted as roles.h and tools.h describe.
 */
#ifndef GALLOP_TEXT_MARKUP_CONVERSATION_H
#define GALLOP_TEXT_MARKUP_CONVERSATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct template;
struct tm;

/* The arguments of conversation_render(). JSON values are borrowed and not modified. */
struct conversation {
    const struct template *template;
    const char *template_name; /* name of a template; NULL: "tool_use" with tools, else "default" */
    const char *file;          /* path of the file that the messages were read from, for errors; NULL: none */
    json_t *variables;         /* an object, whose members TOOLS and MESSAGES replace; NULL: none */
    json_t *tools;             /* a list of functions; tools in another format stay as they are; NULL: none */
    json_t *messages;          /* a list of messages; NULL: VARIABLES has them */

    bool verbatim;              /* messages and tools are not converted for the template */
    bool add_generation_prompt; /* the text ends with the beginning of the assistant's answer */
    bool is_open; /* the answer continues the last message: the prompt ends with this message's text */
    const struct tm *now; /* NULL: the current time */
    struct buf *origin;   /* gets the origin of each byte of the text (jinja_render_marked()); NULL: none */
};

/* Appends the rendered conversation C to OUT. ERR_INPUT, ERR_UNSUPPORTED, ERR_NOMEM. */
int conversation_render(const struct conversation *c, struct buf *out, struct err *e);

/* Appends the text of the last of MESSAGES, which the answer continues, to OUT: its parts are joined by line
 * ends. */
void conversation_last_text(const json_t *messages, struct buf *out);

/* Returns the text of PART, an element of a message's content, borrowed: a JSON string or null; another
 * JSON value if the text is missing or has a wrong type; NULL if parts of this type have no text. */
const json_t *conversation_part_text(const json_t *part);

#endif
