/* fuzz_schema.c - a JSON Schema, and behind a zero byte a text: the schema is compiled strictly for answers, and
 * loosely for all valid values, and a text that its grammar accepts must be JSON. Limits are small, so that a hostile
 * schema costs little.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/schema/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(const char *text, size_t n)
{
    struct json_pull j;
    struct arena a;
    struct err e = {0};

    arena_init(&a, MEM_TEXT);
    if (json_pull_open(&j, text, n, "text", &a, &e) == 0) {
        json_pull_skip(&j);
        json_pull_finish(&j);
    }
    if (json_pull_rc(&j) && !strstr(e.msg, "nest")) /* grammars have no limit of depth */
        abort();
    arena_fini(&a);
}

static void compile(const json_t *schema, bool is_loose, const char *text, size_t n)
{
    struct schema_options o = {.is_loose = is_loose, .every_spelling = is_loose, .is_open = is_loose};
    struct schema_report report = {0};
    struct grammar g;
    struct recognizer r;
    struct err e = {0};
    uint32_t start;

    if (grammar_open(&g, 8 << 20, 50000) != 0)
        return;
    if (schema_compile(&g, schema, &o, &start, &report, &e) == 0 && grammar_finish(&g, start, &e) == 0 &&
        recognizer_open(&r, &g, &e) == 0) {
        if (recognizer_matches(&r, text, n))
            check_json(text, n);
        recognizer_close(&r);
    } else if (!e.msg[0]) {
        abort();
    }
    schema_report_fini(&report);
    grammar_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *schema = (const char *)data;
    size_t n = size ? strnlen(schema, size) : 0;
    struct err e = {0};
    json_t *json = NULL;

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    if (json_pull_load_exact(&json, n ? schema : "", n, "schema", &e) == 0)
        for (int loose = 0; loose < 2; loose++)
            compile(json, loose, schema + (n + 1 < size ? n + 1 : n), n + 1 < size ? size - n - 1 : 0);
    json_decref(json);
    if (mem_live_blocks())
        abort();
    return 0;
}
