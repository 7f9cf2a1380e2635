/* test_hfdir.c - names that would lead out of a checkpoint folder, as text and as symbolic links. */
#include "ckpthelp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/hfdir.h"

static void names_are_joined_with_one_slash(void **state)
{
    char out[64];
    struct err e;

    (void)state;
    assert_int_equal(hfdir_path(out, sizeof(out), "some/dir", "config.json", &e), 0);
    assert_string_equal(out, "some/dir/config.json");
    assert_int_equal(hfdir_path(out, sizeof(out), "some/dir/", "..config", &e), 0);
    assert_string_equal(out, "some/dir/..config");
    help_refused(hfdir_path(out, 10, "some/dir", "config.json", &e), ERR_INPUT, &e, "some/dir", "longer",
                 NULL);
}

static void names_that_are_paths_are_refused(void **state)
{
    static const char *const bad[] = {"", ".", "..", "../x", "a/b", "/etc/passwd", "a\nb", "a\x7f", "./x"};
    char out[512];
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        help_refused(hfdir_path(out, sizeof(out), "dir", bad[i], &e), ERR_INPUT, &e, "dir",
                     "not the name of a file", NULL);
        assert_false(hfdir_has(FIXTURES "/zip", bad[i]));
    }
}

static void only_regular_files_are_there(void **state)
{
    (void)state;
    assert_true(hfdir_has(FIXTURES "/zip", "pytorch_model.bin"));
    assert_false(hfdir_has(FIXTURES "/zip", "model.safetensors"));
    assert_false(hfdir_has(FIXTURES, "zip"));
}

static void links_out_of_the_folder_are_refused(void **state)
{
    char dir[64], path[128], out[512], name[64];
    struct err e;

    (void)state;
    help_folder(dir);
    help_write(dir, "real", "x", 1);
    snprintf(path, sizeof(path), "%s/inside", dir);
    assert_int_equal(symlink("real", path), 0);
    snprintf(path, sizeof(path), "%s/outside", dir);
    assert_int_equal(symlink("/dev/null", path), 0);
    snprintf(path, sizeof(path), "%s/dangling", dir);
    assert_int_equal(symlink("nothing", path), 0);
    snprintf(path, sizeof(path), "%s/twice", dir); /* inside by name, outside in the end */
    assert_int_equal(symlink("outside", path), 0);
    snprintf(path, sizeof(path), "%s/roundabout", dir); /* out and back in: it ends inside */
    snprintf(name, sizeof(name), "..%s/real", strrchr(dir, '/'));
    assert_int_equal(symlink(name, path), 0);

    assert_int_equal(hfdir_path(out, sizeof(out), dir, "inside", &e), 0);
    assert_int_equal(hfdir_path(out, sizeof(out), dir, "roundabout", &e), 0);
    help_refused(hfdir_path(out, sizeof(out), dir, "outside", &e), ERR_INPUT, &e, "outside", "leads out",
                 NULL);
    help_refused(hfdir_path(out, sizeof(out), dir, "twice", &e), ERR_INPUT, &e, "twice", "leads out", NULL);
    help_refused(hfdir_path(out, sizeof(out), dir, "dangling", &e), ERR_OS, &e, "dangling", "follow the link",
                 NULL);
    assert_true(hfdir_has(dir, "inside"));
    help_folder_remove(dir);
}

static void a_neighbour_with_a_longer_name_is_outside(void **state)
{
    char dir[64], other[80], path[128], out[512];
    struct err e;

    (void)state;
    help_folder(dir);
    snprintf(other, sizeof(other), "%s-more", dir);
    assert_int_equal(mkdir(other, 0700), 0);
    help_write(other, "file", "x", 1);
    snprintf(path, sizeof(path), "%s/link", dir);
    snprintf(out, sizeof(out), "%s/file", other);
    assert_int_equal(symlink(out, path), 0);
    help_refused(hfdir_path(out, sizeof(out), dir, "link", &e), ERR_INPUT, &e, "leads out", NULL);
    help_folder_remove(other);
    help_folder_remove(dir);
}

static void the_links_of_the_hugging_face_cache_are_allowed(void **state)
{
    static const char *const sub[] = {"/models--a--b",           "/models--a--b/blobs",
                                      "/models--a--b/snapshots", "/models--a--b/snapshots/0f",
                                      "/models--a--c",           "/models--a--c/blobs"};
    char root[64], path[256], snapshot[128], out[512];
    struct err e;

    (void)state;
    help_folder(root);
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "%s%s", root, sub[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof(path), "%s%s", root, sub[1]);
    help_write(path, "1234", "x", 1);
    snprintf(path, sizeof(path), "%s%s", root, sub[5]);
    help_write(path, "1234", "x", 1);
    snprintf(snapshot, sizeof(snapshot), "%s%s", root, sub[3]);
    snprintf(path, sizeof(path), "%s/config.json", snapshot);
    assert_int_equal(symlink("../../blobs/1234", path), 0);
    snprintf(path, sizeof(path), "%s/other", snapshot);
    assert_int_equal(symlink("../../../models--a--c/blobs/1234", path), 0);

    assert_int_equal(hfdir_path(out, sizeof(out), snapshot, "config.json", &e), 0);
    assert_true(hfdir_has(snapshot, "config.json"));
    help_refused(hfdir_path(out, sizeof(out), snapshot, "other", &e), ERR_INPUT, &e, "leads out", NULL);

    help_folder_remove(snapshot);
    for (size_t i = 6; i-- > 0;) {
        snprintf(path, sizeof(path), "%s%s", root, sub[i]);
        if (i == 1 || i == 5)
            help_folder_remove(path);
        else if (i != 3)
            assert_int_equal(rmdir(path), 0);
    }
    help_folder_remove(root);
}

static void files_are_found_by_their_ending(void **state)
{
    char dir[64], first[64];
    struct err e;
    size_t n;

    (void)state;
    help_folder(dir);
    assert_int_equal(hfdir_find(dir, ".safetensors", first, sizeof(first), &n, &e), 0);
    assert_int_equal(n, 0);
    help_write(dir, "b.safetensors", "", 0);
    help_write(dir, "a.safetensors", "", 0);
    help_write(dir, ".safetensors", "", 0);
    help_write(dir, "c.safetensors.index.json", "", 0);
    assert_int_equal(hfdir_find(dir, ".safetensors", first, sizeof(first), &n, &e), 0);
    assert_int_equal(n, 2);
    assert_string_equal(first, "a.safetensors");
    help_folder_remove(dir);
    help_refused(hfdir_find(dir, ".safetensors", first, sizeof(first), &n, &e), ERR_OS, &e, dir,
                 "read the folder", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_joined_with_one_slash),
        cmocka_unit_test(names_that_are_paths_are_refused),
        cmocka_unit_test(only_regular_files_are_there),
        cmocka_unit_test(links_out_of_the_folder_are_refused),
        cmocka_unit_test(a_neighbour_with_a_longer_name_is_outside),
        cmocka_unit_test(the_links_of_the_hugging_face_cache_are_allowed),
        cmocka_unit_test(files_are_found_by_their_ending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
