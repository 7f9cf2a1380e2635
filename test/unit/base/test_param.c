/* test_param.c - rows of parameters: the values that JSON and structs may have, on both sides of every limit, and the
 * sentences about others. */
#include <math.h>

#include "base/json/json_pull.h"
#include "base/mem.h"
#include "base/param/param.h"
#include "base/param/param_json.h"

struct all {
    bool flag;
    int whole, index;
    size_t count;
    unsigned narrow;
    int64_t any;
    uint64_t bits;
    double share, open, real;
    const char *text, *choice;
};

#define ROW(member, type, values)                               \
    {                                                           \
#member, type, values, PARAM_MEMBER(struct all, member) \
    }

static const struct param flag = ROW(flag, PARAM_FLAG, NULL), whole = ROW(whole, PARAM_INT, "[-1,64]"),
                          count = ROW(count, PARAM_INT, "[0,inf)"), any = ROW(any, PARAM_INT, NULL),
                          bits = ROW(bits, PARAM_BITS, NULL),
                          narrow = ROW(narrow, PARAM_INT, "[0,4294967295]"),
                          share = ROW(share, PARAM_REAL, "(0,1]"), open = ROW(open, PARAM_REAL, "[0.5,1)"),
                          real = ROW(real, PARAM_REAL, NULL), text = ROW(text, PARAM_TEXT, "usual|values"),
                          choice = ROW(choice, PARAM_CHOICE, "auto|fp32|true"),
                          index_ = ROW(index, PARAM_CHOICE, "false|true|never");

static struct arena arena;
static struct all all;
static struct err e;

static int setup(void **state)
{
    arena_init(&arena, MEM_APP);
    all = (struct all){0};
    return 0;
}

static int teardown(void **state)
{
    arena_fini(&arena);
    return 0;
}

/* Reads the JSON text FROM into the member of P. */
static int read_json(const struct param *p, const char *from)
{
    json_t *v;
    int rc;

    e = (struct err){0};
    assert_int_equal(json_pull_load_exact(&v, from, strlen(from), "the value", &e), 0);
    rc = param_read_json(p, v, &all, &arena, &e);
    json_decref(v);
    return rc;
}

#define READS(p, from, member, value)               \
    do {                                            \
        assert_int_equal(read_json(&(p), from), 0); \
        assert_true(all.member == (value));         \
    } while (0)

#define REFUSES(p, from, sentence)                          \
    do {                                                    \
        assert_int_equal(read_json(&(p), from), ERR_INPUT); \
        assert_string_equal(e.subject, (p).name);           \
        assert_string_equal(e.msg, sentence);               \
    } while (0)

static void json_is_read_up_to_both_limits(void **state)
{
    READS(flag, "true", flag, true);
    READS(flag, "false", flag, false);
    READS(whole, "-1", whole, -1);
    READS(whole, "64", whole, 64);
    READS(whole, "64.0", whole, 64);
    READS(whole, "-0.0", whole, 0);
    READS(count, "9223372036854775807", count, INT64_MAX);
    READS(count, "9007199254740992.0", count, 9007199254740992);
    READS(any, "-9223372036854775808", any, INT64_MIN);
    READS(bits, "18446744073709551615", bits, UINT64_MAX);
    READS(bits, "-1", bits, UINT64_MAX);
    READS(bits, "3.0", bits, 3);
    READS(share, "1", share, 1);
    READS(share, "1e-300", share, 1e-300);
    READS(open, "0.5", open, 0.5);
    READS(open, "0.99", open, 0.99);
    READS(real, "-1e308", real, -1e308);
    READS(index_, "\"never\"", index, 2);
    READS(index_, "true", index, 1);
    READS(index_, "false", index, 0);
    assert_int_equal(read_json(&choice, "\"fp32\""), 0);
    assert_string_equal(all.choice, "fp32");
    assert_int_equal(read_json(&choice, "true"), 0);
    assert_string_equal(all.choice, "true");
    assert_int_equal(read_json(&text, "\"any text\""), 0);
    assert_string_equal(all.text, "any text");
}

static void json_beyond_a_limit_or_of_another_type_is_refused(void **state)
{
    const struct all before = all;

    REFUSES(flag, "1", "found 1, expected true or false");
    REFUSES(flag, "\"true\"", "found a string, expected true or false");
    REFUSES(whole, "-2", "found -2, expected a whole number in [-1,64]");
    REFUSES(whole, "65", "found 65, expected a whole number in [-1,64]");
    REFUSES(whole, "1.5", "found 1.5, expected a whole number in [-1,64]");
    REFUSES(whole, "4294967297", "found 4294967297, expected a whole number in [-1,64]");
    REFUSES(whole, "123456789012345678901234567890123",
            "found 123456789012345678901234567890, expected a whole number in [-1,64]");
    REFUSES(whole, "true", "found true, expected a whole number in [-1,64]");
    REFUSES(whole, "null", "found null, expected a whole number in [-1,64]");
    REFUSES(count, "-1", "found -1, expected a whole number in [0,inf)");
    REFUSES(any, "9007199254740994.0", "found 9007199254740994.0, expected a whole number");
    REFUSES(any, "1e300", "found 1e+300, expected a whole number");
    REFUSES(bits, "0.5", "found 0.5, expected a whole number of 64 bits");
    REFUSES(bits, "18446744073709551616", "found 18446744073709551616, expected a whole number of 64 bits");
    REFUSES(share, "0", "found 0, expected a number in (0,1]");
    REFUSES(share, "1.0000001", "found 1.0000001, expected a number in (0,1]");
    REFUSES(share, "{}", "found an object, expected a number in (0,1]");
    REFUSES(open, "0.4999", "found 0.4999, expected a number in [0.5,1)");
    REFUSES(open, "1", "found 1, expected a number in [0.5,1)");
    REFUSES(real, "[]", "found an empty list, expected a number");
    REFUSES(real, "[1]", "found a list, expected a number");
    REFUSES(real, "\"\"", "found an empty string, expected a number");
    REFUSES(text, "false", "found false, expected a string");
    REFUSES(text, "\"a\\u0000b\"", "found a NUL character in a string, expected a string");
    REFUSES(choice, "\"fp\"", "found a string, expected one of auto|fp32|true");
    REFUSES(choice, "\"auto|fp32\"", "found a string, expected one of auto|fp32|true");
    REFUSES(choice, "\"auto\\u0000\"", "found a string, expected one of auto|fp32|true");
    REFUSES(choice, "false", "found false, expected one of auto|fp32|true");
    REFUSES(index_, "2", "found 2, expected one of false|true|never");
    assert_memory_equal(&all, &before, sizeof(all));
}

#define GOOD(p, member, value)                            \
    do {                                                  \
        all.member = (value);                             \
        assert_int_equal(param_check(&(p), &all, &e), 0); \
    } while (0)

#define BAD(p, member, value, sentence)                           \
    do {                                                          \
        all.member = (value);                                     \
        assert_int_equal(param_check(&(p), &all, &e), ERR_INPUT); \
        assert_string_equal(e.subject, (p).name);                 \
        assert_string_equal(e.msg, sentence);                     \
    } while (0)

static void a_struct_is_checked_on_both_sides_of_every_limit(void **state)
{
    GOOD(whole, whole, -1);
    GOOD(whole, whole, 64);
    BAD(whole, whole, -2, "found -2, expected a whole number in [-1,64]");
    BAD(whole, whole, 65, "found 65, expected a whole number in [-1,64]");
    GOOD(count, count, SIZE_MAX);
    GOOD(any, any, INT64_MIN);
    GOOD(bits, bits, UINT64_MAX);
    GOOD(share, share, 1);
    BAD(share, share, 0, "found 0, expected a number in (0,1]");
    BAD(share, share, 1.5, "found 1.5, expected a number in (0,1]");
    BAD(share, share, NAN, "found nan, expected a number in (0,1]");
    GOOD(real, real, -1e308);
    BAD(real, real, INFINITY, "found inf, expected a number");
    BAD(real, real, -INFINITY, "found -inf, expected a number");
    GOOD(text, text, "anything");
    GOOD(choice, choice, "true");
    BAD(choice, choice, "", "found '', expected one of auto|fp32|true");
    BAD(choice, choice, "tru", "found 'tru', expected one of auto|fp32|true");
    GOOD(index_, index, 2);
    BAD(index_, index, 3, "found 3, expected one of false|true|never");
    BAD(index_, index, -1, "found -1, expected one of false|true|never");
}

static void a_value_is_loaded_as_it_was_stored(void **state)
{
    const struct param *const rows[] = {&whole, &count, &any, &bits, &index_};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int64_t x = 0; x < 3; x++) {
            param_store(rows[i], &(struct param_value){.i = x}, &all);
            assert_true(param_load(rows[i], &all).i == x && param_load(rows[i], &all).f == (double)x);
        }
    param_store(&whole, &(struct param_value){.i = -1}, &all);
    assert_true(param_load(&whole, &all).i == -1 && param_load(&whole, &all).f == -1);
    param_store(&narrow, &(struct param_value){.i = UINT32_MAX}, &all);
    assert_true(param_load(&narrow, &all).i == UINT32_MAX && param_load(&narrow, &all).f == UINT32_MAX);
    param_store(&real, &(struct param_value){.i = -1, .f = NAN}, &all);
    assert_true(isnan(param_load(&real, &all).f));
    param_store(&flag, &(struct param_value){.i = 2}, &all);
    assert_true(all.flag && param_load(&flag, &all).i == 1);
    param_store(&text, &(struct param_value){.text = "x"}, &all);
    assert_string_equal(param_load(&text, &all).text, "x");
}

static void a_row_fits_its_member_if_that_holds_every_value(void **state)
{
    const struct param bad[] = {ROW(whole, PARAM_INT, "[0,2147483648]"),
                                ROW(whole, PARAM_INT, NULL),
                                ROW(count, PARAM_INT, "[-1,1]"),
                                ROW(real, PARAM_INT, "[0,1]"),
                                ROW(any, PARAM_BITS, NULL),
                                ROW(any, PARAM_REAL, NULL),
                                ROW(flag, PARAM_CHOICE, "a|b|c"),
                                ROW(real, PARAM_CHOICE, "a"),
                                ROW(whole, PARAM_TEXT, NULL),
                                ROW(text, PARAM_FLAG, NULL),
                                ROW(count, PARAM_INT, "[0,1"),
                                ROW(count, PARAM_INT, "[1,0]")};
    const struct param good[] = {flag,
                                 whole,
                                 count,
                                 any,
                                 bits,
                                 narrow,
                                 share,
                                 open,
                                 real,
                                 text,
                                 choice,
                                 index_,
                                 ROW(flag, PARAM_CHOICE, "a|b"),
                                 ROW(whole, PARAM_FLAG, NULL)};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(param_fits(&bad[i]));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(param_fits(&good[i]));
}

static void a_name_is_found_in_a_list_only_as_a_whole(void **state)
{
    assert_int_equal(param_index("a|bc|d", "a", 1), 0);
    assert_int_equal(param_index("a|bc|d", "bc", 2), 1);
    assert_int_equal(param_index("a|bc|d", "d", 1), 2);
    assert_int_equal(param_index("a|bc|d", "b", 1), -1);
    assert_int_equal(param_index("a|bc|d", "c", 1), -1);
    assert_int_equal(param_index("a|bc|d", "a|bc", 4), -1);
    assert_int_equal(param_index("a|bc|d", "", 0), -1);
    assert_int_equal(param_index(NULL, "a", 1), -1);
}

static void no_memory_for_a_text_is_reported(void **state)
{
    mem_fail_at(1);
    param_read_json(&text, json_true(), &all, &arena, &e); /* fails before it allocates */
    mem_fail_at(0);
    for (long n = 1;; n++) {
        json_t *v = json_string("a text");
        int rc;

        arena_fini(&arena);
        arena_init(&arena, MEM_APP);
        mem_fail_at(n);
        rc = param_read_json(&text, v, &all, &arena, &e);
        json_decref(v);
        if (!mem_failed())
            break;
        mem_fail_at(0);
        assert_int_equal(rc, ERR_NOMEM);
        assert_null(all.text);
    }
    mem_fail_at(0);
    assert_string_equal(all.text, "a text");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(json_is_read_up_to_both_limits),
        TEST(json_beyond_a_limit_or_of_another_type_is_refused),
        TEST(a_struct_is_checked_on_both_sides_of_every_limit),
        TEST(a_value_is_loaded_as_it_was_stored),
        TEST(a_row_fits_its_member_if_that_holds_every_value),
        TEST(a_name_is_found_in_a_list_only_as_a_whole),
        TEST(no_memory_for_a_text_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
