/* test_planned.c - a step that is one job of the pool gives the bits of the eager sink, for every family and type, and
 * its threads meet seldom.
 *
 * Each case computes the same steps twice with one engine, in two sets of slots: with the eager sink and as one job.
 */
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/llm.h"
#include "engines.h"
#include "goldfile.h"
#include "ops/planned/planned.h"

enum { SEQS = 8, LONGEST = 320, SHORT = 96, MOST_ROWS = 64 };

static int32_t ids[SEQS][LONGEST];

/* An engine whose steps are jobs even if other processes disturb them. */
static struct gallop *open_planned(const char *model, struct gallop_options *o)
{
    struct gallop *g = NULL;
    char err[GALLOP_ERR_SIZE];

    o->executor = "planned";
    o->max_logits = MOST_ROWS;
    o->max_num_seqs = 2 * SEQS;
    o->max_batched_tokens = MOST_ROWS;
    o->max_model_len = LONGEST;
    if (engines_try(&g, model, o, err) != 0) { /* learned positions end before LONGEST */
        o->max_model_len = SHORT;
        g = engines_open(model, o);
    }
    for (size_t s = 0; s < SEQS; s++)
        engines_text(s, 0, LONGEST, ids[s]);
    assert_non_null(engine_llm(g)->planned);
    planned_insist(engine_llm(g)->planned);
    return g;
}

/* One step: N rows of each of the sequences [0, SEQS), which begin at position POS plus their number. */
struct shape {
    size_t seqs, n, pos;
};

/* Computes the rows [0, pos + s) of all sequences in the slots from FIRST with the eager sink. */
static void fill(struct llm *m, const struct shape *x, size_t first)
{
    struct planned *p = m->planned;

    m->planned = NULL;
    for (size_t s = 0; s < x->seqs; s++)
        if (x->pos + s > 0)
            engines_compute(m, first + s, ids[s], 0, x->pos + s, MOST_ROWS, x->pos + s + x->n);
    m->planned = p;
}

/* Computes X in the slots from FIRST. */
static void run(struct llm *m, const struct shape *x, size_t first)
{
    struct executor_rows rows[SEQS];

    for (size_t s = 0; s < x->seqs; s++) {
        rows[s] = (struct executor_rows){.slot = first + s,
                                         .id = ids[s] + x->pos + s,
                                         .n = x->n,
                                         .pos = x->pos + s,
                                         .n_prompt = x->pos + s + x->n,
                                         .n_total = x->pos + s + x->n,
                                         .n_wanted = x->n};
        assert_int_equal(kv_reserve(&m->kv, first + s, x->pos + s + x->n), 0);
    }
    llm_layers(m, &m->model, &m->work, rows, x->seqs);
    llm_tail(m, &m->model, &m->work, 0, x->seqs * x->n);
    for (size_t s = 0; s < x->seqs; s++)
        kv_advance(&m->kv, first + s, x->pos + s + x->n);
}

/* Compares X, and one more row of each sequence after it, which reads what X has stored. */
static void compare(const char *name, struct llm *m, const struct shape *x)
{
    size_t V = m->model.info.vocab, floats = x->seqs * x->n * V;
    struct planned *p = m->planned;
    float *want = malloc(floats * sizeof(float));
    uint64_t before = planned_meetings(p);
    struct shape at = *x;

    assert_non_null(want);
    fill(m, x, 0);
    fill(m, x, SEQS);
    for (int again = 0; again < 2; again++, at.pos += at.n, at.n = 1) {
        m->planned = NULL;
        run(m, &at, 0);
        memcpy(want, m->logits, at.seqs * at.n * V * sizeof(float));
        m->planned = p;
        memset(m->logits, 0, at.seqs * at.n * V * sizeof(float));
        run(m, &at, SEQS);
        if (memcmp(want, m->logits, at.seqs * at.n * V * sizeof(float)) != 0)
            fail_msg("%s: %zu sequences with %zu rows from %zu: other bits", name, at.seqs, at.n, at.pos);
    }
    assert_true(planned_meetings(p) > before || m->model.info.n_experts);
    for (size_t s = 0; s < 2 * SEQS; s++)
        kv_truncate(&m->kv, s, 0);
    free(want);
}

static const struct shape shapes[] = {
    {1, 1, 0},  {1, 1, 40},  {2, 1, 15},  {8, 1, 30},   {2, 8, 0},  {1, 16, 20}, {4, 16, 9},
    {8, 2, 14}, {1, 1, 256}, {8, 1, 251}, {1, 12, 250}, {3, 1, 290} /* the last four have several chunks of keys */
};

static void compare_steps(const char *name, struct gallop_options *o)
{
    struct gallop *g = open_planned(name, o);

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (shapes[i].pos + shapes[i].seqs + shapes[i].n < (size_t)o->max_model_len)
            compare(name, engine_llm(g), &shapes[i]);
    gallop_close(g);
}

static void every_family_gives_the_same_bits(void **state)
{
    char names[64][64];
    size_t n = goldfile_list(GALLOP_SOURCE_DIR "/test/golden", names, 64);

    assert_true(n > 20);
    for (size_t i = 0; i < n; i++) {
        struct gallop_options o = engines_options(0, 0, 0);

        o.dtype = i % 2 ? "bf16" : "fp32";
        o.threads = 1 + (int)(i % 3);
        compare_steps(names[i], &o);
    }
}

static void every_type_gives_the_same_bits(void **state)
{
    static const struct {
        const char *model, *dtype, *quant, *rows, *sparse;
        int threads;
    } cases[] = {
        {"llama3-rope", "fp32", NULL, "bf16", NULL, 2},
        {"llama3-rope", "bf16", NULL, NULL, NULL, 3},
        {"llama3-rope", "bf16", "int8", "int8", NULL, 2},
        {"llama3-rope", "bf16", "int4", "int4", NULL, 2},
        {"qwen3", "bf16", "int4", NULL, NULL, 2},
        {"qwen2-window", "bf16", "mxfp4", NULL, NULL, 2},
        {"gemma3", "bf16", "int8", "int8", NULL, 2},
        {"gemma4", "bf16", "int4", NULL, NULL, 2},
        {"gptj", "bf16", "int8", NULL, NULL, 2},
        {"gpt2", "bf16", "{\"mlp\":\"int8\"}", NULL, NULL, 2},
        {"llama3-rope", "bf16", NULL, "int8", "sink=4,window=48", 2},
        {"gemma3", "fp32", NULL, NULL, "sink=4,window=48", 2},
        {GALLOP_SOURCE_DIR "/test/data/blocks.gguf", "bf16", NULL, NULL, NULL, 2},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gallop_options o = engines_options(0, 0, 0);

        o.dtype = cases[i].dtype;
        o.quant = cases[i].quant;
        o.kv_cache_dtype = cases[i].rows;
        o.kv_sparse = cases[i].sparse;
        o.threads = cases[i].threads;
        compare_steps(cases[i].model, &o);
    }
}

/* A sequence reads rows that another one computes in the same step: its tasks cannot store what they read. */
static void a_sequence_reads_rows_of_the_same_step(void **state)
{
    struct gallop_options o = engines_options(0, 0, 0);
    struct gallop *g;
    struct llm *m;
    size_t V;
    float *want;

    o.threads = 2;
    g = open_planned("llama3-rope", &o);
    m = engine_llm(g);
    V = m->model.info.vocab;
    want = malloc(2 * V * sizeof(float));
    assert_non_null(want);
    for (int planned = 0; planned < 2; planned++) {
        struct planned *p = m->planned;
        size_t a = planned ? 2 : 0, b = a + 1;
        struct executor_rows rows[] = {
            {.slot = a, .id = ids[0], .n = 16, .n_prompt = 16, .n_total = 16, .n_wanted = 1},
            {.slot = b, .id = ids[0] + 16, .n = 1, .pos = 16, .n_prompt = 17, .n_total = 17, .n_wanted = 1}};

        assert_int_equal(kv_reserve(&m->kv, a, 16), 0);
        assert_int_equal(kv_fork(&m->kv, a, 16, b), 0);
        assert_int_equal(kv_reserve(&m->kv, b, 17), 0);
        m->planned = planned ? p : NULL;
        llm_forward(m, rows, 2);
        m->planned = p;
        if (planned)
            assert_memory_equal(want, m->logits, 2 * V * sizeof(float));
        else
            memcpy(want, m->logits, 2 * V * sizeof(float));
    }
    free(want);
    gallop_close(g);
}

/* Returns the meetings of a layer in a step of SEQS sequences with a row each. */
static double meetings(const char *quant, size_t seqs)
{
    struct gallop_options o = engines_options(0, 0, 0);
    struct executor_rows rows[SEQS];
    struct gallop *g;
    struct llm *m;
    uint64_t before;
    double result;

    o.dtype = "bf16";
    o.quant = quant;
    o.threads = 2;
    g = open_planned("llama3-rope", &o);
    m = engine_llm(g);
    for (size_t s = 0; s < seqs; s++) {
        rows[s] = (struct executor_rows){.slot = s, .id = ids[s], .n = 1, .n_prompt = 1, .n_total = 1};
        assert_int_equal(kv_reserve(&m->kv, s, 1), 0);
    }
    before = planned_meetings(m->planned);
    llm_layers(m, &m->model, &m->work, rows, seqs);
    result = (double)(planned_meetings(m->planned) - before) / (double)m->model.info.n_layers;
    gallop_close(g);
    return result;
}

static void threads_meet_five_times_a_layer_with_one_row_and_seven_with_more(void **state)
{
    static const char *const quants[] = {NULL, "int8", "int4"};

    for (size_t i = 0; i < 3; i++) {
        double one = meetings(quants[i], 1), more = meetings(quants[i], SEQS);

        if (one > 5 || more > 7)
            fail_msg("quant %s: %.2f meetings a layer with one row and %.2f with more",
                     quants[i] ? quants[i] : "none", one, more);
    }
}

/* A sequence that reads rows of the same step costs a meeting more, which the count shows. */
static void a_meeting_more_is_counted(void **state)
{
    struct gallop_options o = engines_options(0, 0, 0);
    struct executor_rows rows[2] = {
        {.slot = 0, .id = ids[0], .n = 16, .n_prompt = 16, .n_total = 16},
        {.slot = 1, .id = ids[0] + 16, .n = 1, .pos = 16, .n_prompt = 17, .n_total = 17}};
    uint64_t before, alone;
    struct gallop *g;
    struct llm *m;

    o.dtype = "bf16";
    o.quant = "int8";
    o.threads = 2;
    g = open_planned("llama3-rope", &o);
    m = engine_llm(g);
    assert_int_equal(kv_reserve(&m->kv, 0, 16), 0);
    assert_int_equal(kv_fork(&m->kv, 0, 16, 1), 0);
    assert_int_equal(kv_reserve(&m->kv, 1, 17), 0);
    before = planned_meetings(m->planned);
    llm_layers(m, &m->model, &m->work, rows, 1);
    alone = planned_meetings(m->planned) - before;
    llm_layers(m, &m->model, &m->work, rows, 2);
    assert_true(planned_meetings(m->planned) - before - alone >= alone + m->model.info.n_layers);
    assert_true(planned_meetings(m->planned) - before - alone > 7 * m->model.info.n_layers);
    gallop_close(g);
}

/* ---- fallbacks ---- */

struct late {
    const struct op_sink *first;
    float x[2];
};

/* The second thread comes late to a meeting. */
static void walk_late(void *ctx, const struct op_sink *o)
{
    struct late *l = ctx;

    if (o != l->first)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    o->softcap(o, l->x, 1, 2, 1);
    o->softcap(o, l->x, 1, 2, 1);
}

/* Returns how many times as long as a late step steps are left to the eager sink after it. */
static double pause_after_late_step(struct planned *p, struct late *l, const struct batch *b)
{
    double begin = clock_seconds(), end;

    planned_run(p, 1, l->first, walk_late, l);
    end = clock_seconds();
    while (!planned_takes(p, b, false))
        clock_sleep(0.001);
    return (clock_seconds() - end) / (end - begin);
}

static void after_a_thread_has_slept_steps_are_left_to_the_eager_sink(void **state)
{
    struct gallop_options o = engines_options(2, 16, 64);
    const struct batch_seq seq = {.n = 1};
    const struct batch b = {.n_tokens = 1, .n_seqs = 1, .seq = &seq};
    struct planned *p;
    struct gallop *g;
    struct late l = {0};
    double first, second;

    o.executor = "planned";
    o.threads = 2;
    g = engines_open("demo", &o);
    p = engine_llm(g)->planned;
    assert_true(planned_takes(p, &b, false));
    l.first = planned_sink(p);
    first = pause_after_late_step(p, &l, &b);
    second = pause_after_late_step(p, &l, &b);
    assert_true(first > 20);
    assert_true(second > 1.2 * first);
    planned_run(p, 1, l.first, walk_late, &l);
    planned_insist(p);
    assert_true(planned_takes(p, &b, false));
    gallop_close(g);
}

/* A walk of the layers in which the second thread begins late. */
struct late_layers {
    struct llm *m;
    const struct batch *b;
    struct model_work *work;
};

static void walk_layers(void *ctx, const struct op_sink *o)
{
    struct late_layers *l = ctx;

    if (o != planned_sink(l->m->planned))
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    model_layers(&l->m->model, o, l->b, l->work);
}

/* Compares T rows of a sequence whose threads part at the second meeting with the eager sink. */
static void compare_parted(const char *name, size_t T, struct gallop_options *o)
{
    struct gallop *g = open_planned(name, o);
    struct llm *m = engine_llm(g);
    size_t E = m->model.info.hidden;
    int32_t pos[PLANNED_SEQ];
    struct batch_seq seq = {.n = T, .n_prompt = T, .n_total = T};
    struct batch b = {.n_tokens = T, .n_seqs = 1, .id = ids[0], .pos = pos, .seq = &seq};
    struct late_layers l = {m, &b, planned_is_solo(T) ? &m->solo : &m->work};
    float *want = malloc(2 * T * E * sizeof(float));

    assert_non_null(want);
    for (size_t i = 0; i < T; i++)
        pos[i] = (int32_t)i;
    assert_int_equal(kv_reserve(&m->kv, 0, T), 0);
    seq.kv = kv_view(&m->kv, 0);
    model_layers(&m->model, eager_sink(m->eager), &b, &m->work);
    memcpy(want, m->work.x, T * E * sizeof(float));
    memcpy(want + T * E, m->work.r, T * E * sizeof(float));
    assert_true(planned_takes(m->planned, &b, false));
    planned_run(m->planned, T, planned_sink(m->planned), walk_layers, &l);
    if (planned_is_solo(T)) {
        planned_copy(m->planned, m->work.x, m->solo.x, E);
        planned_copy(m->planned, m->work.r, m->solo.r, E);
    }
    assert_memory_equal(want, m->work.x, T * E * sizeof(float));
    assert_memory_equal(want + T * E, m->work.r, T * E * sizeof(float));
    free(want);
    gallop_close(g);
}

static void a_thread_that_is_left_alone_computes_the_same_bits(void **state)
{
    static const char *const names[] = {"llama3-rope", "gemma3", "gpt2"};

    for (size_t i = 0; i < 3; i++)
        for (size_t T = 1; T <= PLANNED_SEQ; T *= 4) {
            struct gallop_options o = engines_options(0, 0, 0);

            o.threads = 2;
            o.quant = i == 0 ? "int8" : NULL;
            compare_parted(names[i], T, &o);
        }
}

static void large_steps_mixtures_and_captured_states_are_left_to_the_eager_sink(void **state)
{
    struct gallop_options o = engines_options(2, 128, 128);
    struct batch_seq seq = {.n = PLANNED_SEQ};
    struct batch b = {.n_tokens = PLANNED_SEQ, .n_seqs = 1, .seq = &seq};
    struct gallop *g;
    float hidden;

    o.executor = "planned";
    g = engines_open("demo", &o);
    assert_true(planned_takes(engine_llm(g)->planned, &b, false));
    b.n_tokens = seq.n = PLANNED_SEQ + 1;
    assert_false(planned_takes(engine_llm(g)->planned, &b, false));
    b.n_tokens = seq.n = 1;
    eager_capture(engine_llm(g)->eager, &hidden, 1, 0);
    assert_false(planned_takes(engine_llm(g)->planned, &b, false));
    eager_capture(engine_llm(g)->eager, NULL, 0, 0);
    assert_true(planned_takes(engine_llm(g)->planned, &b, false));
    gallop_close(g);
    g = engines_open("mixtral", &o);
    assert_false(planned_takes(engine_llm(g)->planned, &b, false));
    gallop_close(g);
}

static void sinks_without_memory_are_an_error(void **state)
{
    struct gallop_options o = engines_options(2, 16, 64);
    struct gallop *g;
    struct planned *p;
    struct err e = {0};
    struct llm *m;

    o.executor = "planned";
    g = engines_open("demo", &o);
    m = engine_llm(g);
    for (long n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(planned_new(&p, m->eager, m->solo.region, m->solo.region_bytes, &e), ERR_NOMEM);
        assert_null(p);
    }
    mem_fail_at(0);
    assert_int_equal(planned_new(&p, m->eager, m->solo.region, m->solo.region_bytes, &e), 0);
    planned_free(p);
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_gives_the_same_bits),
        cmocka_unit_test(every_type_gives_the_same_bits),
        cmocka_unit_test(a_sequence_reads_rows_of_the_same_step),
        cmocka_unit_test(threads_meet_five_times_a_layer_with_one_row_and_seven_with_more),
        cmocka_unit_test(a_meeting_more_is_counted),
        cmocka_unit_test(after_a_thread_has_slept_steps_are_left_to_the_eager_sink),
        cmocka_unit_test(a_thread_that_is_left_alone_computes_the_same_bits),
        cmocka_unit_test(large_steps_mixtures_and_captured_states_are_left_to_the_eager_sink),
        cmocka_unit_test(sinks_without_memory_are_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
