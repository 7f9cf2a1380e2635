/* template.h - a chat template, and the results of rendering test conversations with it: which tools and system
 * messages it accepts, and which markup it writes.
 */
#ifndef GALLOP_TEXT_MARKUP_TEMPLATE_H
#define GALLOP_TEXT_MARKUP_TEMPLATE_H

#include "text/markup/markup.h"
#include "text/markup/roles.h"
#include "text/markup/tools.h"

struct chat;
struct err;
struct jinja;

struct template
{
    const struct chat *chat; /* borrowed; NULL: there is no usable template */
    struct jinja *jinja;     /* owned; NULL: the model's own template, which CHAT owns */
    const char *source;      /* borrowed; template text (for tools, if CHAT has several); NULL: none */

    /* set by template_examine(); zeroed: all roles, no tools, no markup */
    struct tools_style tools;
    struct roles_style roles;
    struct markup markup;
};

/* Sets the members of T from `tools` on. The caller has set the others. ERR_NOMEM. */
int template_examine(struct template *t, struct err *e);

#endif
