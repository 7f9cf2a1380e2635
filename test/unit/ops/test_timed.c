/* test_timed.c - the timing sink passes every operator on, and counts it in the right place. */
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "../test.h"
#include "base/threads/pool.h"
#include "ops/batch.h"
#include "ops/moe.h"
#include "ops/timed.h"

enum { T = 5, WINDOW = 7, SINK = 2, CHUNK = 4 };

static struct {
    int n_calls;
    const void *last; /* the operator that it received */
} behind;

static void called(const void *what)
{
    behind.n_calls++;
    behind.last = what;
}

static void b_begin(const struct op_sink *o, const struct rope *r, size_t n, const struct batch *b)
{
    (void)o, (void)r, (void)n;
    called(b);
}

static void b_embed(const struct op_sink *o, float *x, const struct op_embed *w, const int32_t *i, bool add,
                    size_t n)
{
    (void)o, (void)x, (void)i, (void)n;
    called(add ? w : NULL);
}

static void b_norm(const struct op_sink *o, float *h, float *x, const float *r, const struct op_norm *w,
                   size_t n)
{
    (void)o, (void)h, (void)x, (void)r, (void)n;
    called(w);
}

static void b_linear(const struct op_sink *o, float *y, const struct linear *w, const float *x, size_t n)
{
    (void)o, (void)y, (void)x, (void)n;
    called(w);
}

static void b_heads(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t n)
{
    (void)o, (void)qkv, (void)n;
    called(w);
}

static void b_attn(const struct op_sink *o, float *a, const float *qkv, const struct op_attn *w,
                   const struct batch *b, size_t layer)
{
    (void)o, (void)a, (void)qkv, (void)b, (void)layer;
    called(w);
}

static void b_mlp(const struct op_sink *o, float *r, const struct op_mlp *w, const float *h, size_t n)
{
    (void)o, (void)r, (void)h, (void)n;
    called(w);
}

static void b_moe(const struct op_sink *o, float *r, const struct moe *w, const float *h, const float *route,
                  size_t n)
{
    (void)o, (void)r, (void)h, (void)route, (void)n;
    called(w);
}

static void b_glu(const struct op_sink *o, float *out, const float *gate, size_t ldg, const float *up,
                  size_t ldu, enum kern_act f, size_t n, size_t rows)
{
    (void)o, (void)gate, (void)ldg, (void)up, (void)ldu, (void)f, (void)n, (void)rows;
    called(out);
}

static void b_scale(const struct op_sink *o, float *x, float a, size_t n, size_t rows)
{
    (void)o, (void)a, (void)n, (void)rows;
    called(x);
}

static void b_add(const struct op_sink *o, float *x, const float *r, size_t n, size_t rows)
{
    (void)o, (void)r, (void)n, (void)rows;
    called(x);
}

static void b_rows(const struct op_sink *o, float *dst, const float *src, const uint32_t *index, size_t n,
                   size_t rows)
{
    (void)o, (void)src, (void)index, (void)n, (void)rows;
    called(dst);
}

static void b_tap(const struct op_sink *o, size_t layer, const float *x, const float *r, const float *h,
                  size_t n)
{
    (void)o, (void)layer, (void)r, (void)h, (void)n;
    called(x);
}

static const struct op_sink sink_behind = {.begin = b_begin,
                                           .embed = b_embed,
                                           .norm = b_norm,
                                           .linear = b_linear,
                                           .heads = b_heads,
                                           .rope = b_heads,
                                           .attn = b_attn,
                                           .mlp = b_mlp,
                                           .moe = b_moe,
                                           .glu = b_glu,
                                           .scale = b_scale,
                                           .softcap = b_scale,
                                           .add = b_add,
                                           .rows = b_rows,
                                           .logits = b_linear,
                                           .tap = b_tap};

static struct timed timed;

/* the last report to the observer */
static struct {
    size_t n;
    struct timed_op op;
} told;

static void tell(void *ctx, const struct timed_op *op)
{
    assert_ptr_equal(ctx, &told);
    told.n++;
    told.op = *op;
}

/* Checks that the last operator received WHAT, and that its bytes and flops count for KIND alone. */
static void passed(const void *what, int kind, double bytes, double flops)
{
    struct timed_kind sum = {0};

    assert_int_equal(behind.n_calls, 1);
    assert_ptr_equal(behind.last, what);
    for (int k = 0; k < TIMED_N_KINDS; k++) {
        sum.seconds += timed.kind[k].seconds;
        sum.bytes += timed.kind[k].bytes;
        sum.flops += timed.kind[k].flops;
    }
    if (kind >= 0) {
        assert_true(sum.seconds == timed.kind[kind].seconds && sum.seconds >= 0);
        assert_true(fabs(timed.kind[kind].bytes - bytes) < 1e-6 && fabs(sum.bytes - bytes) < 1e-6);
        assert_true(fabs(timed.kind[kind].flops - flops) < 1e-6 && fabs(sum.flops - flops) < 1e-6);
    } else {
        assert_true(sum.seconds == 0);
    }
    behind.n_calls = 0;
    for (int k = 0; k < TIMED_N_KINDS; k++)
        timed.kind[k] = (struct timed_kind){0};
}

static void every_operator_is_passed_on_and_counted_once(void **state)
{
    const struct linear w = {.name = "w", .kind = OP_QKV, .n = 3, .k = 4, .packed_bytes = 24},
                        head = {.kind = OP_LM_HEAD, .n = 11, .k = 4, .packed_bytes = 88};
    const struct op_mlp mlp = {.up = {.n = 6, .k = 4, .packed_bytes = 48},
                               .down = {.n = 4, .k = 3, .packed_bytes = 24}};
    struct moe_expert expert[4] = {{.up = mlp.up, .down = mlp.down}};
    const struct moe moe = {
        .router = {.n = 4, .k = 4, .packed_bytes = 64}, .expert = expert, .n_experts = 4, .top_k = 1};
    const struct op_norm norm = {.n = 4};
    const struct op_embed embed = {.offset = 0};
    const struct op_attn attn = {.n_heads = 2, .n_kv = 1, .d = 8};
    const struct op_sink *o = &timed.sink;
    struct batch b = {.n_seqs = 0};
    float x[4], h[4];

    timed_open(&timed, &sink_behind, DT_BF16, NULL, NULL);
    o->begin(o, NULL, 0, &b);
    passed(&b, OP_ROPE, 0, 0);
    o->embed(o, x, &embed, NULL, true, T);
    passed(&embed, TIMED_OTHER, 0, 0);
    o->norm(o, h, x, NULL, &norm, T);
    passed(&norm, OP_NORM, 0, 0);
    o->linear(o, x, &w, h, T);
    passed(&w, OP_QKV, 24, 2 * 3 * 4 * T);
    o->heads(o, x, &attn, T);
    passed(&attn, OP_NORM, 0, 0);
    o->rope(o, x, &attn, T);
    passed(&attn, OP_ROPE, 0, 0);
    o->attn(o, h, x, &attn, &b, 0);
    passed(&attn, OP_ATTENTION, 0, 0);
    o->mlp(o, x, &mlp, h, T);
    passed(&mlp, OP_MLP, 72, 2.0 * T * (6 * 4 + 4 * 3));
    o->moe(o, x, &moe, h, NULL, 1);
    passed(&moe, OP_MLP, 64 + 72, 2.0 * (16 + 36)); /* One row reads one of four experts. */
    o->glu(o, h, x, 1, x, 1, KERN_SILU, 4, T);
    passed(h, TIMED_OTHER, 0, 0);
    o->scale(o, x, 2, 4, T);
    passed(x, TIMED_OTHER, 0, 0);
    o->softcap(o, x, 2, 4, T);
    passed(x, TIMED_OTHER, 0, 0);
    o->add(o, x, h, 4, T);
    passed(x, TIMED_OTHER, 0, 0);
    o->rows(o, x, h, NULL, 4, T);
    passed(x, TIMED_OTHER, 0, 0);
    o->logits(o, x, &head, h, 2);
    passed(&head, OP_LM_HEAD, 88, 2 * 11 * 4 * 2);
    o->logits(o, x, &head, h, 0);
    passed(&head, OP_LM_HEAD, 0, 0);
    o->tap(o, 0, x, NULL, NULL, T);
    passed(x, -1, 0, 0);
}

/* A row sees itself and those of the earlier rows that W and the layer of a sparse cache allow. */
static size_t sees(const struct op_attn *w, size_t most, size_t p)
{
    size_t n = 0;

    for (size_t q = 0; q <= p; q++) {
        bool near = !w->window || p - q < w->window, same = !w->chunk || p / w->chunk == q / w->chunk;

        n += near && same;
    }
    return most && n > most ? most : n;
}

static void check_seen(const struct op_attn *w, size_t layer, size_t most, const struct batch_seq *seq)
{
    const struct batch b = {.n_seqs = 1, .seq = seq};
    double pairs = 0, rows = (double)(sees(w, most, seq->pos) - 1 + seq->n);

    for (size_t i = 0; i < seq->n; i++)
        pairs += (double)sees(w, most, seq->pos + i);
    timed.sink.attn(&timed.sink, NULL, NULL, w, &b, layer);
    /* bytes of K and V in two heads, padded to 16 numbers, with a scale */
    passed(w, OP_ATTENTION, rows * 2 * 2 * (16 + 4), pairs * 4 * 4 * 8);
}

static void attention_counts_the_rows_that_are_seen(void **state)
{
    static const size_t window[2] = {0, WINDOW}, n_sink[2] = {0, SINK};
    static const struct op_attn kinds[] = {{.n_heads = 4, .n_kv = 2, .d = 8, .dp = 16},
                                           {.n_heads = 4, .n_kv = 2, .d = 8, .dp = 16, .window = 3},
                                           {.n_heads = 4, .n_kv = 2, .d = 8, .dp = 16, .chunk = CHUNK}};
    static const struct batch_seq seqs[] = {
        {.n = 1, .pos = 0}, {.n = 9, .pos = 0}, {.n = 1, .pos = 30}, {.n = 6, .pos = 6}};

    for (size_t k = 0; k < 3; k++)
        for (size_t s = 0; s < 4; s++) {
            timed_open(&timed, &sink_behind, DT_I8, window, n_sink);
            check_seen(&kinds[k], 0, 0, &seqs[s]);
            check_seen(&kinds[k], 1, WINDOW + SINK, &seqs[s]);
            timed_open(&timed, &sink_behind, DT_I8, window, NULL);
            check_seen(&kinds[k], 1, WINDOW, &seqs[s]);
        }
}

static void who_watches_is_told_parts_and_names(void **state)
{
    const struct op_mlp mlp = {
        .up = {.name = "up", .n = 6, .k = 4, .packed_bytes = 48, .dtype = DT_BF16},
        .down = {.name = "down", .n = 4, .k = 3, .packed_bytes = 24, .dtype = DT_BF16}};
    struct moe_expert expert[4] = {{.up = mlp.up, .down = mlp.down}};
    const struct moe moe = {.router = {.name = "router", .n = 4, .k = 4, .packed_bytes = 64, .dtype = DT_F32},
                            .expert = expert,
                            .n_experts = 4,
                            .top_k = 1};
    const struct op_sink *o = &timed.sink;
    float x[4];

    timed_open(&timed, &sink_behind, DT_BF16, NULL, NULL);
    timed.each = tell;
    timed.each_ctx = &told;
    o->mlp(o, x, &mlp, x, T);
    assert_int_equal(told.n, 1);
    assert_string_equal(told.op.name, "up");
    assert_true(told.op.is_module && told.op.kind == OP_MLP && told.op.n_parts == 2);
    assert_true(told.op.part[0].bytes == 48 && told.op.part[0].flops == 2 * 6 * 4 * T);
    assert_true(told.op.part[1].bytes == 24 && told.op.part[1].flops == 2 * 4 * 3 * T);
    o->moe(o, x, &moe, x, NULL, 1);
    assert_int_equal(told.n, 2);
    assert_string_equal(told.op.name, "router");
    assert_true(told.op.n_parts == 3 && told.op.part[0].dtype == DT_F32 && told.op.part[1].dtype == DT_BF16);
    assert_true(told.op.part[0].bytes == 64 && fabs(told.op.part[1].bytes - 48) < 1e-9);
    o->add(o, x, x, 4, 1);
    assert_string_equal(told.op.name, "add");
    assert_int_equal(told.op.n_parts, 0);
    assert_int_equal(behind.n_calls, 3);
    behind.n_calls = 0;
}

static void without_a_sink_behind_it_counts_and_computes_nothing(void **state)
{
    const struct linear w = {.kind = OP_OUT, .n = 3, .k = 4, .packed_bytes = 24};
    const struct op_sink *o = &timed.sink;

    timed_open(&timed, NULL, DT_BF16, NULL, NULL);
    o->linear(o, NULL, &w, NULL, T);
    o->norm(o, NULL, NULL, NULL, NULL, T);
    o->embed(o, NULL, NULL, NULL, false, T);
    o->tap(o, 0, NULL, NULL, NULL, T);
    assert_int_equal(behind.n_calls, 0);
    assert_true(timed.kind[OP_OUT].bytes == 24 && timed.kind[OP_OUT].flops == 2 * 3 * 4 * T);
}

static struct pool *pool;

/* A job of two tasks: the other thread has begun the second one when the first ends, and takes 20 ms more. */
struct late {
    atomic_bool begun, ended;
};

static void end_late(void *ctx, int thread, int n_threads)
{
    struct late *late = ctx;

    (void)n_threads;
    if (thread == 0) {
        while (!atomic_load(&late->begun)) /* A task that has not begun would be taken over. */
            sched_yield();
        atomic_store(&late->ended, true);
        return;
    }
    atomic_store(&late->begun, true);
    while (!atomic_load(&late->ended))
        sched_yield();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void norm_that_waits(const struct op_sink *o, float *h, float *x, const float *r,
                            const struct op_norm *w, size_t n)
{
    struct late late = {false, false};

    (void)o, (void)h, (void)x, (void)r, (void)w, (void)n;
    pool_run(pool, end_late, &late);
}

static void what_the_pool_waits_is_booked_on_no_operator(void **state)
{
    const struct op_sink waits = {.norm = norm_that_waits};
    struct err e = {0};
    double total = 0;
    int tries = 0;

    assert_int_equal(pool_new(&pool, 2, &e), 0);
    timed_open(&timed, &waits, DT_BF16, NULL, NULL);
    timed.pool = pool;
    timed.each = tell;
    timed.each_ctx = &told;
    do { /* If the caller lost its processor at the wrong moment, it saw nothing of the wait. */
        pool_run(pool, end_late, &(struct late){false, false}); /* Time between operators counts nowhere. */
        timed.sink.norm(&timed.sink, NULL, NULL, NULL, NULL, T);
        total += told.op.seconds;
        assert_true(fabs(timed.kind[OP_NORM].seconds + timed.waited_seconds - total) < 1e-9);
        assert_true(timed.kind[OP_NORM].seconds >= 0 && timed.waited_seconds > 0);
    } while (timed.waited_seconds < .01 && ++tries < 100);
    assert_true(timed.waited_seconds >= .01);
    pool_free(pool);
}

static void kinds_have_the_names_of_the_settings(void **state)
{
    assert_string_equal(timed_name(OP_NORM), "norm");
    assert_string_equal(timed_name(OP_LM_HEAD), "lm_head");
    assert_string_equal(timed_name(TIMED_OTHER), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_operator_is_passed_on_and_counted_once),
                                       cmocka_unit_test(attention_counts_the_rows_that_are_seen),
                                       cmocka_unit_test(who_watches_is_told_parts_and_names),
                                       cmocka_unit_test(without_a_sink_behind_it_counts_and_computes_nothing),
                                       cmocka_unit_test(what_the_pool_waits_is_booked_on_no_operator),
                                       cmocka_unit_test(kinds_have_the_names_of_the_settings)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
