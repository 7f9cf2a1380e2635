/* fuzz_pattern.c - a regular expression, and behind a zero byte a text: read in both dialects, and matched. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/grammar/automata/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *pattern = (const char *)data;
    size_t n = size ? strnlen(pattern, size) : 0;
    struct err e = {0};
    uint32_t r;

    for (enum pattern_dialect d = PATTERN_SEARCH; d <= PATTERN_WHOLE; d++) {
        struct regex_store s;

        if (regex_open(&s, 4 << 20, 20000) != 0)
            return 0;
        if (pattern_read(&s, n ? pattern : "", n, regex_characters, d, &r, &e) == 0 && n + 1 < size)
            regex_matches(&s, r, pattern + n + 1, size - n - 1);
        regex_close(&s);
    }
    if (mem_live_blocks())
        abort();
    return 0;
}
