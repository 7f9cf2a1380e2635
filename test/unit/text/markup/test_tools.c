/* test_tools.c - what a template wants of tools is found by asking it; messages are made fit for that; bad
 * fields are refused by name.
 */
#include "text/markup/tools.h"

#include "base/buf.h"
#include "base/err.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"
#include "text/markup/parser.h"

static const char chatml[] =
    "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}"
    "<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}</tool_call>"
    "{% endfor %}{% endfor %}";
static const char joined[] = /* wants text: an object cannot be added to a string */
    "{% if tools %}{{ tools }}{% endif %}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}"
    "{{ '(' + c.function.arguments + ')' }}{% endfor %}{% endfor %}";
static const char printed[] = /* wants text: an object would come out as Python writes it */
    "{% if tools %}{{ tools }}{% endif %}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}"
    "({{ c.function.arguments }}){% endfor %}{% endfor %}";
static const char strict[] = /* knows no ids but those of 9 characters */
    "[AVAILABLE_TOOLS]{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% if m.tool_call_id and "
    "m.tool_call_id | length != 9 %}{{ raise_exception('nine') }}{% endif %}{% for c in m.tool_calls %}"
    "{% if c.id | length != 9 %}{{ raise_exception('nine') }}{% endif %}[TOOL_CALLS]{{ c.function.name }}[ARGS]"
    "{{ c.function.arguments | tojson }}[ID]{{ c.id }}{% endfor %}{{ m.tool_call_id }}{% endfor %}";
static const char in_system[] =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tools %}<|tool|>"
    "{{ m.tools }}<|/tool|>{% endif %}{% endfor %}";
static const char deaf[] = "{% for m in messages %}{{ m.content }}{% endfor %}";

static struct chat *open_template(const char *template)
{
    json_t *o = json_pack("{s:s}", "chat_template", template);
    char *text = json_dumps(o, 0);
    struct chat *chat;

    assert_int_equal(chat_open_text(&chat, text, strlen(text), "t", NULL), 0);
    free(text);
    json_decref(o);
    return chat;
}

static struct tools_style style_of(const char *template)
{
    struct chat *chat = open_template(template);
    struct tools_style s;
    struct err e;

    assert_int_equal(tools_probe(chat, NULL, &s, &e), 0);
    chat_close(chat);
    return s;
}

static void templates_say_what_they_want(void **state)
{
    static const struct {
        const char *template;
        struct tools_style style;
    } cases[] = {
        {chatml, {.place = TOOLS_IN_VARIABLE}},
        {joined, {.place = TOOLS_IN_VARIABLE, .text_arguments = true}},
        {printed, {.place = TOOLS_IN_VARIABLE, .text_arguments = true}},
        {strict, {.place = TOOLS_IN_VARIABLE, .short_ids = true}},
        {in_system, {.place = TOOLS_IN_SYSTEM}},
        {deaf, {.place = TOOLS_NOWHERE}},
        {"{{ raise_exception('no') }}", {.place = TOOLS_NOWHERE}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tools_style s = style_of(cases[i].template);

        assert_int_equal(s.place, cases[i].style.place);
        assert_int_equal(s.text_arguments, cases[i].style.text_arguments);
        assert_int_equal(s.short_ids, cases[i].style.short_ids);
    }
}

#define TOOLS_LOOP(text) \
    "{% for t in tools %}{{ " text " }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}"

/* What a template refuses to miss in a tool is filled in, and nothing else. */
static void optional_members_of_tools_are_filled_in_where_they_are_needed(void **state)
{
    static const struct {
        const char *template;
        int needs; /* bits: description, parameters, properties */
        const char *given, *complete;
    } cases[] = {
        {TOOLS_LOOP("t.function.name"), 0, "{\"name\":\"f\"}", "{\"name\":\"f\"}"},
        {TOOLS_LOOP("t.function.name"), 0, "{\"name\":\"f\",\"description\":null,\"parameters\":null}",
         "{\"name\":\"f\"}"},
        {TOOLS_LOOP("t.function.name"), 0, "{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}",
         "{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}"},
        {TOOLS_LOOP("t.function.name + t.function.description"), 1, "{\"name\":\"f\"}",
         "{\"name\":\"f\",\"description\":\"\"}"},
        {TOOLS_LOOP("t.function.name + t.function.description"), 1, "{\"name\":\"f\",\"description\":null}",
         "{\"name\":\"f\",\"description\":\"\"}"},
        {TOOLS_LOOP("t.function.name + t.function.description"), 1, "{\"name\":\"f\",\"description\":\"d\"}",
         "{\"name\":\"f\",\"description\":\"d\"}"},
        {TOOLS_LOOP("t.function.name ~ t.function.parameters | tojson"), 2, "{\"name\":\"f\"}",
         "{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}"},
        {TOOLS_LOOP("t.function.name ~ t.function.parameters.properties | tojson"), 6,
         "{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}",
         "{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tools_style s = style_of(cases[i].template);
        json_t *given = json_loads(cases[i].given, 0, NULL), *before = json_deep_copy(given),
               *list = json_pack("[{s:s,s:o}]", "type", "function", "function", given), *out,
               *expected = json_loads(cases[i].complete, 0, NULL);

        assert_int_equal(s.needs_description | s.needs_parameters << 1 | s.needs_properties << 2,
                         cases[i].needs);
        assert_int_equal(tools_complete(&s, list, &out, NULL), 0);
        assert_true(json_equal(json_object_get(json_array_get(out, 0), "function"), expected));
        assert_string_equal(json_string_value(json_object_get(json_array_get(out, 0), "type")), "function");
        assert_true(json_equal(given, before));
        json_decref(out);
        json_decref(expected);
        json_decref(before);
        json_decref(list);
    }
}

static void a_template_of_the_user_s_is_asked_instead(void **state)
{
    struct chat *chat = open_template(deaf);
    struct tools_style s;
    struct jinja *own;

    assert_int_equal(jinja_parse(&own, chatml, strlen(chatml), "own", NULL, NULL), 0);
    assert_int_equal(tools_probe(chat, own, &s, NULL), 0);
    assert_int_equal(s.place, TOOLS_IN_VARIABLE);
    jinja_free(own);
    chat_close(chat);
}

/* The text of MESSAGES and TOOLS (JSON, or NULL) by TEMPLATE, made fit for it. */
static void check_text(const char *template, const char *messages, const char *tools, const char *expected)
{
    static const struct tm now = {.tm_year = 126, .tm_mday = 1};
    struct tools_style s = style_of(template);
    json_t *list = json_loads(messages, 0, NULL), *tool_list = tools ? json_loads(tools, 0, NULL) : NULL,
           *given, *variables;
    struct chat *chat = open_template(template);
    struct buf out;
    struct err e;

    assert_non_null(list);
    buf_init(&out, MEM_API);
    assert_int_equal(tools_fit(&s, list, tool_list, &e), 0);
    given = json_pack("{s:O}", "messages", list);
    if (tool_list && s.place == TOOLS_IN_VARIABLE)
        json_object_set(given, "tools", tool_list);
    assert_int_equal(chat_variables(chat, given, false, &variables, &e), 0);
    assert_int_equal(chat_render(chat, NULL, variables, NULL, &now, &out, NULL, &e), 0);
    assert_string_equal(out.data, expected);
    buf_fini(&out);
    json_decref(variables);
    json_decref(given);
    json_decref(list);
    json_decref(tool_list);
    chat_close(chat);
}

#define CALL(id, arguments)                                                                          \
    "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"" id                  \
    "\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": " arguments "}}]}, " \
    "{\"role\": \"tool\", \"tool_call_id\": \"" id "\", \"content\": \"r\"}]"

static void arguments_are_what_the_template_wants(void **state)
{
    static const char prefix[] = "<assistant><tool_call>{\"name\": \"f\", \"arguments\": ";
    static const struct {
        const char *messages, *arguments;
    } cases[] = {
        {CALL("c", "\"{\\\"a\\\": [1, 2.50]}\""), "{\"a\": [1, 2.5]}"},
        {CALL("c", "{\"a\": 1}"), "{\"a\": 1}"},
        {CALL("c", "\"{\\\"a\\\": 1, \\\"b\\\": 2, \\\"a\\\": 3}\""), "{\"a\": 3, \"b\": 2}"},
        {CALL("c", "\"\""), "{}"},
        {CALL("c", "null"), "{}"},
        {CALL("c", "\"{\\\"a\\\": \""), "{}"}, /* cut by a limit: the conversation goes on */
        {CALL("c", "\"[1]\""), "{}"},
        {CALL("c", "\"5\""), "{}"},
        {CALL("c", "\"null\""), "{}"},
        {CALL("c", "\"{\\\"a\\\": 1} 2\""), "{}"},
    };
    char expected[200];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(expected, sizeof(expected), "%s%s}</tool_call><tool>r", prefix, cases[i].arguments);
        check_text(chatml, cases[i].messages, NULL, expected);
    }
    check_text(joined, CALL("c", "\"{\\\"a\\\":1}\""), NULL, "({\"a\":1})r");
    check_text(joined, CALL("c", "{\"a\": 1}"), NULL, "({\"a\": 1})r");
    check_text(joined, CALL("c", "null"), NULL, "({})r");
    check_text(joined, CALL("c", "\"{\\\"a\\\": \""), NULL, "({})r");
    check_text(joined, CALL("c", "\"\""), NULL, "({})r");
}

static void ids_are_what_the_template_takes(void **state)
{
    check_text(strict, CALL("abcdefgh9", "\"{}\""), NULL,
               "[AVAILABLE_TOOLS]null[TOOL_CALLS]f[ARGS]{}[ID]abcdefgh9rabcdefgh9");
    /* another server's id, the same in the call and its result */
    check_text(strict, CALL("call_12345678901234567890abcd", "\"{}\""), NULL,
               "[AVAILABLE_TOOLS]null[TOOL_CALLS]f[ARGS]{}[ID]9c3l47s4pr9c3l47s4p");
}

static void tools_stand_where_the_template_looks(void **state)
{
    static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]";

    check_text(in_system, "[{\"role\": \"user\", \"content\": \"u\"}]", tools,
               "<|system|><|tool|>[{\"name\": \"f\"}]<|/tool|><|user|>u");
    check_text(in_system, "[{\"role\": \"system\", \"content\": \"s\"}]", tools,
               "<|system|>s<|tool|>[{\"name\": \"f\"}]<|/tool|>");
    check_text(in_system, "[{\"role\": \"user\", \"content\": \"u\"}]", NULL, "<|user|>u");
}

static void messages_of_the_caller_s_stay_as_they_are(void **state)
{
    json_t *message = json_loads(CALL("c", "\"{}\""), 0, NULL), *list = json_copy(message);
    char *before = json_dumps(message, 0), *after;
    struct tools_style s = {.place = TOOLS_IN_SYSTEM, .short_ids = true};

    assert_int_equal(tools_fit(&s, list, NULL, NULL), 0);
    after = json_dumps(message, 0);
    assert_string_equal(before, after);
    free(before);
    free(after);
    json_decref(list);
    json_decref(message);
}

static void bad_messages_are_refused_by_name(void **state)
{
    static const struct {
        const char *message, *words;
    } cases[] = {
        {"{\"role\": \"assistant\", \"tool_calls\": 3}", "messages[0].tool_calls: expected a list"},
        {"{\"role\": \"assistant\", \"tool_calls\": [3]}", "messages[0].tool_calls[0].function"},
        {"{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": 3}}]}",
         "tool_calls[0].function"},
        {"{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": 3}}]}",
         "messages[0].tool_calls[0].function.arguments"},
    };
    const struct tools_style s = {.place = TOOLS_IN_VARIABLE};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *list = json_pack("[o]", json_loads(cases[i].message, 0, NULL));
        struct err e;

        assert_int_equal(tools_fit(&s, list, NULL, &e), ERR_INPUT);
        assert_non_null(strstr(e.msg, cases[i].words));
        json_decref(list);
    }
}

static void check_tools(const char *text, int rc, const char *words)
{
    json_t *list = json_loads(text, JSON_ALLOW_NUL, NULL);
    const char *names[4] = {0};
    struct err e = {0};

    assert_non_null(list);
    assert_int_equal(tools_check(list, names, &e), rc);
    if (rc)
        assert_non_null(strstr(e.msg, words));
    else if (words)
        assert_string_equal(names[0], words);
    json_decref(list);
}

static void bad_tools_are_refused_by_name(void **state)
{
    char text[400], name[PARSER_MAX_NAME + 2];

    check_tools("[]", 0, NULL);
    check_tools("[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]", 0, "f");
    check_tools("[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": null}}]", 0, "f");
    check_tools("[3]", ERR_INPUT, "tools[0]: expected an object");
    check_tools("[{\"function\": {\"name\": \"f\"}}]", ERR_INPUT, "tools[0]: expected an object with a type");
    check_tools("[{\"type\": \"web_search\"}]", ERR_UNSUPPORTED, "tools[0].type: 'web_search'");
    check_tools("[{\"type\": \"function\"}]", ERR_INPUT, "tools[0].function.name");
    check_tools("[{\"type\": \"function\", \"function\": {\"name\": \"\"}}]", ERR_INPUT,
                "tools[0].function.name");
    check_tools("[{\"type\": \"function\", \"function\": {\"name\": \"a\\u0000\"}}]", ERR_INPUT,
                "function.name");
    check_tools("[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": 3}}]", ERR_INPUT,
                "tools[0].function.parameters");
    for (int more = 0; more <= 1; more++) {
        memset(name, 'x', sizeof(name));
        name[PARSER_MAX_NAME + more] = 0;
        snprintf(text, sizeof(text), "[{\"type\": \"function\", \"function\": {\"name\": \"%s\"}}]", name);
        check_tools(text, more ? ERR_INPUT : 0, more ? "1 to 256 bytes" : name);
    }
}

static void two_choices_force_calls(void **state)
{
    assert_true(tools_forces(TOOLS_REQUIRED) && tools_forces(TOOLS_NAMED));
    assert_false(tools_forces(TOOLS_AUTO) || tools_forces(TOOLS_NONE));
}

static void choices_are_words_functions_and_lists_of_functions(void **state)
{
    static const struct {
        const char *choice;
        int rc;
        enum tools_choice expected;
        const char *names; /* with blanks between them, or NULL */
    } cases[] = {
        {"null", 0, TOOLS_AUTO, NULL},
        {"\"auto\"", 0, TOOLS_AUTO, NULL},
        {"\"none\"", 0, TOOLS_NONE, NULL},
        {"\"required\"", 0, TOOLS_REQUIRED, NULL},
        {"{\"type\": \"auto\"}", 0, TOOLS_AUTO, NULL},
        {"{\"type\": \"none\"}", 0, TOOLS_NONE, NULL},
        {"{\"type\": \"required\"}", 0, TOOLS_REQUIRED, NULL},
        {"{\"type\": \"function\", \"function\": {\"name\": \"f\"}}", 0, TOOLS_NAMED, "f"},
        {"{\"type\": \"function\", \"name\": \"f\"}", 0, TOOLS_NAMED, "f"},
        {"{\"function\": {\"name\": \"f\"}}", 0, TOOLS_NAMED, "f"},
        {"{\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": \"auto\", \"tools\": [{\"type\": "
         "\"function\", \"function\": {\"name\": \"f\"}}, {\"type\": \"function\", \"name\": \"g\"}]}}",
         0, TOOLS_AUTO, "f g"},
        {"{\"type\": \"allowed_tools\", \"mode\": \"required\", \"tools\": [{\"type\": \"function\", "
         "\"name\": \"g\"}]}",
         0, TOOLS_REQUIRED, "g"},
        {"{\"type\": \"allowed_tools\", \"mode\": \"none\", \"tools\": [{\"name\": \"g\"}]}", ERR_INPUT, 0,
         NULL},
        {"{\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": []}", ERR_INPUT, 0, NULL},
        {"{\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": [{\"type\": \"mcp\"}]}",
         ERR_UNSUPPORTED, 0, NULL},
        {"{\"type\": \"web_search\"}", ERR_UNSUPPORTED, 0, NULL},
        {"{\"type\": \"function\"}", ERR_INPUT, 0, NULL},
        {"\"any\"", ERR_INPUT, 0, NULL},
        {"7", ERR_INPUT, 0, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *choice = json_loads(cases[i].choice, JSON_DECODE_ANY, NULL);
        enum tools_choice found;
        char names_found[100] = "";
        json_t *names;

        assert_int_equal(tools_choose(choice, &found, &names, NULL), cases[i].rc);
        if (cases[i].rc == 0)
            assert_int_equal(found, cases[i].expected);
        for (size_t k = 0; k < json_array_size(names); k++)
            snprintf(names_found + strlen(names_found), 50, "%s%s", k ? " " : "",
                     json_string_value(json_array_get(names, k)));
        assert_string_equal(names_found, cases[i].names ? cases[i].names : "");
        assert_int_equal(names != NULL, cases[i].names != NULL);
        json_decref(names);
        json_decref(choice);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_say_what_they_want),
        cmocka_unit_test(optional_members_of_tools_are_filled_in_where_they_are_needed),
        cmocka_unit_test(a_template_of_the_user_s_is_asked_instead),
        cmocka_unit_test(arguments_are_what_the_template_wants),
        cmocka_unit_test(ids_are_what_the_template_takes),
        cmocka_unit_test(tools_stand_where_the_template_looks),
        cmocka_unit_test(messages_of_the_caller_s_stay_as_they_are),
        cmocka_unit_test(bad_messages_are_refused_by_name),
        cmocka_unit_test(bad_tools_are_refused_by_name),
        cmocka_unit_test(two_choices_force_calls),
        cmocka_unit_test(choices_are_words_functions_and_lists_of_functions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
