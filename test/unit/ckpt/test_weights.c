/* test_weights.c - whole checkpoint folders in every form that torch and safetensors write: the files that
 * are used, their contents (compared with torch), and the marks of used tensors; also the valid and invalid
 * checkpoints of the large test data. */
#include "ckpthelp.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/config.h"
#include "ckpt/weights.h"

static const char *const fixture[] = {
    "both",
    "safetensors",
    "safetensors-other-name",
    "safetensors-unaligned",
    "shards-bin",
    "shards-safetensors",
    "stream",
    "stream-nested",
    "stream-protocol5",
    "stream-python2",
    "zip",
    "zip-module",
    "zip-nested",
    "zip-protocol4",
    "zip-unaligned",
    "zip64",
};
enum { N_FIXTURES = sizeof(fixture) / sizeof(fixture[0]) };

static void every_form_holds_what_torch_reads_from_it(void **state)
{
    char dir[512];

    for (size_t i = 0; i < N_FIXTURES; i++) {
        snprintf(dir, sizeof(dir), "%s/%s", FIXTURES, fixture[i]);
        help_expect(dir);
    }
}

static void a_wrong_value_shape_or_type_would_be_seen(void **state)
{
    const double right[2] = {9, 8}, wrong[2] = {9, 8.0000001};
    const size_t shape[2] = {2, 1};
    struct weights *w;
    char why[200];
    struct err e;

    assert_int_equal(weights_open(&w, folder_at(FIXTURES "/zip"), &e), 0);
    assert_true(help_same(weights_get(w, "parameter"), "F32", shape, 1, right, why));
    assert_false(help_same(weights_get(w, "parameter"), "F32", shape, 1, wrong, why));
    assert_non_null(strstr(why, "parameter[1] is 8"));
    assert_false(help_same(weights_get(w, "parameter"), "F32", shape, 2, right, why));
    assert_false(help_same(weights_get(w, "parameter"), "F16", shape, 1, right, why));
    assert_false(help_same(weights_get(w, "plain"), "F32", shape, 1, right, why));
    weights_close(w);
}

static void views_are_strided_and_nothing_is_copied(void **state)
{
    const struct view *a, *b, *t;
    struct weights *w;
    struct err e;

    assert_int_equal(weights_open(&w, folder_at(FIXTURES "/zip"), &e), 0);
    a = weights_get(w, "shared.a");
    b = weights_get(w, "shared.b");
    t = weights_get(w, "transposed");
    assert_ptr_equal(a->data, b->data);
    assert_true(a->stride[0] == 2 && b->stride[0] == 1);
    assert_true(t->shape[0] == 3 && t->shape[1] == 2 && t->stride[0] == 1 && t->stride[1] == 3);
    assert_int_equal(weights_get(w, "expanded")->stride[0], 0);
    assert_ptr_equal((const char *)weights_get(w, "offset")->data - 7 * 4,
                     (const char *)weights_get(w, "strided")->data -
                         (8 + 2) * 4); /* Both tensors have one storage. */
    assert_null(weights_get(w, "epoch"));
    assert_null(weights_get(w, "inside"));
    weights_close(w);
}

static void tensors_nobody_took_are_counted(void **state)
{
    const char *first[3];
    struct weights *w;
    struct err e;

    assert_int_equal(weights_open(&w, folder_at(FIXTURES "/zip"), &e), 0);
    assert_int_equal(weights_unused(w, first, 3), 21);
    assert_string_equal(first[0], "plain");
    assert_string_equal(first[1], "transposed");
    assert_true(weights_has(w, "plain")); /* This does not mark the tensor as used. */
    assert_false(weights_has(w, "plai"));
    assert_string_equal(weights_get(w, "plain")->name, "plain");
    assert_int_equal(weights_unused(w, first, 1), 20);
    assert_string_equal(first[0], "transposed");
    assert_null(weights_get(w, "no such tensor"));
    weights_skip(w, "shared.*");
    assert_int_equal(weights_unused(w, NULL, 0), 18);
    weights_skip(w, "*t"); /* offset, int, short */
    assert_int_equal(weights_unused(w, NULL, 0), 15);
    weights_skip(w, "*a*a*"); /* scalar, parameter */
    assert_int_equal(weights_unused(w, NULL, 0), 13);
    weights_skip(w, "doubl");
    weights_skip(w, "");
    weights_skip(w, "*double*x");
    assert_int_equal(weights_unused(w, NULL, 0), 13);
    weights_skip(w, "double");
    weights_skip(w, "**lo*ng*");
    assert_int_equal(weights_unused(w, NULL, 0), 11);
    weights_skip(w, "*");
    assert_int_equal(weights_unused(w, NULL, 0), 0);
    weights_close(w);
}

static void files_are_let_go_of_and_their_tables_stay(void **state)
{
    struct weights *w;
    struct err e;

    assert_int_equal(weights_open(&w, folder_at(FIXTURES "/safetensors"), &e), 0);
    assert_true(help_element(weights_get(w, "plain"), 11) == 11.0 / 8);
    weights_let_go(w);
    assert_null(weights_get(w, "plain")->data);
    assert_string_equal(weights_get(w, "plain")->name, "plain");
    assert_non_null(strstr(weights_get(w, "plain")->file, "model.safetensors"));
    weights_close(w);
    weights_close(NULL);
}

/* Copies a file of a fixture into DIR under another name. */
static void copy(const char *from, const char *dir, const char *file)
{
    char source[512], target[512];

    snprintf(source, sizeof(source), "%s/%s", FIXTURES, from);
    snprintf(target, sizeof(target), "%s/%s", dir, file);
    files_copy(source, target);
}

static void the_order_of_the_names_decides(void **state)
{
    static const struct {
        const char *from, *file, *kind;
    } c[] = {
        /* Each row takes precedence over the rows above it. */
        {"zip/pytorch_model.bin", "other.safetensors", NULL},
        {"shards-bin/pytorch_model.bin.index.json", "pytorch_model.bin.index.json", "torch zip, 2 shards"},
        {"stream/pytorch_model.bin", "pytorch_model.bin", "torch stream"},
        {"shards-safetensors/model.safetensors.index.json", "model.safetensors.index.json",
         "safetensors, 3 shards"},
        {"safetensors/model.safetensors", "model.safetensors", "safetensors"},
    };
    const char *dir = files_folder();
    struct weights *w;
    struct err e;

    copy("shards-bin/pytorch_model-00001-of-00002.bin", dir, "pytorch_model-00001-of-00002.bin");
    copy("shards-bin/pytorch_model-00002-of-00002.bin", dir, "pytorch_model-00002-of-00002.bin");
    for (int i = 1; i <= 3; i++) {
        char from[100], file[64];

        snprintf(file, sizeof(file), "model-%05d-of-00003.safetensors", i);
        snprintf(from, sizeof(from), "shards-safetensors/%s", file);
        copy(from, dir, file);
    }
    help_refused(weights_open(&w, folder_at(dir), &e), ERR_INPUT, &e, dir, "3 .safetensors files", NULL);
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        copy(c[i].from, dir, c[i].file);
        if (!c[i].kind)
            continue;
        if (weights_open(&w, folder_at(dir), &e) != 0)
            fail_msg("%s", e.msg);
        assert_string_equal(weights_kind(w), c[i].kind);
        weights_close(w);
    }
    help_refused(weights_open(&w, folder_at(FIXTURES "/missing"), &e), ERR_OS, &e, FIXTURES "/missing", NULL);
    assert_null(w);
}

static void an_index_that_does_not_fit_its_shards_is_refused(void **state)
{
    static const char swapped[] = "{\"weight_map\":{\"t0\":\"model-00002-of-00003.safetensors\"}}";
    static const char outside[] = "{\"weight_map\":{\"t0\":\"link.safetensors\"}}";
    static const char doubled[] = "{\"weight_map\":{\"t3\":\"model-00001-of-00003.safetensors\","
                                  "\"t5\":\"model-00003-of-00003.safetensors\"}}";
    const char *dir = files_folder();
    char path[128];
    struct weights *w;
    struct err e;

    files_write_in(dir, "model.safetensors.index.json", swapped, sizeof(swapped) - 1);
    help_refused(weights_open(&w, folder_at(dir), &e), ERR_OS, &e, "model.safetensors.index.json",
                 "model-00002-of-00003.safetensors", NULL);
    copy("shards-safetensors/model-00002-of-00003.safetensors", dir, "model-00002-of-00003.safetensors");
    help_refused(weights_open(&w, folder_at(dir), &e), ERR_INPUT, &e, "model.safetensors.index.json",
                 "tensor t0", "model-00002-of-00003.safetensors", NULL);
    snprintf(path, sizeof(path), "%s/link.safetensors", dir);
    assert_int_equal(symlink(FIXTURES "/safetensors/model.safetensors", path), 0);
    files_write_in(dir, "model.safetensors.index.json", outside, sizeof(outside) - 1);
    help_refused(weights_open(&w, folder_at(dir), &e), ERR_INPUT, &e, "model.safetensors.index.json",
                 "leads out", NULL);
    copy("shards-safetensors/model-00001-of-00003.safetensors", dir, "model-00001-of-00003.safetensors");
    copy("shards-safetensors/model-00003-of-00003.safetensors", dir, "model-00003-of-00003.safetensors");
    files_write_in(dir, "model.safetensors.index.json", doubled, sizeof(doubled) - 1);
    help_refused(weights_open(&w, folder_at(dir), &e), ERR_INPUT, &e, "tensor t0", "another shard", NULL);
}

static void an_empty_folder_is_named(void **state)
{
    const char *dir = files_folder();
    struct weights *w;
    struct err e;

    help_refused(weights_open(&w, folder_at(dir), &e), ERR_INPUT, &e, dir, "no weights", "model.safetensors",
                 NULL);
}

static int open_folder(void *arg, struct err *e)
{
    struct weights *w;
    int rc = weights_open(&w, folder_at(arg), e);

    weights_close(w);
    return rc;
}

static void lack_of_memory_is_reported_without_a_leak(void **state)
{
    help_every_allocation(open_folder, FIXTURES "/shards-safetensors");
    help_every_allocation(open_folder, FIXTURES "/shards-bin");
    help_every_allocation(open_folder, FIXTURES "/both");
}

/* A model detects the faults of these folders of bad/. Here the folders open. */
static bool fault_is_the_models(const char *name)
{
    static const char *const prefix[] = {
        "control",        "index-control",       "activation-",      "architecture-",  "config-heads-",
        "config-hidden-", "config-huge-",        "config-negative-", "config-number-", "config-odd-",
        "config-string-", "config-zero-",        "quantization-",    "rope-type-",     "st-integer-weights",
        "st-missing-",    "st-shape-transposed", "st-shape-wrong"};

    for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++)
        if (strncmp(name, prefix[i], strlen(prefix[i])) == 0)
            return true;
    return false;
}

/* Reads from expected.json which file the error for the folder must name: "" for null. */
static void expected_file(const char *dir, char *file, size_t size)
{
    const char *at, *end;
    char path[700], *text;
    size_t len;

    snprintf(path, sizeof(path), "%s/expected.json", dir);
    text = files_read(path, &len);
    at = strstr(text, "\"file\": \"");
    at = at ? at + 9 : "\"";
    end = strchr(at, '"');
    snprintf(file, size, "%.*s", end ? (int)(end - at) : 0, at);
    free(text);
}

static void every_bad_folder_is_refused_and_its_file_named(void **state)
{
    char root[512], dir[600], file[128];
    const struct dirent *d;
    size_t n = 0, live = mem_live_bytes();
    DIR *bad;

    if (!files_shared(root, sizeof(root), "goldens/bad"))
        skip();
    bad = opendir(root);
    assert_non_null(bad);
    while ((d = readdir(bad)) != NULL) {
        struct weights *w = NULL;
        struct config *c = NULL;
        struct err e;
        int rc;

        if (d->d_name[0] == '.')
            continue;
        n++;
        snprintf(dir, sizeof(dir), "%.300s/%.255s", root, d->d_name);
        expected_file(dir, file, sizeof(file));
        if ((rc = config_open(&c, folder_at(dir), "config.json", &e)) == 0)
            rc = weights_open(&w, folder_at(dir), &e);
        if (fault_is_the_models(d->d_name) && rc != 0)
            fail_msg("%s: %s", d->d_name, e.msg);
        if (!fault_is_the_models(d->d_name) && (rc == 0 || !strstr(e.msg, file)))
            fail_msg("%s: code %d, \"%s\"", d->d_name, rc, rc ? e.msg : "");
        weights_close(w);
        config_close(c);
        assert_int_equal(mem_live_bytes(), live);
    }
    closedir(bad);
    assert_true(n >= 60);
    assert_int_equal(access("gallop_executed_a_pickle", F_OK), -1);
}

static void every_good_folder_opens(void **state)
{
    char root[512], dir[600], file[700];
    const struct dirent *d;
    size_t n = 0, tensors = 0;
    DIR *good;

    if (!files_shared(root, sizeof(root), "goldens"))
        skip();
    good = opendir(root);
    assert_non_null(good);
    while ((d = readdir(good)) != NULL) {
        struct weights *w;
        struct config *c;
        const char *name;
        struct err e;

        snprintf(dir, sizeof(dir), "%.300s/%.255s", root, d->d_name);
        snprintf(file, sizeof(file), "%s/golden", dir);
        if (d->d_name[0] == '.' || access(file, F_OK) != 0)
            continue;
        n++;
        if (weights_open(&w, folder_at(dir), &e) != 0 ||
            config_open(&c, folder_at(dir), "config.json", &e) != 0)
            fail_msg("%s", e.msg);
        while (weights_unused(w, &name, 1)) {
            help_touch(weights_get(w, name));
            tensors++;
        }
        weights_close(w);
        config_close(c);
    }
    closedir(good);
    assert_true(n >= 30 && tensors > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_holds_what_torch_reads_from_it),
        cmocka_unit_test(a_wrong_value_shape_or_type_would_be_seen),
        cmocka_unit_test(views_are_strided_and_nothing_is_copied),
        cmocka_unit_test(tensors_nobody_took_are_counted),
        cmocka_unit_test(files_are_let_go_of_and_their_tables_stay),
        cmocka_unit_test(the_order_of_the_names_decides),
        cmocka_unit_test(an_index_that_does_not_fit_its_shards_is_refused),
        cmocka_unit_test(an_empty_folder_is_named),
        cmocka_unit_test(lack_of_memory_is_reported_without_a_leak),
        cmocka_unit_test(every_bad_folder_is_refused_and_its_file_named),
        cmocka_unit_test(every_good_folder_opens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
