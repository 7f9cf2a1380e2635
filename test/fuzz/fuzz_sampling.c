/* fuzz_sampling.c - sampling parameters from any bytes: as a generation config, and as a request.
 *
 * Parameters that are accepted and valid must allow sampling and stopping, an error must have a sentence, and
 * nothing may be leaked.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/sampling/sample.h"
#include "engine/sampling/sampling.h"
#include "engine/sampling/stop.h"
#include "kern/kern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCAB = 200 };

/* Runs a few steps with the parameters S: the chain finds a token or reports that none is left. */
static void generate(const struct sampling *s, struct arena *a)
{
    static const int32_t prompt[] = {1, 2, 1};
    float logits[VOCAB];
    struct sample_scratch sampler;
    struct sample_history history;
    struct sample_result r;
    struct stop stop;
    struct buf shown = {.tag = MEM_ENGINE};
    struct err e = {0};
    enum stop_why why = STOP_NONE;

    ASSERT(sample_open(&sampler, kern_table(cpu_best()), VOCAB, &e) == 0, "%s", e.msg);
    ASSERT(sample_history_init(&history, s, prompt, 3, 8, VOCAB, a, &e) == 0, "%s", e.msg);
    ASSERT(stop_init(&stop, s, 3, 11, a, &e) == 0, "%s", e.msg);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)(i * 37 % 101) / 10;
    for (size_t t = 0; t < 8 && why == STOP_NONE; t++) {
        char piece[2] = {0};

        if (sample_pick(&sampler, s, &history, logits, VOCAB, t, &r) != 0)
            break;
        ASSERT(r.id >= 0 && r.id < VOCAB, "token %d", r.id);
        sample_history_add(&history, r.id);
        why = stop_token(&stop, r.id, t + 1);
        piece[0] = (char)('a' + r.id % 4);
        if (stop_text(&stop, piece, 1, &shown))
            break;
    }
    buf_fini(&shown);
    sample_close(&sampler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sampling user, config, merged;
    struct arena a;
    struct err e = {0};
    size_t blocks;
    json_t *o;
    int rc;

    log_set_level(LOG_ERROR);
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    blocks = mem_live_blocks();
    arena_init(&a, MEM_ENGINE);
    rc = sampling_from_text((const char *)data, size, "fuzz", VOCAB, &config, &a, &e);
    ASSERT((rc == 0) == (e.msg[0] == 0), "%d %s", rc, e.msg);
    sampling_default(&user);
    if (json_pull_load(&o, (const char *)data, size, "fuzz", &e) == 0 &&
        sampling_set_json(&user, o, "fuzz", &a, &e) != 0)
        sampling_default(&user);
    json_decref(o);
    if (rc != 0)
        sampling_default(&config);
    for (int i = 0; i < 2; i++) {
        sampling_merge(&merged, i ? &config : &user, i ? &user : &config);
        if (sampling_validate(&merged, VOCAB, &e) == 0)
            generate(&merged, &a);
    }
    arena_fini(&a);
    ASSERT(mem_live_blocks() == blocks, "%zu blocks left behind", mem_live_blocks() - blocks);
    return 0;
}
