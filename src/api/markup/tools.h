/* tools.h - tools in a conversation: the fields `tools` and `tool_choice` of a request, and messages with
 * tool calls and their results, in a form that the model's chat template accepts.
 *
 * Templates expect different forms, and do not say which. tools_probe() finds out by rendering conversations:
 * whether and from where the template takes the list of tools, whether it expects the arguments of earlier
 * calls as an object or as text, and whether it refuses ids of another form than its own.
 */
#ifndef GALLOP_API_MARKUP_TOOLS_H
#define GALLOP_API_MARKUP_TOOLS_H

#include <jansson.h>
#include <stdbool.h>

struct chat;
struct err;
struct jinja;

enum tools_place {
    TOOLS_NOWHERE,     /* the template does not write them */
    TOOLS_IN_VARIABLE, /* `tools`, as transformers passes them */
    TOOLS_IN_SYSTEM,   /* member `tools` of the system message has the functions as JSON text (Phi-4-mini) */
};

struct tools_style {
    enum tools_place place;
    bool text_arguments; /* arguments are JSON text, and not an object */
    bool short_ids;      /* ids have to be 9 letters and digits (Mistral) */
};

enum tools_choice {
    TOOLS_AUTO,
    TOOLS_NONE,
    TOOLS_REQUIRED, /* the answer calls a function */
};

/* Finds the style of TEMPLATE (NULL: CHAT's own). */
int tools_probe(const struct chat *chat, const struct jinja *template, struct tools_style *out,
                struct err *e);

/* Checks that the tools of LIST are functions with names. NAMES, unless it is NULL, gets the names, borrowed
 * from LIST. */
int tools_check(const json_t *list, const char **names, struct err *e);

/* Reads tool_choice: a word, a function, or allowed_tools with a mode and functions, in the forms of chat
 * completions and of Responses. CHOICE NULL: TOOLS_AUTO. *NAMES is a new list of the names of the functions that
 * may be called; NULL: all may. */
int tools_choose(const json_t *choice, enum tools_choice *out, json_t **names, struct err *e);

/* Changes LIST, which belongs to the caller, to suit the style. Its messages are objects; they are replaced,
 * not changed. TOOLS, or NULL, go into the system message if the style says so. Arguments that are not a JSON
 * object, because a limit has cut them for example, become {}, with a warning in the log. */
int tools_fit(const struct tools_style *s, json_t *list, const json_t *tools, struct err *e);

#endif
