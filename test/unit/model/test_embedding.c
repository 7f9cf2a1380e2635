/* test_embedding.c - the rows that a model's embedding returns, tied to the head or not, are the stored ones
 * bit for bit, and a tied embedding takes no memory of its own if the packed head holds the same numbers. */
#include "base/cpu.h"
#include "base/err.h"
#include "base/log.h"
#include "base/threads/pool.h"
#include "ckpt/weights.h"
#include "engines.h"
#include "kern/kern.h"
#include "model/decoder.h"
#include "model/model.h"
#include "ops/eager/eager.h"

#define GGUF GALLOP_SOURCE_DIR "/test/data/gguf/"

static struct pool *pool;

/* Returns all rows of the embedding of M, by the operator. [V, E], free(). */
static float *all_rows(const struct model *m)
{
    const struct model_info *i = &m->info;
    const struct eager_limits lim = {.max_tokens = i->vocab,
                                     .max_seqs = 1,
                                     .max_len = i->vocab,
                                     .n_heads = i->n_heads,
                                     .n_kv = i->n_kv,
                                     .head_dim = i->head_dim,
                                     .inner = i->inner,
                                     .linear_k = i->linear_k,
                                     .hidden = i->hidden,
                                     .kv_dtype = DT_F32,
                                     .kern = kern_table(cpu_best())};
    const struct decoder *w = m->impl;
    float *x = calloc(i->vocab * i->hidden, sizeof(*x));
    int32_t *id = calloc(i->vocab, sizeof(*id));
    struct eager *g;
    struct err e;

    assert_int_equal(eager_new(&g, &lim, pool, &e), 0);
    for (size_t t = 0; t < i->vocab; t++)
        /* The order is reversed, so that the position of a row and its token differ. */
        id[t] = (int32_t)(i->vocab - 1 - t);
    eager_sink(g)->embed(eager_sink(g), x, &w->embed, id, false, i->vocab);
    eager_free(g);
    free(id);
    return x;
}

/* Returns the same rows from the mapped file, before they are packed. */
static float *stored_rows(const struct model *m, const struct view *v)
{
    size_t V = m->info.vocab, E = m->info.hidden;
    const struct decoder *w = m->impl;
    float *x = calloc(V * E, sizeof(*x));

    for (size_t t = 0; t < V; t++) {
        view_row_f32(v, V - 1 - t, x + t * E);
        for (size_t i = 0; i < E && w->embed.scale; i++)
            x[t * E + i] *= w->embed.scale;
    }
    return x;
}

static void rows_that_are_not_those_of_the_file(void **state)
{
    static const struct {
        const char *model;
        bool tied;
    } of[] = {{"llama3-rope", true},
              {"gemma3", true},
              {"qwen3", false},
              {GGUF "qwen2.gguf", true},
              {GGUF "qwen3.gguf", false}};

    for (size_t n = 0; n < 2 * sizeof(of) / sizeof(*of); n++) {
        const struct model_options opt = {.dtype = n % 2 ? DT_BF16 : DT_F32, .kern = kern_table(cpu_best())};
        const char *name = of[n / 2].model;
        const struct decoder *w;
        float *want, *got;
        struct err e = {0};
        struct model m;

        if (model_open(&m, engines_path(name), &opt, pool, &e) != 0)
            fail_msg("%s", e.msg);
        want = stored_rows(&m, weights_get(m.weights, "model.embed_tokens.weight"));
        if (model_pack(&m, &e) != 0)
            fail_msg("%s", e.msg);
        w = m.impl;
        assert_int_equal(w->embed.head != NULL, of[n / 2].tied);
        assert_int_equal(w->embed.table.data == NULL, of[n / 2].tied);
        assert_int_equal(m.table_bytes, of[n / 2].tied ? 0 : m.info.vocab * m.info.hidden * 2);
        got = all_rows(&m);
        assert_memory_equal(got, want, m.info.vocab * m.info.hidden * sizeof(*got));
        free(want);
        free(got);
        model_close(&m);
    }
}

static int start(void **state)
{
    struct err e = {0};

    log_set_level(LOG_ERROR);
    return pool_new(&pool, 2, &e);
}

static int end(void **state)
{
    pool_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_not_those_of_the_file),
    };

    return cmocka_run_group_tests(tests, start, end);
}
