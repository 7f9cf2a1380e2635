/* test_jinja_limits.c - hostile templates: endless, huge and deeply nested templates end with an error after
 * a short time, and a failing allocation leaks no memory. */
#include <jansson.h>

#include "base/buf.h"
#include "base/mem.h"
#include "jinjacase.h"
#include "text/jinja/jinja.h"

static const struct jinja_limits small = {.steps = 200000, .bytes = 8 << 20, .output = 10000, .depth = 300};

/* Returns true if TEMPLATE is refused with WORDS within LIMIT. */
static bool stopped_within(const struct jinja_limits *limit, const char *template, const char *words)
{
    struct buf out = {.tag = MEM_TEXT};
    json_t *none = json_object();
    struct err e = {0};
    struct jinja *j;
    int rc = jinja_parse(&j, template, strlen(template), "t", NULL, &e);
    bool good;

    if (rc == 0)
        rc = jinja_render(j, none, &jinjacase_now, limit, &out, &e);
    good = rc == ERR_INPUT && strstr(e.msg, words) && out.len == 0;
    if (!good)
        print_error("%.100s: %s\n", template, rc ? e.msg : "is rendered");
    jinja_free(j);
    json_decref(none);
    buf_fini(&out);
    return good;
}

static bool stopped(const char *template, const char *words)
{
    return stopped_within(&small, template, words);
}

static void a_template_runs_for_ever(void **state)
{
    assert_true(
        stopped("{% for x in range(99999) %}{% for y in range(99999) %}{% endfor %}{% endfor %}", "steps"));
    assert_true(
        stopped("{% set a = 'a' * 1000000 %}{% for x in range(9999) %}{{ 'b' in a }}{% endfor %}", "steps"));
    assert_true(stopped(
        "{% set a = 'a' * 1000000 %}{% for x in range(9999) %}{{ a == 'b' * 1000000 }}{% endfor %}", "s"));
    assert_true(stopped("{{ range(99999) | map('string') | sort | join | length }}", "steps"));
    assert_true(stopped("{% for x in range(99999) %}{{ x ** 3 // 7 }}{% endfor %}", "s"));
    assert_true(
        stopped("{% for x in range(99999) %}{% set y = nobody %}{{ range(99999) | last }}{% endfor %}", "s"));
    assert_true(stopped("{% for x in range(99999) %}{{ 99999 in range(99999) }}{% endfor %}", "steps"));
    assert_true(stopped("{% set a = 'a' * 100000 %}{% for x in range(99999) %}{{ a.strip(a) }}{% endfor %}",
                        "steps"));
    assert_true(stopped(
        "{% set a = 'ä' * 100000 %}{% for x in range(99999) %}{% set y = a[99998] %}{% endfor %}", "steps"));
    assert_true(stopped(
        "{% set a = 'a' * 100000 %}{% for x in range(99999) %}{% set y = a | int %}{% endfor %}", "steps"));
    assert_true(
        stopped("{% set a = 'a' * 100000 %}{% for x in range(99999) %}{% set y = a is lower %}{% endfor %}",
                "steps"));
    assert_true(stopped(
        "{% set a = 'ab' * 50000 %}{% for x in range(99999) %}{% set y = a.rsplit('aa') %}{% endfor %}",
        "steps"));
    assert_true(stopped(
        "{% set a = 'a' * 100000 %}{% for x in range(99999) %}{% set y = {a: 1} %}{% endfor %}", "s"));
    assert_true(stopped(
        "{% set a = ' ' * 100000 %}{% for x in range(99999) %}{% set y = a | float %}{% endfor %}", "steps"));
    assert_true(stopped("{% set a = 'a' * 100000 %}{{ range(9999) | sort(attribute=a) | length }}", "steps"));
    assert_true(stopped(
        "{% set a = 'a' * 50000 %}{% set b = a ~ 'b' %}{% for x in range(99999) %}{% set y = (a ~ a).rsplit(b) %}"
        "{% endfor %}",
        "steps"));
}

/* Returns the number of steps of TEMPLATE, which is the lowest limit within which it is rendered. */
static uint64_t steps_of(const char *template)
{
    uint64_t low = 0, high = 1 << 24;
    json_t *none = json_object();
    struct err e = {0};
    struct jinja *j;

    if (jinja_parse(&j, template, strlen(template), "t", NULL, &e) != 0)
        fail_msg("%s: %s", template, e.msg);
    while (high - low > 1) {
        struct jinja_limits limit = {
            .steps = low + (high - low) / 2, .bytes = 64 << 20, .output = 1 << 20, .depth = 300};
        struct buf out = {.tag = MEM_TEXT};

        if (jinja_render(j, none, &jinjacase_now, &limit, &out, &e) == 0)
            high = limit.steps;
        else
            low = limit.steps;
        if (low == limit.steps && !strstr(e.msg, "steps"))
            fail_msg("%s: %s", template, e.msg);
        buf_fini(&out);
    }
    jinja_free(j);
    json_decref(none);
    return high;
}

/* Operations, each with a template that lacks it, and the steps that the operation may add. */
static const struct {
    const char *before, *operation;
    uint64_t least, most;
} priced[] = {
    {"set s = 'a' * 100000", "s.startswith(s)", 1500, 2000},
    {"set s = 'a' * 100000", "s.endswith(s)", 1500, 2000},
    {"set s = 'a' * 100000", "s.startswith(('b', s))", 1500, 2000},
    {"set s = 'a' * 100000", "s.removeprefix(s)", 1500, 2000},
    {"set s = 'a' * 100000", "s.removesuffix(s)", 1500, 2000},
    {"set s = 'a' * 100000", "s is sameas(s)", 1500, 2000},
    {"set s = 'a' * 100000", "s == s ~ ''", 1500, 5000},
    {"set s = 'a' * 100000", "s.count('a')", 110000, 130000},
    {"set s = 'a' * 100000", "s.count('aaa')", 45000, 60000},
    {"set s = 'a' * 100000", "s.split('a')", 110000, 260000},
    {"set s = 'a' * 100000", "s.replace('a', 'b')", 110000, 260000},
    {"set s = 'a' * 100000", "s.find('b')", 12000, 13000},
    {"set s = 'a' * 100000", "s.find('b' * 256)", 18000, 20000},
    {"set s = 'a' * 100000", "s.find('b' * 1000)", 18000, 20000},
    {"set s = 'a' * 100000", "'b' * 256 in s", 18000, 20000},
    {"set s = 'a' * 100000", "s is lower", 25000, 26000},
    {"set s = 'a' * 100000", "s | upper", 50000, 60000},
    {"set s = 'a' * 100000", "s | title", 50000, 60000},
    {"set s = 'a' * 100000", "s.capitalize()", 50000, 60000},
    {"set s = 'a' * 100000", "s.splitlines()", 25000, 26000},
    {"set s = ' ' * 100000", "s.strip()", 25000, 26000},
    {"set s = ' ' * 100000", "s | trim", 25000, 26000},
    {"set s = '<' * 100000", "s | e", 12500, 60000},
    {"set s = '0' * 100000", "s | int", 25000, 26000},
    {"set s = 'a'", "s * 100000", 25000, 30000},
    {"set s = 'a' * 100000", "s | tojson", 12000, 13000},
    {"set s = 'a' * 100000", "s[::2]", 6000, 10000},
    {"set s = 1e300 / 3", "s | round(300)", 364, 400},
    {"set s = 1e300 / 3", "s | string", 16, 60},
    {"set s = '%Y'", "strftime_now(s)", 24, 60},
    {"set s = '%' ~ '1000d'", "strftime_now(s)", 270, 400},
    {"set s = ('1' * 4000) | int", "s == 1.5", 128, 140},
    {"set s = ('1' * 4000) | int", "s < 1.5", 128, 140},
    {"set s = ('1' * 4000) | int", "s == 1", 8, 20},
    {"set s = ('1' * 300) | int", "s | float", 75, 100},
    {"set s = ('1' * 300) | int", "s * 1.0", 75, 100},
    {"set s = ('1' * 4000) | int", "s in {1.5: 2}", 2000, 2100},
    {"set s = range(10000) | list", "-1 in s", 10000, 30000},
    {"set s = range(10000) | list", "s | sort", 100000, 1000000},
    {"set s = range(10000) | list", "s | unique | list", 20000, 200000},
    {"set s = range(10000) | list", "s | join(',')", 10000, 40000},
    {"set s = range(10000) | list", "s | map('string') | list", 20000, 100000},
    {"set s = range(10000) | list", "s + s", 2500, 6000},
    {"set s = range(10000) | list", "s | sum", 10000, 50000},
    {"set s = range(10000) | list", "s | tojson", 10000, 40000},
    {"set s = range(10000) | list", "s[::-1]", 2000, 6000},
};

static void work_is_counted_by_what_it_costs(void **state)
{
    for (size_t i = 0; i < sizeof(priced) / sizeof(*priced); i++) {
        char without[200], with[300];
        uint64_t found;

        snprintf(without, sizeof(without), "{%% %s %%}{%% set x = s %%}", priced[i].before);
        snprintf(with, sizeof(with), "{%% %s %%}{%% set x = %s %%}", priced[i].before, priced[i].operation);
        found = steps_of(with) - steps_of(without);
        if (found < priced[i].least || found > priced[i].most)
            fail_msg("%s takes %llu steps, which should be %llu to %llu", with, (unsigned long long)found,
                     (unsigned long long)priced[i].least, (unsigned long long)priced[i].most);
    }
}

static void a_template_eats_memory(void **state)
{
    assert_true(stopped("{{ 'x' * 10 ** 12 }}", "bytes of memory"));
    assert_true(stopped("{{ [0] * 10 ** 12 }}", "bytes of memory"));
    assert_true(stopped("{{ range(99999) | map('string') | map('list') | list }}", "s"));
    assert_true(stopped(
        "{% set ns = namespace(d={}) %}{% for i in range(99999) %}{% set ns.d = dict(ns.d, **{i | string: i}) %}"
        "{% endfor %}",
        "s"));
    assert_true(stopped("{{ [1] | tojson(indent=10 ** 12) }}", "bytes of memory"));
    assert_true(stopped("{{ 'a\nb' | indent(10 ** 12) }}", "bytes of memory"));
    assert_true(stopped(
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "bytes of memory"));
    assert_true(stopped(
        "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "bytes of memory"));
    assert_true(stopped("{{ ('a' * 9999).replace('', 'b' * 9999) }}", "bytes of memory"));
}

/* None of these templates allocates much at once. Their sum must reach the limit. */
static void many_small_values_eat_memory(void **state)
{
    static const struct jinja_limits limit = {
        .steps = 50 * 1000 * 1000, .bytes = 1 << 20, .output = 1 << 20, .depth = 300};
    static const char *const templates[] = {
        "{{ range(99999) | map('string') | list | length }}",
        "{% for i in range(99999) %}{% set a = [i] %}{% endfor %}",
        "{% for i in range(99999) %}{% set a = {'k': i} %}{% endfor %}",
        "{% for i in range(99999) %}{% set a = i ~ 'x' %}{% endfor %}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{% for i in range(99999) %}{% set a = m(i) %}{% endfor %}",
    };

    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        assert_true(stopped_within(&limit, templates[i], "exceeds the limit of 1048576 bytes of memory"));
}

static void a_template_parsed_eats_memory(void **state)
{
    static const struct jinja_limits little = {.steps = 50 * 1000 * 1000, .bytes = 1 << 20, .depth = 1000};
    size_t n = 1 << 20, at = 4;
    char *text = mem_alloc(n, MEM_TEXT);
    struct err e = {0};
    struct jinja *j;
    int rc;

    memcpy(text, "{{ [",
           /* This is the largest template with the most values: 40 bytes of values for each byte of text. */
           4);
    for (; at + 8 < n; at += 4)
        memcpy(text + at, "1<2,", 4);
    memset(text + at, ' ', n - at);
    memcpy(text + n - 4, "] }}", 4);
    assert_int_equal(jinja_parse(&j, text, n, "t", &little, &e), ERR_INPUT);
    assert_string_equal(e.msg, "t line 1: the template exceeds the limit of 1048576 bytes of memory");
    if ((rc = jinja_parse(&j, text, n, "t", NULL, &e)) != 0)
        fail_msg("within the limits that a template has: %s", e.msg);
    if (mem_live_bytes() > (size_t)256 << 20)
        fail_msg("a template of 1 MiB has %zu bytes in memory, more than 256 MiB", mem_live_bytes());
    jinja_free(j);
    mem_free(text);
}

static void the_ordinary_limit_of_memory_is_256_mebibytes(void **state)
{
    assert_true(
        jinjacase_refused("{{ 'x' * 10 ** 12 }}", "{}", "exceeds the limit of 268435456 bytes of memory"));
    assert_true(
        jinjacase_refused("{{ ('x' * 268435456) | length }}", "{}", "exceeds the limit of 268435456 bytes"));
    assert_true(jinjacase_gives("{{ ('x' * 100000000) | length }}", "{}", "100000000"));
}

static void a_text_grows_without_end(void **state)
{
    assert_true(stopped("{% for i in range(9999) %}{{ i }},{% endfor %}",
                        "the rendered text exceeds the limit of 10000 bytes"));
    assert_true(stopped("{{ 'x' * 10001 }}", "the rendered text exceeds the limit of 10000 bytes"));
}

static void a_bottomless_recursion_ends_in_the_stack(void **state)
{
    assert_true(stopped("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "deeper than 300"));
    assert_true(stopped(
        "{% macro m() %}{% if true %}{% filter upper %}{% for i in [1] %}{{ m() }}{% endfor %}{% endfilter %}"
        "{% endif %}{% endmacro %}{{ m() }}",
        "deeper than 300"));
    assert_true(
        stopped("{% set ns = namespace(l=[1]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}"
                "{{ ns.l }}",
                "deeper than 300"));
    assert_true(
        stopped("{% set ns = namespace(l=[1]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}"
                "{{ ns.l == [ns.l] }}",
                "deeper than 300"));
    assert_true(stopped(
        "{% set ns = namespace(l=(1,)) %}{% for i in range(999) %}{% set ns.l = (ns.l,) %}{% endfor %}"
        "{{ {ns.l: 1} }}",
        "deeper than 300"));
    assert_true(
        stopped("{% set ns = namespace(l=[1]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}"
                "{{ ns.l | tojson }}",
                "deeper than 300"));
    assert_true(stopped(
        "{% set ns = namespace(g=[1]) %}{% for i in range(999) %}{% set ns.g = ns.g | map('string') %}"
        "{% endfor %}{{ ns.g | list }}",
        "deeper than 300"));
    assert_true(stopped("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "deeper than 300"));
}

/* A rendering with the default limits must fit into the stack. */
static void the_ordinary_depth_is_more_than_the_stack_bears(void **state)
{
    assert_true(jinjacase_refused("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "{}",
                                  "deeper than 2000"));
    assert_true(jinjacase_refused(
        "{% macro m() %}{{ [1] | map('string') | join(m() ~ (1 if m() else 2)) }}{% endmacro %}"
        "{{ m() }}",
        "{}", "deeper than 2000"));
    assert_true(
        jinjacase_refused("{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}"
                          "{% endfor %}{{ ns.l | tojson }}{{ ns.l | string }}",
                          "{}", "deeper than 2000"));
    assert_true(jinjacase_refused(
        "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g | select %}"
        "{% endfor %}{{ ns.g | first }}",
        "{}", "deeper than 2000"));
}

static void a_recursion_as_deep_as_templates_go_is_refused(void **state)
{
    assert_true(
        jinjacase_gives("{% macro m(n) %}{% if n %}{% for i in [1] %}{{ m(n - 1) }}{% endfor %}{% else %}end"
                        "{% endif %}{% endmacro %}{{ m(100) }}",
                        "{}", "end"));
}

/* WHAT repeated COUNT times between BEFORE and BEHIND must be refused as too deep, or at least not crash. */
static void nested(const char *before, const char *what, size_t count, const char *behind, bool refused)
{
    struct buf t = {.tag = MEM_TEXT}, out;
    struct err e = {0};
    int rc;

    buf_str(&t, before);
    for (size_t i = 0; i < count; i++)
        buf_str(&t, what);
    buf_str(&t, behind);
    rc = jinjacase_render(t.data, "{}", &out, &e);
    if (refused && (rc != ERR_INPUT || !strstr(e.msg, "deeper")))
        fail_msg("%s%s...: %s", before, what, rc ? e.msg : "is rendered");
    buf_fini(&t);
    buf_fini(&out);
}

static void arguments_of_tests_side_by_side_count_as_nested(void **state)
{
    char template[400 * 16] = "", text[400 * 4 + 1] = "";

    for (int i = 0; i < 400; i++) {
        strcat(template, "{{ 1 is eq 1 }}");
        strcat(text, "True");
    }
    assert_true(jinjacase_gives(template, "{}", text));
}

static void a_template_nests_deeper_than_the_parser_goes(void **state)
{
    nested("{{ ", "(", 9999, "", true);
    nested("{{ ", "[", 9999, "", false);
    nested("{{ ", "{1:", 9999, "", false);
    nested("{{ ", "-", 9999, "1 }}", true);
    nested("{{ ", "not ", 9999, "1 }}", true);
    nested("{{ 1", " + 1", 9999, " }}", true);
    nested("{{ a", ".b", 9999, " }}", true);
    nested("{{ a", "|e", 9999, " }}", true);
    nested("{{ a", "()", 9999, " }}", true);
    nested("{{ a", "[0]", 9999, " }}", true);
    nested("{{ 1 ", "if 1 else 1 ", 9999, " }}", true);
    nested("{{ 1 ", "if 1 ", 9999, " }}", true);
    nested("{{ f(", "f(", 9999, "", false);
    nested("", "{% if 1 %}", 9999, "", true);
    nested("", "{% for x in y %}", 9999, "", true);
    nested("{% if 0 %}", "{% elif 0 %}", 9999, "{% endif %}", false);
    nested("{{ 1", " ~ 1", 9999, " }}", false);
}

static void many_names_make_looking_them_up_slow(void **state)
{
    struct buf t = {.tag = MEM_TEXT}, out;
    struct err e = {0};

    for (int i = 0; i < 30000; i++)
        buf_fmt(&t, "{%% set a%d = 1 %%}", i);
    buf_str(&t, "{% for i in range(100000) %}{% set b = a29999 %}{% set b = nobody %}{% endfor %}");
    assert_int_equal(jinjacase_render(t.data, "{}", &out, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "steps"));
    buf_fini(&t);
    buf_fini(&out);
}

static void a_string_built_piece_by_piece_costs_its_square(void **state)
{
    static const struct jinja_limits limit = {
        .steps = 2000000, .bytes = 32 << 20, .output = 4 << 20, .depth = 300};
    static const char template[] =
        "{% set ns = namespace(s='') %}{% for i in range(40000) %}"
        "{% set ns.s = ns.s ~ 'thirty bytes of text, or so ...' %}{% endfor %}{{ ns.s }}";
    struct buf out = {.tag = MEM_TEXT};
    json_t *none = json_object();
    struct err e = {0};
    struct jinja *j;

    assert_int_equal(jinja_parse(&j, template, strlen(template), "t", NULL, &e), 0);
    if (jinja_render(j, none, &jinjacase_now, &limit, &out, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(out.len, 40000 * 31);
    jinja_free(j);
    json_decref(none);
    buf_fini(&out);
}

/* Parses and renders with the N-th allocation failing. *failed: an allocation failed. Returns the code. The
 * test fails if memory is leaked. */
static int render_failing(const char *template, long n, bool *failed)
{
    static const char v[] = "{\"l\": [1, 2, {\"k\": \"v\"}], \"s\": \"a b\", \"d\": {\"x\": 1}}";
    size_t before = mem_live_blocks();
    struct err e = {0};
    struct buf out;
    int rc;

    mem_fail_at(n);
    rc = jinjacase_render(template, v, &out, &e);
    *failed = mem_failed();
    mem_fail_at(0);
    buf_fini(&out);
    assert_int_equal(mem_live_blocks(), before);
    return rc;
}

static void a_failing_allocation_leaks_or_is_taken_for_success(void **state)
{
    static const char template[] =
        "{% macro m(a, b=1) %}{{ a ~ b }}{{ caller() if caller }}{% endmacro %}{% set ns = namespace(x=[]) %}"
        "{% for i in l if i %}{{ loop.index }}{{ loop.length }}{% set ns.x = ns.x + [i] %}{% endfor %}"
        "{{ ns.x | tojson(indent=1) }}"
        "{% call m(1) %}x{% endcall %}{{ l | map('string') | join(',') }}{{ s.split() | sort(reverse=true) }}"
        "{% filter upper %}{{ range(300) | list }}{% endfilter %}{{ d.items() | list | unique | list }}{{ s[::-1] }}"
        "{% set x %}{{ [1.5, 'a'] | e }}{% endset %}{{ x.replace('a', s) ~ x }}{{ dict(a=1, **{'b': s}) }}";
    bool failed;
    long n = 0;
    int rc;

    do {
        n++;
        rc = render_failing(template, n, &failed);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
    } while (failed);
    assert_true(n > 5);
}

/* Limits J to each number of steps from FIRST to MOST in turn. Returns the number of steps of the whole
 * rendering. */
static uint64_t stop_at_each_step(const struct jinja *j, json_t *context, uint64_t first, uint64_t most)
{
    struct jinja_limits limit = small;

    for (limit.steps = first; limit.steps < first + most; limit.steps++) {
        struct buf out = {.tag = MEM_TEXT};
        struct err e = {0};
        int rc = jinja_render(j, context, &jinjacase_now, &limit, &out, &e);
        bool stopped_here = rc == ERR_INPUT && strstr(e.msg, "steps");

        if (stopped_here)
            assert_int_equal(out.len, 0);
        buf_fini(&out);
        if (!stopped_here)
            break;
    }
    return limit.steps;
}

/* Allocations also fail after an error, so this covers the paths after every failed allocation, too. */
static void a_rendering_stopped_at_any_step_crashes_or_goes_on(void **state)
{
    size_t n, i, before;
    char *text = jinjacase_read("language.json", &n);
    json_t *fixture = json_loadb(text, n, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL), *context, *one;
    uint64_t for_context = 0, steps = 0;
    struct jinja *j;

    assert_non_null(fixture);
    context = json_object_get(fixture, "context");
    before = mem_live_blocks();
    assert_int_equal(jinja_parse(&j, "", 0, "t", NULL, NULL), 0);
    for_context = stop_at_each_step(j, context, 0, small.steps);
    jinja_free(j);
    json_array_foreach(json_object_get(fixture, "cases"), i, one)
    {
        const char *template = json_string_value(json_object_get(one, "template"));

        if (jinja_parse(&j, template, strlen(template), "t", NULL, NULL) == 0)
            steps += stop_at_each_step(j, context, for_context, 3000) - for_context;
        jinja_free(j);
    }
    assert_int_equal(mem_live_blocks(), before);
    assert_in_range(steps, 10000, SIZE_MAX);
    json_decref(fixture);
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_runs_for_ever),
        cmocka_unit_test(work_is_counted_by_what_it_costs),
        cmocka_unit_test(a_template_eats_memory),
        cmocka_unit_test(many_small_values_eat_memory),
        cmocka_unit_test(a_template_parsed_eats_memory),
        cmocka_unit_test(the_ordinary_limit_of_memory_is_256_mebibytes),
        cmocka_unit_test(a_text_grows_without_end),
        cmocka_unit_test(a_bottomless_recursion_ends_in_the_stack),
        cmocka_unit_test(the_ordinary_depth_is_more_than_the_stack_bears),
        cmocka_unit_test(a_recursion_as_deep_as_templates_go_is_refused),
        cmocka_unit_test(arguments_of_tests_side_by_side_count_as_nested),
        cmocka_unit_test(a_template_nests_deeper_than_the_parser_goes),
        cmocka_unit_test(many_names_make_looking_them_up_slow),
        cmocka_unit_test(a_string_built_piece_by_piece_costs_its_square),
        cmocka_unit_test(a_failing_allocation_leaks_or_is_taken_for_success),
        cmocka_unit_test(a_rendering_stopped_at_any_step_crashes_or_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
