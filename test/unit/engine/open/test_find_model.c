/* test_find_model.c - wrong names of models: an error whose sentence says what to do. */
#include <unistd.h>

#include "engine/open/find_model.h"
#include "files.h"

#define DEMO GALLOP_SOURCE_DIR "/models/demo"
#define GGUF GALLOP_SOURCE_DIR "/test/data/gguf/llama3-rope.gguf"

static void paths_that_are_no_model_are_refused_with_what_helps(void **state)
{
    static const struct {
        const char *model;
        enum hub_want want;
        const char *refused; /* NULL: accepted */
    } c[] = {
        {DEMO, HUB_MODEL, NULL},
        {DEMO, HUB_TEXT, NULL},
        {GGUF, HUB_MODEL, NULL},
        {GGUF, HUB_TEXT, NULL},
        {DEMO "/tokenizer.json", HUB_TEXT, NULL}, /* A tokenizer is enough for texts. */
        {DEMO "/tokenizer.json", HUB_MODEL, "the folder of a checkpoint is expected"},
        {DEMO "/model.safetensors", HUB_MODEL, "this file has weights only"},
        {DEMO "/model.safetensors", HUB_TEXT, "this file has weights only"},
        {"", HUB_MODEL, "the name of the model is empty"},
        {"", HUB_TEXT, "the name of the model is empty"},
        {"nowhere", HUB_MODEL, "there is no such folder or file;"},
        {"no/where/at/all", HUB_TEXT, "has the form org/name"},
        {DEMO "/config.json/below", HUB_MODEL, "there is no such folder or file;"},
    };

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        const struct find_model_options o = {.want = c[i].want};
        struct err e = {0};
        char out[512] = "";
        int rc = find_model_path(out, sizeof(out), c[i].model, &o, &e);

        if (!c[i].refused ? rc != 0 || strcmp(out, c[i].model) != 0
                          : rc != ERR_INPUT || !strstr(e.msg, c[i].refused) || !strstr(e.msg, c[i].model))
            fail_msg("\"%s\": code %d, \"%s\"", c[i].model, rc, e.msg);
    }
}

static void a_gguf_file_needs_no_ending(void **state)
{
    const struct find_model_options o = {.want = HUB_MODEL};
    char link[512], out[512];
    struct err e = {0};

    snprintf(link, sizeof(link), "%s/link", files_folder());
    assert_int_equal(symlink(GGUF, link), 0);
    if (find_model_path(out, sizeof(out), link, &o, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(out, link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_that_are_no_model_are_refused_with_what_helps),
        cmocka_unit_test(a_gguf_file_needs_no_ending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
