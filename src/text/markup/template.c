/* template.c - examines chat templates. */
#include "text/markup/template.h"

#include "text/chat.h"
#include "text/markup/detect.h"

int template_examine(struct template *t, struct err *e)
{
    int rc = tools_probe(t->chat, t->jinja, &t->tools, e);

    if (!t->jinja && !(t->source = chat_template_source(t->chat, "tool_use")))
        t->source = chat_template_source(t->chat, "default");
    rc = rc ? rc
            : roles_probe(t->chat, t->jinja, t->source, t->tools.place == TOOLS_IN_VARIABLE, &t->roles, e);
    return rc ? rc : markup_detect(t->chat, t->jinja, t->source, &t->tools, &t->markup, e);
}
