/* fuzz_config.c - any bytes as config.json and as an index of shards: every getter on every key, then
 * config_finish(). */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/config.h"
#include "ckpt/shards.h"

static void ask(struct config *c, const char *key)
{
    const char *s, *list[4];
    int64_t i, ints[4];
    double f, floats[4];
    size_t n;
    bool b;
    struct err e;

    if (config_int(c, key, 1, 1, 1 << 20, &i, &e) == 0)
        ASSERT(i >= 1 && i <= 1 << 20);
    if (config_float(c, key, 0, -1, 1, &f, &e) == 0)
        ASSERT(f >= -1 && f <= 1);
    if (config_str(c, key, "", &s, &e) == 0)
        ASSERT(strlen(s) < 1 << 24);
    config_bool(c, key, true, &b, &e);
    ASSERT(config_floats(c, key, floats, 4, &n, &e) != 0 || n <= 4);
    ASSERT(config_ints_or_int(c, key, ints, 4, &n, &e) != 0 || n <= 4);
    ASSERT(config_strs(c, key, list, 4, &n, &e) != 0 || n <= 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const key[] = {
        "hidden_size", "rope_theta", "rope_scaling", "hidden_act", "eos_token_id", "layer_types", "a", ""};
    const char *text = (const char *)data;
    struct shards shards;
    struct config *c, *sub;
    struct err e;

    log_set_level(LOG_ERROR);
    if (config_open_text(&c, text, size, "fuzz", &e) == 0) {
        for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); i += 1 + size % 2) {
            ask(c, key[i]);
            sub = config_sub(c, key[i]);
            if (sub)
                ask(sub, key[i]);
        }
        config_finish(c, &e);
        config_close(c);
    }
    if (shards_open_text(&shards, text, size, "fuzz", &e) == 0) {
        for (size_t i = 0; i < shards.n_files; i++)
            ASSERT(!strchr(shards.file[i], '/') && strcmp(shards.file[i], "..") != 0);
        for (size_t i = 0; i < shards.n; i++) {
            uint64_t at = UINT64_MAX;
            ASSERT(strmap_get(&shards.where, shards.name[i], strlen(shards.name[i]), &at) &&
                   at < shards.n_files);
        }
        shards_close(&shards);
    }
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
