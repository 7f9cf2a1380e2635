/* fuzz_quantised.c - config.json up to a zero byte, then a .safetensors file: folders of GPTQ, AWQ and
 * compressed-tensors.
 *
 * The folder must be refused with a sentence, or all rows of every matrix must be finite; and nothing may be
 * leaked.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/threads/pool.h"
#include "ckpt/config.h"
#include "ckpt/pack/pack.h"
#include "ckpt/quantised.h"
#include "ckpt/safetensors.h"
#include "ckpt/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pool *pool; /* one pool with one thread for all inputs */

static void read_rows(const struct view *v)
{
    float x[64];

    for (size_t r = 0; r < v->shape[0]; r++)
        for (size_t k = 0; k < v->shape[1]; k += 64) {
            size_t n = v->shape[1] - k < 64 ? v->shape[1] - k : 64;

            view_part_f32(v, r, k, n, x);
            for (size_t i = 0; i < n; i++)
                ASSERT(isfinite(x[i]) || v->dtype == DT_F32, "%s: %g", v->name, (double)x[i]);
        }
}

static void open_all(struct tensor_file *f, const char *config, size_t len)
{
    struct pack p = {.tensors = *f, .path = "fuzz"};
    struct config *c = NULL;
    struct weights *w = NULL;
    struct quantised *q = NULL;
    static const struct folder_archive empty;
    struct err e = {0};
    int rc;

    if (config_open_text(&c, config, len, "config", &e) == 0 && weights_of_pack(&w, &p, &e) == 0) {
        size_t n = weights_count(w);

        rc = quantised_open(&q, w, c, (struct folder){.path = "fuzz", .archive = &empty}, pool, &e);
        ASSERT(rc == 0 || (e.msg[0] && !q), "%d", rc);
        for (size_t i = 0; q && i < weights_count(w); i++)
            if (i >= n || dtype_is_grouped(weights_nth(w, i)->dtype))
                read_rows(weights_nth(w, i));
    }
    weights_close(w);
    quantised_close(q);
    config_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    struct tensor_file f;
    struct err e;
    size_t live;

    if (!end)
        return 0;
    if (!pool && pool_new(&pool, 1, &e) != 0)
        return 0;
    live = mem_live_blocks();
    if (tensor_file_open_bytes(&f, (const char *)end + 1, size - (size_t)(end + 1 - data), "fuzz", &e) == 0) {
        if (safetensors_read(&f, &e) == 0)
            open_all(&f, (const char *)data, (size_t)(end - data));
        tensor_file_close(&f);
    }
    ASSERT(mem_live_blocks() == live, "%zu blocks are left", mem_live_blocks() - live);
    return 0;
}
