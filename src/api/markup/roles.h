/* roles.h - system and developer messages in a form that the model's chat template accepts.
 *
 * A template may know no role `developer`, take only one system message, take it only as the first message,
 * or take none at all; many templates then leave the text out without an error. roles_probe() finds out by
 * rendering conversations; roles_fit() changes the messages so that every instruction reaches the prompt:
 *
 *   developer   becomes `system` where the template does not name the role
 *   merged      several become one, joined by an empty line, where the template takes one
 *   moved       later ones join the first where the template takes them at the beginning only
 *   prepended   all of them precede the text of the first user message where the template takes none, or
 *               none in a conversation that does not end with a user message (Mistral Nemo's)
 */
#ifndef GALLOP_API_MARKUP_ROLES_H
#define GALLOP_API_MARKUP_ROLES_H

#include <jansson.h>
#include <stdbool.h>

struct chat;
struct err;
struct jinja;

/* How many system messages reach the prompt, and from which places. */
enum roles_system {
    ROLES_EVERYWHERE, /* several, anywhere */
    ROLES_LEADING,    /* several, before all other messages */
    ROLES_ONE_SYSTEM, /* one, as the first message */
    ROLES_NO_SYSTEM,  /* none */
};

struct roles_style {
    enum roles_system system;
    bool developer; /* the template knows the role, and a first message of it reaches the prompt */
    bool user_last; /* instructions reach the prompt only if the last message is a user's */
};

/* Finds the style of TEMPLATE (NULL: CHAT's own), whose text is SOURCE. WITH_TOOLS: it takes tools from the
 * variable of that name; then conversations are also rendered with tools. */
int roles_probe(const struct chat *chat, const struct jinja *template, const char *source, bool with_tools,
                struct roles_style *out, struct err *e);

/* Changes LIST, which belongs to the caller, to suit the style. Its messages are objects whose content is
 * text; they are replaced, not changed. */
int roles_fit(const struct roles_style *s, json_t *list, struct err *e);

#endif
