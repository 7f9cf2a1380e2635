/* tools.h - tools in a conversation: the fields `tools` and `tool_choice` of a request, and messages with
 * calls and their results, made fit for the model's chat template.
 *
 * Templates differ in what they want, and do not say so. tools_probe() finds out by rendering conversations
 * of its own: whether and from where the template takes the list of tools, whether it wants the arguments of
 * earlier calls as an object or as text, and whether it refuses ids that are not its own.
 */
#ifndef GALLOP_API_MARKUP_TOOLS_H
#define GALLOP_API_MARKUP_TOOLS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"

enum tools_place {
    TOOLS_NOWHERE,     /* the template does not write them */
    TOOLS_IN_VARIABLE, /* `tools`, as transformers passes them */
    TOOLS_IN_SYSTEM,   /* member `tools` of the system message: the functions, as JSON text (Phi-4-mini) */
};

struct tools_style {
    enum tools_place place;
    bool text_arguments; /* arguments as JSON text; else as an object */
    bool short_ids;      /* only ids of 9 letters and digits are taken (Mistral) */
};

enum tools_choice { TOOLS_AUTO, TOOLS_NONE };

/* The style of TEMPLATE, or where that is NULL of CHAT's own. */
int tools_probe(const struct chat *chat, const struct jinja *template, struct tools_style *out,
                struct err *e);

/* Checks a list of tools: functions with names. NAMES, if not NULL, has room for all and borrows from
 * LIST. */
int tools_check(const json_t *list, const char **names, struct err *e);

/* Reads tool_choice; CHOICE NULL: TOOLS_AUTO. What only constrained output could promise is
 * ERR_UNSUPPORTED. */
int tools_choose(const json_t *choice, enum tools_choice *out, struct err *e);

/* Makes messages fit in place. LIST is a list of the caller's own; its messages, which are objects, are
 * replaced and not changed. TOOLS, or NULL, are put into the system message where the style says so.
 * Arguments that are no JSON object (cut by a limit, say) become {}, with a line of the log. */
int tools_fit(const struct tools_style *s, json_t *list, const json_t *tools, struct err *e);

#endif
