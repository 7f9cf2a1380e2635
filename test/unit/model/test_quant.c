/* test_quant.c - the meaning of --quant for each kind of linear, and its text in the packed file. */
#include "check.h"
#include "model/quant.h"
#include "sentence.h"

static void expect(const char *said, const char *text)
{
    struct quant_map q, again;
    char out[QUANT_TEXT_MAX], other[QUANT_TEXT_MAX];
    struct err e;

    if (quant_read(&q, said, &e) != 0)
        fail_msg("%s: %s", said, e.msg);
    quant_text(&q, "stored", out);
    assert_string_equal(out, text);
    if (said && strcmp(text, "stored") != 0) {
        assert_int_equal(quant_read(&again, out, &e), 0);
        quant_text(&again, "stored", other);
        assert_string_equal(other, out);
    }
}

static void a_name_is_another_when_it_is_read_again(void **state)
{
    static const char *const names[] = {"none", "int8", "int8-static", "int4", "int4-g128", "mxfp4"};

    for (size_t i = 0; i < 6; i++)
        expect(names[i], names[i]);
    expect(NULL, "stored");
    expect("{}", "stored");
    expect("{\"mlp\":\"int4\"}", "{\"mlp\":\"int4\"}");
    expect("{\"lm_head\":\"int8\",\"mlp\":\"int8\",\"out_projection\":\"int8\",\"qkv_projection\":\"int8\"}",
           "int8");
    expect("{\"lm_head\":\"int8\",\"mlp\":\"int4\",\"out_projection\":\"int4\",\"qkv_projection\":\"int4\"}",
           "int4");
    expect(
        "{\"lm_head\":\"int4-g128\",\"mlp\":\"int4-g128\",\"out_projection\":\"int4-g128\",\"qkv_projection\":"
        "\"int4-g128\"}",
        "{\"qkv_projection\":\"int4-g128\",\"out_projection\":\"int4-g128\",\"mlp\":\"int4-g128\","
        "\"lm_head\":\"int4-g128\"}");
}

static void a_kind_gets_what_another_was_given(void **state)
{
    struct quant_map q;
    struct err e;

    assert_int_equal(quant_read(&q, "{\"mlp\":\"mxfp4\",\"lm_head\":\"none\"}", &e), 0);
    assert_int_equal(q.of[OP_MLP], QUANT_MXFP4);
    assert_int_equal(q.of[OP_LM_HEAD], QUANT_NONE);
    assert_int_equal(q.of[OP_QKV], QUANT_AS_STORED);
    assert_int_equal(q.of[OP_OUT], QUANT_AS_STORED);
    assert_int_equal(quant_read(&q, "int4", &e), 0);
    assert_int_equal(q.of[OP_LM_HEAD], QUANT_INT8);
    assert_int_equal(q.of[OP_QKV], QUANT_INT4);
}

static void words_that_mean_nothing_are_taken(void **state)
{
    static const struct {
        const char *said, *found;
    } bad[] = {{"int5", "'int5'"},
               {"", "''"},
               {"{\"mlp\":\"int5\"}", "'int5' for mlp"},
               {"{\"mlp\":4}", "for mlp"},
               {"{\"norm\":\"int4\"}", "'norm'"},
               {"{\"mlp\":\"int4\"", "quant: "},
               {"[\"int4\"]", "quant: "}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct quant_map q;
        struct err e = {0};

        assert_int_equal(quant_read(&q, bad[i].said, &e), ERR_INPUT);
        if (!strstr(sentence_of(&e), bad[i].found))
            fail_msg("%s: %s", bad[i].said, sentence_of(&e));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_another_when_it_is_read_again),
        cmocka_unit_test(a_kind_gets_what_another_was_given),
        cmocka_unit_test(words_that_mean_nothing_are_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
