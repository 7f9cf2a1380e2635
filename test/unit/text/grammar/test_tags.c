/* test_tags.c - structural tags in both spellings: which texts they accept, and what is refused. */
#include <jansson.h>

#include "base/mem.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/tags.h"

enum { MEMORY = 64 << 20, STEPS = 1 << 22 };

/* Stands for the compiler of JSON Schemas: {"text": T} describes the text T, true any digits. */
static int small_schema(void *context, struct grammar *g, const json_t *schema, uint32_t *start,
                        struct err *e)
{
    const json_t *text = json_object_get(schema, "text");

    ++*(int *)context;
    if (json_is_true(schema))
        *start =
            grammar_term(g, regex_repeat(&g->regex, regex_range(&g->regex, '0', '9'), 1, REGEX_NO_LIMIT));
    else if (json_is_string(text))
        *start = grammar_text(g, json_string_value(text));
    else
        return err_set(e, ERR_UNSUPPORTED, "a schema that is not served");
    return 0;
}

static int accepts(const char *source, const char *text)
{
    json_t *tag = json_loads(source, 0, NULL);
    struct grammar g;
    struct recognizer r;
    struct err e = {0};
    uint32_t start;
    int n_schemas = 0;
    bool yes;

    assert_non_null(tag);
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    if (tags_read(&g, tag, small_schema, &n_schemas, &start, &e) != 0 || grammar_finish(&g, start, &e) != 0 ||
        recognizer_open(&r, &g, &e) != 0)
        fail_msg("%s: %s", source, e.msg);
    yes = recognizer_matches(&r, text, strlen(text));
    assert_int_equal(g.regex.fault, REGEX_FINE);
    recognizer_close(&r);
    grammar_close(&g);
    json_decref(tag);
    return yes;
}

#define TAG(begin, text, end)                                                                          \
    "{\"begin\":\"" begin "\",\"content\":{\"type\":\"json_schema\",\"json_schema\":{\"text\":\"" text \
    "\"}},\"end\":\"" end "\"}"
#define FORMAT(type, fields) "{\"type\":\"structural_tag\",\"format\":{\"type\":\"" type "\"" fields "}}"
#define CONST(text)          "{\"type\":\"const_string\",\"value\":\"" text "\"}"
#define ANY                  "{\"type\":\"any_text\"}"
#define TWO_TAGS             "\"tags\":[" TAG("<f=a>", "A", "</f>") "," TAG("<f=b>", "B", "</f>") "]"

static const struct {
    const char *source, *yes[5], *no[5];
} tags[] = {
    {"{\"type\":\"structural_tag\",\"structures\":[{\"begin\":\"<f=a>\",\"schema\":{\"text\":\"A\"},\"end\":\"</f>\"},"
     "{\"begin\":\"<f=b>\",\"schema\":null,\"end\":\"</f>\"},"
     "{\"begin\":\"<f=c>\",\"schema\":\"{\\\"text\\\": \\\"C\\\"}\",\"end\":\"\"}],\"triggers\":[\"<f=\"]}",
     {"", "free <f", "x<f=a>A</f>y<f=b>12</f>", "<f=c>C<f=c>C.", "\xc3\xa9<<f=a>A</f>"},
     {"<f=", "<f=a>", "<f=a>B</f>", "x<f=d>", "\xff"}},
    {FORMAT("const_string", ",\"value\":\"yes\""), {"yes"}, {"", "yess"}},
    {FORMAT("json_schema", ",\"json_schema\":{\"text\":\"A\"},\"style\":\"json\""), {"A"}, {"B"}},
    {FORMAT("regex", ",\"pattern\":\"[a-c]{2}\""), {"ab"}, {"a", "abc"}},
    {FORMAT("grammar", ",\"grammar\":\"root ::= \\\"x\\\" root | \\\"y\\\"\""), {"y", "xxy"}, {"x"}},
    {FORMAT("any_text", ""), {"", "a\n\xc3\xa9"}, {"\xff", "\xc3"}},
    {FORMAT("any_text", ",\"excludes\":[\"no\",\"n\xc3\xb6\"],\"max_chars\":4,\"max_tokens\":null"),
     {"", "n o\xc3\xa9"},
     {"no", "anob", "n\xc3\xb6", "abcde"}},
    {FORMAT("sequence", ",\"elements\":[" CONST("a") "," CONST("b") "]"), {"ab"}, {"a", "b", "ba"}},
    {FORMAT("or", ",\"elements\":[" CONST("a") "," CONST("b") "]"), {"a", "b"}, {"", "ab"}},
    {FORMAT("optional", ",\"content\":" CONST("a")), {"", "a"}, {"aa"}},
    {FORMAT("plus", ",\"content\":" CONST("a")), {"a", "aaa"}, {""}},
    {FORMAT("star", ",\"content\":" CONST("a")), {"", "aaa"}, {"b"}},
    {FORMAT("repeat", ",\"min\":2,\"max\":3,\"content\":" CONST("a")), {"aa", "aaa"}, {"a", "aaaa"}},
    {FORMAT("repeat", ",\"min\":1,\"max\":-1,\"content\":" CONST("a")), {"a", "aaaa"}, {""}},
    {FORMAT("tag", ",\"begin\":\"<t>\",\"content\":" ANY ",\"end\":\"</t>\""),
     {"<t></t>", "<t>a<</t>"},
     {"<t>", "<t></t></t>", "<t>a</t>b</t>", "x<t></t>"}},
    {FORMAT("tag", ",\"begin\":\"\",\"content\":" ANY ",\"end\":[\"!\",\"??\"]"),
     {"!", "a?!", "a??"},
     {"a", "a!b!", "a??b??"}},
    /* an end belongs to the innermost tag only */
    {FORMAT("tag", ",\"begin\":\"(\",\"content\":{\"type\":\"tag\",\"begin\":\"[\",\"content\":" ANY
                   ",\"end\":\"]\"},\"end\":\")\""),
     {"([)])"},
     {"([]]", "([]])"}},
    {FORMAT("triggered_tags", ",\"triggers\":[\"<f=\"]," TWO_TAGS),
     {"", "hi", "<f=a>A</f>", "x<f=b>B</f><f=a>A</f>y", "<<f=a>A</f>"},
     {"<f=", "x<f=c", "<f=a>B</f>", "<f=a>A</f>x<f=", "<f=a>A"}},
    {FORMAT("triggered_tags", ",\"triggers\":[\"<f=\"],\"at_least_one\":true," TWO_TAGS),
     {"<f=a>A</f>", "<f=b>B</f>x<f=a>A</f>y"},
     {"", "x<f=a>A</f>"}},
    {FORMAT("triggered_tags", ",\"triggers\":[\"<f=\"],\"stop_after_first\":true," TWO_TAGS),
     {"x", "x<f=a>A</f>"},
     {"<f=a>A</f>x", "<f=a>A</f><f=a>A</f>"}},
    {FORMAT("triggered_tags",
            ",\"triggers\":[\"<f=\"],\"at_least_one\":true,\"stop_after_first\":true," TWO_TAGS),
     {"<f=b>B</f>"},
     {"", "x", "<f=b>B</f>x"}},
    {FORMAT("triggered_tags", ",\"triggers\":[\"<f=a\",\"<f=b\"],\"excludes\":[\"bad\"]," TWO_TAGS),
     {"<f=c", "ba<f=a>A</f>d"},
     {"bad", "bad<f=a>A</f>", "<f=a>A</f>bad"}},
    /* the first place where the trigger is complete counts: "aaab" is one letter and the trigger, then "b" */
    {FORMAT("triggered_tags", ",\"triggers\":[\"aa\"],\"tags\":[" TAG("aab", "A", ".") "]"),
     {"aabA.", "xaabA.x", "a"},
     {"aaabA.", "aaa", "xaa"}},
    {FORMAT("tag",
            ",\"begin\":\"<r>\",\"content\":{\"type\":\"triggered_tags\",\"triggers\":[\"<f=\"]," TWO_TAGS
            "},\"end\":\"</r>\""),
     {"<r>a<f=a>A</f>b</r>", "<r></r>"},
     {"<r>a</r>b</r>", "<r><f=a></r>"}},
    {FORMAT("tags_with_separator", ",\"separator\":\", \"," TWO_TAGS),
     {"", "<f=a>A</f>", "<f=a>A</f>, <f=b>B</f>, <f=a>A</f>"},
     {"<f=a>A</f>, ", "<f=a>A</f><f=b>B</f>", "x"}},
    {FORMAT("tags_with_separator",
            ",\"separator\":\"\",\"at_least_one\":true,\"stop_after_first\":true," TWO_TAGS),
     {"<f=a>A</f>"},
     {"", "<f=a>A</f><f=a>A</f>"}},
    {FORMAT("dispatch", ",\"rules\":[[\"#\"," CONST("1") "],[\"##\"," CONST("2") "]],\"excludes\":[\"no\"]"),
     {"", "a#1b#1", "#1"},
     {"#", "#2", "#1no", "##2"}},
    {FORMAT("dispatch", ",\"loop\":false,\"rules\":[[\"#\"," CONST("1") "]]"),
     {"ab", "a#1"},
     {"#1b", "#1#1"}},
};

static void tags_accept_their_texts_and_no_others(void **state)
{
    for (size_t i = 0; i < sizeof(tags) / sizeof(*tags); i++)
        for (size_t k = 0; k < 5; k++) {
            if (tags[i].yes[k] && !accepts(tags[i].source, tags[i].yes[k]))
                fail_msg("%s refuses \"%s\"", tags[i].source, tags[i].yes[k]);
            if (tags[i].no[k] && accepts(tags[i].source, tags[i].no[k]))
                fail_msg("%s accepts \"%s\"", tags[i].source, tags[i].no[k]);
        }
}

static const struct {
    const char *source;
    int code;
    const char *says;
} refused[] = {
    {"[]", ERR_INPUT, "the structural tag: expected an object"},
    {"{\"type\":\"structural_tag\"}", ERR_INPUT,
     "the structural tag: expected \"format\", or \"structures\""},
    {"{\"format\":{}}", ERR_INPUT, "/format: expected a format, an object with \"type\""},
    {"{\"format\":3}", ERR_INPUT, "the structural tag: a wrong type of \"format\"; expected a format"},
    {FORMAT("token", ",\"token\":3"), ERR_UNSUPPORTED, "/format: the format \"token\" is not supported"},
    {FORMAT("const_string", ""), ERR_INPUT, "/format: lacks \"value\"; expected a text"},
    {FORMAT("const_string", ",\"value\":\"a\",\"x\":1"), ERR_UNSUPPORTED,
     "/format: the field \"x\" is not known; expected one of type value "},
    {FORMAT("sequence", ",\"elements\":[" ANY ",{\"type\":\"regex\",\"pattern\":\"(\"}]"), ERR_INPUT,
     "/format/elements/1: offset 0 of the regular expression: a group without )"},
    {FORMAT("grammar", ",\"grammar\":\"root ::= b\""), ERR_INPUT,
     "/format: line 1, column 10 of the grammar: the rule \"b\" is not defined"},
    {FORMAT("tag",
            ",\"begin\":\"a\",\"end\":\"b\",\"content\":{\"type\":\"json_schema\",\"json_schema\":{}}"),
     ERR_UNSUPPORTED, "/format/content/json_schema: a schema that is not served"},
    {FORMAT("tag", ",\"begin\":{\"type\":\"token\",\"token\":1},\"end\":\"b\",\"content\":" ANY),
     ERR_UNSUPPORTED, "/format: a \"begin\" that is a token"},
    {FORMAT("tag", ",\"begin\":\"a\",\"content\":" ANY), ERR_INPUT, "/format: lacks \"end\""},
    {FORMAT("json_schema", ",\"json_schema\":{\"text\":\"A\"},\"style\":\"qwen_xml\""), ERR_UNSUPPORTED,
     "/format: the \"style\" is not supported; expected \"json\""},
    {FORMAT("any_text", ",\"max_tokens\":3"), ERR_UNSUPPORTED, "/format: \"max_tokens\" is not supported"},
    {FORMAT("repeat", ",\"min\":3,\"max\":2,\"content\":" ANY), ERR_INPUT, "/format: wrong counts"},
    {FORMAT("triggered_tags", ",\"triggers\":[\"<g=\"]," TWO_TAGS), ERR_INPUT,
     "/format/tags/0: no trigger begins \"<f=a>\""},
    {FORMAT("triggered_tags", ",\"triggers\":[\"<f\",\"<f=\"]," TWO_TAGS), ERR_INPUT,
     "/format/tags/0: two triggers begin \"<f=a>\""},
    {FORMAT("triggered_tags", ",\"triggers\":[\"\"]," TWO_TAGS), ERR_INPUT,
     "/format: a wrong value in \"triggers\""},
    {FORMAT("triggered_tags", ",\"triggers\":[]," TWO_TAGS), ERR_INPUT, "/format: no \"triggers\""},
    {FORMAT("dispatch", ",\"rules\":[[\"a\"]]"), ERR_INPUT, "/format/rules: a wrong rule"},
};

static void what_cannot_be_served_is_refused_by_name_and_pointer(void **state)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        json_t *tag = json_loads(refused[i].source, 0, NULL);
        struct grammar g;
        struct err e = {0};
        uint32_t start = 7;
        int n_schemas = 0;

        assert_non_null(tag);
        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        assert_int_equal(tags_read(&g, tag, small_schema, &n_schemas, &start, &e), refused[i].code);
        assert_int_equal(start, GRAMMAR_NEVER);
        if (strncmp(e.msg, refused[i].says, strlen(refused[i].says)) != 0)
            fail_msg("%s: \"%s\"", refused[i].source, e.msg);
        grammar_close(&g);
        json_decref(tag);
    }
}

static void failed_allocations_are_reported(void **state)
{
    static const char source[] = FORMAT(
        "sequence",
        ",\"elements\":[" CONST(
            "a") ",{\"type\":\"triggered_tags\",\"triggers\":[\"<f=\"]," TWO_TAGS
                 "},{\"type\":\"regex\",\"pattern\":\"a\"},{\"type\":\"grammar\",\"grammar\":\"root::=\\\"a\\\"\"}]");

    for (long at = 1;; at++) {
        json_t *tag = json_loads(source, 0, NULL);
        struct grammar g;
        struct err e = {0};
        uint32_t start;
        int code, n_schemas = 0;
        bool failed;

        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        mem_fail_at(at);
        code = tags_read(&g, tag, small_schema, &n_schemas, &start, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(code, failed ? ERR_NOMEM : 0);
        grammar_close(&g);
        json_decref(tag);
        if (!failed) {
            assert_in_range(at, 20, 2000);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_accept_their_texts_and_no_others),
        cmocka_unit_test(what_cannot_be_served_is_refused_by_name_and_pointer),
        cmocka_unit_test(failed_allocations_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
