/* test_roles.c - what a template takes of system and developer messages is found by asking it, and every
 * instruction reaches the prompt, once and in its order.
 */
#include "text/markup/roles.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"

#define MESSAGES "{% for m in messages %}"
#define END      "{% endfor %}"

static const char any_role[] = MESSAGES "<{{ m.role }}>{{ m.content }}" END;
static const char first_only[] = /* later system messages are left out in silence */
    "{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}{% endif %}" MESSAGES
    "{% if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endif %}" END;
static const char leading[] = /* refuses a system message behind another */
    "{% set ns = namespace(begun=false) %}" MESSAGES
    "{% if m.role == 'system' and ns.begun %}{{ raise_exception('late') }}{% endif %}"
    "{% if m.role != 'system' %}{% set ns.begun = true %}{% endif %}<{{ m.role }}>{{ m.content }}" END;
static const char none[] = /* leaves out what it does not know */
    MESSAGES "{% if m.role == 'user' or m.role == 'assistant' %}<{{ m.role }}>{{ m.content }}{% endif %}" END;
static const char refuses[] =
    MESSAGES "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
             "{% if m.role in ['user', 'assistant'] %}<{{ m.role }}>{{ m.content }}{% endif %}" END;
static const char named[] = MESSAGES "{% if m.role == 'developer' %}<D>{{ m.content }}{% else %}"
                                     "<{{ m.role }}>{{ m.content }}{% endif %}" END;
static const char named_first[] = /* as gpt-oss: one of either role, at the beginning */
    "{% if messages[0].role == 'developer' or messages[0].role == 'system' %}"
    "<D>{{ messages[0].content }}{% endif %}" MESSAGES
    "{% if m.role in ['user', 'assistant'] %}<{{ m.role }}>{{ m.content }}{% endif %}" END;
static const char lost_with_tools[] = /* the second one is left out only where there are tools */
    MESSAGES
    "{% if not tools or loop.first or m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endif %}" END
    "{% if tools %}{{ tools | tojson }}{% endif %}";

static const char user_last[] = /* as Mistral Nemo: in front of a user message that is the last one */
    "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}{% endif %}" MESSAGES
    "{% if m.role == 'user' and loop.last and s is defined %}<user>{{ s }}:{{ m.content }}"
    "{% elif m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endif %}" END;

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

static struct roles_style style_of(struct chat *chat, bool with_tools)
{
    struct roles_style s;
    struct err e;

    assert_int_equal(roles_probe(chat, NULL, chat_template_source(chat, "default"), with_tools, &s, &e), 0);
    return s;
}

static const struct {
    const char *template;
    struct roles_style style;
} styles[] = {
    {any_role, {ROLES_EVERYWHERE, false, false}},
    {first_only, {ROLES_ONE_SYSTEM, false, false}},
    {leading, {ROLES_LEADING, false, false}},
    {none, {ROLES_NO_SYSTEM, false, false}},
    {refuses, {ROLES_NO_SYSTEM, false, false}},
    {named, {ROLES_EVERYWHERE, true, false}},
    {user_last, {ROLES_ONE_SYSTEM, false, true}},
    {named_first, {ROLES_ONE_SYSTEM, true, false}},
    {lost_with_tools, {ROLES_EVERYWHERE, false, false}},
};

static void a_template_is_taken_for_another_kind(void **state)
{
    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
        struct chat *chat = open_template(styles[i].template);
        struct roles_style s = style_of(chat, false);

        if (s.system != styles[i].style.system || s.developer != styles[i].style.developer ||
            s.user_last != styles[i].style.user_last)
            fail_msg("template %zu: system %d, developer %d", i, s.system, s.developer);
        chat_close(chat);
    }
}

static void tools_are_forgotten_in_the_question(void **state)
{
    struct chat *chat = open_template(lost_with_tools);

    assert_int_equal(style_of(chat, true).system, ROLES_ONE_SYSTEM);
    chat_close(chat);
}

/* A list of messages from "role:text|role:text". */
static json_t *list_of(const char *text)
{
    json_t *list = json_array();

    for (size_t n; *text; text += n + (text[n] == '|')) {
        const char *colon = strchr(text, ':');

        n = strcspn(text, "|");
        assert_non_null(colon);
        json_array_append_new(list, json_pack("{s:s%,s:s%}", "role", text, (size_t)(colon - text), "content",
                                              colon + 1, (size_t)(text + n - colon - 1)));
    }
    return list;
}

static void expect(const char *template, const char *messages, const char *prompt)
{
    struct chat *chat = open_template(template);
    struct roles_style s = style_of(chat, false);
    json_t *list = list_of(messages), *before = json_deep_copy(json_array_get(list, 0)),
           *first = json_incref(json_array_get(list, 0)), *variables;
    struct buf out = {.tag = MEM_API};
    struct tm now = {0};
    struct err e;

    assert_int_equal(roles_fit(&s, list, &e), 0);
    assert_true(json_equal(first, before)); /* messages are the caller's */
    assert_int_equal(chat_variables(chat, list, false, &variables, &e), 0);
    assert_int_equal(chat_render(chat, NULL, variables, NULL, &now, &out, NULL, &e), 0);
    buf_char(&out, 0);
    if (strcmp(out.data, prompt) != 0)
        fail_msg("%s: found '%s', expected '%s'", messages, out.data, prompt);
    buf_fini(&out);
    json_decref(variables);
    json_decref(list);
    json_decref(first);
    json_decref(before);
    chat_close(chat);
}

static void an_instruction_is_lost(void **state)
{
    expect(any_role, "user:u", "<user>u");
    expect(any_role, "developer:d|user:u", "<system>d<user>u");
    expect(any_role, "system:s|system:t|user:u|system:v", "<system>s<system>t<user>u<system>v");
    expect(first_only, "system:s|developer:d|user:u|assistant:a|system:t|user:v",
           "<system>s\n\nd\n\nt<user>u<assistant>a<user>v");
    expect(first_only, "user:u|assistant:a|developer:d|user:v", "<system>d<user>u<assistant>a<user>v");
    expect(leading, "system:s|system:t|user:u|system:v|assistant:a",
           "<system>s<system>t\n\nv<user>u<assistant>a");
    expect(leading, "user:u|system:v", "<system>v<user>u");
    expect(none, "system:s|system:t|user:u|assistant:a|developer:d|user:v",
           "<user>s\n\nt\n\nd\n\nu<assistant>a<user>v");
    expect(refuses, "system:s|user:u", "<user>s\n\nu");
    expect(refuses, "system:s", "<user>s");
    expect(refuses, "system:s|assistant:a", "<user>s<assistant>a");
    expect(user_last, "system:s|user:u", "<user>s:u");
    expect(user_last, "system:s|system:t|user:u|assistant:a|user:v", "<user>u<assistant>a<user>s\n\nt:v");
    expect(user_last, "system:s|user:u|assistant:a", "<user>s\n\nu<assistant>a");
    expect(user_last, "system:s|user:u|assistant:a|tool:r", "<user>s\n\nu<assistant>a<tool>r");
    expect(user_last, "system:s", "<user>s");
    expect(user_last, "user:u|assistant:a", "<user>u<assistant>a");
    expect(user_last, "user:u|developer:d", "<user>d\n\nu");
    expect(named, "system:s|developer:d|user:u", "<system>s<D>d<user>u");
    expect(named_first, "developer:d|user:u", "<D>d<user>u");
    expect(named_first, "system:s|developer:d|user:u|developer:e", "<D>s\n\nd\n\ne<user>u");
    expect(named_first, "user:u|developer:e", "<D>e<user>u");
}

/* The template has both roles; what joins instructions of both has the role of the first. */
static void a_joined_instruction_has_another_role(void **state)
{
    const struct roles_style s = {ROLES_ONE_SYSTEM, true, false};
    static const char *const roles[][2] = {{"system", "developer"}, {"developer", "system"}};

    for (size_t i = 0; i < 2; i++) {
        char text[80];
        json_t *list;
        struct err e;

        snprintf(text, sizeof(text), "user:u|%s:a|user:v|%s:b", roles[i][0], roles[i][1]);
        list = list_of(text);
        assert_int_equal(roles_fit(&s, list, &e), 0);
        assert_int_equal(json_array_size(list), 3);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "role")), roles[i][0]);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "content")), "a\n\nb");
        json_decref(list);
    }
}

static void an_empty_instruction_leaves_a_gap(void **state)
{
    expect(first_only, "system:|system:t|user:u", "<system>t<user>u");
    expect(first_only, "system:s|system:|user:u", "<system>s<user>u");
    expect(none, "system:|user:u", "<user>u");
}

static void memory_that_runs_out_is_an_error(void **state)
{
    struct roles_style s = {ROLES_ONE_SYSTEM, false, false};
    bool done = false;

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    for (long n = 1; !done; n++) {
        json_t *list = list_of("system:s|developer:d|user:u|system:t");
        struct err e = {0};
        int rc;

        mem_fail_at(n);
        rc = roles_fit(&s, list, &e);
        done = !mem_failed();
        mem_fail_at(0);
        assert_true(rc == ERR_NOMEM || (rc == 0 && (done || json_array_size(list) == 2)));
        json_decref(list);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_is_taken_for_another_kind),
        cmocka_unit_test(tools_are_forgotten_in_the_question),
        cmocka_unit_test(an_instruction_is_lost),
        cmocka_unit_test(a_joined_instruction_has_another_role),
        cmocka_unit_test(an_empty_instruction_leaves_a_gap),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
