/* fuzz_jinja.c - a chat template and, after a zero byte, the JSON of its variables: parsed and rendered.
 * Limits are small, so that a hostile template costs little. Nothing may be leaked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/jinja/jinja.h"

static const char variables[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},"
    "{\"role\":\"user\",\"content\":\"h\\u00e9 \\ud83d\\ude00\"},"
    "{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}],"
    "\"bos_token\":\"<s>\",\"add_generation_prompt\":true,"
    "\"n\":7,\"x\":-2.5,\"nums\":[3,1,2],\"d\":{\"b\":1,\"a\":2}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct jinja_limits limit = {
        .steps = 300000, .bytes = 16 << 20, .output = 1 << 20, .depth = 400};
    const struct tm now = {.tm_year = 126, .tm_mon = 6, .tm_mday = 1};
    const char *text = (const char *)data;
    size_t n = size ? strnlen(text, size) : 0;
    struct err e = {0};
    struct jinja *j;
    struct buf out;
    json_t *v;

    v = n + 1 < size ? json_loadb(text + n + 1, size - n - 1, 0, NULL) : json_loads(variables, 0, NULL);
    buf_init(&out, MEM_TEXT);
    if (jinja_parse(&j, n ? text : "", n, "fuzz", NULL, &e) == 0 && v)
        jinja_render(j, v, &now, &limit, &out, &e);
    jinja_free(j);
    buf_fini(&out);
    json_decref(v);
    if (mem_live_blocks())
        abort();
    return 0;
}
