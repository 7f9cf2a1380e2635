/* fuzz_fields.c - the JSON of a request, read for each endpoint. Nothing may be leaked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "chat/fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void say_unknown(void *ctx, const char *name)
{
    *(size_t *)ctx += strlen(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0;

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    for (unsigned endpoint = 1; endpoint < FIELDS_END; endpoint *= 2) {
        struct fields f;
        struct err e = {0};
        int rc = fields_read(&f, endpoint, (const char *)data, size, NULL, say_unknown, &n, &e);

        if (rc && (rc != e.code || e.msg[0] == 0))
            abort();
        fields_fini(&f);
    }
    if (mem_live_blocks())
        abort();
    return 0;
}
