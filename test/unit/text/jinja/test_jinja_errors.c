/* test_jinja_errors.c - the errors of invalid templates: the line, the reason, and no output. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "jinjacase.h"
#include "text/jinja/jinja.h"

static const char v[] = "{\"s\": \"text\", \"n\": 1, \"l\": [1], \"d\": {\"k\": 1}, \"nil\": null}";

static void a_syntax_error_does_not_name_its_line(void **state)
{
    assert_true(jinjacase_refused("a\nb\n{% if %}", v, "t line 3: Expected an expression"));
    assert_true(jinjacase_refused("{{ 1 }}\n\n{{ foo( }}", v, "t line 3: unexpected '}', expected ')'"));
    assert_true(jinjacase_refused("{% for x in l %}\n{{ x }}\n", v, "endfor"));
    assert_true(
        jinjacase_refused("\n{% if n %}{% endfor %}", v, "t line 2: Encountered unknown tag 'endfor'"));
    assert_true(jinjacase_refused("\n\n{% frob %}", v, "t line 3: Encountered unknown tag 'frob'"));
    assert_true(jinjacase_refused("{{ 'a\nb' ~ }}", v, "t line 2: "));
    assert_true(jinjacase_refused("x\n{# never closed", v, "t line 2: Missing end of comment tag"));
    assert_true(jinjacase_refused("x\n{% raw %}\n{{", v, "Missing end of raw directive"));
    assert_true(jinjacase_refused("\n{{ a $ b }}", v, "t line 2: unexpected char '$'"));
    assert_true(jinjacase_refused("\n{{ s | nothing }}", v, "t line 2: No filter named 'nothing'."));
    assert_true(jinjacase_refused("\n{{ s is nothing }}", v, "t line 2: No test named 'nothing'."));
    assert_true(jinjacase_refused("a\r\nb\rc\n{{ }", v, "t line 4: "));
    assert_true(
        jinjacase_refused("\n{{ n is defined is string }}", v, "t line 2: You cannot chain multiple tests"));
    assert_true(jinjacase_gives("{{ (n is defined) is string }}", v, "False"));
    assert_true(
        jinjacase_refused("{{ s\n | nothing }}\n\n{{ s }}\n", v, "t line 2: No filter named 'nothing'."));
}

static void an_error_of_rendering_does_not_name_its_line(void **state)
{
    assert_true(jinjacase_refused("a\n{{ 1 / 0 }}", v, "t line 2: division by zero"));
    assert_true(jinjacase_refused("{{ s\n\n | round }}", v, "t line 3: "));
    assert_true(jinjacase_refused("{% if n %}\n\n{{ s + n }}{% endif %}", v,
                                  "t line 3: can only concatenate str (not \"int\") to str"));
    assert_true(jinjacase_refused("{% macro m() %}\n{{ nil.a.b }}{% endmacro %}\n\n{{ m() }}", v,
                                  "t line 2: 'None' has no attribute 'a'"));
    assert_true(jinjacase_refused("{% for x in n %}{% endfor %}", v, "'int' object is not iterable"));
    assert_true(
        jinjacase_refused("{{ l.append(2) }}", v, "access to attribute 'append' of 'list' object is unsafe"));
    assert_true(jinjacase_refused("{{ s.__class__.__mro__ }}", v, "unsafe"));
    assert_true(jinjacase_refused("{{ nobody() }}", v, "'nobody' is undefined"));
    assert_true(jinjacase_refused("{{ d.q.r }}", v, "'dict object' has no attribute 'q'"));
    assert_true(jinjacase_refused("{{ l[5].x }}", v, "list object has no element 5"));
    assert_true(jinjacase_refused("{{ nil[0].x }}", v, "None has no element 0"));
    assert_true(
        jinjacase_refused("{{ (l | map('upper')) | tojson }}", v, "generator is not JSON serializable"));
    assert_true(jinjacase_refused("{{ range(100001) }}", v, "Range too big"));
    assert_true(
        jinjacase_refused("\n{% include 'other' %}", v, "t line 2: the tag 'include' is not supported"));
    assert_true(jinjacase_refused("{% set d.k = 2 %}", v, "cannot assign attribute on non-namespace object"));
}

/* A message shows the first 200 bytes of a value, cut between characters. */
static void a_long_value_is_cut_inside_a_character(void **state)
{
    for (size_t shift = 0; shift < 2; shift++) {
        struct err e = {0};
        struct buf out;
        char template[300];

        snprintf(template, sizeof(template),
                 "{%% macro m() %%}{%% endmacro %%}{{ m(**{'%s' ~ '\xc3\xa9' * 150: 1}) }}",
                 shift ? "x" : "");
        assert_int_equal(jinjacase_render(template, "{}", &out, &e), ERR_INPUT);
        assert_non_null(strstr(e.msg, "takes no keyword argument '"));
        assert_int_equal(strlen(strchr(e.msg, '\'')),
                         strlen("'m' takes no keyword argument ") + 200 - (shift ^ 1));
        assert_int_equal(utf8_valid_prefix(e.msg, strlen(e.msg)), strlen(e.msg));
        buf_fini(&out);
    }
}

static void the_templates_own_refusal_loses_its_words(void **state)
{
    struct err e = {0};
    char logged[sizeof(e)];
    struct buf out;

    assert_true(jinjacase_refused("{{ raise_exception('roles must alternate, not ' ~ s) }}", v,
                                  "t line 1: roles must alternate, not text"));
    jinjacase_render("{{ raise_exception('roles must alternate, not ' ~ s) }}", v, &out, &e);
    err_text_for_log(&e, logged, sizeof(logged));
    assert_string_equal(logged, "t line 1: ...");
    buf_fini(&out);
    assert_true(jinjacase_gives("{{ n or raise_exception('not reached') }}", v, "1"));
}

static void an_unknown_filter_in_a_branch_not_taken_is_an_error(void **state)
{
    assert_true(jinjacase_gives("{% if false %}{{ s | nothing }}{% endif %}ok", v, "ok"));
    assert_true(jinjacase_refused("{% if true %}{{ s | nothing }}{% endif %}", v,
                                  "t line 1: No filter named 'nothing'."));
}

static void bytes_that_are_no_utf8_are_taken_for_a_template(void **state)
{
    struct err e = {0};
    struct jinja *j;

    assert_int_equal(jinja_parse(&j, "a\nb\xff", 4, "chat_template", NULL, &e), ERR_INPUT);
    assert_string_equal(e.msg, "chat_template line 2: the text is not UTF-8: byte 0xff at position 3");
    assert_null(j);
}

static void a_template_of_more_than_a_mebibyte_is_read(void **state)
{
    size_t n = (1 << 20) + 1;
    char *text = mem_alloc(n, MEM_TEXT);
    struct err e = {0};
    struct jinja *j;

    memset(text, 'x', n);
    assert_int_equal(jinja_parse(&j, text, n, "t", NULL, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "1048577"));
    assert_int_equal(jinja_parse(&j, text, n - 1, "t", NULL, &e), 0);
    jinja_free(j);
    mem_free(text);
}

static void what_is_not_offered_passes_silently(void **state)
{
    assert_true(jinjacase_refused("{{ (-8) ** 0.5 }}", v, "complex"));
    assert_true(jinjacase_refused("\n{{ 2 ** 20000 }}", v, "t line 2: an integer grows beyond 64 bits"));
    assert_true(
        jinjacase_refused("\n{{ s.encode() }}", v, "t line 2: 'str object' has no attribute 'encode'"));
    assert_true(jinjacase_refused("\n{{ lipsum() }}", v, "t line 2: 'lipsum' is undefined"));
    assert_true(jinjacase_refused("{{ s % 1 }}", v, "the operator % on a string is not supported"));
    assert_true(jinjacase_refused("{{ '\\N{BULLET}' }}", v, "not supported"));
    assert_true(jinjacase_refused("{{ '\\ud800' }}", v, "surrogate"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_syntax_error_does_not_name_its_line),
        cmocka_unit_test(an_error_of_rendering_does_not_name_its_line),
        cmocka_unit_test(a_long_value_is_cut_inside_a_character),
        cmocka_unit_test(the_templates_own_refusal_loses_its_words),
        cmocka_unit_test(an_unknown_filter_in_a_branch_not_taken_is_an_error),
        cmocka_unit_test(bytes_that_are_no_utf8_are_taken_for_a_template),
        cmocka_unit_test(a_template_of_more_than_a_mebibyte_is_read),
        cmocka_unit_test(what_is_not_offered_passes_silently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
