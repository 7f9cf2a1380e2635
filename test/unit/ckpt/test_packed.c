/* test_packed.c - packed checkpoints: contents are read as they were written, every altered byte is detected,
 * and every rule of the directory is broken once. */
#include "ckpthelp.h"

#include <xxhash.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/pack/form.h"
#include "files.h"

enum { MOST_PARTS = 8 };

static struct buf part[MOST_PARTS];
static size_t n_parts, writes_left;

static int write_part(void *ctx, size_t no, const void *p, size_t n, struct err *e)
{
    (void)ctx;
    if (writes_left-- == 0)
        return err_set(e, ERR_OS, "the disk is full");
    assert_true(no < MOST_PARTS && no <= n_parts);
    if (no == n_parts)
        buf_init(&part[n_parts++], MEM_CKPT);
    buf_add(&part[no], p, n);
    assert_false(part[no].oom);
    return 0;
}

static void forget(void)
{
    while (n_parts)
        buf_fini(&part[--n_parts]);
}

static const float table[6] = {1, 2, 3, 4, 5, 6};

/* Writes a table, its transpose, a tensor that is packed, and two linears of N bytes. */
static int write_all(size_t split, size_t n, struct err *e)
{
    struct view whole = {.name = "table", .data = table, .dtype = DT_F32, .n_dims = 2, .shape = {2, 3}},
                turned, zipped;
    struct pack_tensor about = {.sum = 0x123456789abcdef0u};
    const struct pack_linear l[2] = {
        {.name = "up", .layout = "panels of 32", .n = 5, .k = 7, .dtype = DT_BF16},
        {.name = "down", .layout = "other", .n = 8, .k = 9, .dtype = DT_I8, .paired = true}};
    struct pack_writer w = {.write = write_part, .split_bytes = split};
    char *bytes = calloc(1, n + 1);
    int rc;

    forget();
    memset(bytes, 'x', n);
    memset(about.end[1], 0xfe, sizeof(about.end[1]));
    view_set_contiguous(&whole);
    turned = view_transposed(&whole);
    turned.name = "turned";
    zipped = whole;
    zipped.name = "elsewhere";
    zipped.zipped = 2;
    zipped.dtype = DT_BF16;
    if ((rc = pack_begin(&w, DT_BF16, "int8", 0, e)) == 0 &&
        (rc = pack_file(&w, "config.json", "{}", 2, e)) == 0 &&
        (rc = pack_file(&w, "empty.txt", "", 0, e)) == 0 &&
        (rc = pack_view(&w, &whole, &about, true, e)) == 0 &&
        (rc = pack_view(&w, &turned, &about, true, e)) == 0 &&
        (rc = pack_view(&w, &zipped, &about, false, e)) == 0 &&
        (rc = pack_packed(&w, &l[0], bytes, n, e)) == 0 &&
        (rc = pack_packed(&w, &l[1], bytes, n / 2, e)) == 0)
        rc = pack_end(&w, e);
    pack_abort(&w);
    free(bytes);
    return rc;
}

static void check_read(const struct pack *p, size_t n)
{
    const struct view *v = p->tensors.tensor;

    assert_int_equal(p->dtype, DT_BF16);
    assert_string_equal(p->quant, "int8");
    assert_int_equal(p->files.n, 2);
    assert_string_equal(p->files.member[0].name, "config.json");
    assert_memory_equal(p->files.member[0].bytes, "{}", 2);
    assert_int_equal(p->files.member[1].len, 0);
    assert_int_equal(p->tensors.n, 3);
    assert_memory_equal(v[0].data, table, sizeof(table));
    assert_true(view_is_contiguous(&v[0]) && !view_is_contiguous(&v[1]));
    assert_int_equal(v[1].shape[0], 3);
    assert_int_equal(v[1].stride[1], 3);
    assert_memory_equal(v[1].data, table, sizeof(table));
    assert_null(v[2].data);
    assert_int_equal(v[2].zipped, 2);
    assert_int_equal(v[2].dtype, DT_BF16);
    assert_true(pack_tensor_of(p, &v[2])->sum == 0x123456789abcdef0u);
    assert_int_equal(pack_tensor_of(p, &v[2])->end[1][63], 0xfe);
    assert_int_equal(p->n_linears, 2);
    assert_string_equal(p->linear[1].name, "down");
    assert_string_equal(p->linear[1].layout, "other");
    assert_true(p->linear[1].paired && !p->linear[0].paired);
    assert_int_equal(p->linear[1].dtype, DT_I8);
    assert_int_equal(p->linear[0].k, 7);
    assert_int_equal(p->linear[0].blob.bytes, n);
    assert_int_equal(p->linear[1].blob.bytes, n / 2);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p->linear[0].blob.data[i], 'x');
    assert_int_equal((uintptr_t)p->linear[1].blob.data % 64,
                     (uintptr_t)p->part[p->linear[1].blob.part].bytes % 64);
}

static void what_was_written_is_read(void **state)
{
    const size_t sizes[] = {0, 1, 4095, 4096, 4097, (1 << 20) - 1, (1 << 20) + 1, 3 << 20};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct pack p;
        struct err e;

        writes_left = SIZE_MAX;
        assert_int_equal(write_all(0, sizes[i], &e), 0);
        assert_int_equal(n_parts, 1);
        assert_int_equal(pack_open_bytes(&p, part[0].data, part[0].len, "a.gallop", &e), 0);
        assert_int_equal(pack_prove(&p, NULL, &e), 0);
        check_read(&p, sizes[i]);
        pack_close(&p);
    }
    forget();
}

/* Files have at most 8192 bytes. Each has its own first page, and a larger tensor has its own file. */
static void weights_are_cut_into_files(void **state)
{
    char name[64];
    struct pack p;
    struct err e;

    files_enter();
    writes_left = SIZE_MAX;
    assert_int_equal(write_all(8192, 20000, &e), 0);
    assert_int_equal(n_parts, 5); /* the directory, two tensors, two linears */
    for (size_t i = 0; i < n_parts; i++) {
        snprintf(name, sizeof(name), i ? "a.gallop.%zu" : "a.gallop", i);
        files_write(name, part[i].data, part[i].len);
        assert_true(pack_means(folder_at(name)));
    }
    assert_int_equal(pack_open(&p, folder_at("a.gallop"), &e), 0);
    assert_int_equal(pack_prove(&p, NULL, &e), 0);
    check_read(&p, 20000);
    pack_close(&p);
    help_refused(pack_open(&p, folder_at("a.gallop.2"), &e), ERR_INPUT, &e, "part 2 of a packed checkpoint",
                 NULL);
    files_write("a.gallop.3", part[2].data, part[2].len); /* This file has the name of another part. */
    help_refused(pack_open(&p, folder_at("a.gallop"), &e), ERR_INPUT, &e, "its first page", NULL);
    files_write("a.gallop.3", part[3].data, part[3].len - PACK_ALIGN);
    help_refused(pack_open(&p, folder_at("a.gallop"), &e), ERR_INPUT, &e, "length is not as it was", NULL);
    assert_int_equal(remove("a.gallop.3"), 0);
    help_refused(pack_open(&p, folder_at("a.gallop"), &e), ERR_OS, &e, "a.gallop.3", NULL);
    forget();
}

static void every_altered_byte_is_noticed_or_counts_for_nothing(void **state)
{
    size_t refused = 0;

    writes_left = SIZE_MAX;
    assert_int_equal(write_all(0, 100, NULL), 0);
    for (size_t i = 0; i < part[0].len; i++) {
        struct pack p;
        struct err e;

        part[0].data[i] ^= (char)(1 << i % 8);
        if (pack_open_bytes(&p, part[0].data, part[0].len, "a.gallop", &e) != 0) {
            refused++;
        } else {
            if (pack_prove(&p, NULL, &e) == 0)
                check_read(&p, 100); /* a byte of the padding */
            else
                refused++;
            pack_close(&p);
        }
        part[0].data[i] ^= (char)(1 << i % 8);
    }
    assert_true(refused > 4096 + sizeof(struct pack_tail));
    for (size_t n = 0; n < part[0].len; n += 13)
        assert_int_not_equal(pack_open_bytes(&(struct pack){0}, part[0].data, n, "a.gallop", NULL), 0);
    forget();
}

/* Opens a file with DIRECTORY and 8192 bytes of data from offset 4096. */
static int open_directory(const char *directory, struct err *e)
{
    static const char data[8192];
    struct pack_tail tail = {.bytes = strlen(directory), .magic = PACK_TAIL_MAGIC};
    char page[PACK_ALIGN];
    struct pack p;
    struct buf b;
    int rc;

    buf_init(&b, MEM_CKPT);
    pack_head(page, 0);
    buf_add(&b, page, sizeof(page));
    buf_add(&b, data, sizeof(data));
    tail.at = b.len;
    tail.sum = XXH3_64bits(directory, strlen(directory));
    tail.own_sum = XXH3_64bits(&tail, offsetof(struct pack_tail, own_sum));
    buf_str(&b, directory);
    buf_add(&b, &tail, sizeof(tail));
    rc = pack_open_bytes(&p, b.data, b.len, "a.gallop", e);
    if (rc == 0)
        pack_close(&p);
    buf_fini(&b);
    return rc;
}

static void wrong_directories_are_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "at byte"},
        {"[]", "at byte"},
        {"{\"parts\":1,\"colour\":1}", "colour is not known"},
        {"{\"parts\":0}", "its directory"},
        {"{\"parts\":4097}", "its directory"},
        {"{\"parts\":1,\"dtype\":\"F7\"}", "unknown dtype"},
        {"{\"parts\":1,\"files\":[{\"name\":\"a\",\"part\":1,\"at\":4096,\"bytes\":1}]}",
         "its directory or length"},
        {"{\"parts\":1,\"files\":[{\"name\":\"a\",\"part\":0,\"at\":4097,\"bytes\":1}]}",
         "its directory or length"},
        {"{\"parts\":1,\"files\":[{\"name\":\"a\",\"at\":4096,\"bytes\":18446744073709551615}]}",
         "its directory or length"},
        {"{\"parts\":1,\"files\":[{\"name\":\"a\",\"at\":18446744073709547520,\"bytes\":1}]}",
         "its directory or length"},
        {"{\"parts\":1,\"files\":[{\"name\":\"a\",\"at\":4096,\"bytes\":1,\"sum\":\"0000000000000000\"}]}",
         "a in it"},
        {"{\"parts\":1,\"files\":[{\"name\":\"a\",\"sum\":\"00000000000000\"}]}", "16 hexadecimal digits"},
        {"{\"parts\":1,\"files\":[{\"name\":\"a\",\"sum\":\"000000000000000G\"}]}", "16 hexadecimal digits"},
        {"{\"parts\":1,\"files\":[{\"name\":\"a\",\"size\":1}]}", "size is not known"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"shape\":[1,1,1,1,1,1,1,1,1]}]}", "more than 8 sizes"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"shape\":[4294967296,4294967296]}]}",
         "strides are invalid"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"shape\":[2,3],\"stride\":[1]}]}",
         "strides are invalid"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"shape\":[2,3],\"stride\":[18446744073709551615,2]}]}",
         "strides are invalid"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"shape\":[2,3],\"zipped\":[3]}]}",
         "strides are invalid"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"dtype\":\"Q4_0\",\"shape\":[2,33]}]}",
         "strides are invalid"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"dtype\":\"Q4_0\",\"shape\":[2,64],\"stride\":[65,1]}]}",
         "strides are invalid"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"shape\":[2,3],\"at\":4096,\"bytes\":23}]}",
         "shape and number of bytes differ"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"shape\":[2]},{\"name\":\"a\",\"shape\":[2]}]}",
         "appears twice"},
        {"{\"parts\":1,\"tensors\":[{\"name\":\"a\",\"first\":\"00\"}]}", "64 bytes"},
        {"{\"parts\":1,\"linears\":[{\"name\":\"a\",\"size\":[1,2,3]}]}", "more than 2 sizes"},
        {"{\"parts\":1,\"linears\":[{\"name\":\"a\",\"at\":8192,\"bytes\":4097}]} ",
         "its directory or length"},
    };
    struct err e;

    assert_int_equal(open_directory("{\"parts\":1}", &e), 0);
    assert_int_equal(
        open_directory("{\"parts\":1,\"linears\":[{\"name\":\"a\",\"at\":8192,\"bytes\":4096}]}", &e), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        help_refused(open_directory(wrong[i].text, &e), ERR_INPUT, &e, wrong[i].why, (char *)NULL);
}

static void another_version_is_named(void **state)
{
    static const char newer[] = PACK_MAGIC "version 2\npart 0\n";
    struct pack p;
    struct err e;

    writes_left = SIZE_MAX;
    assert_int_equal(write_all(0, 10, &e), 0);
    memcpy(part[0].data, newer, sizeof(newer) - 1);
    help_refused(pack_open_bytes(&p, part[0].data, part[0].len, "a.gallop", &e), ERR_UNSUPPORTED, &e,
                 "has version 2, this gallop reads 1; pack the checkpoint again", NULL);
    forget();
}

static void a_write_that_fails_ends_the_writing(void **state)
{
    struct err e;

    for (size_t i = 0; i < 12; i++) {
        writes_left = i;
        help_refused(write_all(0, 10, &e), ERR_OS, &e, "the disk is full", NULL);
    }
    forget();
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(weights_are_cut_into_files),
        cmocka_unit_test(every_altered_byte_is_noticed_or_counts_for_nothing),
        cmocka_unit_test(wrong_directories_are_refused),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(a_write_that_fails_ends_the_writing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
