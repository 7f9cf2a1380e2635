/* test_dtype.c - element types: names, sizes, and conversions of all 65536 values and at every rounding
 * edge. */
#include <math.h>

#include "tensor/dtype.h"

static float of_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static void names_and_sizes_are_those_of_safetensors(void **state)
{
    static const struct {
        const char *name;
        size_t bytes;
        bool weight;
    } t[] = {{"F32", 4, true},  {"F16", 2, true},   {"BF16", 2, true},     {"F64", 8, false},
             {"I64", 8, false}, {"I32", 4, false},  {"I16", 2, false},     {"I8", 1, false},
             {"U8", 1, false},  {"BOOL", 1, false}, {"F8_E4M3", 1, false}, {"F8_E5M2", 1, false},
             {"U16", 2, false}, {"U32", 4, false},  {"U64", 8, false}};
    enum dtype d;

    assert_int_equal(sizeof(t) / sizeof(t[0]), DT_I4);
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        assert_true(dtype_of_name(t[i].name, strlen(t[i].name), &d));
        assert_string_equal(dtype_name(d), t[i].name);
        assert_int_equal(dtype_bytes(d), t[i].bytes);
        assert_int_equal(dtype_is_weight(d), t[i].weight);
        assert_false(dtype_of_name(t[i].name, strlen(t[i].name) - 1, &d));
    }
    assert_false(dtype_of_name("", 0, &d));
    assert_false(dtype_of_name("f32", 3, &d));
    assert_false(dtype_of_name("F32x", 4, &d));
}

static void block_types_are_weights_but_no_types_of_safetensors(void **state)
{
    static const struct {
        enum dtype t;
        const char *name;
        size_t block, bytes;
    } q[] = {{DT_Q4_0, "Q4_0", 32, 18},   {DT_Q4_1, "Q4_1", 32, 20},     {DT_Q5_0, "Q5_0", 32, 22},
             {DT_Q5_1, "Q5_1", 32, 24},   {DT_Q8_0, "Q8_0", 32, 34},     {DT_Q2_K, "Q2_K", 256, 84},
             {DT_Q3_K, "Q3_K", 256, 110}, {DT_Q4_K, "Q4_K", 256, 144},   {DT_Q5_K, "Q5_K", 256, 176},
             {DT_Q6_K, "Q6_K", 256, 210}, {DT_IQ4_NL, "IQ4_NL", 32, 18}, {DT_IQ4_XS, "IQ4_XS", 256, 136},
             {DT_MXFP4, "MXFP4", 32, 17}};
    enum dtype d;

    assert_int_equal(sizeof(q) / sizeof(q[0]), DT_N - DT_Q4_0);
    for (size_t i = 0; i < sizeof(q) / sizeof(q[0]); i++) {
        assert_string_equal(dtype_name(q[i].t), q[i].name);
        assert_int_equal(dtype_group(q[i].t), q[i].block);
        assert_int_equal(dtype_bytes(q[i].t), q[i].bytes);
        assert_true(dtype_is_grouped(q[i].t) && dtype_is_weight(q[i].t));
        assert_false(dtype_of_name(q[i].name, strlen(q[i].name), &d));
    }
    assert_false(dtype_is_grouped(DT_BF16));
    assert_false(dtype_of_name("I4", 2, &d)); /* no tensor has this dtype */
    assert_int_equal(dtype_group(DT_BF16), 1);
}

/* Returns the value of a half from its definition. */
static double half_value(unsigned h)
{
    int exp = h >> 10 & 31, man = h & 1023;
    double v = exp == 0 ? ldexp(man, -24) : ldexp(1024 + man, exp - 25);

    return h & 0x8000 ? -v : v;
}

static void every_half_becomes_its_value(void **state)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = dtype_f16_to_f32((uint16_t)h);

        if ((h & 0x7c00) == 0x7c00) {
            assert_true(h & 1023 ? isnan(f) : isinf(f));
        } else {
            assert_true((double)f == half_value(h));
        }
        assert_int_equal(signbit(f) != 0, h >> 15);
    }
}

static void every_half_survives_the_way_there_and_back(void **state)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        uint16_t back = dtype_f32_to_f16(dtype_f16_to_f32((uint16_t)h));

        if ((h & 0x7c00) == 0x7c00 && (h & 1023))
            assert_true((back & 0x7e00) == 0x7e00 && (back >> 15) == (h >> 15)); /* a quiet NaN */
        else
            assert_int_equal(back, h);
    }
}

static void between_two_halves_the_nearer_even_one_is_taken(void **state)
{
    for (unsigned h = 0; h < 0x7c00; h++) {
        double a = half_value(h), b = h + 1 == 0x7c00 ? 65536 : half_value(h + 1), mid = (a + b) / 2;
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
        float m = (float)mid; /* exact, with one bit more than a half has */

        assert_true((double)m == mid);
        assert_int_equal(dtype_f32_to_f16(m), even);
        assert_int_equal(dtype_f32_to_f16(-m), even | 0x8000);
        assert_int_equal(dtype_f32_to_f16(nextafterf(m, 0)), h);
        assert_int_equal(dtype_f32_to_f16(nextafterf(m, 1e30f)), h + 1);
    }
    assert_int_equal(dtype_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(dtype_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(dtype_f32_to_f16(1e-30f), 0);
    assert_int_equal(dtype_f32_to_f16(of_bits(1)), 0); /* a subnormal float */
    assert_int_equal(dtype_f32_to_f16(-0.0f), 0x8000);
}

static void every_bfloat16_is_the_upper_half_of_a_float(void **state)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        assert_int_equal(bits_of(dtype_bf16_to_f32((uint16_t)h)), h << 16);
        if ((h & 0x7f80) != 0x7f80 || !(h & 0x7f))
            assert_int_equal(dtype_f32_to_bf16(of_bits(h << 16)), h);
        else /* NaNs stay NaNs and become quiet. */
            assert_int_equal(dtype_f32_to_bf16(of_bits(h << 16)), h | 0x40);
    }
}

static void between_two_bfloat16_the_nearer_even_one_is_taken(void **state)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7f80) == 0x7f80)
            continue;
        assert_int_equal(dtype_f32_to_bf16(of_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(dtype_f32_to_bf16(of_bits(h << 16 | 0x8000)), h + (h & 1));
        assert_int_equal(dtype_f32_to_bf16(of_bits(h << 16 | 0x8001)),
                         h + 1); /* The largest number becomes infinity. */
    }
    assert_true(isnan(
        dtype_bf16_to_f32(dtype_f32_to_bf16(of_bits(0x7f800001))))); /* Its payload is in the lower half. */
}

static void rows_convert_at_any_address_and_stride(void **state)
{
    static const enum dtype type[] = {DT_F32, DT_F16, DT_BF16};

    for (size_t t = 0; t < 3; t++)
        for (size_t shift = 0; shift < 4; shift++)
            for (size_t stride = 0; stride < 4; stride++) {
                size_t n = 5, size = dtype_bytes(type[t]), bytes = shift + ((n - 1) * stride + 1) * size;
                /* The size is exact, so that a sanitizer sees a read after the end. */
                char *block = malloc(bytes);
                float out[5] = {0};

                assert_non_null(block);
                for (size_t i = 0; i < n; i++) {
                    float f = (float)(stride ? i : 4) - 1.5f;
                    uint16_t h = type[t] == DT_F16 ? dtype_f32_to_f16(f) : dtype_f32_to_bf16(f);
                    memcpy(block + shift + i * stride * size, size == 4 ? (void *)&f : (void *)&h, size);
                }
                dtype_to_f32(out, block + shift, type[t], n, stride);
                for (size_t i = 0; i < n; i++)
                    assert_true(out[i] == (float)(stride ? i : 4) - 1.5f);
                free(block);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes_are_those_of_safetensors),
        cmocka_unit_test(block_types_are_weights_but_no_types_of_safetensors),
        cmocka_unit_test(every_half_becomes_its_value),
        cmocka_unit_test(every_half_survives_the_way_there_and_back),
        cmocka_unit_test(between_two_halves_the_nearer_even_one_is_taken),
        cmocka_unit_test(every_bfloat16_is_the_upper_half_of_a_float),
        cmocka_unit_test(between_two_bfloat16_the_nearer_even_one_is_taken),
        cmocka_unit_test(rows_convert_at_any_address_and_stride),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
