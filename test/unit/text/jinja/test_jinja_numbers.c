/* test_jinja_numbers.c - arithmetic of 64-bit integers by identities and at the limits, floats that are
 * parsed from their own text, and rounding of exact values. */
#include "base/buf.h"
#include "jinjacase.h"

static uint64_t seed = 1442695040888963407u;

static uint32_t dice(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* Returns a number of at most BITS bits, often near a power of two. */
static int64_t number(uint32_t bits)
{
    uint64_t all = (uint64_t)dice(UINT32_MAX) << 31 ^ dice(UINT32_MAX);
    uint32_t n = 1 + dice(bits);
    int64_t v = dice(4) ? (int64_t)(all >> (64 - n)) : (int64_t)(UINT64_C(1) << (n - 1)) + (int)dice(5) - 2;

    return dice(2) ? -v : v;
}

static void quotient_and_remainder_do_not_give_the_dividend_back(void **state)
{
    for (int i = 0; i < 500; i++) {
        long long a = number(62), b = number(62);
        char template[400];

        snprintf(template, sizeof(template),
                 "{%% set a = %lld %%}{%% set b = %lld or 1 %%}{%% set q = a // b %%}{%% set r = a %% b %%}"
                 "{{ q * b + r == a }} {{ r == 0 or (r > 0) == (b > 0) }} {{ (r | abs) < (b | abs) }}",
                 a, b);
        assert_true(jinjacase_gives(template, "{}", "True True True"));
    }
}

static void arithmetic_breaks_its_laws(void **state)
{
    for (int i = 0; i < 500; i++) {
        long long a = number(29), b = number(29);
        char template[400];

        snprintf(template, sizeof(template),
                 "{%% set a = %lld %%}{%% set b = %lld %%}{{ (a + b) * (a - b) == a * a - b * b }} "
                 "{{ a - b == -(b - a) }} {{ (a + b) ** 2 == a ** 2 + 2 * a * b + b ** 2 }} "
                 "{{ (a ~ '') | int == a }} {{ (a < b) == (b > a) }}",
                 a, b);
        assert_true(jinjacase_gives(template, "{}", "True True True True True"));
    }
}

static void integers_and_floats_compare_by_their_rounded_values(void **state)
{
    assert_true(jinjacase_gives(
        "{{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }} "
        "{{ 9223372036854775807 == 9223372036854775808.0 }} {{ 2 ** 62 - 1 < 4611686018427387904.0 }} "
        "{{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ 1e400 > 2 ** 62 }} {{ (1e400 - 1e400) == 1 }}",
        "{}", "False True False True {1: 'c'} True False"));
}

static void an_integer_beyond_64_bits_wraps_around(void **state)
{
    static const char *const beyond[] = {"9223372036854775807 + 1",
                                         "-9223372036854775807 - 2",
                                         "3037000500 * 3037000500",
                                         "2 ** 63",
                                         "(-2) ** 65",
                                         "-(-9223372036854775807 - 1)",
                                         "(-9223372036854775807 - 1) // -1",
                                         "(-9223372036854775807 - 1) | abs",
                                         "18446744073709551615 + 1",
                                         "18446744073709551615 % 10",
                                         "18446744073709551615 // 10",
                                         "18446744073709551615 ** 2",
                                         "18446744073709551615 | round(-1)",
                                         "[9223372036854775807, 1] | sum",
                                         "'ffffffffffffffffff' | int(0, 16)",
                                         "9223372036854775807 | round(-1)"};

    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        char template[100];

        snprintf(template, sizeof(template), "{{ %s }}", beyond[i]);
        assert_true(jinjacase_refused(template, "{}", "64 bits"));
    }
    assert_true(jinjacase_gives(
        "{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ (-2) ** 63 }} "
        "{{ (-9223372036854775807 - 1) % -1 }} {{ 3037000499 * 3037000499 }}",
        "{}", "9223372036854775807 -9223372036854775808 -9223372036854775808 0 9223372030926249001"));
    assert_true(jinjacase_gives(
        "{{ 9223372036854775807.0 | int }} {{ '9223372036854775808' | int }} {{ '-0018446744073709551615' | int }} "
        "{{ '+18_446744073709551615' | int }} {{ 1e30 | int }} {{ 18_446744073709551615 }}",
        "{}",
        "9223372036854775808 9223372036854775808 -18446744073709551615 18446744073709551615 "
        "1000000000000000019884624838656 18446744073709551615"));
}

static void a_float_is_printed_with_digits_that_read_back_as_another(void **state)
{
    for (int i = 0; i < 2000; i++) {
        uint64_t bits = (uint64_t)dice(UINT32_MAX) << 32 ^ (uint64_t)dice(UINT32_MAX) << 1 ^ dice(2);
        char text[64], variables[80];
        struct err e = {0};
        struct buf out;
        double f, back;

        memcpy(&f, &bits, sizeof(f));
        if (f != f || f - f != 0)
            continue;
        snprintf(text, sizeof(text), "%.17g", f);
        snprintf(variables, sizeof(variables), "{\"f\": %s%s}", text, strpbrk(text, ".e") ? "" : ".0");
        assert_int_equal(jinjacase_render("{{ f }}", variables, &out, &e), 0);
        back = strtod(out.data, NULL);
        assert_memory_equal(&back, &f, sizeof(f));
        if (out.len > strlen(text) + 5)
            fail_msg("%s is printed as %s", text, out.data);
        buf_fini(&out);
    }
}

static void rounding_goes_by_the_written_digits(void **state)
{
    assert_true(jinjacase_gives(
        "{{ 0.5 | round }} {{ 1.5 | round }} {{ 2.5 | round }} {{ 2.675 | round(2) }} "
        "{{ 1.005 | round(2) }} {{ 150 | round(-2) }} {{ 250 | round(-2) }} {{ -0.5 | round }} "
        "{{ 2.1 | round(method='ceil') }} {{ -2.1 | round(method='floor') }}",
        "{}", "0.0 2.0 2.0 2.67 1.0 200 200 -0.0 3.0 -3.0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotient_and_remainder_do_not_give_the_dividend_back),
        cmocka_unit_test(arithmetic_breaks_its_laws),
        cmocka_unit_test(integers_and_floats_compare_by_their_rounded_values),
        cmocka_unit_test(an_integer_beyond_64_bits_wraps_around),
        cmocka_unit_test(a_float_is_printed_with_digits_that_read_back_as_another),
        cmocka_unit_test(rounding_goes_by_the_written_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
