/* service.c - sets the default values of a service. */
#include "chat/service.h"

#include "text/markup/template.h"

void service_complete(struct service *s)
{
    static const struct markup no_markup;
    static const struct template no_template;

    if (!s->markup)
        s->markup = &no_markup;
    if (!s->template)
        s->template = &no_template;
    if (!s->max_answers)
        s->max_answers = SIZE_MAX;
    if (s->max_logprobs < 0)
        s->max_logprobs = 20;
}
