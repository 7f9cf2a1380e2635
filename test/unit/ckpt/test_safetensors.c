/* test_safetensors.c - .safetensors files: every rule of the format, broken one at a time. */
#include "ckpthelp.h"

#include "base/buf.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "ckpt/safetensors.h"

/* Builds a file of this header and N bytes of data, in which byte I is I. */
static void make_file(struct buf *b, const char *header, size_t n)
{
    uint64_t len = strlen(header);

    buf_init(b, MEM_CKPT);
    buf_add(b, &len, 8);
    buf_str(b, header);
    for (size_t i = 0; i < n; i++)
        buf_char(b, (char)i);
    assert_false(b->oom);
}

/* Reads exactly LEN bytes of heap, so that a sanitizer sees a read after them. */
static int read_bytes(struct tensor_file *f, const char *bytes, size_t len, struct err *e)
{
    char *copy = malloc(len ? len : 1);
    uint64_t sum = 0;
    int rc;

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    assert_int_equal(tensor_file_open_bytes(f, copy, len, "some.safetensors", e), 0);
    rc = safetensors_read(f, e);
    for (size_t i = 0; rc == 0 && i < f->n; i++)
        sum += help_touch(&f->tensor[i]);
    tensor_file_close(f);
    free(copy);
    return rc == 0 && sum == 1 ? 0 : rc; /* The sum keeps the reads. */
}

static int read_header(const char *header, size_t n, struct err *e)
{
    struct tensor_file f;
    struct buf b;
    int rc;

    make_file(&b, header, n);
    rc = read_bytes(&f, b.data, b.len, e);
    buf_fini(&b);
    return rc;
}

/* Builds a header of LEN bytes, nearly all of which are blanks in a hole of the file. */
static int read_long_header(uint64_t len, struct err *e)
{
    size_t bytes = (size_t)len + 8;
    char *p = map_region_new(bytes);
    struct tensor_file f;
    int rc;

    assert_non_null(p);
    memcpy(p, &len, 8);
    memcpy(p + 8, "{}", 2);
    assert_int_equal(tensor_file_open_bytes(&f, p, bytes, "some.safetensors", e), 0);
    rc = safetensors_read(&f, e);
    tensor_file_close(&f);
    map_region_free(p, bytes);
    return rc;
}

static void a_header_longer_than_the_format_allows_is_refused(void **state)
{
    struct err e;

    help_refused(read_long_header(100000000, &e), ERR_INPUT, &e, "some.safetensors", "at byte 2", NULL);
    help_refused(read_long_header(100000001, &e), ERR_INPUT, &e, "some.safetensors",
                 "the header has 100000001 bytes, at most 100000000 are allowed", NULL);
}

static void tensors_come_in_the_order_of_their_bytes(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"last\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[12,14]},"
        "\"none\":{\"shape\":[3,0],\"dtype\":\"F32\",\"data_offsets\":[12,12],\"extra\":[{}]},"
        "\"first\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}  ";
    struct tensor_file f;
    struct buf b;
    struct err e;

    make_file(&b, header, 14);
    assert_int_equal(tensor_file_open_bytes(&f, b.data, b.len, "some.safetensors", &e), 0);
    assert_int_equal(safetensors_read(&f, &e), 0);
    assert_int_equal(f.n, 3);
    assert_string_equal(f.tensor[0].name, "first");
    assert_string_equal(f.tensor[1].name, "none");
    assert_string_equal(f.tensor[2].name, "last");
    assert_string_equal(f.tensor[0].file, "some.safetensors");
    assert_true(f.tensor[0].dtype == DT_BF16 && f.tensor[0].n_dims == 2 && f.tensor[0].shape[1] == 3);
    assert_true(f.tensor[0].stride[0] == 3 && f.tensor[0].stride[1] == 1);
    assert_ptr_equal(f.tensor[0].data, b.data + 8 + strlen(header)); /* The data is mapped and not copied. */
    assert_ptr_equal(tensor_file_get(&f, "last", 4), &f.tensor[2]);
    assert_null(tensor_file_get(&f, "lost", 4));
    tensor_file_close(&f);
    tensor_file_close(&f);
    buf_fini(&b);
}

static void a_file_without_tensors_is_a_file(void **state)
{
    struct err e;

    assert_int_equal(read_header("{}", 0, &e), 0);
    help_refused(read_header("{}", 1, &e), ERR_INPUT, &e, "belong to no tensor", NULL);
}

#define T(rest) "{\"w\":{" rest "}}"

/* long: a table of cases */
static void broken_headers_are_refused_with_file_and_tensor_named(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        int code;
        const char *word;
    } c[] = {
        {T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 8, ERR_INPUT,
         "has 4 bytes, its shape [2] and dtype F32 need 8"},
        {T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,12]"), 8, ERR_INPUT, "the file has 8 bytes"},
        {T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]"), 8, ERR_INPUT, "has the bytes 8..0"},
        {T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"), 9, ERR_INPUT, "the last 1 bytes"},
        {T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]"), 9, ERR_INPUT,
         "1 bytes before tensor w"},
        {T("\"dtype\":\"F5\",\"shape\":[2],\"data_offsets\":[0,8]"), 8, ERR_UNSUPPORTED, "unknown dtype F5"},
        {T("\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]"), 8, ERR_UNSUPPORTED,
         "unknown dtype f32"},
        {T("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0, ERR_INPUT,
         "more elements"},
        {T("\"dtype\":\"F32\",\"shape\":[4611686018427387906],\"data_offsets\":[0,8]"), 8, ERR_INPUT,
         "more elements"},
        {T("\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]"), 0, ERR_INPUT,
         "more elements"},
        {T("\"dtype\":\"U8\",\"shape\":[2305843009213693952],\"data_offsets\":[0,8]"), 8, ERR_INPUT,
         "more elements"},
        {T("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]"), 8, ERR_INPUT,
         "-2 is not a non-negative integer"},
        {T("\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]"), 8, ERR_INPUT,
         "2.0 is not a non-negative integer"},
        {T("\"dtype\":\"F32\",\"shape\":[18446744073709551618],\"data_offsets\":[0,8]"), 8, ERR_INPUT,
         "is not a non-negative"},
        {T("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]"), 8, ERR_INPUT,
         "more than 8 dimensions"},
        {T("\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]"), 8, ERR_INPUT, "array is expected"},
        {T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]"), 8, ERR_INPUT, "has 1 numbers"},
        {T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]"), 8, ERR_INPUT, "has 3 numbers"},
        {T("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,18446744073709551624]"), 8, ERR_INPUT,
         "is not a non-negative"},
        {T("\"dtype\":\"F32\",\"shape\":[2]"), 8, ERR_INPUT, "has no data_offsets"},
        {T("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), 8, ERR_INPUT, "has no shape"},
        {T("\"shape\":[2],\"data_offsets\":[0,8]"), 8, ERR_INPUT, "has no dtype"},
        {T("\"dtype\":\"F32\",\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]"), 8, ERR_INPUT,
         "dtype appears twice"},
        {T("\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]"), 8, ERR_INPUT, "string is expected"},
        {"{\"w\":[]}", 0, ERR_INPUT, "object is expected"},
        {"[]", 0, ERR_INPUT, "object is expected"},
        {"{\"w\":{}} x", 0, ERR_INPUT, "has no dtype"},
        {"{} x", 0, ERR_INPUT, "text follows"},
        {"{\"w", 0, ERR_INPUT, "ends inside a string"},
        {"", 0, ERR_INPUT, "the text ends where a value is expected"},
        {"{\"\xff\":1}", 0, ERR_INPUT, "not UTF-8"},
        {"{\"a\\u001b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, ERR_INPUT,
         "control character"},
        {"{\"a\\u0000\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, ERR_INPUT,
         "control character"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\","
         "\"shape\":[],\"data_offsets\":[1,2]}}",
         2, ERR_INPUT, "tensor a appears twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, ERR_INPUT, "tensors a and b overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[1],\"data_offsets\":[2,3]}}",
         3, ERR_INPUT, "1 bytes before tensor b"},
    };
    struct err e;

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
        help_refused(read_header(c[i].header, c[i].data, &e), c[i].code, &e, "some.safetensors", c[i].word,
                     strstr(c[i].header, "\"w\"") && !strstr(c[i].word, "the last") ? " w" : "", NULL);
}

static void a_header_length_beyond_the_file_costs_no_memory(void **state)
{
    static const uint64_t length[] = {7, 1 << 20, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
    struct tensor_file f;
    struct err e;

    for (size_t i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
        char bytes[14] = "........{\"a\":";

        memcpy(bytes, &length[i], 8);
        mem_fail_at(3); /* Only the path is allocated before. */
        help_refused(read_bytes(&f, bytes, sizeof(bytes) - (length[i] == 7), &e), ERR_INPUT, &e,
                     "the header should have", NULL);
        assert_false(mem_failed());
        mem_fail_at(0);
    }
    for (size_t n = 0; n < 8; n++)
        help_refused(read_bytes(&f, "\0\0\0\0\0\0\0\0", n, &e), ERR_INPUT, &e, "begins with 8 bytes", NULL);
}

static void every_cut_of_a_file_is_refused(void **state)
{
    struct tensor_file f;
    struct err e;
    size_t len;
    char *bytes;

    bytes = files_read(FIXTURES "/safetensors/model.safetensors", &len);
    assert_int_equal(read_bytes(&f, bytes, len, &e), 0);
    for (size_t n = 0; n < len; n++)
        help_refused(read_bytes(&f, bytes, n, &e), ERR_INPUT, &e, "some.safetensors", NULL);
    free(bytes);
}

static void no_changed_byte_leads_outside_the_file(void **state)
{
    static const char value[] = {0, ' ', '"', '9', '0', '-', ',', ']', '}', '\\', (char)0x80, (char)0xff};
    struct tensor_file f;
    struct err e;
    size_t len, header, refused = 0;
    char *bytes;

    bytes = files_read(FIXTURES "/safetensors/model.safetensors", &len);
    header = (unsigned char)bytes[0] + 256u * (unsigned char)bytes[1];
    for (size_t i = 0; i < header + 8; i++)
        for (size_t k = 0; k < sizeof(value); k++) {
            char old = bytes[i];

            bytes[i] = value[k];
            refused +=
                /* A file that is accepted has all of its tensors read. */
                read_bytes(&f, bytes, len, &e) != 0;
            bytes[i] = old;
        }
    assert_true(refused > 5 * header);
    free(bytes);
}

static int open_fixture(void *arg, struct err *e)
{
    struct tensor_file f;
    int rc;

    (void)arg;
    if ((rc = tensor_file_open(&f, folder_at(FIXTURES "/safetensors/model.safetensors"), NULL, e)) != 0)
        return rc;
    rc = safetensors_read(&f, e);
    tensor_file_close(&f);
    return rc;
}

static void lack_of_memory_is_reported_without_a_leak(void **state)
{
    help_every_allocation(open_fixture, NULL);
}

static void the_number_of_elements_cannot_overflow(void **state)
{
    size_t n, fits[2] = {(size_t)1 << 60, 1}, zero[2] = {0, (size_t)1 << 60}, wide[2] = {(size_t)1 << 61, 1};

    assert_true(tensor_file_elements(fits, 2, &n) && n == (size_t)1 << 60);
    assert_true(tensor_file_elements(zero, 2, &n) && n == 0);
    assert_false(tensor_file_elements(wide, 2, &n));
    assert_true(tensor_file_elements(wide, 0, &n) && n == 1);
}

static void a_file_that_cannot_be_opened_is_named(void **state)
{
    struct tensor_file f;
    struct err e;

    help_refused(tensor_file_open(&f, folder_at(FIXTURES "/not-there.safetensors"), NULL, &e), ERR_OS, &e,
                 "not-there.safetensors", "cannot open", NULL);
    help_refused(tensor_file_open(&f, folder_at(FIXTURES), NULL, &e), ERR_INPUT, &e, "ckpt",
                 "not a regular file", NULL);
    help_refused(tensor_file_open(&f, folder_at("/dev/zero"), NULL, &e), ERR_INPUT, &e, "/dev/zero",
                 "not a regular file", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_come_in_the_order_of_their_bytes),
        cmocka_unit_test(a_header_longer_than_the_format_allows_is_refused),
        cmocka_unit_test(a_file_without_tensors_is_a_file),
        cmocka_unit_test(broken_headers_are_refused_with_file_and_tensor_named),
        cmocka_unit_test(a_header_length_beyond_the_file_costs_no_memory),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
        cmocka_unit_test(no_changed_byte_leads_outside_the_file),
        cmocka_unit_test(lack_of_memory_is_reported_without_a_leak),
        cmocka_unit_test(the_number_of_elements_cannot_overflow),
        cmocka_unit_test(a_file_that_cannot_be_opened_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
