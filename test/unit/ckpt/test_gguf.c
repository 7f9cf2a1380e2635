/* test_gguf.c - GGUF files: every rule of the format, broken one at a time, and the getters. */
#include "ckpthelp.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/gguf/gguf.h"
#include "ggufwrite.h"

static const char path[] = "some.gguf";

/* Makes a copy of B that ends at the end of its allocation, so that a sanitizer sees a read after it. */
static char *exactly(const char *bytes, size_t n)
{
    char *copy = malloc(n ? n : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    return copy;
}

static int read_bytes(const char *bytes, size_t n, struct err *e)
{
    char *copy = exactly(bytes, n);
    struct gguf g;
    uint64_t sum = 0;
    int rc = gguf_read(&g, copy, n, path, e);

    for (size_t i = 0; rc == 0 && i < g.n_tensors; i++)
        for (size_t b = 0; b < view_bytes(&g.tensor[i].view); b++)
            sum += ((const unsigned char *)g.tensor[i].view.data)[b];
    gguf_close(&g);
    free(copy);
    return rc == 0 && sum == 1 ? 0 : rc; /* The sum keeps the reads. */
}

/* Finishes and frees W. */
static int read_file(struct ggufwrite *w, struct err *e)
{
    struct buf b;
    int rc;

    buf_init(&b, MEM_CKPT);
    ggufwrite_finish(w, &b);
    rc = read_bytes(b.data, b.len, e);
    buf_fini(&b);
    ggufwrite_fini(w);
    return rc;
}

/* Writes one entry of every type. */
static void good_file(struct ggufwrite *w)
{
    static const char *const words[] = {"one", "", "three"};
    static const int32_t same[] = {7, 7, 7}, other[] = {7, 8, 7};
    static const float floats[] = {0.5f, -2};
    int64_t wide = -5;
    double real = 0.125;

    ggufwrite_init(w);
    ggufwrite_str(w, "general.architecture", "llama");
    ggufwrite_u32(w, "number", 4000000000u);
    ggufwrite_key(w, "wide", 11);
    ggufwrite_raw(w, &wide, 8);
    ggufwrite_key(w, "real", 12);
    ggufwrite_raw(w, &real, 8);
    ggufwrite_f32(w, "float", 1e-5f);
    ggufwrite_bool(w, "yes", 1);
    ggufwrite_bool(w, "no", 0);
    ggufwrite_strs(w, "words", words, 3);
    ggufwrite_i32s(w, "same", same, 3);
    ggufwrite_i32s(w, "other", other, 3);
    ggufwrite_f32s(w, "floats", floats, 2);
    ggufwrite_f32_tensor(w, "second", (const size_t[]){2, 3, 0}, NULL);
    ggufwrite_tensor(w, "first", 8, (const size_t[]){3, 64, 0}, NULL, 3 * 2 * 34);
}

struct opened {
    struct gguf g;
    struct buf b;
};

static void open_good(struct opened *o)
{
    struct ggufwrite w;
    struct err e;

    good_file(&w);
    buf_init(&o->b, MEM_CKPT);
    ggufwrite_finish(&w, &o->b);
    ggufwrite_fini(&w);
    if (gguf_read(&o->g, o->b.data, o->b.len, path, &e) != 0)
        fail_msg("%s", e.msg);
}

static void close_good(struct opened *o)
{
    gguf_close(&o->g);
    buf_fini(&o->b);
}

static void tensors_have_their_shape_outermost_first(void **state)
{
    const struct gguf_tensor *t;
    struct opened o;
    float row[3];

    open_good(&o);
    assert_int_equal(o.g.n_tensors, 2);
    assert_null(gguf_tensor(&o.g, "third"));
    t = gguf_tensor(&o.g, "second");
    assert_non_null(t);
    assert_int_equal(t->view.n_dims, 2);
    assert_int_equal(t->view.shape[0], 2);
    assert_int_equal(t->view.shape[1], 3);
    assert_int_equal(t->view.dtype, DT_F32);
    view_row_f32(&t->view, 1, row);
    assert_true(row[0] == 0.01f * 3 && row[2] == 0.01f * 5);
    t = gguf_tensor(&o.g, "first");
    assert_int_equal(t->view.dtype, DT_Q8_0);
    assert_int_equal(view_bytes(&t->view), 3 * 2 * 34);
    assert_int_equal((size_t)((const char *)t->view.data - o.b.data) % 32, 0);
    close_good(&o);
}

static void numbers_come_in_any_width(void **state)
{
    struct opened o;
    struct err e;
    int64_t i;
    double f;
    bool b;

    open_good(&o);
    assert_int_equal(gguf_int(&o.g, "number", 0, 0, INT64_MAX, &i, &e), 0);
    assert_true(i == 4000000000);
    assert_int_equal(gguf_int(&o.g, "wide", 0, -10, 10, &i, &e), 0);
    assert_int_equal(i, -5);
    assert_int_equal(gguf_int(&o.g, "same", 0, 0, 10, &i, &e), 0);
    assert_int_equal(i, 7);
    assert_int_equal(gguf_int(&o.g, "missing", 42, 0, 1, &i, &e), 0);
    assert_int_equal(i, 42);
    assert_int_equal(gguf_float(&o.g, "real", 0, &f, &e), 0);
    assert_true(f == 0.125);
    assert_int_equal(gguf_float(&o.g, "float", 0, &f, &e), 0);
    assert_true(f == (double)1e-5f);
    assert_int_equal(gguf_float(&o.g, "wide", 0, &f, &e), 0);
    assert_true(f == -5);
    assert_int_equal(gguf_bool(&o.g, "yes", false, &b, &e), 0);
    assert_true(b);
    assert_int_equal(gguf_bool(&o.g, "no", true, &b, &e), 0);
    assert_false(b);
    assert_int_equal(gguf_bool(&o.g, "missing", true, &b, &e), 0);
    assert_true(b);
    close_good(&o);
}

static void arrays_and_strings_come_as_they_are(void **state)
{
    const struct json_str *list;
    struct json_str text;
    struct arena a;
    struct opened o;
    const char *p;
    struct err e;
    size_t n;

    open_good(&o);
    arena_init(&a, MEM_CKPT);
    assert_int_equal(gguf_text(&o.g, "general.architecture", &text, &e), 0);
    assert_true(json_str_is(&text, "llama"));
    assert_int_equal(gguf_text(&o.g, "missing", &text, &e), 0);
    assert_null(text.s);
    assert_int_equal(gguf_strs(&o.g, "words", &a, &list, &n, &e), 0);
    assert_int_equal(n, 3);
    assert_true(json_str_is(&list[0], "one") && list[1].n == 0 && json_str_is(&list[2], "three"));
    assert_int_equal(gguf_strs(&o.g, "missing", &a, &list, &n, &e), 0);
    assert_true(!list && n == 0);
    assert_int_equal(gguf_words(&o.g, "floats", GGUF_F32, &p, &n, &e), 0);
    assert_int_equal(n, 2);
    assert_int_equal((unsigned char)p[7], 0xc0);
    assert_int_equal(gguf_words(&o.g, "missing", GGUF_F32, &p, &n, &e), 0);
    assert_null(p);
    arena_fini(&a);
    close_good(&o);
}

static void what_does_not_fit_is_named(void **state)
{
    const struct json_str *list;
    struct json_str text;
    struct arena a;
    struct opened o;
    const char *p;
    struct err e;
    int64_t i;
    size_t n;
    double f;
    bool b;

    open_good(&o);
    arena_init(&a, MEM_CKPT);
    help_refused(gguf_int(&o.g, "wide", 0, 0, 10, &i, &e), ERR_INPUT, &e, path, "wide", "-5", "0 to 10",
                 NULL);
    help_refused(gguf_int(&o.g, "words", 0, 0, 10, &i, &e), ERR_INPUT, &e, "words", "an array of 3 string",
                 NULL);
    help_refused(gguf_int(&o.g, "float", 0, 0, 10, &i, &e), ERR_INPUT, &e, "float", NULL);
    help_refused(gguf_int(&o.g, "other", 0, 0, 10, &i, &e), ERR_UNSUPPORTED, &e, "other", "layer to layer",
                 NULL);
    help_refused(gguf_float(&o.g, "yes", 0, &f, &e), ERR_INPUT, &e, "yes", "true", "number", NULL);
    help_refused(gguf_bool(&o.g, "number", 0, &b, &e), ERR_INPUT, &e, "number", "4000000000", NULL);
    help_refused(gguf_text(&o.g, "number", &text, &e), ERR_INPUT, &e, "number", "a string", NULL);
    help_refused(gguf_strs(&o.g, "same", &a, &list, &n, &e), ERR_INPUT, &e, "same", "an array of 3 i32",
                 NULL);
    help_refused(gguf_words(&o.g, "same", GGUF_F32, &p, &n, &e), ERR_INPUT, &e, "same", "f32", NULL);
    arena_fini(&a);
    close_good(&o);
}

static void getters_mark_what_was_asked_for(void **state)
{
    struct opened o;
    size_t asked = 0;
    struct err e;
    int64_t i;

    open_good(&o);
    gguf_int(&o.g, "same", 0, 0, 10, &i, &e);
    for (size_t k = 0; k < o.g.n_kv; k++)
        asked += o.g.kv[k].asked;
    assert_int_equal(asked, 1);
    close_good(&o);
}

static void text_must_be_text(void **state)
{
    struct ggufwrite w;
    struct json_str text;
    struct gguf g;
    struct buf b;
    struct err e;

    ggufwrite_init(&w);
    ggufwrite_str(&w, "bad", "\xff\xfe");
    buf_init(&b, MEM_CKPT);
    ggufwrite_finish(&w, &b);
    assert_int_equal(gguf_read(&g, b.data, b.len, path, &e), 0);
    help_refused(gguf_text(&g, "bad", &text, &e), ERR_INPUT, &e, path, "bad", "UTF-8", NULL);
    gguf_close(&g);
    buf_fini(&b);
    ggufwrite_fini(&w);
}

static void a_file_cut_off_anywhere_is_refused(void **state)
{
    struct ggufwrite w;
    struct buf b;
    struct err e;

    good_file(&w);
    buf_init(&b, MEM_CKPT);
    ggufwrite_finish(&w, &b);
    assert_int_equal(read_bytes(b.data, b.len, &e), 0);
    for (size_t n = 0; n < b.len; n++) {
        if (read_bytes(b.data, n, &e) == 0)
            fail_msg("%zu of %zu bytes are accepted", n, b.len);
        assert_non_null(strstr(e.msg, path));
    }
    buf_fini(&b);
    ggufwrite_fini(&w);
}

static void version_2_reads_and_others_are_refused(void **state)
{
    static const uint32_t versions[] = {0, 1, 4, 0x03000000};
    struct ggufwrite w;
    struct err e;

    good_file(&w);
    w.version = 2;
    assert_int_equal(read_file(&w, &e), 0);
    for (size_t i = 0; i < 4; i++) {
        good_file(&w);
        w.version = versions[i];
        help_refused(read_file(&w, &e), ERR_UNSUPPORTED, &e, path, i == 3 ? "big-endian" : "version", NULL);
    }
    help_refused(read_bytes("GGML____________________", 24, &e), ERR_INPUT, &e, path, "GGUF", NULL);
}

static void counts_that_no_file_could_hold_are_refused_at_once(void **state)
{
    struct ggufwrite w;
    struct err e;
    size_t before = mem_live_bytes();

    good_file(&w);
    w.n_kv = UINT64_MAX;
    help_refused(read_file(&w, &e), ERR_INPUT, &e, path, NULL);
    good_file(&w);
    w.n_tensors = UINT64_MAX / 2;
    help_refused(read_file(&w, &e), ERR_INPUT, &e, path, NULL);
    assert_int_equal(mem_live_bytes(), before);
}

/* A file whose last entry is KEY of TYPE with the bytes RAW. */
static int with_entry(const char *key, uint32_t type, const void *raw, size_t n, struct err *e)
{
    struct ggufwrite w;

    ggufwrite_init(&w);
    ggufwrite_u32(&w, "first", 1);
    ggufwrite_key(&w, key, type);
    ggufwrite_raw(&w, raw, n);
    return read_file(&w, e);
}

static void broken_entries_are_refused_with_their_key(void **state)
{
    static const uint64_t long_string[1] = {1000}, huge_string[1] = {UINT64_MAX};
    static const uint32_t nested[] = {9, 1, 0}, odd[] = {99, 1, 0}, huge_u64[] = {10, 0xffffffff, 0x7fffffff},
                          huge_strings[] = {8, 0xffffffff, 0xffffffff};
    struct err e;

    assert_int_equal(with_entry("k", 4, "1234", 4, &e), 0);
    help_refused(with_entry("first", 4, "1234", 4, &e), ERR_INPUT, &e, path, "first", "twice", NULL);
    help_refused(with_entry("", 4, "1234", 4, &e), ERR_INPUT, &e, path, "entry 1", "name", NULL);
    help_refused(with_entry("a\nb", 4, "1234", 4, &e), ERR_INPUT, &e, path, "entry 1", "control", NULL);
    help_refused(with_entry("\xff", 4, "1234", 4, &e), ERR_INPUT, &e, path, "entry 1", "UTF-8", NULL);
    help_refused(with_entry("k", 13, "1234", 4, &e), ERR_INPUT, &e, path, "key k", "type 13", NULL);
    help_refused(with_entry("k", 7, "\2", 1, &e), ERR_INPUT, &e, path, "key k", "bool", NULL);
    help_refused(with_entry("k", 8, long_string, 8, &e), ERR_INPUT, &e, path, "key k", "1000", NULL);
    help_refused(with_entry("k", 8, huge_string, 8, &e), ERR_INPUT, &e, path, "key k", NULL);
    help_refused(with_entry("k", 9, nested, 12, &e), ERR_UNSUPPORTED, &e, path, "key k", "arrays", NULL);
    help_refused(with_entry("k", 9, odd, 12, &e), ERR_INPUT, &e, path, "key k", "type 99", NULL);
    help_refused(with_entry("k", 9, huge_u64, 12, &e), ERR_INPUT, &e, path, "key k", NULL);
    help_refused(with_entry("k", 9, huge_strings, 12, &e), ERR_INPUT, &e, path, "key k", NULL);
}

static void alignment_is_a_power_of_two_and_kept(void **state)
{
    struct ggufwrite w;
    struct err e;

    ggufwrite_init(&w);
    w.alignment = 128;
    ggufwrite_u32(&w, "general.alignment", 128);
    ggufwrite_f32_tensor(&w, "a", (const size_t[]){3, 0}, NULL);
    ggufwrite_f32_tensor(&w, "b", (const size_t[]){3, 0}, NULL);
    assert_int_equal(read_file(&w, &e), 0);
    for (uint32_t a = 0; a < 100; a += 48) {
        ggufwrite_init(&w);
        ggufwrite_u32(&w, "general.alignment", a);
        help_refused(read_file(&w, &e), ERR_INPUT, &e, path, "general.alignment", NULL);
    }
    ggufwrite_init(&w);
    ggufwrite_u32(&w, "general.alignment", 64);
    ggufwrite_info(&w, "a", 0, (const uint64_t[]){1}, 1, 32);
    help_refused(read_file(&w, &e), ERR_INPUT, &e, path, "tensor a", "32", "alignment 64", NULL);
}

/* Reads a file with a tensor t of 24 bytes, followed by the given tensor info. */
static int with_info(const char *name, uint32_t type, const uint64_t *dim, uint32_t n_dims, uint64_t offset,
                     struct err *e)
{
    struct ggufwrite w;

    ggufwrite_init(&w);
    ggufwrite_f32_tensor(&w, "t", (const size_t[]){2, 3, 0}, NULL);
    ggufwrite_info(&w, name, type, dim, n_dims, offset);
    for (int i = 0; i < 40; i++)
        buf_char(&w.data, 1);
    return read_file(&w, e);
}

static void broken_tensors_are_refused_by_name(void **state)
{
    static const uint64_t two[] = {1, 2}, none[] = {0, 2}, huge[] = {UINT64_MAX / 4, 8}, nibbles[] = {1, 48},
                          many[] = {1, 1, 1, 1, 1}, large[] = {1000, 1000};
    struct err e;

    assert_int_equal(with_info("u", 0, two, 2, 32, &e), 0);
    assert_int_equal(with_info("u", 0, none, 2, 32, &e), 0); /* Empty tensors take no space. */
    help_refused(with_info("t", 0, two, 2, 32, &e), ERR_INPUT, &e, path, "tensor t", "twice", NULL);
    help_refused(with_info("u", 0, two, 0, 32, &e), ERR_INPUT, &e, path, "tensor u", "0 dimensions", NULL);
    help_refused(with_info("u", 0, many, 5, 32, &e), ERR_INPUT, &e, path, "tensor u", "5 dimensions", NULL);
    help_refused(with_info("u", 0, huge, 2, 32, &e), ERR_INPUT, &e, path, "tensor u", "address", NULL);
    help_refused(with_info("u", 0, large, 2, 32, &e), ERR_INPUT, &e, path, "tensor u", "4000000 bytes", NULL);
    help_refused(with_info("u", 16, two, 2, 32, &e), ERR_UNSUPPORTED, &e, path, "tensor u", "IQ2_XXS", NULL);
    help_refused(with_info("u", 4, two, 2, 32, &e), ERR_UNSUPPORTED, &e, path, "tensor u", "Q4_2", NULL);
    help_refused(with_info("u", 1000, two, 2, 32, &e), ERR_UNSUPPORTED, &e, path, "tensor u", "1000", NULL);
    help_refused(with_info("u", 2, nibbles, 2, 32, &e), ERR_INPUT, &e, path, "tensor u", "48", "Q4_0", "32",
                 NULL);
    help_refused(with_info("u", 0, two, 2, 33, &e), ERR_INPUT, &e, path, "tensor u", "33", "alignment", NULL);
    help_refused(with_info("u", 0, two, 2, UINT64_MAX - 31, &e), ERR_INPUT, &e, path, "tensor u", NULL);
    help_refused(with_info("u", 0, two, 2, 96, &e), ERR_INPUT, &e, path, "tensor u", "96", NULL);
    help_refused(with_info("u", 0, two, 2, 0, &e), ERR_INPUT, &e, path, "overlaps", NULL);
    help_refused(with_info("", 0, two, 2, 32, &e), ERR_INPUT, &e, path, "tensor 1", "name", NULL);
    help_refused(with_info("a\x7f", 0, two, 2, 32, &e), ERR_INPUT, &e, path, "tensor 1", "control", NULL);
}

static int open_and_close(void *arg, struct err *e)
{
    const struct buf *b = arg;
    struct gguf g;
    int rc = gguf_read(&g, b->data, b->len, path, e);

    gguf_close(&g);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    struct ggufwrite w;
    struct buf b;

    good_file(&w);
    buf_init(&b, MEM_CKPT);
    ggufwrite_finish(&w, &b);
    help_every_allocation(open_and_close, &b);
    buf_fini(&b);
    ggufwrite_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_have_their_shape_outermost_first),
        cmocka_unit_test(numbers_come_in_any_width),
        cmocka_unit_test(arrays_and_strings_come_as_they_are),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(getters_mark_what_was_asked_for),
        cmocka_unit_test(text_must_be_text),
        cmocka_unit_test(a_file_cut_off_anywhere_is_refused),
        cmocka_unit_test(version_2_reads_and_others_are_refused),
        cmocka_unit_test(counts_that_no_file_could_hold_are_refused_at_once),
        cmocka_unit_test(broken_entries_are_refused_with_their_key),
        cmocka_unit_test(alignment_is_a_power_of_two_and_kept),
        cmocka_unit_test(broken_tensors_are_refused_by_name),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("ckpt/gguf", tests, NULL, NULL);
}
