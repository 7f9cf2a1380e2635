/* test_jinja.c - the template language: about five hundred snippets and one chat template of each kind in
 * use, compared with the output of Python's jinja2; and what fixtures cannot contain: two ways to pass
 * variables, several threads, and output that was there before. */
#include <jansson.h>
#include <pthread.h>

#include "base/buf.h"
#include "base/mem.h"
#include "jinjacase.h"
#include "text/jinja/jinja.h"

static void a_snippet_comes_to_another_text_than_jinja2_gives(void **state)
{
    size_t n, n_cases;
    char *text = jinjacase_read("language.json", &n);

    assert_int_equal(jinjacase_run(text, n, &n_cases, true), 0);
    assert_true(n_cases > 400);
    mem_free(text);
}

static void the_fixture_runner_sees_a_wrong_text_and_a_missing_refusal(void **state)
{
    static const char fixture[] =
        "{\"context\": {\"n\": 1}, \"cases\": [{\"template\": \"{{ n }}\", \"output\": \"2\"},"
        "{\"template\": \"{{ n }}\", \"error\": \"TypeError\"}, {\"template\": \"{{ n\", \"output\": \"1\"},"
        "{\"template\": \"{{ n }}\", \"output\": \"1\"}]}";
    size_t n_cases;

    assert_int_equal(jinjacase_run(fixture, strlen(fixture), &n_cases, false), 3);
    assert_int_equal(n_cases, 4);
    assert_true(jinjacase_gives("{{ 1 }}", "{}", "1"));
    assert_true(jinjacase_refused("{{ 1", "{}", "t line 1"));
}

static json_t *load(const char *name)
{
    json_error_t e;
    size_t n;
    char *text = jinjacase_read(name, &n);
    json_t *j = json_loadb(text, n, 0, &e);

    if (!j)
        fail_msg("%s line %d: %s", name, e.line, e.text);
    mem_free(text);
    return j;
}

/* Returns true if the template gives the text or the error of RENDERING; otherwise prints the result. */
static bool renders(const json_t *rendering, const json_t *conversations)
{
    const char *name = json_string_value(json_object_get(rendering, "template"));
    const char *which = json_string_value(json_object_get(rendering, "conversation")), *message;
    const json_t *output = json_object_get(rendering, "output");
    struct buf out = {.tag = MEM_TEXT};
    struct err e = {0};
    char file[200], *text;
    struct jinja *j;
    size_t n;
    bool good;
    int rc;

    snprintf(file, sizeof(file), "kinds/%s", name);
    text = jinjacase_read(file, &n);
    rc = jinja_parse(&j, text, n, name, NULL, &e);
    if (rc == 0)
        rc = jinja_render(j, json_object_get(conversations, which), &jinjacase_now, NULL, &out, &e);
    message = json_string_value(json_object_get(rendering, "message"));
    if (output)
        good = rc == 0 && out.len == json_string_length(output) &&
               memcmp(out.data ? out.data : "", json_string_value(output), out.len) == 0;
    else
        good = rc == ERR_INPUT && strstr(e.msg, message ? message : "");
    if (!good)
        print_error("%s with %s gives\n%s\nnot\n%s\n", name, which,
                    rc         ? e.msg
                    : out.data ? out.data
                               : "",
                    output    ? json_string_value(output)
                    : message ? message
                              : "an error");
    jinja_free(j);
    buf_fini(&out);
    mem_free(text);
    return good;
}

static void a_chat_template_of_a_kind_in_use_comes_to_another_text_than_jinja2_gives(void **state)
{
    json_t *conversations = load("kinds/conversations.json"), *renderings = load("kinds/renderings.json"), *r;
    size_t i, bad = 0;

    json_array_foreach(renderings, i, r) bad += !renders(r, conversations);
    assert_int_equal(bad, 0);
    assert_true(i > 100);
    json_decref(conversations);
    json_decref(renderings);
}

static void values_print_otherwise_than_python_prints_them(void **state)
{
    static const char v[] =
        "{\"a\": [1, 1.0, null, true, \"it's\", {\"k\": \"\\u00e9\\n\"}, 1e16, -0.0, 1e-7]}";

    assert_true(jinjacase_gives("{{ a }}", v,
                                "[1, 1.0, None, True, \"it's\", {'k': '\xc3\xa9\\n'}, 1e+16, -0.0, 1e-07]"));
    assert_true(
        jinjacase_gives("{{ a | tojson }}", v,
                        "[1, 1.0, null, true, \"it's\", {\"k\": \"\xc3\xa9\\n\"}, 1e+16, -0.0, 1e-07]"));
}

static void integers_beyond_64_bits_lose_digits_on_the_way_in(void **state)
{
    assert_true(jinjacase_gives("{{ n }} {{ n - 1 }} {{ m }}",
                                "{\"n\": 9223372036854775807, \"m\": -9223372036854775808}",
                                "9223372036854775807 9223372036854775806 -9223372036854775808"));
    assert_true(jinjacase_gives(
        "{{ u }} {{ [u, m] }} {{ {'a': h} | tojson }} {{ {u: 1} | tojson }} {{ u ~ '' }} {{ u | string }}",
        "{\"u\": 18446744073709551615, \"m\": -9223372036854775809, "
        "\"h\": 123456789012345678901234567890}",
        "18446744073709551615 [18446744073709551615, -9223372036854775809] "
        "{\"a\": 123456789012345678901234567890} {\"18446744073709551615\": 1} 18446744073709551615 "
        "18446744073709551615"));
}

static void an_integer_beyond_64_bits_is_another_kind_of_value(void **state)
{
    static const char v[] = "{\"u\": 18446744073709551615, \"m\": -9223372036854775809, "
                            "\"l\": [3, 18446744073709551615, -123456789012345678901234567890, 2.5]}";

    assert_true(jinjacase_gives("{{ u is integer }} {{ u is number }} {{ u is float }} {{ u is string }} "
                                "{{ u is iterable }} {{ 1 if u else 0 }} {{ u is sameas u }}",
                                v, "True True False False False 1 True"));
    assert_true(jinjacase_gives(
        "{{ u == 18446744073709551615 }} {{ u == 18446744073709551614 }} {{ u > 5 }} {{ 5 > u }} {{ m < 0 }} "
        "{{ m < u }} {{ u < 1e300 }} {{ u < 1e400 }} {{ u > -1e400 }} {{ u == 1.8446744073709552e19 }} "
        "{{ 18446744073709551616 == 1.8446744073709552e19 }} {{ u in l }} {{ {u: 1}[u] }} {{ m > 2.5 }} "
        "{{ u < 1e400 - 1e400 }}",
        v, "True False True False True True True True True False True True 1 False False"));
    assert_true(jinjacase_gives("{{ l | sort }} {{ l | max }} {{ l | min }} {{ l | unique | list }}", v,
                                "[-123456789012345678901234567890, 2.5, 3, 18446744073709551615] "
                                "18446744073709551615 -123456789012345678901234567890 "
                                "[3, 18446744073709551615, -123456789012345678901234567890, 2.5]"));
    assert_true(jinjacase_gives(
        "{{ -u }} {{ -m }} {{ +u }} {{ -9223372036854775808 }} {{ m | abs }} {{ u | int }} {{ u | float }} "
        "{{ u | round }} {{ u / 2 }} {{ u * 1.5 }}",
        v,
        "-18446744073709551615 9223372036854775809 18446744073709551615 -9223372036854775808 "
        "9223372036854775809 18446744073709551615 1.8446744073709552e+19 18446744073709551615 "
        "9.223372036854776e+18 2.7670116110564327e+19"));
}

static void the_text_is_not_appended_to_what_was_there(void **state)
{
    struct buf out = {.tag = MEM_TEXT};
    json_t *none = json_object();
    struct err e = {0};
    struct jinja *j;

    buf_str(&out, "before ");
    assert_int_equal(jinja_parse(&j, "a{{ 1 }}", 8, "t", NULL, &e), 0);
    assert_int_equal(jinja_render(j, none, &jinjacase_now, NULL, &out, &e), 0);
    assert_string_equal(out.data, "before a1");
    jinja_free(j);
    assert_int_equal(jinja_parse(&j, "a{{ 1 / 0 }}", 12, "t", NULL, &e), 0);
    assert_int_equal(jinja_render(j, none, &jinjacase_now, NULL, &out, &e), ERR_INPUT);
    assert_string_equal(out.data, "before a1");
    jinja_free(j);
    json_decref(none);
    buf_fini(&out);
}

static void variables_that_are_no_object_are_taken(void **state)
{
    struct buf out = {.tag = MEM_TEXT};
    json_t *list = json_array();
    struct err e = {0};
    struct jinja *j;

    assert_int_equal(jinja_parse(&j, "x", 1, "t", NULL, &e), 0);
    assert_int_equal(jinja_render(j, list, &jinjacase_now, NULL, &out, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "JSON object"));
    assert_int_equal(out.len, 0);
    jinja_free(j);
    json_decref(list);
}

static void the_clock_is_read_instead_of_taken(void **state)
{
    assert_true(jinjacase_gives("{{ strftime_now('%A %d %b %Y %H:%M:%S %j %f[%z%Z]') }}", "{}",
                                "Friday 26 Jul 2024 12:00:00 208 000000[]"));
}

struct worker {
    const struct jinja *j;
    json_t *variables;
    const char *want;
    bool good;
};

static void *render_often(void *arg)
{
    struct worker *w = arg;

    w->good = true;
    for (int i = 0; i < 200 && w->good; i++) {
        struct buf out = {.tag = MEM_TEXT};

        w->good = jinja_render(w->j, w->variables, &jinjacase_now, NULL, &out, NULL) == 0 &&
                  strcmp(out.data, w->want) == 0;
        buf_fini(&out);
    }
    return NULL;
}

static void two_threads_disturb_each_other_in_one_template(void **state)
{
    static const char template[] =
        "{% macro m(x, y='\xc3\xa9'[0]) %}{{ x ~ y }}{% endmacro %}{% for a in l %}{{ m(a) }}"
        "{{ '\xc3\xa4\xc3\xb6'[1] }}{{ loop.length }}{% endfor %}";
    struct worker w[2];
    pthread_t thread[2];
    struct err e = {0};
    struct jinja *j;

    assert_int_equal(jinja_parse(&j, template, strlen(template), "t", NULL, &e), 0);
    for (int i = 0; i < 2; i++) {
        w[i] = (struct worker){.j = j,
                               .variables = json_pack("{s:[i,i]}", "l", i, i + 1),
                               .want = i ? "1\xc3\xa9\xc3\xb6"
                                           "22\xc3\xa9\xc3\xb6"
                                           "2"
                                         : "0\xc3\xa9\xc3\xb6"
                                           "21\xc3\xa9\xc3\xb6"
                                           "2"};
        assert_int_equal(pthread_create(&thread[i], NULL, render_often, &w[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        assert_true(w[i].good);
        json_decref(w[i].variables);
    }
    jinja_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snippet_comes_to_another_text_than_jinja2_gives),
        cmocka_unit_test(the_fixture_runner_sees_a_wrong_text_and_a_missing_refusal),
        cmocka_unit_test(a_chat_template_of_a_kind_in_use_comes_to_another_text_than_jinja2_gives),
        cmocka_unit_test(values_print_otherwise_than_python_prints_them),
        cmocka_unit_test(integers_beyond_64_bits_lose_digits_on_the_way_in),
        cmocka_unit_test(an_integer_beyond_64_bits_is_another_kind_of_value),
        cmocka_unit_test(the_text_is_not_appended_to_what_was_there),
        cmocka_unit_test(variables_that_are_no_object_are_taken),
        cmocka_unit_test(the_clock_is_read_instead_of_taken),
        cmocka_unit_test(two_threads_disturb_each_other_in_one_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
