/* test_torch.c - files of torch.save in both forms: hostile views, wrong storages, every truncation, and many
 * changed bytes. */
#include "ckpthelp.h"

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/torch/torch.h"
#include "zipmake.h"

/* Reads exactly LEN bytes of heap, and every tensor of a file that is accepted. */
static int read_bytes(const char *bytes, size_t len, size_t *n, struct err *e)
{
    char *copy = malloc(len ? len : 1);
    struct tensor_file f;
    int rc;

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    assert_int_equal(tensor_file_open_bytes(&f, copy, len, "some.bin", e), 0);
    rc = torch_read(&f, e);
    for (size_t i = 0; rc == 0 && i < f.n; i++)
        help_touch(&f.tensor[i]);
    *n = f.n;
    tensor_file_close(&f);
    free(copy);
    return rc;
}

#define STORAGE                                                        \
    "(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00" \
    "0X\x03\x00\x00\x00"                                               \
    "cpuK\x04tQ"
#define HEAD                     \
    "\x80\x02}X\x01\x00\x00\x00" \
    "wctorch._utils\n_rebuild_tensor\n(" STORAGE
#define TAIL "tRs."

/* Builds an archive whose state dict is {"w": a tensor of 4 floats seen through VIEW}. */
static int read_view(const char *view, size_t len, struct err *e)
{
    float data[4] = {1, 2, 3, 4};
    struct zipmake_member m[3] = {{.name = "a/data.pkl"},
                                  {.name = "a/byteorder", .data = "little", .bytes = 6},
                                  {.name = "a/data/0", .data = data, .bytes = sizeof(data)}};
    struct buf pickle, zip;
    size_t n;
    int rc;

    buf_init(&pickle, MEM_TEXT);
    buf_init(&zip, MEM_TEXT);
    buf_add(&pickle, HEAD, sizeof(HEAD) - 1);
    buf_add(&pickle, view, len);
    buf_add(&pickle, TAIL, sizeof(TAIL) - 1);
    m[0].data = pickle.data;
    m[0].bytes = pickle.len;
    zipmake(&zip, m, 3, NULL);
    rc = read_bytes(zip.data, zip.len, &n, e);
    if (rc == 0)
        assert_int_equal(n, 1);
    buf_fini(&pickle);
    buf_fini(&zip);
    return rc;
}

#define VIEW(text) text, sizeof(text) - 1

static void views_that_leave_their_storage_are_refused(void **state)
{
    static const struct {
        const char *view;
        size_t len;
        bool good;
    } c[] = {
        {VIEW("K\x00K\x04\x85K\x01\x85"), true},  /* the whole storage */
        {VIEW("K\x01K\x04\x85K\x01\x85"), false}, /* offset 1: one element too many */
        {VIEW("K\x01K\x03\x85K\x01\x85"), true},
        {VIEW("K\x03))"), true}, /* the last element as a scalar */
        {VIEW("K\x04))"), false},
        {VIEW("K\x00K\x02\x85K\x03\x85"), true}, /* the first and the last element */
        {VIEW("K\x00K\x02\x85K\x04\x85"), false},
        {VIEW("K\x00K\x02K\x02\x86K\x02K\x01\x86"), true},
        {VIEW("K\x00K\x02K\x03\x86K\x02K\x01\x86"), false},
        {VIEW("K\x00K\x02K\x03\x86K\x01K\x01\x86"), true}, /* overlapping rows: 2 x 3 elements out of 4 */
        {VIEW("K\x00K\x06K\x04\x86K\x00K\x01\x86"), true}, /* expanded */
        {VIEW("K\x00K\x00\x85K\x01\x85"), true},           /* empty */
        {VIEW("K\x7fK\x00\x85K\x01\x85"), true},           /* empty, so that its offset does not matter */
        {VIEW("K\x00K\x01K\x04\x86\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x01\x86"),
         true}, /* the stride of a dimension of size 1 */
        {VIEW("K\x00K\x03\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"),
         false}, /* 2 x stride overflows. */
        {VIEW("K\x00K\x02\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"), false},
        {VIEW(
             "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x02\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"),
         false},
        {VIEW("K\x00\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85K\x00\x85"),
         false}, /* more elements than fit into an address */
        {VIEW("K\x00J\x00\x00\x01\x00J\x00\x00\x01\x00J\x00\x00\x01\x00\x87K\x00K\x00K\x00\x87"), false},
    };
    struct err e;

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        int rc = read_view(c[i].view, c[i].len, &e);

        if (c[i].good && rc != 0)
            fail_msg("case %zu: %s", i, e.msg);
        if (!c[i].good)
            help_refused(rc, rc == ERR_UNSUPPORTED ? ERR_UNSUPPORTED : ERR_INPUT, &e, "some.bin", "tensor w",
                         NULL);
    }
}

/* Reads an archive with one storage of 4 floats. The pickle names a part (key, FIRST, COUNT) of it, as torch
 * did before 0.4, and the tensor has the N elements of the part. */
static int read_window(unsigned first, unsigned count, unsigned n_elements, struct err *e)
{
    static const char head[] = "\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor\n"
                               "((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
                               "0X\x03\x00\x00\x00"
                               "cpuK\x04(X\x01\x00\x00\x00v";
    const char window[] = {'K', (char)first, 'K', (char)count, 't', 't', 'Q'};
    const char view[] = {'K', 0, 'K', (char)n_elements, (char)0x85, 'K', 1, (char)0x85};
    float data[4] = {1, 2, 3, 4};
    struct zipmake_member m[3] = {{.name = "a/data.pkl"},
                                  {.name = "a/byteorder", .data = "little", .bytes = 6},
                                  {.name = "a/data/0", .data = data, .bytes = sizeof(data)}};
    struct buf pickle, zip;
    size_t n;
    int rc;

    buf_init(&pickle, MEM_TEXT);
    buf_init(&zip, MEM_TEXT);
    buf_add(&pickle, head, sizeof(head) - 1);
    buf_add(&pickle, window, sizeof(window));
    buf_add(&pickle, view, sizeof(view));
    buf_str(&pickle, TAIL);
    m[0].data = pickle.data;
    m[0].bytes = pickle.len;
    zipmake(&zip, m, 3, NULL);
    rc = read_bytes(zip.data, zip.len, &n, e);
    buf_fini(&pickle);
    buf_fini(&zip);
    return rc;
}

static void a_window_that_begins_behind_its_storage_is_refused(void **state)
{
    static const struct {
        unsigned first, count, n_elements;
        const char *refused; /* NULL: the file is accepted */
    } c[] = {
        {0, 4, 4, NULL},
        {3, 1, 1, NULL},
        {3, 9, 1, NULL}, /* cut at the end, as a slice in Python */
        {3, 9, 2, "exceeds its storage"},
        {4, 0, 0, NULL}, /* empty, at the end */
        {4, 1, 1, "exceeds its storage"},
        {5, 0, 0, "does not name a torch storage"},
        {5, 1, 1, "does not name a torch storage"},
        {100, 100, 100, "does not name a torch storage"},
    };

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct err e = {0};
        int rc = read_window(c[i].first, c[i].count, c[i].n_elements, &e);

        if (!c[i].refused ? rc != 0 : rc != ERR_INPUT || !strstr(e.msg, c[i].refused))
            fail_msg("%u elements from %u on, %u of them used, in a storage of 4: code %d, \"%s\"",
                     c[i].count, c[i].first, c[i].n_elements, rc, e.msg);
    }
}

static void a_view_expanded_beyond_the_file_is_refused(void **state)
{
    struct err e;

    help_refused(read_view(VIEW("K\x00J\x00\x00\x00\x01\x85K\x00\x85"), &e), ERR_UNSUPPORTED, &e, "tensor w",
                 "repeats", NULL);
}

/* Reads the archive of one tensor of 4 floats after a change of its storage. */
static int read_storage(const char *name, size_t bytes, const char *order, const char *top, struct err *e)
{
    static const char pickle[] = HEAD "K\x00K\x04\x85K\x01\x85" TAIL;
    float data[5] = {1, 2, 3, 4, 5};
    struct zipmake_member m[3] = {{.name = top, .data = pickle, .bytes = sizeof(pickle) - 1},
                                  {.name = "a/byteorder", .data = order, .bytes = strlen(order)},
                                  {.name = name, .data = data, .bytes = bytes}};
    struct buf zip;
    size_t n;
    int rc;

    buf_init(&zip, MEM_TEXT);
    zipmake(&zip, m, 3, NULL);
    rc = read_bytes(zip.data, zip.len, &n, e);
    buf_fini(&zip);
    return rc;
}

static void storages_that_are_not_what_the_pickle_says_are_refused(void **state)
{
    struct err e;

    assert_int_equal(read_storage("a/data/0", 16, "little", "a/data.pkl", &e), 0);
    help_refused(read_storage("a/data/1", 16, "little", "a/data.pkl", &e), ERR_INPUT, &e, "tensor w",
                 "data/0 is not in the archive", NULL);
    help_refused(read_storage("a/data/0", 15, "little", "a/data.pkl", &e), ERR_INPUT, &e, "tensor w",
                 "has 15 bytes", "need 16", NULL);
    help_refused(read_storage("a/data/0", 20, "little", "a/data.pkl", &e), ERR_INPUT, &e, "tensor w",
                 "has 20 bytes", NULL);
    help_refused(read_storage("a/data/0", 16, "big", "a/data.pkl", &e), ERR_UNSUPPORTED, &e, "some.bin",
                 "byte order", NULL);
    help_refused(read_storage("a/data/0", 16, "little", "a/model.pkl", &e), ERR_INPUT, &e, "some.bin",
                 "no data.pkl", NULL);
}

static void what_torch_did_not_write_is_refused(void **state)
{
    struct err e;
    size_t n;

    help_refused(read_bytes("", 0, &n, &e), ERR_INPUT, &e, "some.bin", "neither", NULL);
    help_refused(read_bytes(VIEW("\x7f"
                                 "ELF"),
                            &n, &e),
                 ERR_INPUT, &e, "some.bin", "neither", NULL);
    help_refused(read_bytes(VIEW("\x80\x02K\x01."), &n, &e), ERR_INPUT, &e, "some.bin", "magic number", NULL);
    help_refused(read_bytes(VIEW("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x18."), &n, &e),
                 ERR_INPUT, &e, "magic number", NULL);
    help_refused(
        read_bytes(VIEW("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xea\x03."), &n,
                   &e),
        ERR_UNSUPPORTED, &e, "protocol", "1001", NULL);
}

static void a_stream_that_lies_about_a_storage_is_refused(void **state)
{
    char *bytes;
    struct err e;
    size_t len, n, at;

    bytes = files_read(FIXTURES "/stream-python2/pytorch_model.bin", &len);
    assert_int_equal(read_bytes(bytes, len, &n, &e), 0);
    assert_int_equal(n, 2);
    at = len - 48; /* the element count of the only storage: 8 bytes and 10 floats */
    bytes[at] = 9;
    help_refused(read_bytes(bytes, len, &n, &e), ERR_INPUT, &e, "some.bin", "4 bytes follow the last storage",
                 NULL);
    help_refused(read_bytes(bytes, len - 4, &n, &e), ERR_INPUT, &e,
                 "storage 140 has 9 elements, the pickle says 10", NULL);
    bytes[at] = 11;
    help_refused(read_bytes(bytes, len, &n, &e), ERR_INPUT, &e, "storage 140", "11 elements of F32",
                 "40 bytes are left", NULL);
    memset(bytes + at, 0xff, 8);
    help_refused(read_bytes(bytes, len, &n, &e), ERR_INPUT, &e, "storage 140", "40 bytes are left", NULL);
    free(bytes);
}

static const char *const fixture[] = {"zip",           "zip-protocol4",    "zip-unaligned",
                                      "stream",        "stream-protocol5", "stream-python2",
                                      "stream-nested", "zip-nested"};

static void every_cut_of_a_file_is_refused(void **state)
{
    char path[512], *bytes;
    struct err e;
    size_t len, n;

    for (size_t k = 0; k < sizeof(fixture) / sizeof(fixture[0]); k++) {
        snprintf(path, sizeof(path), "%s/%s/pytorch_model.bin", FIXTURES, fixture[k]);
        bytes = files_read(path, &len);
        assert_int_equal(read_bytes(bytes, len, &n, &e), 0);
        for (size_t cut = 0; cut < len; cut += cut < len - 300 ? 7 : 1)
            help_refused(read_bytes(bytes, cut, &n, &e), ERR_INPUT, &e, "some.bin", NULL);
        free(bytes);
    }
}

static void no_changed_byte_leads_outside_the_file(void **state)
{
    static const char value[] = {0, 1, (char)0x7f, (char)0xff};
    char path[512], *bytes;
    struct err e;
    size_t len, n, refused = 0;

    for (size_t k = 0; k < 6; k++) {
        snprintf(path, sizeof(path), "%s/%s/pytorch_model.bin", FIXTURES, fixture[k]);
        bytes = files_read(path, &len);
        for (size_t i = 0; i < len; i++) {
            char old = bytes[i];

            bytes[i] = value[i % sizeof(value)];
            refused += read_bytes(bytes, len, &n, &e) != 0;
            bytes[i] = old;
        }
        free(bytes);
    }
    assert_true(refused > 2500);
}

static int open_fixture(void *arg, struct err *e)
{
    struct tensor_file f;
    int rc;

    if ((rc = tensor_file_open(&f, folder_at(arg), NULL, e)) != 0)
        return rc;
    rc = torch_read(&f, e);
    tensor_file_close(&f);
    return rc;
}

static void lack_of_memory_is_reported_without_a_leak(void **state)
{
    help_every_allocation(open_fixture, FIXTURES "/zip/pytorch_model.bin");
    help_every_allocation(open_fixture, FIXTURES "/stream/pytorch_model.bin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_that_leave_their_storage_are_refused),
        cmocka_unit_test(a_window_that_begins_behind_its_storage_is_refused),
        cmocka_unit_test(a_view_expanded_beyond_the_file_is_refused),
        cmocka_unit_test(storages_that_are_not_what_the_pickle_says_are_refused),
        cmocka_unit_test(what_torch_did_not_write_is_refused),
        cmocka_unit_test(a_stream_that_lies_about_a_storage_is_refused),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
        cmocka_unit_test(no_changed_byte_leads_outside_the_file),
        cmocka_unit_test(lack_of_memory_is_reported_without_a_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
