/* test_folder.c - names that would lead out of a checkpoint folder, as text and as symbolic links. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/folder.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "files.h"

static const char *root;
static char dir[128], outside[128];

/* Makes a folder with the file `real` in it, and the file `secret` next to the folder. */
static int begin(void **state)
{
    root = files_folder();
    snprintf(dir, sizeof(dir), "%s/model", root);
    snprintf(outside, sizeof(outside), "%s/secret", root);
    return mkdir(dir, 0700);
}

static void put(const char *in, const char *name, const char *text)
{
    files_write_in(in, name, text, strlen(text));
}

static void link_to(const char *target, const char *name)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    unlink(path);
    assert_int_equal(symlink(target, path), 0);
}

static void expect_text(struct folder in, const char *file, const char *want)
{
    char path[FOLDER_PATH_MAX];
    struct folder_text t;
    struct map_file m;
    struct err e;

    if (folder_read(&t, in, file, NULL, &e) != 0 || folder_map(&m, path, in, file, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(t.bytes, want);
    assert_int_equal(t.len, strlen(want));
    assert_memory_equal(m.bytes, want, m.len);
    assert_string_equal(t.path, path);
    folder_text_fini(&t);
    map_file_close(&m);
}

/* Fails unless both functions refuse FILE with CODE and an error that contains its name, WORD and MORE. */
static void expect_refused(struct folder in, const char *file, int code, const char *word, const char *more)
{
    char path[FOLDER_PATH_MAX];
    struct folder_text t;
    struct map_file m;
    struct err e[2] = {{.code = 0}};
    bool there;
    int rc[2] = {folder_read(&t, in, file, &there, &e[0]), folder_map(&m, path, in, file, &e[1])};

    for (int i = 0; i < 2; i++)
        if (rc[i] != code || !strstr(e[i].msg, file) || !strstr(e[i].msg, word) || !strstr(e[i].msg, more))
            fail_msg("%s: code %d, \"%s\" does not say \"%s\" and \"%s\"", file, rc[i], e[i].msg, word, more);
}

static void names_are_joined_with_one_slash(void **state)
{
    char out[64];
    struct err e;

    assert_int_equal(folder_join(out, sizeof(out), "some/dir", "config.json", &e), 0);
    assert_string_equal(out, "some/dir/config.json");
    assert_int_equal(folder_join(out, sizeof(out), "some/dir/", "..config", &e), 0);
    assert_string_equal(out, "some/dir/..config");
    assert_int_equal(folder_join(out, sizeof(out), "some/dir/", "sub/name", &e), 0);
    assert_string_equal(out, "some/dir/sub/name");
    assert_int_equal(folder_join(out, 10, "some/dir", "config.json", &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "some/dir...: the path is longer than 10 bytes"));
}

static void names_that_are_paths_are_refused(void **state)
{
    static const char *const bad[] = {"",      ".",   "..",   "../x", "a/b/c", "/etc/passwd", "a\nb",
                                      "a\x7f", "./x", "a//b", "a/..", "a/",    "../..",       "a/\x01"};
    char out[512];
    struct err e;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (folder_join(out, sizeof(out), "dir", bad[i], &e) != ERR_INPUT || !strstr(e.msg, "dir: \"") ||
            !strstr(e.msg, "not the name of a file"))
            fail_msg("\"%s\" is taken for a name, or \"%s\" does not say why not", bad[i], e.msg);
        assert_false(folder_has(folder_at(dir), bad[i]));
    }
    assert_false(folder_name_is_plain("a/b"));
    assert_true(folder_name_is_plain("a.b"));
}

static void only_regular_files_are_there(void **state)
{
    bool there = true;
    struct folder_text t;
    struct err e;

    put(dir, "real", "x");
    assert_true(folder_has(folder_at(dir), "real"));
    assert_false(folder_has(folder_at(dir), "unreal"));
    assert_false(folder_has(folder_at(root), "model"));
    assert_int_equal(folder_read(&t, folder_at(dir), "unreal", &there, &e), 0);
    assert_true(!there && !t.bytes);
    assert_int_equal(folder_read(&t, folder_at(dir), "unreal/below", &there, &e), 0);
    assert_false(there);
    assert_int_equal(folder_read(&t, folder_at(dir), "real/below", &there, &e), 0);
    assert_false(there);
    assert_int_equal(folder_read(&t, folder_at(dir), "unreal", NULL, &e), ERR_OS);
    assert_non_null(strstr(e.msg, "unreal: cannot open"));
    expect_refused(folder_at(root), "model", ERR_INPUT, "not a regular file", "");
    expect_text(folder_at(dir), "real", "x");
    put(dir, "empty", "");
    assert_int_equal(folder_read(&t, folder_at(dir), "empty", NULL, &e), 0);
    assert_true(t.len == 0 && t.bytes[0] == 0);
    folder_text_fini(&t);
}

static void links_out_of_the_folder_are_refused(void **state)
{
    struct folder in = folder_at(dir);

    put(dir, "real", "x");
    put(root, "secret", "s");
    link_to("real", "inside");
    link_to(outside, "outside");
    link_to("nothing", "dangling");
    link_to("outside", "twice");            /* The name is inside the folder, its target is not. */
    link_to("../model/real", "roundabout"); /* The path leaves the folder and ends inside it. */
    link_to("..", "up");
    expect_text(in, "inside", "x");
    expect_text(in, "roundabout", "x");
    expect_refused(in, "outside", ERR_INPUT, "leads out of the folder", outside);
    expect_refused(in, "outside", ERR_INPUT, "allow_links", "");
    expect_refused(in, "twice", ERR_INPUT, "leads out of the folder", outside);
    expect_refused(in, "dangling", ERR_OS, "follow the link", "");
    expect_refused(in, "up/secret", ERR_INPUT, "leads out of the folder", outside);
}

static void links_lead_anywhere_when_the_user_says_so(void **state)
{
    struct folder in = {.path = dir, .allow_links = true};
    char path[300];

    put(root, "secret", "s");
    link_to(outside, "outside");
    link_to("..", "up");
    link_to("nothing", "dangling");
    expect_text(in, "outside", "s");
    expect_text(in, "up/secret", "s");
    expect_refused(in, "dangling", ERR_OS, "follow the link", "");
    snprintf(path, sizeof(path), "%s/outside", dir); /* A file that the user names directly may be a link. */
    expect_text(folder_at(path), NULL, "s");
}

static void a_neighbour_with_a_longer_name_is_outside(void **state)
{
    char other[200], target[300];

    snprintf(other, sizeof(other), "%s-more", dir);
    assert_int_equal(mkdir(other, 0700), 0);
    put(other, "file", "x");
    snprintf(target, sizeof(target), "%s/file", other);
    link_to(target, "link");
    expect_refused(folder_at(dir), "link", ERR_INPUT, "leads out", target);
}

static void the_links_of_the_hugging_face_cache_are_allowed(void **state)
{
    static const char *const sub[] = {"models--a--b",
                                      "models--a--b/blobs",
                                      "models--a--b/snapshots",
                                      "models--a--b/snapshots/0f",
                                      "models--a--b/snapshots/0f/additional_chat_templates",
                                      "models--a--c",
                                      "models--a--c/blobs",
                                      "blobs"};
    char path[300];
    struct folder in;

    for (size_t i = 0; i < sizeof(sub) / sizeof(sub[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, sub[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    put(root, "models--a--b/blobs/1234", "own");
    put(root, "models--a--c/blobs/1234", "another's");
    put(root, "blobs/1234", "shared");
    put(root, "secret", "s");
    snprintf(dir, sizeof(dir), "%s/models--a--b/snapshots/0f", root);
    in = folder_at(dir);
    link_to("../../blobs/1234", "config.json");
    link_to("../../../blobs/1234", "shared");
    link_to("../../../models--a--c/blobs/1234", "other");
    link_to("../../../secret", "secret");
    link_to("../../../blobs/1234", "additional_chat_templates/tool.jinja");
    link_to("../../../../secret", "additional_chat_templates/evil.jinja");
    expect_text(in, "config.json", "own");
    expect_text(in, "shared", "shared");
    expect_text(in, "additional_chat_templates/tool.jinja", "own");
    expect_refused(in, "other", ERR_INPUT, "leads out", "models--a--c");
    expect_refused(in, "secret", ERR_INPUT, "leads out", "secret");
    expect_refused(in, "additional_chat_templates/evil.jinja", ERR_INPUT, "leads out", "secret");
    snprintf(path, sizeof(path), "%s/additional_chat_templates",
             dir); /* A model is in a folder of its repository. */
    expect_text(folder_at(path), "tool.jinja", "own");
    expect_refused(folder_at(path), "evil.jinja", ERR_INPUT, "leads out", "secret");
}

static void files_are_found_by_their_ending(void **state)
{
    char none[200];
    struct folder_names l;
    struct err e;

    assert_int_equal(folder_list(&l, folder_at(dir), NULL, ".safetensors", &e), 0);
    assert_int_equal(l.n, 0);
    put(dir, "b.safetensors", "");
    put(dir, "a.safetensors", "");
    put(dir, ".safetensors", "");
    put(dir, "c.safetensors.index.json", "");
    assert_int_equal(folder_list(&l, folder_at(dir), NULL, ".safetensors", &e), 0);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.name[0], "a.safetensors");
    assert_string_equal(l.name[1], "b.safetensors");
    folder_names_fini(&l);
    snprintf(none, sizeof(none), "%s/none", dir);
    assert_int_equal(folder_list(&l, folder_at(none), NULL, ".safetensors", &e), ERR_OS);
    assert_non_null(strstr(e.msg, "cannot read the folder"));
}

static void what_is_too_large_for_a_text_is_refused(void **state)
{
    char path[200];
    struct folder_text t;
    struct err e;

    put(dir, "large", "x");
    snprintf(path, sizeof(path), "%s/large", dir);
    /* The file is a hole, which takes no disk space. */
    assert_int_equal(truncate(path, (off_t)FOLDER_TEXT_MAX + 1), 0);
    assert_int_equal(folder_read(&t, folder_at(dir), "large", NULL, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "large: the file has 536870913 bytes, expected at most 536870912"));
    assert_null(t.bytes);
}

static void memory_that_runs_out_is_said_and_nothing_kept(void **state)
{
    size_t blocks = mem_live_blocks();
    struct folder_names l;
    struct folder_text t;
    struct err e;

    put(dir, "real", "x");
    mem_fail_at(1);
    assert_int_equal(folder_read(&t, folder_at(dir), "real", NULL, &e), ERR_NOMEM);
    for (long n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(folder_list(&l, folder_at(dir), NULL, "l", &e), ERR_NOMEM);
    }
    mem_fail_at(0);
    assert_int_equal(mem_live_blocks(), blocks);
}

static atomic_bool stop;

static void *cut_and_mend(void *path)
{
    while (!atomic_load(&stop))
        if (truncate(path, 0) != 0 || truncate(path, 1 << 20) != 0)
            break;
    return NULL;
}

/* A file that is read while it is truncated and restored gives one of its two states, or an error that names
 * it. */
static void a_file_that_changes_while_it_is_read_is_no_signal(void **state)
{
    size_t refused = 0;
    char path[200];
    pthread_t thread;

    put(dir, "tokenizer.json", "x");
    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    assert_int_equal(pthread_create(&thread, NULL, cut_and_mend, path), 0);
    for (int i = 0; i < 300; i++) {
        struct err e = {0};
        struct folder_text t;

        if (folder_read(&t, folder_at(dir), "tokenizer.json", NULL, &e) == 0) {
            if (t.len != 0 && t.len != 1 << 20 && t.len != 1)
                fail_msg("%zu bytes were read of a file of 0, 1 or 1048576", t.len);
            folder_text_fini(&t);
        } else {
            assert_non_null(strstr(e.msg, "tokenizer.json: the file was changed while it was read"));
            refused++;
        }
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    if (refused == 0)
        print_message("the file never changed while it was read\n");
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_are_joined_with_one_slash),
        TEST(names_that_are_paths_are_refused),
        TEST(only_regular_files_are_there),
        TEST(links_out_of_the_folder_are_refused),
        TEST(links_lead_anywhere_when_the_user_says_so),
        TEST(a_neighbour_with_a_longer_name_is_outside),
        TEST(the_links_of_the_hugging_face_cache_are_allowed),
        TEST(files_are_found_by_their_ending),
        TEST(what_is_too_large_for_a_text_is_refused),
        TEST(memory_that_runs_out_is_said_and_nothing_kept),
        TEST(a_file_that_changes_while_it_is_read_is_no_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
