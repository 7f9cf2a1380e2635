/* test_plugin_source.c - how the PJRT plugin is found, and what options of it are read. */
#include "base/mem.h"
#include "engine/pjrt/api.h"
#include "engine/pjrt/plugin_source.h"

static const char jax[] = "PJRT_NAMES_AND_LIBRARY_PATHS", ours[] = "GALLOP_PJRT_PLUGIN";

static int clear(void **state)
{
    unsetenv(jax);
    unsetenv(ours);
    return 0;
}

static void expect_path(const char *option, const char *path)
{
    struct plugin_source s;
    struct err e = {0};

    if (plugin_source_read(&s, option, NULL, 0, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(s.path, path);
    plugin_source_fini(&s);
}

static void expect_refusal(const char *option, const char *json, const char *subject, const char *says)
{
    struct plugin_source s;
    struct err e = {0};

    assert_int_equal(plugin_source_read(&s, option, json, 0, &e), ERR_INPUT);
    assert_string_equal(e.subject, subject);
    if (!strstr(e.msg, says))
        fail_msg("\"%s\" lacks \"%s\"", e.msg, says);
    assert_null(strchr(e.msg, '\n'));
}

static void the_option_goes_before_the_variables(void **state)
{
    expect_refusal(NULL, NULL, "pjrt_plugin", "needs the path of a plugin");
    setenv(jax, "cpu:/a/cpu.so,cuda:/b/cuda:12.so", 1);
    expect_path(NULL, "/a/cpu.so");
    expect_path("cuda", "/b/cuda:12.so");
    expect_path("./cuda", "./cuda");
    expect_path("libx.so", "libx.so"); /* for the system's loader */
    setenv(ours, "cuda", 1);
    expect_path(NULL, "/b/cuda:12.so");
    setenv(ours, "/c/other.so", 1);
    expect_path(NULL, "/c/other.so");
    expect_path("cpu", "/a/cpu.so");
    setenv(ours, "", 1);
    expect_path("", "/a/cpu.so"); /* empty counts as not given */
}

static void entries_without_name_or_path_are_passed_over(void **state)
{
    setenv(jax, ",x,:,y:,cpu:/a.so,", 1);
    expect_path(NULL, "/a.so");
    setenv(jax, "/a.so", 1);
    expect_refusal(NULL, NULL, "pjrt_plugin", "found \"/a.so\" in PJRT_NAMES_AND_LIBRARY_PATHS");
    setenv(jax, "", 1);
    expect_refusal(NULL, NULL, "pjrt_plugin", "needs the path of a plugin");
}

static void a_path_has_a_limit(void **state)
{
    char path[FILE_PATH_MAX + 1];

    memset(path, '/', sizeof(path));
    path[FILE_PATH_MAX - 1] = 0;
    expect_path(path, path);
    path[FILE_PATH_MAX - 1] = '/';
    path[FILE_PATH_MAX] = 0;
    expect_refusal(path, NULL, "pjrt_plugin", "found a path of 4096 bytes, expected at most 4095");
}

static void values_have_the_types_of_the_text(void **state)
{
    const char *json = "{\"t\":\"\",\"i\":-9223372036854775808,\"r\":1.0,\"l\":[],\"b\":false}";
    struct plugin_source s;
    struct err e = {0};

    assert_int_equal(plugin_source_read(&s, "x", json, 7, &e), 0);
    assert_int_equal(s.device, 7);
    assert_string_equal(s.json, json);
    assert_int_equal(s.n_options, 5);
    for (size_t i = 0; i < s.n_options; i++)
        assert_int_equal(s.option[i].name_size, 1);
    assert_int_equal(s.option[0].type, PJRT_NAMED_STRING);
    assert_int_equal(s.option[0].value_size, 0);
    assert_int_equal(s.option[1].type, PJRT_NAMED_INT64);
    assert_true(s.option[1].value.integer == INT64_MIN);
    assert_int_equal(s.option[2].type, PJRT_NAMED_FLOAT);
    assert_int_equal(s.option[3].type, PJRT_NAMED_INT64S);
    assert_int_equal(s.option[3].value_size, 0);
    assert_non_null(s.option[3].value.integers);
    assert_int_equal(s.option[4].type, PJRT_NAMED_BOOL);
    assert_false(s.option[4].value.flag);
    plugin_source_fini(&s);
}

static void other_values_are_refused_by_their_names(void **state)
{
    expect_refusal("x", "", "pjrt_options", "the text");
    expect_refusal("x", "[1]", "pjrt_options", "expected a JSON object");
    expect_refusal("x", "{\"a\":1,\"a\":2}", "pjrt_options", "a");
    expect_refusal("x", "{\"a\":9223372036854775808}", "pjrt_options", "");
    expect_refusal("x", "{\"a\":1e39}", "pjrt_options", "a is 1e+39, expected a number of fp32");
    expect_refusal("x", "{\"a\":[1,2.0]}", "pjrt_options", "a is a list whose element 1 is no integer");
    expect_refusal("x", "{\"a\":null}", "pjrt_options", "a is null");
    expect_refusal("x", "{\"a\":{}}", "pjrt_options", "a is an object");
}

static void options_have_limits(void **state)
{
    struct plugin_source s;
    struct err e = {0};
    char text[20000];

    for (size_t n = PLUGIN_SOURCE_OPTIONS; n <= PLUGIN_SOURCE_OPTIONS + 1; n++) {
        size_t at = (size_t)snprintf(text, sizeof(text), "{");

        for (size_t i = 0; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s\"%zu\":1", i ? "," : "", i);
        snprintf(text + at, sizeof(text) - at, "}");
        if (n > PLUGIN_SOURCE_OPTIONS)
            expect_refusal("x", text, "pjrt_options", "found 65 options, expected at most 64");
        else
            assert_int_equal(plugin_source_read(&s, "x", text, 0, &e), 0);
    }
    plugin_source_fini(&s);
    for (size_t n = PLUGIN_SOURCE_NUMBERS; n <= PLUGIN_SOURCE_NUMBERS + 1; n++) {
        size_t at = (size_t)snprintf(text, sizeof(text), "{\"a\":[");

        for (size_t i = 0; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof(text) - at, i ? ",1" : "1");
        snprintf(text + at, sizeof(text) - at, "]}");
        if (n > PLUGIN_SOURCE_NUMBERS)
            expect_refusal("x", text, "pjrt_options", "a has 4097 numbers, expected at most 4096");
        else
            assert_int_equal(plugin_source_read(&s, "x", text, 0, &e), 0);
    }
    plugin_source_fini(&s);
}

static void every_allocation_may_fail(void **state)
{
    struct plugin_source s;
    struct err e = {0};
    size_t live = mem_live_blocks();
    int rc;

    for (long n = 1;; n++) {
        mem_fail_at(n);
        rc = plugin_source_read(&s, "x", "{\"a\":\"b\",\"c\":[1,2],\"d\":3}", 0, &e);
        if (!mem_failed())
            break;
        assert_int_equal(rc, ERR_NOMEM);
        assert_int_equal(mem_live_blocks(), live);
    }
    mem_fail_at(0);
    assert_int_equal(rc, 0);
    plugin_source_fini(&s);
    assert_int_equal(mem_live_blocks(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_option_goes_before_the_variables, clear),
        cmocka_unit_test_setup(entries_without_name_or_path_are_passed_over, clear),
        cmocka_unit_test_setup(a_path_has_a_limit, clear),
        cmocka_unit_test_setup(values_have_the_types_of_the_text, clear),
        cmocka_unit_test_setup(other_values_are_refused_by_their_names, clear),
        cmocka_unit_test_setup(options_have_limits, clear),
        cmocka_unit_test_setup(every_allocation_may_fail, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
