/* test_engines.c - several engines in one process: each keeps its own instruction set, bits and tokens,
 * whatever is opened or computed at the same time, with its own or shared threads. It also runs under
 * ThreadSanitizer. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/cpu.h"
#include "engine/llm.h"
#include "engines.h"
#include "kern/kern.h"

enum { N = 40, NEW = 24, VOCAB_MOST = 512 };

/* One model has matrices in bf16, and one has experts in four bits, which are unpacked in the scratch of the
 * pool. */
static const char *const models[] = {"llama3-rope", "gpt-oss"};
enum { N_MODELS = sizeof(models) / sizeof(models[0]) };

static struct gallop *open_on(const char *model, const char *isa, int threads, struct gallop *share)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.isa = isa;
    o.threads = threads;
    o.share_pool = share;
    o.max_num_seqs = 2;
    o.max_model_len = 256;
    return engines_open(model, &o);
}

struct row {
    float x[VOCAB_MOST];
    size_t V;
};

/* Returns the logits after the prompt. */
static void last_row(struct gallop *g, struct row *r)
{
    int32_t ids[N];
    float *x;

    engines_text(0, 0, N, ids);
    *r = (struct row){.V = engine_llm(g)->model.info.vocab};
    assert_true(r->V <= VOCAB_MOST);
    x = engines_logits(engine_llm(g), ids, N, 1, 16, NULL);
    memcpy(r->x, x, r->V * sizeof(float));
    free(x);
}

static void logits_are(struct gallop *g, const struct row *want, const char *who)
{
    struct row got;

    last_row(g, &got);
    if (memcmp(&got, want, sizeof(got)) != 0)
        fail_msg("%s: logits are not those it gives alone (first %g, alone %g)", who, (double)got.x[0],
                 (double)want->x[0]);
}

static void alone(const char *model, const char *isa, struct row *r)
{
    struct gallop *g = open_on(model, isa, 2, NULL);

    last_row(g, r);
    gallop_close(g);
}

static const char *gemm_class(struct gallop *g)
{
    return kern_class(engine_llm(g)->kern, KERN_FN_gemm_bf16);
}

static void engines_of_two_instruction_sets_keep_their_bits(void **state)
{
    const char *best = cpu_isa_name(cpu_best());

    for (int i = 0; i < N_MODELS; i++) {
        struct row ref, fast;
        struct gallop *a, *b;

        alone(models[i], "ref", &ref);
        alone(models[i], best, &fast);
        a = open_on(models[i], "ref", 2, NULL);
        logits_are(a, &ref, "ref");
        b = open_on(models[i], best, 2, NULL);
        for (int round = 0; round < 2; round++) {
            logits_are(a, &ref, "ref, beside a faster engine");
            logits_are(b, &fast, "the fastest, beside a portable one");
        }
        assert_string_equal(gemm_class(a), "bf16");
        assert_int_equal(kern_isa(engine_llm(a)->kern, KERN_FN_gemm_bf16), CPU_REF);
        assert_string_equal(cpu_isa_name(kern_isa(engine_llm(b)->kern, KERN_FN_gemm_bf16)),
                            engine_llm(b)->isa);
        if (strcmp(gemm_class(b), "bf16") != 0) /* Otherwise both give the same bits. */
            assert_memory_not_equal(&ref, &fast, sizeof(ref));
        gallop_close(a);
        logits_are(b, &fast, "the fastest, the portable one closed");
        gallop_close(b);
    }
}

/* ---- at once ---- */

struct runner {
    const char *model, *isa;
    const struct row *want;
    int rounds;
    int wrong; /* the number of rounds with other bits */
};

/* Opens, computes and closes in a loop. */
static void *run_rounds(void *ctx)
{
    struct runner *r = ctx;

    for (int i = 0; i < r->rounds; i++) {
        struct gallop *g = open_on(r->model, r->isa, 2, NULL);
        struct row got;

        for (int k = 0; k < 2; k++) {
            last_row(g, &got);
            r->wrong += memcmp(&got, r->want, sizeof(got)) != 0;
        }
        gallop_close(g);
    }
    return NULL;
}

static void engines_opened_and_run_by_two_threads_at_once_keep_their_bits(void **state)
{
    const char *best = cpu_isa_name(cpu_best());
    struct row ref, fast;
    struct runner slow = {.model = models[0], .isa = "ref", .want = &ref, .rounds = 4},
                  quick = {.model = models[0], .isa = best, .want = &fast, .rounds = 6};
    pthread_t thread[2];

    alone(models[0], "ref", &ref);
    alone(models[0], best, &fast);
    assert_int_equal(pthread_create(&thread[0], NULL, run_rounds, &slow), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, run_rounds, &quick), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(slow.wrong, 0);
    assert_int_equal(quick.wrong, 0);
}

/* ---- on the same threads ---- */

/* Adds one event of G to its answer. Returns false if no request is left. */
static bool step(struct gallop *g, struct engines_answer *a)
{
    struct gallop_event ev;

    if (!gallop_next(g, &ev))
        return false;
    engines_take(a, &ev);
    return true;
}

static void answer_alone(const char *model, struct engines_answer *a)
{
    struct gallop *g = open_on(model, NULL, 2, NULL);

    engines_submit_text(g, N, NEW, 0);
    engines_run(g, a);
    gallop_close(g);
}

/* The engine that owns the threads is closed while the others generate. */
static void engines_on_shared_threads_take_turns_and_keep_their_tokens(void **state)
{
    static struct engines_answer want[N_MODELS + 1], got[N_MODELS + 1];
    struct gallop *g[N_MODELS + 1];
    char says[256];
    bool more = true;

    for (int i = 0; i <= N_MODELS; i++) { /* the first model again, with itself as its draft model */
        answer_alone(models[i % N_MODELS], &want[i]);
        g[i] = open_on(models[i % N_MODELS], NULL, i ? 0 : 3, i ? g[i - 1] : NULL);
        assert_int_equal(engines_stats(g[i]).threads, 3);
        engines_submit_text(g[i], N, NEW, 0);
    }
    while (more) {
        more = false;
        for (int i = 0; i <= N_MODELS; i++)
            if (g[i] && step(g[i], &got[i]))
                more = true;
        if (g[0] && got[0].n == NEW) {
            gallop_close(g[0]);
            g[0] = NULL;
        }
    }
    got[0].ended = true; /* Its engine was closed before it could report the end. */
    got[0].end.finish = want[0].end.finish;
    for (int i = 0; i <= N_MODELS; i++) {
        if (want[i].n != NEW || engines_differ(&got[i], &want[i], 1, says))
            fail_msg("engine %d: %s", i, says);
        gallop_close(g[i]);
    }
}

struct sharer {
    const char *model;
    struct gallop *share;
    const struct engines_answer *want;
    int wrong; /* the number of rounds with another answer */
};

/* Opens, runs and closes engines on the threads of another one. */
static void *run_on_shared_threads(void *ctx)
{
    struct sharer *s = ctx;

    for (int round = 0; round < 3; round++) {
        struct gallop *g = open_on(s->model, NULL, 0, s->share);
        struct engines_answer got = {.n = 0};
        char says[256];

        engines_submit_text(g, N, NEW, 0);
        engines_run(g, &got);
        s->wrong += got.n != NEW || engines_differ(&got, s->want, 1, says);
        gallop_close(g);
    }
    return NULL;
}

static void several_threads_run_engines_on_shared_threads(void **state)
{
    static struct engines_answer want[N_MODELS], got;
    struct sharer s[N_MODELS];
    pthread_t thread[N_MODELS];
    struct gallop *g;
    char says[256];

    for (int i = 0; i < N_MODELS; i++)
        answer_alone(models[i], &want[i]);
    g = open_on(models[0], NULL, 2, NULL);
    for (int i = 0; i < N_MODELS; i++) {
        s[i] = (struct sharer){.model = models[i], .share = g, .want = &want[i]};
        assert_int_equal(pthread_create(&thread[i], NULL, run_on_shared_threads, &s[i]), 0);
    }
    engines_submit_text(g, N, NEW, 0);
    engines_run(g, &got);
    for (int i = 0; i < N_MODELS; i++)
        pthread_join(thread[i], NULL);
    gallop_close(g);
    if (engines_differ(&got, &want[0], 1, says))
        fail_msg("the engine that owns the threads: %s", says);
    for (int i = 0; i < N_MODELS; i++)
        assert_int_equal(s[i].wrong, 0);
}

static void shared_threads_cannot_be_of_another_number(void **state)
{
    struct gallop *a = open_on(models[0], NULL, 2, NULL), *b;
    struct gallop_options o;
    char err[GALLOP_ERR_SIZE] = "";

    gallop_options_init(&o);
    o.share_pool = a;
    o.threads = 3;
    assert_int_equal(engines_try(&b, models[0], &o, err), GALLOP_BAD_INPUT);
    assert_string_equal(err, "threads is 3, but the engine whose threads are shared has 2");
    o.threads = 2;
    b = engines_open(models[0], &o);
    gallop_close(b);
    gallop_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_of_two_instruction_sets_keep_their_bits),
        cmocka_unit_test(engines_opened_and_run_by_two_threads_at_once_keep_their_bits),
        cmocka_unit_test(engines_on_shared_threads_take_turns_and_keep_their_tokens),
        cmocka_unit_test(several_threads_run_engines_on_shared_threads),
        cmocka_unit_test(shared_threads_cannot_be_of_another_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
