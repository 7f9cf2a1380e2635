/* fuzz_requests.c - the JSON of a request of Anthropic's Messages and of OpenAI's Responses, converted to a
 * chat. The result must be a list of messages with roles. Nothing may be leaked. */
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "chat/dialect/dialect.h"
#include "chat/once.h"
#include "chat/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct once once = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void ignore(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
}

static void check(const struct fields *f)
{
    const json_t *message;
    size_t i;

    json_array_foreach(f->input.messages, i, message)
    {
        if (!json_is_string(json_object_get(message, "role")))
            abort();
    }
    if (!f->input.messages || tools_check(f->input.tools, NULL, NULL) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        unsigned endpoint;
        const struct dialect *form;
    } targets[] = {{FIELDS_MESSAGES, &anthropic_dialect},
                   {FIELDS_COUNT, &anthropic_dialect},
                   {FIELDS_RESPONSES, &responses_dialect}};

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct request q = {.once = &once, .origin.route = "/", .endpoint = targets[i].endpoint};
        const char *needs = fields_needed(q.endpoint);
        struct err e = {0};
        int rc = fields_read(&q.field, q.endpoint, (const char *)data, size, NULL, ignore, NULL, &e);

        if (rc == 0 && json_object_get(q.field.body, needs) &&
            !json_is_null(json_object_get(q.field.body, needs))) {
            rc = targets[i].form->read(&q, &e);
            if (rc == 0)
                check(&q.field);
        }
        if (rc && (rc != e.code || e.msg[0] == 0))
            abort();
        fields_fini(&q.field);
    }
    if (mem_live_blocks())
        abort();
    return 0;
}
