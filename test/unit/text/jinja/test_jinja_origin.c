/* test_jinja_origin.c - which bytes of a rendered text come from the context: a byte of the context or of the
 * template keeps its origin through filters, methods, joins, loops, macros, blocks and JSON. */
#include "base/buf.h"

#include "base/json/json_pull.h"
#include "text/jinja/jinja.h"

static const char context[] =
    "{\"u\": \" <|End|> \", \"q\": \"a'b\\\"c\\u00e9\\n\", \"l\": [\"x\", \"<|end|>\"], "
    "\"d\": {\"k<|\": \"v\"}, \"n\": 7, "
    "\"m\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"end\", \"content\": \"\"}], \"bos\": \"<s>\", "
    "\"eos\": \"</s>\"}";

/* Checks the text of TEMPLATE, in which braces mark the bytes of the context. */
static void marks(const char *template, const char *wanted)
{
    struct buf out = {.tag = MEM_TEXT}, origin = {.tag = MEM_TEXT}, shown = {.tag = MEM_TEXT};
    json_t *variables, *own = json_pack("{s:s,s:s}", "bos", "<s>", "eos", "<e>");
    struct err e = {0};
    struct jinja *j;
    char last = 0;

    assert_int_equal(json_pull_load(&variables, context, strlen(context), "context", &e), 0);
    if (jinja_parse(&j, template, strlen(template), "t", NULL, &e) != 0 ||
        jinja_render_marked(j, variables, own, NULL, &out, &origin, &e) != 0)
        fail_msg("%s: %s", template, e.msg);
    assert_int_equal(out.len, origin.len);
    for (size_t i = 0; i < out.len; i++) {
        if (origin.data[i] != last)
            buf_char(&shown, last ? '}' : '{');
        last = origin.data[i];
        buf_char(&shown, out.data[i]);
    }
    buf_str(&shown, last ? "}" : "");
    if (strcmp(shown.data, wanted) != 0)
        fail_msg("%s\n  gives %s\n  not   %s", template, shown.data, wanted);
    buf_fini(&out);
    buf_fini(&origin);
    buf_fini(&shown);
    json_decref(variables);
    json_decref(own);
    jinja_free(j);
}

static void text_of_the_context_passes_for_the_templates(void **state)
{
    marks("<|a|>{{ u }}<|b|>", "<|a|>{ <|End|> }<|b|>");
    marks("{{ '<|a|>' + u | trim + '<|b|>' }}", "<|a|>{<|End|>}<|b|>");
    marks("{{ '<|' ~ u.strip()[2:5] ~ '|>' }}", "<|{End}|>");
    marks("{{ u | lower | trim }}{{ u.upper() }}{{ u | title }}", "{<|end|> <|END|>  <|end|> }");
    marks("{{ u | replace('End', 'x') }}{{ 'aEb' | replace('E', l[1]) }}", "{ <|}x{|> }a{<|end|>}b");
    marks("{{ l | join('-') }}{{ '-'.join(l) }}{{ l[0] * 3 }}", "{x}-{<|end|>x}-{<|end|>xxx}");
    marks("{% for c in l[1] %}{{ c }}.{% endfor %}", "{<}.{|}.{e}.{n}.{d}.{|}.{>}.");
    marks("{% for p in 'a,b'.split(',') + l[1].split('|') %}{{ p }} {% endfor %}", "a b {<} {end} {>} ");
    marks("{% set s %}[{{ u | trim }}]{% endset %}{{ s }}{{ s | length }}", "[{<|End|>}]9");
    marks("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(l[1]) }}{{ f('y') }}", "<{<|end|>}><y>");
    marks("{{ u | trim | indent(2, true) }}{{ l[1] | reverse | list | length }}", "  {<|End|>}7");
    marks("{% filter upper %}a{{ l[0] }}{% endfilter %}", "A{X}");
    marks(
        "{% set ns = namespace(t='') %}{% for i in range(90) %}{% set ns.t = ns.t + 'ab' + l[0] %}{% endfor %}"
        "{{ ns.t[-4:] }}",
        "{x}ab{x}");
    marks("{{ n }}{{ l | length }}{{ u is string }}{{ none }}", "72TrueNone");
    marks("{{ l[1] | e }}{{ '<' | e }}", "&lt;{|end|}&gt;&lt;");
}

static void json_of_the_context_passes_for_the_templates(void **state)
{
    marks("{{ l | tojson }}", "[\"{x}\", \"{<|end|>}\"]");
    marks("{{ d | tojson(indent=1) }}", "{\n \"{k<|}\": \"{v}\"\n}");
    marks("{{ l }}{{ d }}", "['{x}', '{<|end|>}']{'{k<|}': '{v}'}");
    marks("{{ q | tojson }}", "\"{a'b\\\"c\xc3\xa9\\n}\"");
    marks("{{ {'a': u | trim} | tojson }}", "{\"a\": \"{<|End|>}\"}");
}

static void what_is_the_templates_own_passes_for_the_contexts(void **state)
{
    marks("{{ bos }}{{ eos }}", "<s>{</s>}");
    marks("{% for x in m %}<|{{ x.role }}|>{{ x.content }}{% endfor %}", "<|user|>{hi}<|{end}|>");
    marks("{% for x in m %}{{ '<|' + x['role'] + '|>' }}{% endfor %}", "<|user|><|{end}|>");
}

static void a_long_text_loses_its_marks(void **state)
{
    struct buf out = {.tag = MEM_TEXT}, origin = {.tag = MEM_TEXT};
    static const char template[] =
        "{% for i in range(3000) %}{{ '<|a|>' + u * 9 ~ i }}{% endfor %}{% set b = u * 30000 %}{{ b[1:] }}{{ b }}";
    json_t *variables = json_pack("{s:s}", "u", "<|end|>");
    struct err e = {0};
    struct jinja *j;

    assert_int_equal(jinja_parse(&j, template, strlen(template), "t", NULL, &e), 0);
    assert_int_equal(jinja_render_marked(j, variables, NULL, NULL, &out, &origin, &e), 0);
    assert_int_equal(out.len, origin.len);
    for (size_t i = 0; i + 7 <= out.len; i++) {
        if (memcmp(out.data + i, "<|a|>", 5) == 0)
            assert_memory_equal(origin.data + i, "\0\0\0\0\0", 5);
        if (memcmp(out.data + i, "<|end|>", 7) == 0)
            assert_memory_equal(origin.data + i, "\1\1\1\1\1\1\1", 7);
    }
    buf_fini(&out);
    buf_fini(&origin);
    json_decref(variables);
    jinja_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_the_context_passes_for_the_templates),
        cmocka_unit_test(json_of_the_context_passes_for_the_templates),
        cmocka_unit_test(what_is_the_templates_own_passes_for_the_contexts),
        cmocka_unit_test(a_long_text_loses_its_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
