/* test_cache.c - the cache makes no difference: the same tokens and the same bits over all cache types, block
 * sizes, layouts and budgets, also where windows give rows back; after a fork, after going back, and after
 * rows were saved by one engine and loaded by another that keeps them otherwise.
 */
#include <dirent.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/gallop_in.h"
#include "engine/identity.h"
#include "engine/score.h"
#include "goldens.h"
#include "kv/kv_wire.h"

enum { N_REQUESTS = 5, NEW = 14, LONGEST = 320, SPOT = 150, AFTER = 40 };
static const size_t lengths[N_REQUESTS] = {1, 16, 75, 140, 290};

struct way {
    const char *type, *layout;
    int64_t block, splits, tokens;
};

static const struct way ways[] = {
    {"dynamic", NULL, 0, 0, 0},
    {"bmc", NULL, 0, 0, 0},
    {"bmc", NULL, 0, 3, 0},
    {"slab_pool", "head_major", 0, 0, 0},
    {"slab_pool", "block_major", 16, 0, 0},
    {"slab_pool", "head_major", 256, 0, 0},
    {"dynamic", NULL, 0, 0, 448},
    {"slab_pool", "head_major", 32, 0, 448}, /* so few that requests are put back */
    {"paged", "head_major", 16, 0, 0},
    {"paged", "block_major", 64, 0, 0},
    {"paged", "block_major", 16, 0, 448}};
enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

static int32_t token_at(size_t request, size_t i)
{
    return (int32_t)(3 + (request * 61 + i * i * 5 + i * 37) % 150);
}

static const char *kv_dtype;      /* of the caches that are opened */
static int64_t longest = LONGEST; /* of the engines that are opened */

static struct gallop *open_with(const char *name, const char *dtype, const struct way *w)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.dtype = dtype;
    o.threads = 1; /* test_invariance.c varies them */
    o.kv_cache_type = w->type;
    o.kv_cache_dtype = kv_dtype;
    o.kv_cache_layout = w->layout;
    o.block_size = w->block;
    o.bmc_splits = w->splits;
    o.kv_cache_tokens = w->tokens && !longest ? 4096 : w->tokens; /* one sequence of the model's length */
    o.max_batched_tokens = 48;
    o.max_num_seqs = 4;
    o.max_model_len = longest;
    return golden_open(name, &o);
}

static void check_cache(struct gallop *g)
{
    struct err e = {0};

    if (kv_check(&gallop_llm(g)->kv, &e) != 0)
        fail_msg("%s", e.msg);
}

static void tokens(struct gallop *g, int32_t out[N_REQUESTS][NEW])
{
    size_t n[N_REQUESTS] = {0};
    struct gallop_event ev;

    for (size_t q = 0; q < N_REQUESTS; q++) {
        int32_t ids[LONGEST];

        for (size_t i = 0; i < lengths[q]; i++)
            ids[i] = token_at(q, i);
        golden_submit(g, ids, lengths[q], NEW, q);
    }
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_TOKEN)
            out[(size_t)ev.user][n[(size_t)ev.user]++] = ev.token;
        else if (ev.type == GALLOP_FINISHED)
            assert_int_equal(ev.finish, GALLOP_FINISH_LENGTH);
        check_cache(g);
    }
    for (size_t q = 0; q < N_REQUESTS; q++)
        assert_int_equal(n[q], NEW);
}

static void same_tokens(const char *name, const char *dtype)
{
    int32_t want[N_REQUESTS][NEW], got[N_REQUESTS][NEW];

    for (size_t w = 0; w < N_WAYS; w++) {
        struct gallop *g = open_with(name, dtype, &ways[w]);

        tokens(g, w == 0 ? want : got);
        if (w && memcmp(want, got, sizeof(want)) != 0)
            fail_msg("%s %s: tokens differ in cache %zu, %s", name, dtype, w, ways[w].type);
        gallop_close(g);
    }
}

static void llama_gives_the_same_tokens_from_every_cache(void **state)
{
    same_tokens("llama3-rope", "bf16");
}

static void gemma_gives_the_same_tokens_where_windows_drop_rows_and_where_they_do_not(void **state)
{
    same_tokens("gemma3", "bf16");
    same_tokens("gemma3", "fp32");
}

static void gpt_oss_gives_the_same_tokens_where_windows_drop_rows_and_where_they_do_not(void **state)
{
    same_tokens("gpt-oss", "bf16");
}

static void int8_rows_give_the_same_tokens_from_every_cache(void **state)
{
    kv_dtype = "int8";
    same_tokens("llama3-rope", "bf16");
    same_tokens("gemma3", "fp32");
    kv_dtype = NULL;
}

/* ---- one sequence, step by step ---- */

/* Computes tokens [from, to) of one sequence in chunks; logits of the last into OUT. */
static void compute(struct llm *m, size_t slot, size_t from, size_t to, size_t chunk, float *out)
{
    for (size_t pos = from; pos < to;) {
        int32_t ids[LONGEST];
        size_t n = to - pos < chunk ? to - pos : chunk;
        struct llm_rows r = {.slot = slot, .id = ids, .n = n, .pos = pos, .n_prompt = to, .n_total = to};

        for (size_t i = 0; i < n; i++)
            ids[i] = token_at(9, pos + i);
        r.n_wanted = pos + n == to;
        assert_int_equal(kv_reserve(&m->kv, slot, pos + n), 0);
        llm_forward(m, &r, 1);
        pos += n;
        kv_advance(&m->kv, slot, pos);
    }
    memcpy(out, m->logits, m->model.info.vocab * sizeof(float));
}

struct bits {
    float want[4096], got[4096];
    size_t bytes;
};

static void expect(const struct bits *b, const char *what, const struct llm *m)
{
    if (memcmp(b->want, b->got, b->bytes) != 0)
        fail_msg("%s, %s: logits differ %s", m->model.arch->class_name, m->kv.type->name, what);
}

/* A fork goes on alone, and so does the one it came from; going back computes again what was there. */
static void fork_and_go_back(struct llm *m, struct bits *b)
{
    int rc;

    compute(m, 0, 0, SPOT, 48, b->got);
    assert_int_equal(kv_fork(&m->kv, 0, SPOT, 1), 0);
    compute(m, 0, SPOT, SPOT + AFTER, 7, b->got);
    expect(b, "where the fork came from", m);
    compute(m, 1, SPOT, SPOT + AFTER, 1, b->got);
    expect(b, "in the fork", m);
    rc = kv_truncate(&m->kv, 1, SPOT + 3);
    assert_true(rc == 0 || (rc == KV_GONE && m->model.info.window));
    if (rc)
        kv_release(&m->kv, 1);
    memset(b->got, 0, b->bytes);
    compute(m, 1, rc ? 0 : SPOT + 3, SPOT + AFTER, 11, b->got);
    expect(b, "after going back", m);
    kv_release(&m->kv, 0);
    kv_release(&m->kv, 1);
}

static void save_here_load_there(const char *name, const char *dtype, struct llm *m, struct bits *b,
                                 const char *path)
{
    uint64_t model = identity_of(&m->model);
    struct err e = {0};

    compute(m, 0, 0, SPOT, 48, b->got);
    if (kv_wire_write(&m->kv, 0, SPOT, model, path, &e) != 0)
        fail_msg("%s", e.msg);
    kv_release(&m->kv, 0);
    for (size_t w = 0; w < N_WAYS; w++) {
        struct gallop *g = open_with(name, dtype, &ways[w]);
        struct llm *there = gallop_llm(g);
        size_t n = 0;

        assert_true(identity_of(&there->model) == model);
        if (kv_wire_read(&there->kv, 2, model, path, &n, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(n, SPOT);
        memset(b->got, 0, b->bytes);
        compute(there, 2, SPOT, SPOT + AFTER, 9, b->got);
        expect(b, "after rows were saved and loaded", there);
        check_cache(g);
        gallop_close(g);
    }
    unlink(path);
}

static void one_sequence(const char *name, const char *dtype)
{
    struct bits b = {.bytes = 0};

    for (size_t w = 0; w < N_WAYS; w++) {
        struct gallop *g = open_with(name, dtype, &ways[w]);
        struct llm *m = gallop_llm(g);

        b.bytes = m->model.info.vocab * sizeof(float);
        assert_true(b.bytes <= sizeof(b.want));
        if (w == 0)
            compute(m, 0, 0, SPOT + AFTER, 48, b.want);
        kv_release(&m->kv, 0);
        fork_and_go_back(m, &b);
        if (w % 4 == 0)
            save_here_load_there(name, dtype, m, &b, "rows.kv");
        check_cache(g);
        gallop_close(g);
    }
    b.got[1] += 1;
    assert_true(memcmp(b.want, b.got, b.bytes) != 0); /* the ruler itself */
}

static void a_fork_a_step_back_and_saved_rows_give_the_bits_of_one_run(void **state)
{
    one_sequence("llama3-rope", "fp32");
    one_sequence("gemma3", "bf16");
    one_sequence("gpt-oss", "bf16");
    kv_dtype = "int8";
    one_sequence("gemma3", "bf16");
    kv_dtype = NULL;
}

static void another_model_has_another_identity(void **state)
{
    struct gallop *a = open_with("llama3-rope", "fp32", &ways[0]), *b = open_with("gemma3", "fp32", &ways[0]),
                  *c = open_with("llama3-rope", "fp32", &ways[3]);

    assert_true(identity_of(&gallop_llm(a)->model) != identity_of(&gallop_llm(b)->model));
    assert_true(identity_of(&gallop_llm(a)->model) == identity_of(&gallop_llm(c)->model));
    gallop_close(a);
    gallop_close(b);
    gallop_close(c);
}

/* ---- every model ---- */

struct all_rows {
    float *x; /* [n, V] */
    size_t V;
};

static int take(void *ctx, size_t pos, size_t n, const float *logits)
{
    struct all_rows *r = ctx;

    memcpy(r->x + pos * r->V, logits, n * r->V * sizeof(float));
    return 0;
}

/* Logits of every row of a prompt [*n, V]; free(). */
static float *every_row(const char *name, const char *dtype, const struct way *w, size_t *n_floats)
{
    struct gallop *g = open_with(name, dtype, w);
    struct llm *m = gallop_llm(g);
    size_t V = m->model.info.vocab, n = m->max_len < 180 ? m->max_len : 180;
    struct all_rows r = {.x = malloc(n * V * sizeof(float)), .V = V};
    int32_t ids[180];
    struct score_request q = {.ids = ids, .n = n, .last = n, .rows = take, .ctx = &r};
    struct err e = {0};

    for (size_t i = 0; i < n; i++)
        ids[i] = token_at(4, i) % (int32_t)V;
    if (score_run(m, &q, &e) != 0)
        fail_msg("%s: %s", name, e.msg);
    check_cache(g);
    gallop_close(g);
    *n_floats = n * V;
    return r.x;
}

static void one_model(const char *name, const char *dtype)
{
    size_t n, got_n;
    float *want = every_row(name, dtype, &ways[0], &n);

    for (size_t w = 1; w < N_WAYS; w += 2) {
        float *got = every_row(name, dtype, &ways[w], &got_n);

        if (got_n != n || memcmp(want, got, n * sizeof(float)) != 0)
            fail_msg("%s %s: logits differ between dynamic and cache %zu, %s", name, dtype, w, ways[w].type);
        free(got);
    }
    free(want);
}

static void every_golden_model_gives_the_same_logits_from_every_cache(void **state)
{
    struct dirent **entry;
    int n = scandir(GALLOP_SOURCE_DIR "/test/golden", &entry, NULL, alphasort), n_models = 0;

    for (int i = 0; i < n; i++) {
        char path[4096];

        snprintf(path, sizeof(path), GALLOP_SOURCE_DIR "/test/golden/%s/config.json", entry[i]->d_name);
        if (access(path, R_OK) == 0) {
            int64_t was = longest;

            longest = 0; /* some cannot be longer than their table of positions */
            one_model(entry[i]->d_name, "fp32");
            one_model(entry[i]->d_name, "bf16");
            longest = was;
            n_models++;
        }
        free(entry[i]);
    }
    free(entry);
    assert_true(n_models >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_gives_the_same_tokens_from_every_cache),
        cmocka_unit_test(gemma_gives_the_same_tokens_where_windows_drop_rows_and_where_they_do_not),
        cmocka_unit_test(gpt_oss_gives_the_same_tokens_where_windows_drop_rows_and_where_they_do_not),
        cmocka_unit_test(int8_rows_give_the_same_tokens_from_every_cache),
        cmocka_unit_test(a_fork_a_step_back_and_saved_rows_give_the_bits_of_one_run),
        cmocka_unit_test(every_golden_model_gives_the_same_logits_from_every_cache),
        cmocka_unit_test(another_model_has_another_identity),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
