/* probe.c - renders test conversations with a fixed clock, so that a template always produces the same
 * text. */
#include "text/markup/probe.h"

#include "base/buf.h"
#include "text/chat.h"

#include <string.h>
#include <time.h>

bool probe_render(struct probe *p, json_t *given)
{
    static const struct tm now = {.tm_year = 126, .tm_mday = 1};
    json_t *variables = NULL;
    struct err refusal;
    int rc = ERR_NOMEM;

    buf_clear(&p->out);
    if (given)
        rc = chat_variables(p->chat, given, true, &variables, &refusal);
    if (rc == 0)
        rc = chat_render(p->chat, p->template, variables, NULL, &now, &p->out, NULL, &refusal);
    json_decref(variables);
    json_decref(given);
    if (rc == ERR_NOMEM)
        p->rc = err_nomem(p->e, "a chat template");
    return rc == 0;
}

bool probe_shows(const struct probe *p, const char *what)
{
    return p->out.len && strstr(p->out.data, what);
}

json_t *probe_tool(void)
{
    return json_pack("{s:s,s:{s:s,s:s,s:{s:s,s:{s:{s:s,s:s}}}}}", "type", "function", "function", "name",
                     PROBE_NAME, "description", "d", "parameters", "type", "object", "properties", PROBE_KEY,
                     "type", "string", "description", "d");
}
