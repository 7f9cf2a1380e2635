/* request.c - properties of a request that several parts of the server need: ids, model name, limits. */
#include "api/request.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/dialect/dialect.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"
#include "net/http_head.h"
#include "net/server.h"

bool request_is_id(const char *id)
{
    size_t n = 0;

    while ((unsigned char)id[n] > 0x20 && (unsigned char)id[n] < 0x7f && n <= REQUEST_ID_SENT)
        n++;
    return n > 0 && n <= REQUEST_ID_SENT && !id[n];
}

/* In FORM each x means a lower-case hexadecimal digit. A trace or parent id with only zeros is invalid. */
void request_trace(struct server_exchange *x, char out[REQUEST_TRACE])
{
    static const char form[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    const char *value = http_head_get(server_head(x), "traceparent");
    bool is_trace;
    size_t n = 0;

    _Static_assert(sizeof(form) == REQUEST_TRACE, "a traceparent of version 00");
    while (value && form[n] && value[n] &&
           (form[n] == 'x' ? strchr("0123456789abcdef", value[n]) != NULL : value[n] == form[n]))
        n++;
    is_trace = value && !form[n] && !value[n] && strspn(value + 3, "0") < 32 && strspn(value + 36, "0") < 16;
    snprintf(out, REQUEST_TRACE, "%s", is_trace ? value : "");
}

void request_name(struct request *q, struct server_exchange *x)
{
    const char *id = http_head_get(server_head(x), "x-request-id");

    if (!id || !id[0])
        return;
    q->naming = request_is_id(id) ? REQUEST_NAMED : REQUEST_MISNAMED;
    if (q->naming == REQUEST_MISNAMED)
        return;
    snprintf(q->name, sizeof(q->name), "%s", id);
    snprintf(q->id, sizeof(q->id), "%s%s", q->dialect->prefix, id);
}

const char *request_model(const struct request *q)
{
    return q->field.model ? q->field.model : q->server->name[0];
}

bool request_has_tools(const struct request *q)
{
    return json_array_size(q->field.input.tools) && q->field.input.tool_choice != TOOLS_NONE;
}

int64_t request_max_tokens(const struct request *q)
{
    const struct sampling *config = engine_info(q->server->engine)->defaults;

    if (q->field.generation.max_completion_tokens >= 0)
        return q->field.generation.max_completion_tokens;
    if (q->field.generation.max_tokens >= 0)
        return q->field.generation.max_tokens;
    if (q->endpoint == FIELDS_COMPLETIONS && !json_is_null(json_object_get(q->field.body, "max_tokens")))
        return 16;
    return sampling_given(config, SAMPLING_MAX_NEW_TOKENS) && config->max_new_tokens <= INT64_MAX
               ? (int64_t)config->max_new_tokens
               : -1;
}

void request_fini(struct request *q)
{
    for (size_t i = 0; i < q->n_prompts; i++) {
        buf_fini(&q->prompt[i].text);
        mem_free(q->prompt[i].id);
    }
    fields_fini(&q->field);
    arena_fini(&q->arena);
}
