/* tools.h - tools in a conversation: reads the request fields `tools` and `tool_choice`, and converts
 * messages with tool calls and tool results to a form that the model's chat template accepts.
 *
 * Templates expect different forms and do not declare which. tools_probe() detects the form by rendering
 * test conversations: where the template reads the list of tools, whether it expects the arguments of
 * earlier calls as an object or as JSON text, whether it refuses ids that do not have its own format, and functions
 * without optional members.
 */
#ifndef GALLOP_TEXT_MARKUP_TOOLS_H
#define GALLOP_TEXT_MARKUP_TOOLS_H

#include <jansson.h>
#include <stdbool.h>

struct arena;
struct chat;
struct err;
struct jinja;

enum tools_place {
    TOOLS_NOWHERE,     /* the template does not render tools */
    TOOLS_IN_VARIABLE, /* in the variable `tools`, as in transformers */
    TOOLS_IN_SYSTEM,   /* in the member `tools` of the system message, as JSON text (Phi-4-mini) */
};

struct tools_style {
    enum tools_place place;
    bool text_arguments; /* arguments of calls are JSON text; false: an object */
    bool short_ids;      /* ids of calls must have 9 letters and digits (Mistral) */
    /* Optional members without which the template refuses tools: the description and the parameters of a
     * function, and the properties of the parameters */
    bool needs_description, needs_parameters, needs_properties;
};

enum tools_choice {
    TOOLS_AUTO,
    TOOLS_NONE,
    TOOLS_REQUIRED, /* the answer must call functions */
    TOOLS_NAMED,    /* the answer must call one function, once */
};

/* Returns whether CHOICE forces tool calls, so that an answer has nothing else but reasoning before them. */
bool tools_forces(enum tools_choice choice);

/* Detects how TEMPLATE (NULL: CHAT's own) expects tools. */
int tools_probe(const struct chat *chat, const struct jinja *template, struct tools_style *out,
                struct err *e);

/* Checks that each tool in LIST is a function with a name. NAMES (or NULL) gets the names, borrowed. */
int tools_check(const json_t *list, const char **names, struct err *e);

/* Like tools_check(), and sets *NAMES [*n] to copies of the names in A. LIST may be NULL. Also fails with ERR_NOMEM. */
int tools_copy_names(const json_t *list, struct arena *a, const char *const **names, size_t *n,
                     struct err *e);

/* Sets *OUT to a new list of the functions TOOLS for the template: null members are left out, and members that the
 * style S needs are added, as an empty description or parameters without properties. TOOLS is not modified.
 * ERR_NOMEM. */
int tools_complete(const struct tools_style *s, const json_t *tools, json_t **out, struct err *e);

/* Reads tool_choice in the forms of chat completions and of Responses: a word, which may be the type of an
 * object, a function, or allowed_tools with a mode and functions. CHOICE NULL means TOOLS_AUTO. *NAMES gets a new
 * list of the names of the functions that may be called; NULL: all of them. */
int tools_choose(const json_t *choice, enum tools_choice *out, json_t **names, struct err *e);

/* Converts the messages of LIST, which the caller owns, to the style S. Message objects are replaced and
 * never modified. TOOLS (may be NULL) are put into the system message if the style requires it. Arguments
 * that are not a JSON object, for example truncated ones, become {} with a warning in the log. */
int tools_fit(const struct tools_style *s, json_t *list, const json_t *tools, struct err *e);

#endif
