/* service.c - the values of a service that are not given. */
#include "chat/service.h"

#include "text/markup/markup.h"
#include "text/markup/roles.h"
#include "text/markup/tools.h"

void service_complete(struct service *s)
{
    static const struct markup no_markup;
    static const struct tools_style no_tools;
    static const struct roles_style all_roles;

    if (!s->markup)
        s->markup = &no_markup;
    if (!s->tools)
        s->tools = &no_tools;
    if (!s->roles)
        s->roles = &all_roles;
    if (!s->max_answers)
        s->max_answers = SIZE_MAX;
    if (s->max_logprobs < 0)
        s->max_logprobs = 20;
}
