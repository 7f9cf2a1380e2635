/* test_jinja_goldens.c - the reference snippets, and real chat templates with reference conversations, if the
 * large test data exists. transformers computed the expected texts. */
#include <jansson.h>

#include "base/buf.h"
#include "jinjacase.h"
#include "text/jinja/jinja.h"
#include "tokshared.h"

static json_t *load(const char *name)
{
    size_t n;
    char *text = tokshared_read(name, &n);
    json_t *j = text ? json_loadb(text, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL) : NULL;

    free(text);
    return j;
}

static void a_reference_snippet_comes_to_another_text(void **state)
{
    size_t n, n_cases;
    char *text = tokshared_read("goldens/templates/language.json", &n);

    if (!text)
        skip();
    assert_int_equal(jinjacase_run(text, n, &n_cases, true), 0);
    assert_true(n_cases > 100);
    free(text);
}

/* Returns the text of template REF: a file of data/, or with #field[:name] a member of a JSON file.
 * free(). */
static char *template_text(const char *ref, json_t *inlined)
{
    char path[512], *field, *name, *text;
    const char *found = json_string_value(json_object_get(inlined, ref));
    json_t *file, *v;
    size_t n, i;

    if (found)
        return strdup(found);
    snprintf(path, sizeof(path), "data/%s", ref);
    field = strchr(path, '#');
    if (!field)
        return tokshared_read(path, &n);
    *field++ = 0;
    file = load(path);
    assert_non_null(file);
    if (strstr(path, "hf-jinja-chat-templates.json")) {
        found = json_string_value(json_object_get(json_object_get(file, field), "chat_template"));
    } else {
        name = strchr(field, ':');
        if (name)
            *name++ = 0;
        v = json_object_get(file, field);
        found = json_string_value(v);
        for (i = 0; name && i < json_array_size(v); i++)
            if (strcmp(json_string_value(json_object_get(json_array_get(v, i), "name")), name) == 0)
                found = json_string_value(json_object_get(json_array_get(v, i), "template"));
    }
    text = found ? strdup(found) : NULL;
    json_decref(file);
    return text;
}

/* Reads the conversations from their text, so that integers stay integers. */
static json_t *load_exact(const char *name)
{
    size_t n;
    char *text = tokshared_read(name, &n);
    json_t *j = text ? json_loadb(text, n, 0, NULL) : NULL;

    free(text);
    return j;
}

static bool agrees(json_t *rendering, json_t *all, const char *template)
{
    const char *which = json_string_value(json_object_get(rendering, "conversation"));
    json_t *want = json_object_get(rendering, "output");
    json_t *variables = json_object_get(json_object_get(all, "conversations"), which);
    struct buf out = {.tag = MEM_TEXT};
    struct err e = {0};
    struct jinja *j;
    bool good;
    int rc;

    rc = jinja_parse(&j, template, strlen(template), "t", NULL, &e);
    if (rc == 0)
        rc = jinja_render(j, variables, &jinjacase_now, NULL, &out, &e);
    jinja_free(j);
    if (want)
        good = rc == 0 && out.len == json_string_length(want) &&
               memcmp(out.data ? out.data : "", json_string_value(want), out.len) == 0;
    else if (strcmp(json_string_value(json_object_get(rendering, "error")), "TemplateError") == 0)
        good = rc == ERR_INPUT && strstr(e.msg, json_string_value(json_object_get(rendering, "message")));
    else
        good = rc == ERR_INPUT;
    if (!good)
        print_error("%s, %s: %s\n", json_string_value(json_object_get(rendering, "template")), which,
                    rc ? e.msg : out.data);
    buf_fini(&out);
    return good;
}

static void a_real_template_comes_to_another_text(void **state)
{
    json_t *list = load("goldens/templates/renderings.json"), *all, *r;
    char *template = NULL, last[512] = "";
    size_t i, n = 0, bad = 0;

    if (!list)
        skip();
    all = load_exact("goldens/templates/conversations.json");
    assert_non_null(all);
    json_array_foreach(list, i, r)
    {
        const char *ref = json_string_value(json_object_get(r, "template"));

        if (strcmp(ref, last) != 0) {
            free(template);
            template = template_text(ref, json_object_get(all, "inline_templates"));
            snprintf(last, sizeof(last), "%s", ref);
        }
        if (!template)
            continue;
        bad += !agrees(r, all, template);
        n++;
    }
    free(template);
    assert_true(n > 800);
    assert_int_equal(bad, 0);
    json_decref(list);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reference_snippet_comes_to_another_text),
        cmocka_unit_test(a_real_template_comes_to_another_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
