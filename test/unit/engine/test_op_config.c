/* test_op_config.c - what the operator configuration accepts, refuses and replaces. */
#include "engine/op_config.h"

#include <jansson.h>

#include "base/mem.h"
#include "ops/linear_backend.h"

static void an_unknown_kind_or_backend_is_refused_by_name(void **state)
{
    struct op_config c = {0};
    struct err e = {0};

    assert_int_not_equal(op_config_read(&c, "{\"norms\": \"native\"}", NULL, &e), 0);
    assert_non_null(strstr(e.msg, "norms"));
    op_config_fini(&c);
    c = (struct op_config){0};
    assert_int_not_equal(op_config_read(&c, NULL, "flash", &e), 0);
    assert_non_null(strstr(e.msg, "flash"));
    op_config_fini(&c);
    c = (struct op_config){0};
    assert_int_not_equal(op_config_read(&c, "{\"norm\": \"slab\"}", NULL, &e),
                         0); /* the name of an attention backend only */
    assert_non_null(strstr(e.msg, "slab"));
    op_config_fini(&c);
}

/* The names as PACE's server reads them, and as its document writes them. */
static void pace_spells_kinds_and_backends_its_own_way(void **state)
{
    static const char json[] =
        "{\"norm_backend\":\"NATIVE\",\"qkv_projection_backend\":\"GALLOP\",\"attention_backend\":\"SLAB\","
        "\"out_proj_backend\":\"Native\",\"mlp_backend\":\"IMBPS\",\"lm_head_backend\":\"native\","
        "\"rope_backend\":\"NATIVE\"}";
    static const char *const want[OP_N_KINDS] = {"native", "gallop", "native", "slab",
                                                 "native", "imbps",  "native"};
    static const struct {
        const char *json, *says;
    } refused[] = {
        {"{\"mlp_backend\":\"AOCLDLP\"}", "AOCLDLP is not a backend of mlp; available are auto, "},
        {"{\"norm_backend\":\"JIT\"}", "JIT is not a backend of norm; available are auto, gallop, native"},
        {"{\"lm_head_backend\":\"IMBPS\"}",
         "backend imbps supports mlp only, not lm_head; available are auto, "},
        {"{\"norm\":\"imbps\"}", "imbps is not a backend of norm; available are auto, gallop, native"},
        {"{\"mlp_backend\":\"SLAB\"}", "SLAB is not a backend of mlp; available are auto, "},
        {"{\"_backend\":\"JIT\"}", "found the operator kind \"_backend\", which is unknown"}};
    struct op_config c = {0};
    struct err e = {0};

    assert_int_equal(op_config_read(&c, json, NULL, &e), 0);
    for (int k = 0; k < OP_N_KINDS; k++)
        assert_string_equal(c.backend[k], want[k]);
    op_config_fini(&c);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        c = (struct op_config){0};
        assert_int_not_equal(op_config_read(&c, refused[i].json, NULL, &e), 0);
        if (strncmp(e.msg, refused[i].says, strlen(refused[i].says)) != 0)
            fail_msg("%s: %s, expected %s", refused[i].json, e.msg, refused[i].says);
        op_config_fini(&c);
    }
}

static void a_backend_whose_library_the_build_lacks_is_refused_with_its_package(void **state)
{
    static const char *const of[][3] = {{"{\"mlp\":\"tpp\"}", "tpp", "libxsmm-dev"},
                                        {"{\"lm_head_backend\":\"JIT\"}", "jit", "libdnnl-dev"}};

    for (int i = 0; i < 2; i++) {
        struct op_config c = {0};
        struct err e = {0};
        int rc = op_config_read(&c, of[i][0], NULL, &e);

        assert_int_equal(rc, linear_backend_known(of[i][1]) ? 0 : ERR_UNSUPPORTED);
        if (rc)
            assert_non_null(strstr(e.msg, of[i][2]));
        op_config_fini(&c);
    }
}

static void what_is_no_object_of_names_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *json, *says;
    } cases[] = {{"", "at byte 0: "},
                 {"{\"mlp\":\n\"native\",}", "at byte 17 (line 2): "},
                 {"{\"mlp\":\"native\",\"mlp\":\"native\"}", "at byte 22: duplicate key \"mlp\""},
                 {"{\"mlp\":\"native\"} x", "at byte 17: text follows"},
                 {"{\"mlp\":\"native\\u0000\"}", "the backend of mlp is not a string without NUL"},
                 {"{\"mlp\":\"native\",\"mlp_backend\":\"NATIVE\"}", "the operator kind mlp appears twice"},
                 {"{\"mlp\":1}", "the backend of mlp is not a string"},
                 {"\"mlp\"", "expected a JSON object that maps operator kinds"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct op_config c = {0};
        struct err e = {0};

        assert_int_equal(op_config_read(&c, cases[i].json, NULL, &e), ERR_INPUT);
        if (strncmp(e.msg, cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("%s: %s, expected %s", cases[i].json, e.msg, cases[i].says);
        op_config_fini(&c);
    }
}

static void every_allocation_that_fails_is_said(void **state)
{
    static const char json[] = "{\"qkv_projection\":\"native\",\"attention\":\"native\"}";
    bool failed = true;

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    for (long n = 1; failed; n++) {
        size_t live = mem_live_blocks();
        struct op_config c = {0};
        struct err e = {0};
        int rc;

        mem_fail_at(n);
        rc = op_config_read(&c, json, NULL, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
        op_config_fini(&c);
        assert_int_equal(mem_live_blocks(), live);
    }
}

static void attention_that_does_not_serve_the_cache_is_kept(void **state)
{
    static const struct {
        const char *wish, *type, *used;
    } table[] = {
        {"jit", "dynamic", "jit"},        {"jit", "bmc", "jit"},           {"jit", "slab_pool", "gallop"},
        {"jit", "paged", "gallop"},       {"slab", "slab_pool", "slab"},   {"slab", "paged", "gallop"},
        {"slab", "dynamic", "gallop"},    {"paged", "paged", "paged"},     {"paged", "slab_pool", "gallop"},
        {"paged", "bmc", "gallop"},       {"native", "dynamic", "native"}, {"native", "paged", "native"},
        {"gallop", "slab_pool", "gallop"}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct op_config c = {0};
        struct err e = {0};

        assert_int_equal(op_config_read(&c, NULL, table[i].wish, &e), 0);
        op_config_fit_attention(&c, table[i].type);
        assert_string_equal(c.backend[OP_ATTENTION], table[i].used);
        op_config_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_kind_or_backend_is_refused_by_name),
        cmocka_unit_test(pace_spells_kinds_and_backends_its_own_way),
        cmocka_unit_test(a_backend_whose_library_the_build_lacks_is_refused_with_its_package),
        cmocka_unit_test(what_is_no_object_of_names_is_refused_with_its_place),
        cmocka_unit_test(every_allocation_that_fails_is_said),
        cmocka_unit_test(attention_that_does_not_serve_the_cache_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
