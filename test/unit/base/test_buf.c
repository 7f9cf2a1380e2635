/* test_buf.c - growing buffers: content, an allocation failure that sticks, and JSON strings that are always
 * valid. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "base/utf8.h"

static void what_is_added_stands_in_a_row_and_is_terminated(void **state)
{
    struct buf b;

    buf_init(&b, MEM_TEXT);
    assert_null(b.data);
    buf_str(&b, "ab");
    buf_char(&b, 0);
    buf_add(&b, "c\0d", 3);
    buf_add(&b, "", 0);
    buf_fmt(&b, "%d-%s", 42, "x");
    assert_int_equal(b.len, 10);
    assert_memory_equal(b.data, "ab\0c\0d42-x\0", 11);
    for (int i = 0; i < 10000; i++)
        buf_fmt(&b, "%d,", i);
    assert_int_equal(b.len, 10 + 48890);
    assert_string_equal(b.data + b.len - 5, "9999,");
    assert_true(mem_tag_bytes(MEM_TEXT) == b.cap && b.cap > b.len);
    buf_clear(&b);
    assert_true(b.len == 0 && b.data[0] == 0);
    buf_fini(&b);
    assert_null(b.data);
    buf_fini(&b);
    assert_int_equal(mem_live_blocks(), 0);
}

static void lack_of_memory_is_remembered_and_keeps_what_was_there(void **state)
{
    struct buf b;

    buf_init(&b, MEM_TEXT);
    buf_str(&b, "abc");
    mem_fail_at(1);
    buf_fmt(&b, "%100d", 1);
    assert_true(mem_failed() && b.oom);
    mem_fail_at(0);
    buf_str(&b, "d"); /* This would fit. */
    assert_true(b.oom);
    assert_string_equal(b.data, "abc");
    assert_int_equal(b.len, 3);
    buf_clear(&b);
    buf_str(&b, "d");
    assert_false(b.oom);
    assert_string_equal(b.data, "d");
    buf_add(&b, "x", SIZE_MAX - 1);
    assert_true(b.oom);
    buf_fini(&b);
}

/* The JSON literal of S[n]. */
static void literal(struct buf *b, const char *s, size_t n)
{
    buf_clear(b);
    buf_json_str(b, s, n);
    assert_false(b->oom);
}

static void json_strings_escape_what_they_must(void **state)
{
    struct buf b;

    buf_init(&b, MEM_TEXT);
    literal(&b, "a\"b\\c/\n\r\t\b\f\x01\x1f\x7f", 14);
    assert_string_equal(b.data, "\"a\\\"b\\\\c/\\n\\r\\t\\b\\f\\u0001\\u001f\\u007f\"");
    literal(&b, "x\0y", 3);
    assert_string_equal(b.data, "\"x\\u0000y\"");
    literal(&b, "\xc3\xa9\xf0\x9f\x98\x80", 6);
    assert_string_equal(b.data, "\"\xc3\xa9\xf0\x9f\x98\x80\"");
    literal(&b, "\xe2\x80\xa8\xe2\x80\xa7", 6);
    assert_string_equal(b.data, "\"\\u2028\xe2\x80\xa7\"");
    literal(&b,
            "a\xf0\x9f"
            "b\xff",
            5);
    assert_string_equal(b.data, "\"a\xef\xbf\xbd"
                                "b\xef\xbf\xbd\"");
    literal(&b, NULL, 0);
    assert_string_equal(b.data, "\"\"");
    buf_fini(&b);
}

static void any_bytes_make_a_json_string_that_reads_back(void **state)
{
    uint64_t seed = 88172645463325252u;
    struct arena a;
    struct buf b;
    struct err e;

    buf_init(&b, MEM_TEXT);
    arena_init(&a, MEM_TEXT);
    for (int round = 0; round < 20000; round++) {
        char in[24];
        size_t n = (size_t)round % sizeof(in), i = 0, o = 0;
        struct json_str s;
        struct json_pull j;

        for (size_t k = 0; k < n; k++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            in[k] = "\"\\\n\xe2\x80\xa8"[seed % 6]; /* Half of the characters are special ones. */
            if (seed % 4 < 2)
                in[k] = (char)(seed >> 20);
        }
        literal(&b, in, n);
        assert_int_equal(json_pull_open(&j, b.data, b.len, "literal", &a, &e), 0);
        assert_true(json_pull_string(&j, &s));
        assert_int_equal(json_pull_finish(&j), 0);
        while (i < n) { /* Well-formed characters are copied, and U+FFFD replaces the others. */
            bool good;
            size_t step = utf8_sequence(in + i, n - i, &good);

            assert_true(o + (good ? step : 3) <= s.n);
            assert_memory_equal(s.s + o, good ? in + i : "\xef\xbf\xbd", good ? step : 3);
            o += good ? step : 3;
            i += step;
        }
        assert_int_equal(o, s.n);
        arena_fini(&a);
    }
    arena_fini(&a);
    buf_fini(&b);
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_stands_in_a_row_and_is_terminated),
        cmocka_unit_test(lack_of_memory_is_remembered_and_keeps_what_was_there),
        cmocka_unit_test(json_strings_escape_what_they_must),
        cmocka_unit_test(any_bytes_make_a_json_string_that_reads_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
