/* roles.h - converts system and developer messages to a form that the model's chat template accepts.
 *
 * A template may not know the role `developer`, may accept only one system message or only a leading one,
 * or may ignore system messages; many templates then drop the text without an error. roles_probe() detects
 * this by rendering test conversations. roles_fit() changes the messages so that every instruction reaches
 * the prompt:
 *
 *   developer   is renamed to `system` if the template does not know the role
 *   merged      several messages become one, joined by an empty line, if the template accepts only one
 *   moved       later messages are joined to the first if the template accepts only leading ones
 *   prepended   all are put before the text of the first user message if the template accepts none, or
 *               none unless the conversation ends with a user message (Mistral Nemo)
 */
#ifndef GALLOP_TEXT_MARKUP_ROLES_H
#define GALLOP_TEXT_MARKUP_ROLES_H

#include <jansson.h>
#include <stdbool.h>

struct chat;
struct err;
struct jinja;

/* How many system messages reach the prompt, and at which positions. */
enum roles_system {
    ROLES_EVERYWHERE, /* any number, at any position */
    ROLES_LEADING,    /* any number, before all other messages */
    ROLES_ONE_SYSTEM, /* only one, as the first message */
    ROLES_NO_SYSTEM,  /* none: system messages are dropped or refused */
};

struct roles_style {
    enum roles_system system;
    bool developer; /* the template supports the role `developer` in a first message */
    bool user_last; /* instructions reach the prompt only if the last message has the role `user` */
};

/* Detects which system messages TEMPLATE (NULL: CHAT's own) supports; SOURCE is its source text.
 * WITH_TOOLS: the template reads the variable `tools`, so conversations are also rendered with tools. */
int roles_probe(const struct chat *chat, const struct jinja *template, const char *source, bool with_tools,
                struct roles_style *out, struct err *e);

/* Replaces messages of LIST, which the caller owns, as the style S requires. Each message is an object
 * whose content is a string; message objects are replaced and never modified. */
int roles_fit(const struct roles_style *s, json_t *list, struct err *e);

#endif
