/* fuzz_trace.c - traces of requests from any bytes, as CSV and JSON lines.
 *
 * An accepted trace must have requests in the order of their times, lengths within the limits, and prompts
 * whose tokens can be made; an error must have a sentence; and nothing may be leaked.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "lab/bench/traffic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONGEST = 1 << 24, PROMPT = 4096, VOCAB = 100 };

static void check(const struct traffic *t)
{
    static int32_t ids[PROMPT];

    ASSERT(t->n > 0 && t->n_first == t->n && traffic_longest(t) <= 2 * LONGEST);
    for (size_t i = 0; i < t->n; i++) {
        const struct traffic_request *r = &t->request[i];

        ASSERT(isfinite(r->at_s) && r->at_s >= (i ? t->request[i - 1].at_s : 0), "time %g", r->at_s);
        ASSERT(r->n_prompt >= 1 && r->n_prompt <= LONGEST && r->n_output <= LONGEST && !r->next);
        if (r->n_prompt > PROMPT)
            continue;
        traffic_tokens(t, i, VOCAB, ids);
        for (size_t k = 0; k < r->n_prompt; k++)
            ASSERT(ids[k] >= 0 && ids[k] < VOCAB, "token %d", (int)ids[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = mem_live_blocks();
    char *text = malloc(size + 1);
    struct err e = {0};
    struct traffic t;

    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    if (traffic_parse(&t, text, size, "trace", size % 7, 3, &e) == 0)
        check(&t);
    else
        ASSERT(e.code && strlen(e.msg) > 10, "code %d without a sentence", e.code);
    traffic_fini(&t);
    free(text);
    ASSERT(mem_live_blocks() == blocks, "%zu blocks are left", mem_live_blocks() - blocks);
    return 0;
}
