/* template.c - examines chat templates. */
#include "text/markup/template.h"

#include "text/chat.h"
#include "text/markup/detect.h"
#include "text/markup/response.h"

int template_examine(struct template *t, struct err *e)
{
    const char *response;
    int rc = tools_probe(t->chat, t->jinja, &t->tools, e);

    if (!t->jinja && !(t->source = chat_template_source(t->chat, "tool_use")))
        t->source = chat_template_source(t->chat, "default");
    rc = rc ? rc
            : roles_probe(t->chat, t->jinja, t->source, t->tools.place == TOOLS_IN_VARIABLE, &t->roles, e);
    rc = rc ? rc : markup_detect(t->chat, t->jinja, t->source, &t->tools, &t->markup, e);
    if (rc == 0 && !t->jinja && (response = chat_response_template(t->chat)) != NULL)
        rc = response_read(response, &t->markup, e);
    return rc;
}
