/* test_chat.c - the chat template of a folder: the file it comes from, its special tokens, the changes to the
 * messages, and the errors. */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "files.h"
#include "jinjacase.h"
#include "text/chat.h"
#include "text/settings.h"

static struct chat *open_folder(const char *name)
{
    char path[80];
    struct chat *c;
    struct err e = {0};

    snprintf(path, sizeof(path), "chat/%s", name);
    if (chat_open(&c, folder_at(jinjacase_path(path)), &e) != 0)
        fail_msg("%s", e.msg);
    return c;
}

static int render(const struct chat *c, json_t *q, const char *template, bool prompt, struct buf *out,
                  struct err *e)
{
    json_t *variables;
    int rc = chat_variables(c, q, prompt, &variables, e);

    if (rc == 0)
        rc = chat_render(c, NULL, variables, template, &jinjacase_now, out, NULL, e);
    json_decref(variables);
    return rc;
}

/* Returns the rendering of FOLDER's template for a request, or the error message. mem_free(). */
static char *rendered(const char *folder, const char *request, const char *template, bool prompt)
{
    struct chat *c = open_folder(folder);
    json_t *q = json_loads(request, 0, NULL);
    struct buf out = {.tag = MEM_TEXT};
    struct err e = {0};
    int rc;

    assert_non_null(q);
    rc = render(c, q, template, prompt, &out, &e);
    if (rc)
        buf_fmt(&out, "error: %s", e.msg);
    json_decref(q);
    chat_close(c);
    return out.data;
}

static void check(const char *folder, const char *request, const char *template, const char *want)
{
    char *got = rendered(folder, request, template, true);

    assert_string_equal(got, want);
    mem_free(got);
}

static void check_contains(const char *folder, const char *request, const char *template, const char *words)
{
    char *got = rendered(folder, request, template, true);

    if (!got || strncmp(got, "error: ", 7) != 0 || !strstr(got, words))
        fail_msg("%s: %s, without '%s'", folder, got, words);
    mem_free(got);
}

static void a_conversation_comes_to_another_text_than_transformers_gives(void **state)
{
    size_t n, i;
    char *text = jinjacase_read("chat/conversations.json", &n), *got;
    json_t *list = json_loadb(text, n, 0, NULL), *q;

    assert_true(json_array_size(list) >= 5);
    json_array_foreach(list, i, q)
    {
        char *request = json_dumps(json_object_get(q, "request"), JSON_COMPACT);
        const char *want = json_string_value(json_object_get(q, "output"));

        got = rendered("files", request, "default", true);
        if (want)
            assert_string_equal(got, want);
        else
            assert_non_null(strstr(got, json_string_value(json_object_get(q, "error"))));
        mem_free(got);
        free(request);
    }
    json_decref(list);
    mem_free(text);
}

static const char *token(const struct settings *s, const char *name)
{
    const struct settings_text *t = settings_find(&s->tokens, name);

    return t ? t->text : NULL;
}

static void read_settings(struct settings *s, const char *name)
{
    struct err e = {0};
    char path[80];

    snprintf(path, sizeof(path), "chat/%s", name);
    if (settings_read(s, folder_at(jinjacase_path(path)), SETTINGS_FOR_CHAT, &e) != 0)
        fail_msg("%s", e.msg);
}

static void special_tokens_are_read_wrongly(void **state)
{
    struct settings s;

    read_settings(&s, "files");
    /* The table of added tokens exists, so special_tokens_map.json is not used. */
    assert_string_equal(token(&s, "bos_token"), "<s>");
    assert_string_equal(token(&s, "eos_token"), "</s>");
    assert_null(token(&s, "pad_token"));
    assert_int_equal(s.add_bos, SETTINGS_YES);
    assert_int_equal(s.add_eos, SETTINGS_UNSET);
    settings_fini(&s);
    read_settings(&s, "legacy");
    assert_string_equal(token(&s, "bos_token"), "<b>");
    assert_string_equal(token(&s, "unk_token"), "<u>");
    assert_int_equal(s.add_bos, SETTINGS_UNSET);
    settings_fini(&s);
    read_settings(&s, "plain");
    assert_int_equal(s.add_bos, SETTINGS_NO);
    settings_fini(&s);
}

static void the_template_does_not_see_what_transformers_gives_it(void **state)
{
    check("plain", "[{\"role\": \"user\", \"content\": \"x\", \"name\": null, \"reasoning\": \"r\"}]", NULL,
          "<b><img><snd><vid>False|{'thinking': 'r', 'role': 'user', 'content': 'x', 'reasoning': 'r', "
          "'reasoning_content': 'r'}<e>\nNoneNoneTrue");
    check("plain",
          "{\"messages\": [{\"thinking\": \"t\", \"reasoning_content\": \"c\", \"role\": \"a\"}], "
          "\"documents\": [{\"a\": 1}], "
          "\"extra\": [1], \"add_generation_prompt\": false, \"eos_token\": \"!\", \"bos_token\": null}",
          NULL,
          "None<img><snd><vid>False|{'thinking': 't', 'reasoning_content': 'c', 'role': 'a'}!\n"
          "None[{'a': 1}]False[1]");
    check("legacy", "[{\"content\": \"x\"}]", NULL, "<b><u>x<e>");
}

static void another_template_is_chosen(void **state)
{
    static const char bare[] = "[{\"role\": \"user\", \"content\": \"x\"}]";
    static const char tools[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{\"function\": "
        "{\"name\": \"f\"}}], \"documents\": [{}, {}]}";
    struct settings s;

    check("named", bare, NULL, "D1");
    check("named", tools, NULL, "T1");
    check("named", tools, "default", "D1");
    check("named", bare, "other", "O");
    check("files", tools, NULL, "with tools: f");
    check("files", tools, "rag", "2 documents for x");
    check_contains("named", bare, "nothing", "'nothing'");
    read_settings(&s, "files");
    assert_int_equal(s.templates.n, 3);
    assert_string_equal(s.templates.v[0].name, "default");
    settings_fini(&s);
}

static void a_folder_without_template_does_not_open(void **state)
{
    static const char *const folders[] = {"bare", "no-such-folder"};

    for (int i = 0; i < 2; i++) {
        struct chat *c = open_folder(folders[i]);

        assert_false(chat_has_template(c));
        chat_close(c);
        check_contains(folders[i], "[{\"role\": \"user\", \"content\": \"x\"}]", NULL,
                       "has no chat template");
    }
}

static void a_broken_template_keeps_the_folder_from_opening(void **state)
{
    check_contains("broken", "[{\"role\": \"user\", \"content\": \"x\"}]", NULL, "chat_template line 3: ");
}

static void requests_that_are_no_conversations_are_rendered(void **state)
{
    check_contains("plain", "[]", NULL, "empty");
    check_contains("plain", "{}", NULL, "messages");
    check_contains("plain", "{\"messages\": 5}", NULL, "list of messages");
    check_contains("plain", "[5]", NULL, "messages[0]");
    check_contains("plain", "{\"messages\": [{}], \"tools\": 5}", NULL, "tools");
    check_contains("plain", "{\"messages\": [{}], \"documents\": [{}, 5]}", NULL, "documents[1]");
}

static void the_request_is_changed(void **state)
{
    static const char request[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": null, \"reasoning\": \"r\"}]}";
    struct chat *c = open_folder("plain");
    json_t *q = json_loads(request, 0, NULL), *same = json_loads(request, 0, NULL);
    struct buf out = {.tag = MEM_TEXT};

    assert_int_equal(render(c, q, NULL, true, &out, NULL), 0);
    assert_true(json_equal(q, same));
    buf_fini(&out);
    json_decref(q);
    json_decref(same);
    chat_close(c);
}

/* Opens a new folder that has one file. */
static int chat_with(const char *file, const char *text, struct chat **c, struct err *e)
{
    FILE *f;
    char path[64];
    int rc;

    mkdir("chat-folder", 0777);
    snprintf(path, sizeof(path), "chat-folder/%s", file);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    rc = chat_open(c, folder_at("chat-folder"), e);
    unlink(path);
    rmdir("chat-folder");
    return rc;
}

static int open_with(const char *file, const char *text, struct err *e)
{
    struct chat *c;
    int rc = chat_with(file, text, &c, e);

    chat_close(c);
    return rc;
}

static void files_that_are_no_json_are_ignored(void **state)
{
    struct err e = {0};

    assert_int_equal(open_with("tokenizer_config.json", "{\"chat_template\": ", &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "chat-folder/tokenizer_config.json"));
    assert_int_equal(open_with("tokenizer_config.json", "[]", &e), ERR_INPUT);
    assert_int_equal(open_with("special_tokens_map.json", "{\"bos_token\": {\"content\": 5}}", &e), 0);
    assert_int_equal(open_with("special_tokens_map.json", "{\"bos_token\"}", &e), ERR_INPUT);
    assert_int_equal(open_with("chat_template.json", "nope", &e), ERR_INPUT);
    assert_int_equal(open_with("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"a\"}]}", &e),
                     ERR_INPUT);
    assert_non_null(strstr(e.msg, "has no name or no template"));
    assert_int_equal(open_with("tokenizer_config.json", "{\"chat_template\": {\"a\": 5}}", &e), ERR_INPUT);
    assert_int_equal(
        open_with("tokenizer_config.json", "{\"chat_template\": null, \"bos_token\": false}", &e), 0);
}

static void other_members_of_a_template_file_are_not_passed_over(void **state)
{
    static const char file[] =
        "{\"version\": {\"of\": [1, 2]}, \"chat_template\": \"hello {{ messages[0].role }}\", \"n\": 1}";
    json_t *q = json_loads("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", 0, NULL);
    struct buf out = {.tag = MEM_TEXT};
    struct err e = {0};
    struct chat *c;

    if (chat_with("chat_template.json", file, &c, &e) != 0 || render(c, q, NULL, true, &out, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(out.data, "hello user");
    buf_fini(&out);
    json_decref(q);
    chat_close(c);
}

static void a_failing_allocation_leaks_or_is_taken_for_success(void **state)
{
    static const char *const folders[] = {"files", "named", "legacy", "plain"};

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        json_t *q =
            json_pack("{s:[{s:s,s:n,s:s}],s:[{s:{s:s,s:{s:s}}}]}", "messages", "role", "user", "x", "content",
                      "hello", "tools", "function", "name", "f", "parameters", "type", "object");
        char path[80];
        bool more = true;

        assert_non_null(q);
        snprintf(path, sizeof(path), "chat/%s", folders[i]);
        for (long n = 1; more; n++) {
            size_t before = mem_live_blocks();
            struct buf out = {.tag = MEM_TEXT};
            struct err e = {0};
            struct chat *c;
            int rc;

            mem_fail_at(n);
            rc = chat_open(&c, folder_at(jinjacase_path(path)), &e);
            if (rc == 0)
                rc = render(c, q, NULL, true, &out, &e);
            more = mem_failed();
            mem_fail_at(0);
            if (rc != (more ? ERR_NOMEM : 0))
                fail_msg("%s, allocation %ld: %d %s", folders[i], n, rc, e.msg);
            buf_fini(&out);
            chat_close(c);
            assert_int_equal(mem_live_blocks(), before);
        }
        json_decref(q);
    }
}

static void templates_of_one_configuration_know_no_limit(void **state)
{
    for (int n = 64; n <= 65; n++) {
        struct buf json = {.tag = MEM_TEXT};
        struct err e = {0};
        struct chat *c;
        int rc;

        buf_str(&json, "{\"chat_template\":[");
        for (int i = 0; i < n; i++)
            buf_fmt(&json, "%s{\"name\":\"t%d\",\"template\":\"%d\"}", i ? "," : "", i, i);
        buf_str(&json, "]}");
        rc = chat_open_text(&c, json.data, json.len, "some/tokenizer_config.json", &e);
        if (n == 64)
            assert_int_equal(rc, 0);
        else
            assert_true(rc == ERR_INPUT && strstr(e.msg, "some/tokenizer_config.json") &&
                        strstr(e.msg, "more than 64 chat templates"));
        chat_close(c);
        buf_fini(&json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_comes_to_another_text_than_transformers_gives),
        cmocka_unit_test(special_tokens_are_read_wrongly),
        cmocka_unit_test(the_template_does_not_see_what_transformers_gives_it),
        cmocka_unit_test(another_template_is_chosen),
        cmocka_unit_test(a_folder_without_template_does_not_open),
        cmocka_unit_test(a_broken_template_keeps_the_folder_from_opening),
        cmocka_unit_test(requests_that_are_no_conversations_are_rendered),
        cmocka_unit_test(the_request_is_changed),
        cmocka_unit_test(files_that_are_no_json_are_ignored),
        cmocka_unit_test(other_members_of_a_template_file_are_not_passed_over),
        cmocka_unit_test(templates_of_one_configuration_know_no_limit),
        cmocka_unit_test(a_failing_allocation_leaks_or_is_taken_for_success),
    };

    files_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
