/* test_grid.c - cache types, block sizes, layouts and threads, each with every chunk size, with and without
 * neighbours in the step: the same bits of logits and the same tokens; then from a fork, and after going
 * back.
 *
 * test_invariance.c and test_cache.c vary one thing at a time through the public interface, over more models;
 * here a prompt longer than any usual step goes through llm_forward() itself, so that its chunks are exactly
 * those that are named.
 */
#include "base/err.h"
#include "engine/gallop_in.h"
#include "goldens.h"

enum { PROMPT = 530, NEW = 4, SPOT = 333, LONGEST = 600, MOST = 1024, MAX_VOCAB = 4096, N_NEIGHBOURS = 3 };

struct way {
    const char *type, *layout;
    int64_t block, splits;
    int threads;
};

static const struct way ways[] = {{"slab_pool", "head_major", 0, 0, 1},
                                  {"slab_pool", "head_major", 16, 0, 2},
                                  {"slab_pool", "head_major", 64, 0, 1},
                                  {"slab_pool", "head_major", 256, 0, 1},
                                  {"slab_pool", "block_major", 16, 0, 1},
                                  {"slab_pool", "block_major", 32, 0, 1},
                                  {"slab_pool", "block_major", 256, 0, 4},
                                  {"paged", "head_major", 0, 0, 1},
                                  {"paged", "head_major", 16, 0, 2},
                                  {"paged", "head_major", 128, 0, 1},
                                  {"paged", "block_major", 16, 0, 1},
                                  {"paged", "block_major", 64, 0, 1},
                                  {"paged", "block_major", 256, 0, 3},
                                  {"dynamic", NULL, 0, 0, 1},
                                  {"dynamic", NULL, 0, 0, 2},
                                  {"bmc", NULL, 0, 0, 1},
                                  {"bmc", NULL, 0, 3, 2}};
enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

/* What one greedy answer consists of: logits behind the prompt and behind each new token but the last. */
struct answer {
    float logits[NEW][MAX_VOCAB];
    int32_t token[NEW];
};

static struct answer want, got;

static struct gallop *open_with(const char *name, const char *dtype, const char *kv_dtype,
                                const struct way *w)
{
    struct gallop_options o;
    struct gallop *g;

    gallop_options_init(&o);
    o.dtype = dtype;
    o.threads = w->threads;
    o.kv_cache_type = w->type;
    o.kv_cache_dtype = kv_dtype;
    o.kv_cache_layout = w->layout;
    o.block_size = w->block;
    o.bmc_splits = w->splits;
    o.max_batched_tokens = MOST;
    o.max_num_seqs = 2 + N_NEIGHBOURS;
    o.max_model_len = LONGEST;
    g = golden_open(name, &o);
    assert_true(gallop_llm(g)->model.info.vocab <= MAX_VOCAB);
    return g;
}

static void token_ids(size_t seq, size_t pos, size_t n, int32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(3 + (seq * 61 + (pos + i) * (pos + i) * 5 + (pos + i) * 37) % 150);
}

/* ---- a step, alone or in company ---- */

struct company {
    struct llm *m;
    bool neighbours;               /* in front of and behind the sequence that counts, ragged */
    size_t computed[N_NEIGHBOURS]; /* of slots 2, 3, 4 */
    int32_t id[N_NEIGHBOURS + 1][PROMPT];
};

/* The I-th neighbour's share of a step: 1, 5 or 17 tokens; begins anew when it has become long. */
static struct llm_rows neighbour(struct company *c, size_t i)
{
    static const size_t tokens[N_NEIGHBOURS] = {1, 17, 5};
    struct llm_rows r = {.slot = 2 + i, .id = c->id[i], .n = tokens[i], .n_wanted = i != 2};

    if (c->computed[i] + r.n > 300) {
        kv_release(&c->m->kv, r.slot);
        c->computed[i] = 0;
    }
    r.pos = c->computed[i];
    r.n_prompt = r.n_total = r.pos + r.n;
    token_ids(i + 1, r.pos, r.n, c->id[i]);
    return r;
}

/* Computes N tokens IDS of SLOT at POS; the last row's logits, if they are WANTED. */
static const float *step(struct company *c, size_t slot, const int32_t *ids, size_t pos, size_t n,
                         bool wanted)
{
    struct llm_rows r[N_NEIGHBOURS + 1];
    size_t n_rows = 0, logits = 0;

    if (c->neighbours) /* one in front, the others behind */
        r[n_rows++] = neighbour(c, 0);
    logits = n_rows ? r[0].n_wanted : 0;
    r[n_rows++] = (struct llm_rows){.slot = slot,
                                    .id = ids,
                                    .n = n,
                                    .pos = pos,
                                    .n_prompt = PROMPT,
                                    .n_total = pos + n > PROMPT ? pos + n : PROMPT,
                                    .n_wanted = wanted};
    for (size_t i = 1; i < N_NEIGHBOURS && c->neighbours; i++)
        r[n_rows++] = neighbour(c, i);
    for (size_t i = 0; i < n_rows; i++)
        assert_int_equal(kv_reserve(&c->m->kv, r[i].slot, r[i].pos + r[i].n), 0);
    llm_forward(c->m, r, n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        kv_advance(&c->m->kv, r[i].slot, r[i].pos + r[i].n);
        if (r[i].slot >= 2)
            c->computed[r[i].slot - 2] += r[i].n;
    }
    return c->m->logits + logits * c->m->model.info.vocab;
}

/* The answer of SLOT, which has POS rows, when the rest of the prompt comes in chunks. */
static void answer(struct company *c, size_t slot, size_t pos, size_t chunk, struct answer *a)
{
    size_t V = c->m->model.info.vocab;
    const float *x = NULL;
    int32_t ids[PROMPT];

    memset(a, 0, sizeof(*a));
    token_ids(0, 0, PROMPT, ids);
    while (pos < PROMPT) {
        size_t n = PROMPT - pos < chunk ? PROMPT - pos : chunk;

        x = step(c, slot, ids + pos, pos, n, pos + n == PROMPT);
        pos += n;
    }
    for (size_t k = 0; k < NEW; k++) {
        size_t best = 0;

        for (size_t i = 1; i < V; i++)
            if (x[i] > x[best])
                best = i;
        memcpy(a->logits[k], x, V * sizeof(float));
        a->token[k] = (int32_t)best;
        if (k + 1 < NEW)
            x = step(c, slot, &a->token[k], PROMPT + k, 1, true);
    }
}

static void expect(const struct way *w, const struct llm *m, const char *what, size_t n)
{
    if (memcmp(&want, &got, sizeof(want)) != 0)
        fail_msg("%s, %s %s, block %zu, %d threads: bits differ %s %zu", m->model.arch->class_name, w->type,
                 w->layout ? w->layout : "", m->kv.lim.block, w->threads, what, n);
}

/* ---- the grid ---- */

static void every_chunk(struct company *c, const struct way *w)
{
    static const size_t chunks[] = {1, 7, 64, 512, PROMPT};

    for (size_t k = 0; k < sizeof(chunks) / sizeof(chunks[0]); k++)
        for (int company = 0; company < 2; company++) {
            /* of many small steps only the last where each costs more than its tokens: neighbours, waking */
            bool last = chunks[k] < 64 && (company || w->threads > 1);
            size_t begin = last ? PROMPT - 5 * chunks[k] - 3 : 0;

            c->neighbours = company;
            if (begin) {
                int32_t ids[PROMPT];

                token_ids(0, 0, PROMPT, ids);
                step(c, 0, ids, 0, begin, false);
            }
            answer(c, 0, begin, chunks[k], &got);
            kv_release(&c->m->kv, 0);
            expect(w, c->m, company ? "among others, in chunks of" : "alone, in chunks of", chunks[k]);
        }
}

static void fork_and_go_back(struct company *c, const struct way *w)
{
    int32_t ids[PROMPT];
    int rc;

    token_ids(0, 0, PROMPT, ids);
    step(c, 0, ids, 0, SPOT, false);
    assert_int_equal(kv_fork(&c->m->kv, 0, SPOT, 1), 0);
    answer(c, 1, SPOT, 64, &got);
    expect(w, c->m, "in a fork at", SPOT);
    answer(c, 0, SPOT, 512, &got);
    expect(w, c->m, "where was forked at", SPOT);
    rc = kv_truncate(&c->m->kv, 1, SPOT - 20);
    assert_true(rc == 0 || (rc == KV_GONE && c->m->model.info.window));
    if (rc)
        kv_release(&c->m->kv, 1);
    answer(c, 1, rc ? 0 : SPOT - 20, 128, &got);
    expect(w, c->m, "after going back to", SPOT - 20);
    kv_release(&c->m->kv, 0);
    kv_release(&c->m->kv, 1);
}

#ifdef __SANITIZE_ADDRESS__
enum { THIN = 7 }; /* every load of a vector is a call then; one way each of slab_pool, paged, dynamic */
#else
enum { THIN = 1 };
#endif

/* Every STRIDE-th way. */
static void grid(const char *name, const char *dtype, const char *kv_dtype, size_t stride)
{
    static struct company c;

    for (size_t i = 0; i < N_WAYS; i += stride * THIN) {
        struct gallop *g = open_with(name, dtype, kv_dtype, &ways[i]);
        struct err e = {0};

        c = (struct company){.m = gallop_llm(g)};
        if (i == 0) {
            answer(&c, 0, 0, PROMPT, &want);
            kv_release(&c.m->kv, 0);
        }
        every_chunk(&c, &ways[i]);
        fork_and_go_back(&c, &ways[i]);
        if (kv_check(&c.m->kv, &e) != 0)
            fail_msg("%s", e.msg);
        gallop_close(g);
    }
    got.logits[NEW - 1][7] += 1;
    assert_memory_not_equal(&want, &got, sizeof(want)); /* the ruler itself */
}

static void llama_gives_the_same_bits_everywhere_in_fp32(void **state)
{
    grid("llama3-rope", "fp32", "auto", 1);
}

static void llama_gives_the_same_bits_everywhere_in_bf16(void **state)
{
    grid("llama3-rope", "bf16", "auto", 1);
}

static void llama_gives_the_same_bits_everywhere_with_int8_rows(void **state)
{
    grid("llama3-rope", "bf16", "int8", 1);
}

static void gemma_gives_the_same_bits_everywhere_through_its_windows(void **state)
{
    grid("gemma3", "bf16", "auto", 1);
    grid("gemma3", "fp32", "int8", 2);
}

static void layers_that_share_rows_give_the_same_bits_everywhere(void **state)
{
    grid("gemma4", "bf16", "auto", 1);
    grid("gemma4", "fp32", "int8", 2);
    grid("gemma4", "bf16", "int8", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_gives_the_same_bits_everywhere_in_fp32),
        cmocka_unit_test(llama_gives_the_same_bits_everywhere_in_bf16),
        cmocka_unit_test(llama_gives_the_same_bits_everywhere_with_int8_rows),
        cmocka_unit_test(gemma_gives_the_same_bits_everywhere_through_its_windows),
        cmocka_unit_test(layers_that_share_rows_give_the_same_bits_everywhere),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
