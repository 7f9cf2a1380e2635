/* test_torch_zip.c - the directory of zip archives: its members are found, and no wrong entry leads outside
 * the file. */
#include "ckpthelp.h"

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/torch/torch.h"
#include "zipmake.h"

static const struct zipmake_member two[] = {{.name = "a/data.pkl", .data = "hello", .bytes = 5},
                                            {.name = "a/data/0", .data = "weights", .bytes = 7}};

static int open_members(const struct zipmake_member *m, size_t n, const struct zipmake_end *end,
                        struct err *e)
{
    struct torch_zip z;
    struct buf b;
    int rc;

    buf_init(&b, MEM_CKPT);
    zipmake(&b, m, n, end);
    rc = torch_zip_open(&z, b.data, b.len, "some.bin", e);
    torch_zip_close(&z);
    buf_fini(&b);
    return rc;
}

static void members_are_found_where_they_lie(void **state)
{
    const struct torch_zip_member *m;
    struct torch_zip z;
    struct buf b;
    struct err e;

    buf_init(&b, MEM_CKPT);
    zipmake(&b, two, 2, &(struct zipmake_end){.comment = "PK\5\6 is no second end"});
    assert_true(torch_zip_is(b.data, b.len));
    assert_int_equal(torch_zip_open(&z, b.data, b.len, "some.bin", &e), 0);
    assert_int_equal(z.n, 2);
    m = torch_zip_get(&z, "data/0", 6);
    assert_non_null(m);
    assert_int_equal(m->bytes, 7);
    assert_memory_equal(m->data, "weights", 7);
    assert_null(torch_zip_get(&z, "data/1", 6));
    assert_null(torch_zip_get(&z, "a/data/0", 8));
    torch_zip_close(&z);
    torch_zip_close(&z);
    buf_fini(&b);
}

static void what_is_no_archive_is_not_taken_for_one(void **state)
{
    assert_false(torch_zip_is("PK\3", 3));
    assert_false(torch_zip_is("PK\5\6 only an end", 16));
}

static void a_compressed_or_encrypted_member_is_refused_by_name(void **state)
{
    struct zipmake_member m[2] = {two[0], two[1]};
    struct err e;

    m[1].method = 8;
    help_refused(open_members(m, 2, NULL, &e), ERR_UNSUPPORTED, &e, "some.bin", "a/data/0", "compressed",
                 NULL);
    m[1].method = 0;
    m[1].flags = 1;
    help_refused(open_members(m, 2, NULL, &e), ERR_UNSUPPORTED, &e, "some.bin", "a/data/0", "encrypted",
                 NULL);
}

static void sizes_that_reach_beyond_the_archive_are_refused(void **state)
{
    struct zipmake_member m[2] = {two[0], two[1]};
    struct err e;

    m[1].more_bytes = 1;
    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "a/data/0", "reaches beyond", NULL);
    m[1].more_bytes = 0xfffffff0u;
    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "a/data/0", "reaches beyond", NULL);
    m[1].more_bytes = 0;
    m[1].more_unpacked = 9;
    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "a/data/0", "two sizes differ", NULL);
}

static void a_directory_that_points_elsewhere_is_refused(void **state)
{
    struct zipmake_member m[2] = {two[0], two[1]};
    struct err e;

    m[1].local_at = 3;
    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "a/data/0", "no header", NULL);
    m[1].local_at = 0x7fffffff;
    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "a/data/0", "outside the archive", NULL);
    m[1].local_at = 0;
    m[1].local_name = "a/data/7";
    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "a/data/0", "another name", NULL);
    help_refused(open_members(two, 2, &(struct zipmake_end){.dir_at = 0x7fffffff}, &e), ERR_INPUT, &e,
                 "some.bin", "directory lies outside", NULL);
    help_refused(open_members(two, 2, &(struct zipmake_end){.dir_at = 1}, &e), ERR_INPUT, &e, "damaged",
                 NULL);
}

static void a_wrong_count_of_members_is_refused(void **state)
{
    struct err e;

    help_refused(open_members(two, 2, &(struct zipmake_end){.more_members = 1}, &e), ERR_INPUT, &e,
                 "ends too early", NULL);
    help_refused(open_members(two, 2, &(struct zipmake_end){.more_members = -1}, &e), ERR_INPUT, &e,
                 "longer than its entries", NULL);
    help_refused(open_members(two, 2, &(struct zipmake_end){.disk = 2}, &e), ERR_INPUT, &e, "several", NULL);
}

static void names_that_torch_would_not_write_are_refused(void **state)
{
    struct zipmake_member m[2] = {two[0], two[0]};
    struct err e;

    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "a/data.pkl", "twice", NULL);
    m[1].name = "b/data/0";
    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "b/data/0", "not in the folder of", NULL);
    m[0].name = "data.pkl";
    help_refused(open_members(m, 2, NULL, &e), ERR_INPUT, &e, "data.pkl", "not in the folder of", NULL);
}

static void every_cut_of_a_zip64_archive_is_refused(void **state)
{
    char *bytes, *cut;
    struct torch_zip z;
    struct err e;
    size_t len;

    bytes = files_read(FIXTURES "/zip64/pytorch_model.bin", &len);
    assert_int_equal(torch_zip_open(&z, bytes, len, "some.bin", &e), 0);
    torch_zip_close(&z);
    for (size_t n = 0; n < len; n++) {
        cut = malloc(n ? n : 1); /* exactly N bytes, so that a sanitizer sees a read after them */
        assert_non_null(cut);
        memcpy(cut, bytes, n);
        help_refused(torch_zip_open(&z, cut, n, "some.bin", &e), ERR_INPUT, &e, "some.bin", NULL);
        free(cut);
    }
    free(bytes);
}

static void no_changed_byte_of_a_zip64_archive_leads_outside(void **state)
{
    static const unsigned char value[] = {0, 1, 0x7f, 0x80, 0xff};
    struct torch_zip z;
    struct err e;
    size_t len, opened = 0;
    char *bytes;

    bytes = files_read(FIXTURES "/zip64/pytorch_model.bin", &len);
    for (size_t i = 0; i < len; i++)
        for (size_t k = 0; k < sizeof(value); k++) {
            char old = bytes[i];

            bytes[i] = (char)value[k];
            if (torch_zip_open(&z, bytes, len, "some.bin", &e) == 0) {
                opened++;
                for (size_t m = 0; m < z.n; m++)
                    assert_true(z.member[m].data >= bytes && z.member[m].bytes <= len &&
                                z.member[m].data + z.member[m].bytes <= bytes + len);
                torch_zip_close(&z);
            }
            bytes[i] = old;
        }
    assert_true(opened > len); /* Most bytes are data. */
    free(bytes);
}

static int open_two(void *arg, struct err *e)
{
    const struct buf *b = arg;
    struct torch_zip z;
    int rc = torch_zip_open(&z, b->data, b->len, "some.bin", e);

    torch_zip_close(&z);
    return rc;
}

static void lack_of_memory_is_reported_without_a_leak(void **state)
{
    struct buf b;

    buf_init(&b, MEM_CKPT);
    zipmake(&b, two, 2, NULL);
    help_every_allocation(open_two, &b);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found_where_they_lie),
        cmocka_unit_test(what_is_no_archive_is_not_taken_for_one),
        cmocka_unit_test(a_compressed_or_encrypted_member_is_refused_by_name),
        cmocka_unit_test(sizes_that_reach_beyond_the_archive_are_refused),
        cmocka_unit_test(a_directory_that_points_elsewhere_is_refused),
        cmocka_unit_test(a_wrong_count_of_members_is_refused),
        cmocka_unit_test(names_that_torch_would_not_write_are_refused),
        cmocka_unit_test(every_cut_of_a_zip64_archive_is_refused),
        cmocka_unit_test(no_changed_byte_of_a_zip64_archive_leads_outside),
        cmocka_unit_test(lack_of_memory_is_reported_without_a_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
