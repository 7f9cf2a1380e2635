/* fuzz_gbnf.c - a grammar, and behind a zero byte a text: read, and the text recognized. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/gbnf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t n = size ? strnlen(text, size) : 0;
    struct grammar g;
    struct recognizer r = {0};
    struct err e = {0};
    uint32_t start;

    if (grammar_open(&g, 4 << 20, 20000) != 0)
        return 0;
    if (gbnf_read(&g, n ? text : "", n, &start, &e) == 0 && grammar_finish(&g, start, &e) == 0 &&
        recognizer_open(&r, &g, &e) == 0 && n + 1 < size)
        recognizer_matches(&r, text + n + 1, size - n - 1);
    recognizer_close(&r);
    grammar_close(&g);
    if (mem_live_blocks())
        abort();
    return 0;
}
