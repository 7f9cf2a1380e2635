/* test_infill.c - prompts that fill a gap: the tokens of each family, their order, blanks, and vocabularies without
 * such tokens. */
#include "base/mem.h"
#include "text/tok/ids.h"
#include "text/tok/infill.h"
#include "text/tok/tok.h"

static struct err e;

/* A byte-level vocabulary of a, b, ab and U+0120 (a blank), with the added tokens NAMES [n] from id 4 on. */
static struct tok *open_bytes(const char *const *names, size_t n, bool bos)
{
    char json[4096], *at = json;
    struct tok *t;

    at += sprintf(at, "{\"added_tokens\":[");
    for (size_t i = 0; i < n; i++)
        at +=
            sprintf(at, "%s{\"id\":%zu,\"content\":\"%s\",\"special\":true}", i ? "," : "", 4 + i, names[i]);
    at += sprintf(
        at, "],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},");
    if (bos)
        at += sprintf(
            at,
            "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"%s\","
            "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"%s\":"
            "{\"id\":\"%s\",\"ids\":[%zu],\"tokens\":[\"%s\"]}}},",
            names[n - 1], names[n - 1], names[n - 1], 3 + n, names[n - 1]);
    sprintf(
        at,
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"
        "\"\\u0120\":3},\"merges\":[\"a b\"]}}");
    if (tok_open_json(&t, json, strlen(json), "t", &e) != 0)
        fail_msg("%s", e.msg);
    return t;
}

static void check(const struct tok *t, unsigned flags, const char *want)
{
    struct tok_ids ids = {0};
    char found[200] = "", *at = found;

    if (infill_encode(t, "ab", 2, " b", 2, flags, &ids, &e) != 0)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < ids.n; i++)
        at += sprintf(at, "%s%d", i ? " " : "", (int)ids.id[i]);
    assert_string_equal(found, want);
    tok_ids_fini(&ids);
}

static void each_family_has_its_tokens_and_order(void **state)
{
    static const char *const names[][5] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<s>"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<s>"},
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<fim-pad>", "<s>"},
        {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>", "\xe2\x96\x81<EOT>", "<s>"},
        {"<\xef\xbd\x9c"
         "fim\xe2\x96\x81"
         "begin\xef\xbd\x9c>",
         "<\xef\xbd\x9c"
         "fim\xe2\x96\x81"
         "hole\xef\xbd\x9c>",
         "<\xef\xbd\x9c"
         "fim\xe2\x96\x81"
         "end\xef\xbd\x9c>",
         "<EOT>", "<s>"},
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "<file_sep>", "<s>"},
        {"[PREFIX]", "[SUFFIX]", "[MIDDLE]", "<|file_sep|>", "<s>"}};

    for (size_t i = 0; i < 7; i++) {
        struct tok *t = open_bytes(names[i], 5, true);
        int32_t ends[INFILL_MAX_ENDS];

        assert_true(infill_is_known(t));
        check(t, 0, i == 6 ? "5 3 1 4 2" : "4 2 5 3 1 6");
        check(t, TOK_ADD_SPECIAL, i == 6 ? "8 5 3 1 4 2" : "8 4 2 5 3 1 6");
        assert_int_equal(infill_ends(t, ends), 1);
        assert_int_equal(ends[0], 7);
        tok_close(t);
    }
}

static void a_vocabulary_that_lacks_one_of_them_is_refused(void **state)
{
    static const char *const names[] = {"<|fim_prefix|>", "<|fim_suffix|>", "<fim_middle>"};
    struct tok_ids ids = {0};

    for (size_t n = 0; n <= 3; n++) {
        struct tok *t = open_bytes(names, n, false);
        int32_t ends[INFILL_MAX_ENDS];

        assert_false(infill_is_known(t));
        assert_int_equal(infill_encode(t, "a", 1, "b", 1, 0, &ids, &e), ERR_UNSUPPORTED);
        assert_string_equal(e.subject, "suffix");
        assert_non_null(strstr(e.msg, "<|fim_prefix|>"));
        assert_int_equal(ids.n, 0);
        assert_int_equal(infill_ends(t, ends), 0);
        tok_close(t);
    }
}

static void empty_texts_leave_the_tokens_alone(void **state)
{
    static const char *const names[] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
    struct tok *t = open_bytes(names, 3, false);
    struct tok_ids ids = {0};

    assert_int_equal(infill_encode(t, "", 0, "", 0, 0, &ids, &e), 0);
    assert_true(ids.n == 3 && ids.id[0] == 4 && ids.id[1] == 5 && ids.id[2] == 6);
    assert_int_equal(infill_encode(t, "\xff", 1, "", 0, TOK_ADD_SPECIAL, &ids, &e), ERR_INPUT);
    assert_int_equal(infill_encode(t, "", 0, "a\xff", 2, 0, &ids, &e), ERR_INPUT);
    assert_int_equal(ids.n, 3);
    tok_ids_fini(&ids);
    tok_close(t);
}

/* SentencePiece puts a blank in front of a text: in front of the text before the gap, and not of that behind. */
static void the_text_behind_the_gap_has_no_blank_of_its_own(void **state)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":6,\"content\":\"\xe2\x96\x81<PRE>\",\"special\":true,\"normalized\":false},"
        "{\"id\":7,\"content\":\"\xe2\x96\x81<SUF>\",\"special\":true,\"normalized\":false},"
        "{\"id\":8,\"content\":\"\xe2\x96\x81<MID>\",\"special\":true,\"normalized\":false}],"
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]},"
        "\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},"
        "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"\xe2\x96\x81\":3,"
        "\"\xe2\x96\x81"
        "a\":4,\"\xe2\x96\x81"
        "b\":5},\"merges\":[\"\xe2\x96\x81 a\",\"\xe2\x96\x81 b\"]}}";
    struct tok_ids ids = {0};
    struct tok *t;

    if (tok_open_json(&t, json, strlen(json), "t", &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(infill_encode(t, "a", 1, "b", 1, 0, &ids, &e), 0);
    assert_true(ids.n == 5 && ids.id[0] == 6 && ids.id[1] == 4 && ids.id[2] == 7 && ids.id[3] == 2 &&
                ids.id[4] == 8);
    ids.n = 0;
    assert_int_equal(infill_encode(t, "a", 1, " b", 2, 0, &ids, &e), 0);
    assert_true(ids.n == 5 && ids.id[3] == 5);
    tok_ids_fini(&ids);
    tok_close(t);
}

static void running_out_of_memory_is_reported(void **state)
{
    static const char *const names[] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<s>"};
    struct tok *t = open_bytes(names, 4, true);
    bool failed = true;

    for (long n = 1; failed; n++) {
        struct tok_ids ids = {0};
        int rc;

        mem_fail_at(n);
        rc = infill_encode(t, "aaabab", 6, "bbabab", 6, TOK_ADD_SPECIAL, &ids, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
        assert_true(failed ? ids.n == 0 : ids.n > 6);
        tok_ids_fini(&ids);
    }
    tok_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_has_its_tokens_and_order),
        cmocka_unit_test(a_vocabulary_that_lacks_one_of_them_is_refused),
        cmocka_unit_test(empty_texts_leave_the_tokens_alone),
        cmocka_unit_test(the_text_behind_the_gap_has_no_blank_of_its_own),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
