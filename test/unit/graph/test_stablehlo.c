/* test_stablehlo.c - the text of programs: how mixtures are computed, what cannot be lowered, and that a program
 * depends on nothing but its frame. Plugins compute them in test_pjrt.c. */
#include "base/err.h"
#include "base/mem.h"
#include "engine/llm.h"
#include "engines.h"
#include "gallop.h"
#include "graph/record.h"
#include "graph/stablehlo.h"
#include "model/model.h"

static struct stablehlo_frame frame_of(enum stablehlo_part part, size_t n_seqs, size_t rows, size_t n_wanted)
{
    return (struct stablehlo_frame){.part = part,
                                    .n_seqs = n_seqs,
                                    .rows = rows,
                                    .n_wanted = n_wanted,
                                    .n_slots = 4,
                                    .context = 64,
                                    .seen = 32,
                                    .dtype = DT_F32,
                                    .kv_dtype = DT_F32};
}

static int write_frame(struct stablehlo *p, const struct model *m, const struct stablehlo_frame *f,
                       struct err *e)
{
    struct graph g;
    int rc = graph_record(&g, m, f->n_seqs * f->rows, f->n_wanted, e);

    *p = (struct stablehlo){0};
    if (rc)
        return rc;
    rc = stablehlo_write(p, &g, m, f, e);
    graph_fini(&g);
    return rc;
}

/* Returns how often WHAT is in the program of F. */
static size_t count(const struct model *m, struct stablehlo_frame f, const char *what)
{
    struct stablehlo p;
    struct err e = {0};
    size_t n = 0;

    if (write_frame(&p, m, &f, &e) != 0)
        fail_msg("%s", e.msg);
    for (const char *at = p.text.data; (at = strstr(at, what)) != NULL; at++)
        n++;
    stablehlo_fini(&p);
    return n;
}

static struct gallop *open_model(const char *name, const char *quant)
{
    struct gallop_options o = engines_options(1, 64, 0);

    o.quant = quant;
    return engines_open(name, &o);
}

/* A loop would compute all experts for a row of a decoding frame; matrices that are gathered for each row of a prompt
 * would need the memory of all of them. */
static void few_rows_gather_their_experts_and_many_go_from_one_to_the_next(void **state)
{
    static const char *const names[] = {"mixtral", "qwen3-moe"};

    for (int i = 0; i < 4; i++) {
        struct gallop *g = open_model(names[i / 2], i % 2 ? "int8" : NULL);
        const struct model *m = &engine_llm(g)->model;
        const struct model_info *info = &m->info;
        size_t few = info->n_experts / info->top_k, parts = i % 2 ? 2 : 1, L, without;

        assert_int_equal(count(m, frame_of(STABLEHLO_STEP, few, 1, few), "stablehlo.while"), 0);
        L = count(m, frame_of(STABLEHLO_PROMPT, 1, few + 1, 1), "stablehlo.while"); /* layers with experts */
        assert_true(L > 0 && L <= info->n_layers);
        without = count(m, frame_of(STABLEHLO_STEP, few + 1, 1, few), "stablehlo.gather\"");
        /* up and down of each of a row's experts, with integers their scales, too */
        assert_int_equal(count(m, frame_of(STABLEHLO_STEP, few, 1, few), "stablehlo.gather\""),
                         without + L * info->top_k * 2 * parts);
        gallop_close(g);
    }
}

static void experts_of_gpt_oss_are_refused_by_layer_and_reason(void **state)
{
    struct gallop *g = open_model("gpt-oss", NULL);
    struct stablehlo_frame f = frame_of(STABLEHLO_STEP, 1, 1, 1);
    struct stablehlo p;
    struct err e = {0};

    assert_int_equal(write_frame(&p, &engine_llm(g)->model, &f, &e), ERR_UNSUPPORTED);
    assert_string_equal(e.msg, "pjrt: layer 0: experts with biases or limits are not served");
    stablehlo_fini(&p);
    gallop_close(g);
}

/* A masked key has the weight 0, and 0 times infinity is NaN. */
static void values_that_are_not_finite_are_not_stored(void **state)
{
    static const char *const names[] = {"demo", "gemma4"}; /* layers of gemma4 share caches */

    for (int i = 0; i < 2; i++) {
        struct gallop *g = open_model(names[i], NULL);
        const struct model *m = &engine_llm(g)->model;
        struct stablehlo_frame f = frame_of(STABLEHLO_STEP, 2, 1, 2);
        struct stablehlo p;
        struct err e = {0};

        assert_int_equal(write_frame(&p, m, &f, &e), 0);
        assert_true(p.n_caches > 0);
        assert_int_equal(count(m, f, "stablehlo.is_finite"), p.n_caches);
        stablehlo_fini(&p);
        gallop_close(g);
    }
}

static void a_head_has_no_caches_and_weights_of_the_body_only(void **state)
{
    struct gallop *g = open_model("demo", NULL);
    const struct model *m = &engine_llm(g)->model;
    struct stablehlo_frame f = frame_of(STABLEHLO_PROMPT, 1, 16, 1),
                           head = frame_of(STABLEHLO_HEAD, 1, 16, 8);
    struct stablehlo body, tail;
    struct err e = {0};

    assert_int_equal(write_frame(&body, m, &f, &e), 0);
    assert_int_equal(write_frame(&tail, m, &head, &e), 0);
    assert_int_equal(tail.n_caches, 0);
    assert_true(tail.n_weights > 0 && tail.n_weights < body.n_weights && tail.n_hidden == body.n_hidden);
    for (size_t i = 0; i < tail.n_weights; i++) {
        size_t k = 0;

        while (k < body.n_weights && !stablehlo_is_same(&body.weight[k], &tail.weight[i]))
            k++;
        assert_true(k < body.n_weights);
    }
    assert_null(strstr(tail.text.data, "tf.aliasing_output"));
    stablehlo_fini(&body);
    stablehlo_fini(&tail);
    gallop_close(g);
}

static void a_program_is_the_same_text_every_time(void **state)
{
    struct gallop *g = open_model("demo", "int4"), *again = open_model("demo", "int4");
    struct stablehlo_frame f = frame_of(STABLEHLO_PROMPT, 1, 16, 1);
    struct stablehlo a, b;
    struct err e = {0};

    assert_int_equal(write_frame(&a, &engine_llm(g)->model, &f, &e), 0);
    assert_int_equal(write_frame(&b, &engine_llm(again)->model, &f, &e), 0);
    assert_int_equal(a.text.len, b.text.len);
    assert_memory_equal(a.text.data, b.text.data, a.text.len);
    stablehlo_fini(&a);
    stablehlo_fini(&b);
    gallop_close(g);
    gallop_close(again);
}

static void every_allocation_may_fail(void **state)
{
    struct gallop *g = open_model("demo", "int4");
    struct stablehlo_frame f = frame_of(STABLEHLO_PROMPT, 1, 16, 1);
    bool failed = true;

    for (long n = 1; failed; n++) {
        struct stablehlo p;
        struct err e;
        int rc;

        mem_fail_at(n);
        rc = write_frame(&p, &engine_llm(g)->model, &f, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
        stablehlo_fini(&p);
    }
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rows_gather_their_experts_and_many_go_from_one_to_the_next),
        cmocka_unit_test(experts_of_gpt_oss_are_refused_by_layer_and_reason),
        cmocka_unit_test(values_that_are_not_finite_are_not_stored),
        cmocka_unit_test(a_head_has_no_caches_and_weights_of_the_body_only),
        cmocka_unit_test(a_program_is_the_same_text_every_time),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
