/* fuzz_tags.c - the JSON of a structural tag, and behind a zero byte a text: read, and the text recognized. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "base/mem.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/tags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int any_digits(void *context, struct grammar *g, const json_t *schema, uint32_t *start, struct err *e)
{
    (void)context, (void)schema, (void)e;
    *start = grammar_term(g, regex_range(&g->regex, '0', '9'));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t n = size ? strnlen(text, size) : 0;
    struct grammar g;
    struct recognizer r = {0};
    struct err e = {0};
    json_t *tag;
    uint32_t start;

    if (json_pull_load_exact(&tag, n ? text : "", n, "fuzz", &e) != 0)
        return 0;
    if (grammar_open(&g, 4 << 20, 20000) == 0) {
        if (tags_read(&g, tag, any_digits, NULL, &start, &e) == 0 && grammar_finish(&g, start, &e) == 0 &&
            recognizer_open(&r, &g, &e) == 0 && n + 1 < size)
            recognizer_matches(&r, text + n + 1, size - n - 1);
        recognizer_close(&r);
        grammar_close(&g);
    }
    json_decref(tag);
    if (mem_live_blocks())
        abort();
    return 0;
}
