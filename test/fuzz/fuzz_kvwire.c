/* fuzz_kvwire.c - any bytes as saved rows of a KV cache: refused with nothing changed, or taken and saved
 * again as the very same bytes. Inputs whose first byte is 0 get their checksum set right, so that what lies
 * behind it is reached too.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kv/kv_wire.h"

enum { MODEL = 1 };

static void feed(const char *type, bool sink, bool narrow, const char *bytes, size_t len)
{
    static const size_t windows[2] = {0, 18}, sinks[2] = {0, 5}, dims[2] = {3, 1};
    const struct kv_limits lim = {.n_layers = 2,
                                  .n_kv = 1,
                                  .head_dim = 3,
                                  .dtype = DT_I8,
                                  .max_seqs = 1,
                                  .max_len = 48,
                                  .pool_tokens = 40,
                                  .block = 16,
                                  .window = windows,
                                  .sink = sink ? sinks : NULL,
                                  .dim = narrow ? dims : NULL};
    struct kv c;
    struct err e;
    size_t n;

    if (kv_open(&c, type, &lim, &e) != 0)
        return;
    if (kv_wire_load(&c, 0, MODEL, bytes, len, "fuzz", &n, &e) == 0) {
        char *again = malloc(len);

        ASSERT(again && len == kv_wire_bytes(&c, n));
        ASSERT(kv_wire_save(&c, 0, n, MODEL, again) == 0 && memcmp(again, bytes, len) == 0);
        free(again);
    } else {
        ASSERT(kv_held_bytes(&c, 0) == 0);
    }
    ASSERT(kv_check(&c, &e) == 0);
    kv_close(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1);

    ASSERT(copy != NULL);
    memcpy(copy, data, size);
    if (size >= 64 && copy[0] == 0) {
        uint64_t sum;

        copy[0] = 'G';
        sum = kv_wire_sum(copy, size);
        memcpy(copy + 56, &sum, 8);
    }
    feed("paged", false, false, copy, size);
    feed("bmc", false, true, copy, size);
    feed("slab_pool", true, false, copy, size);
    feed("dynamic", true, true, copy, size);
    free(copy);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
