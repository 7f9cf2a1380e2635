/* test_shards.c - the index of a sharded checkpoint, and the names in it that must not be followed. */
#include "ckpthelp.h"

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/shards.h"

static int open_text(struct shards *s, const char *text, struct err *e)
{
    return shards_open_text(s, text, strlen(text), "dir/x.index.json", e);
}

static void files_are_sorted_and_tensors_point_to_them(void **state)
{
    uint64_t at;
    struct shards s;
    struct err e;

    assert_int_equal(
        open_text(&s,
                  "{\"metadata\":{\"a\":[1]},\"weight_map\":{\"t2\":\"b.bin\",\"t\\u0031\":\"a.bin\","
                  "\"t3\":\"b.bin\"}}",
                  &e),
        0);
    assert_int_equal(s.n_files, 2);
    assert_string_equal(s.file[0], "a.bin");
    assert_string_equal(s.file[1], "b.bin");
    assert_int_equal(s.n, 3);
    assert_string_equal(s.name[0], "t2");
    assert_true(strmap_get(&s.where, "t1", 2, &at) && at == 0);
    assert_true(strmap_get(&s.where, "t2", 2, &at) && at == 1);
    assert_true(strmap_get(&s.where, "t3", 2, &at) && at == 1);
    assert_string_equal(s.path, "dir/x.index.json");
    shards_close(&s);
    shards_close(&s);
}

static void broken_indexes_are_refused_with_the_file_named(void **state)
{
    static const struct {
        const char *text, *word;
    } c[] = {
        {"", "the text ends"},
        {"[]", "object is expected"},
        {"{}", "weight_map is missing or empty"},
        {"{\"weight_map\":{}}", "weight_map is missing or empty"},
        {"{\"weight_map\":[\"a.bin\"]}", "weight_map must be an object"},
        {"{\"weight_map\":\"a.bin\"}", "weight_map must be an object"},
        {"{\"weight_map\":{\"t\":1}}", "string is expected"},
        {"{\"weight_map\":{\"t\":\"a.bin\",\"t\":\"a.bin\"}}", "tensor t appears twice"},
        {"{\"weight_map\":{\"t\":\"a.bin\"},\"weight_map\":{\"t\":\"a.bin\"}}", "weight_map appears twice"},
        {"{\"weight_map\":{\"t\":\"a.bin\"}} {}", "text follows"},
        {"{\"weight_map\":{\"t\":\"../a.bin\"}}", "\"../a.bin\" is not the name"},
        {"{\"weight_map\":{\"t\":\"/etc/hostname\"}}", "\"/etc/hostname\" is not the name"},
        {"{\"weight_map\":{\"t\":\"sub/a.bin\"}}", "\"sub/a.bin\" is not the name"},
        {"{\"weight_map\":{\"t\":\"..\"}}", "\"..\" is not the name"},
        {"{\"weight_map\":{\"t\":\"\"}}", "\"\" is not the name"},
        {"{\"weight_map\":{\"t\":\"a\\u0000../../b\"}}", "NUL"},
        {"{\"weight_map\":{\"t\\u0000\":\"a\"}}", "NUL"},
    };
    struct shards s;
    struct err e;

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
        help_refused(open_text(&s, c[i].text, &e), ERR_INPUT, &e, "dir/x.index.json", c[i].word, NULL);
}

static void every_cut_of_an_index_is_refused(void **state)
{
    char *text;
    struct shards s;
    struct err e;
    size_t len;

    text = files_read(FIXTURES "/shards-safetensors/model.safetensors.index.json", &len);
    for (size_t n = 0; n < len; n++)
        help_refused(shards_open_text(&s, text, n, "x.index.json", &e), ERR_INPUT, &e, "x.index.json", NULL);
    free(text);
}

static int open_fixture(void *arg, struct err *e)
{
    struct shards s;
    int rc = shards_open(&s, folder_at(FIXTURES "/shards-safetensors"), "model.safetensors.index.json", e);

    (void)arg;
    shards_close(&s);
    return rc;
}

static void lack_of_memory_is_reported_without_a_leak(void **state)
{
    help_every_allocation(open_fixture, NULL);
}

static void too_many_files_are_refused(void **state)
{
    struct shards s;
    struct buf {
        char text[400000];
    } *b = mem_alloc(sizeof(*b), MEM_CKPT);
    size_t at;
    struct err e;

    assert_non_null(b);
    at = (size_t)sprintf(b->text, "{\"weight_map\":{");
    for (int i = 0; i < 5000; i++)
        at += (size_t)sprintf(b->text + at, "%s\"t%d\":\"f%d\"", i ? "," : "", i, i);
    sprintf(b->text + at, "}}");
    help_refused(open_text(&s, b->text, &e), ERR_UNSUPPORTED, &e, "dir/x.index.json", "4096", NULL);
    mem_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_sorted_and_tensors_point_to_them),
        cmocka_unit_test(broken_indexes_are_refused_with_the_file_named),
        cmocka_unit_test(every_cut_of_an_index_is_refused),
        cmocka_unit_test(lack_of_memory_is_reported_without_a_leak),
        cmocka_unit_test(too_many_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
