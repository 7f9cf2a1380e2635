/* test_kmath.c - exp, tanh, erf and the activations of kmath.h against double precision over whole ranges. */
#include <math.h>

#include "kern/kmath.h"

/* Returns the difference of Y and the exact value in units in the last place of fp32. */
static double ulps(float y, double exact)
{
    int e;

    frexp(exact, &e);
    return fabs((double)y - exact) / ldexp(1, e - 24);
}

/* Returns the STEP-th representable number after x. The steps are fine in the whole range. */
static float next(float x, uint32_t step)
{
    if (x < 0)
        return kmath_bits(-x) <= step ? 0.0f : -kmath_of_bits(kmath_bits(-x) - step);
    return kmath_of_bits(kmath_bits(x) + step);
}

/* Checks that F has an error of at most MOST units in the last place between FROM and TO. */
static void check_ulps(const char *name, float (*f)(float), double (*exact)(double), float from, float to,
                       double most)
{
    double worst = 0;
    float at = 0;

    for (float x = from; x < to; x = fabsf(x) < 1e-6f ? x + 1e-7f : next(x, 211)) {
        double u = ulps(f(x), exact((double)x));

        if (u > worst) {
            worst = u;
            at = x;
        }
    }
    if (worst > most)
        fail_msg("%s(%.9g) is off by %.3g ulp", name, (double)at, worst);
}

static void exp_is_within_two_ulp(void **state)
{
    check_ulps("exp", kmath_exp, exp, -86.98f, 88.7228f, 2);
}

static double minus_log(double x)
{
    return -log(x);
}

static float log_of(float x)
{
    return -kmath_log(x);
}

static void log_is_within_one_ulp(void **state)
{
    check_ulps("log", log_of, minus_log, 0x1p-33f, 64.0f, 1.1);
    check_ulps("log1p", kmath_log1p, log1p, -0.2928f, 0.4142f, 1.1);
    assert_true(kmath_log(1.0f) == 0);
}

/* The noise of all sizes is that of the double-precision formula, its largest value is below the bound by which
 * kernels skip elements, and the mean and the variance are Gumbel's. */
static void gumbel_noise_is_gumbels(void **state)
{
    const double euler = 0.57721566490153286, pi = 3.14159265358979323846;
    double sum = 0, squares = 0;
    size_t n = 0;

    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += bits < 5000 || bits > 4294960000 ? 1 : 9001) {
        double t = ((double)bits + 0.5) * 0x1p-32, exact = -log(-log1p(-t));
        double y = (double)kmath_gumbel((uint32_t)bits);

        if (fabs(y - exact) > 4e-7 * fmax(1, fabs(exact)))
            fail_msg("gumbel(%llu) is %.9g, expected %.9g", (unsigned long long)bits, y, exact);
        assert_true(y < (double)KMATH_GUMBEL_MAX);
    }
    for (uint32_t id = 0; id < 1000000; id++, n++) {
        double y = (double)kmath_gumbel(kmath_noise(id, (const uint32_t[]){77, 78}));

        sum += y;
        squares += y * y;
    }
    assert_true(fabs(sum / (double)n - euler) < 0.005);
    assert_true(fabs(squares / (double)n - (pi * pi / 6 + euler * euler)) < 0.02);
}

static void exp_ends_in_zero_and_infinity_without_subnormals(void **state)
{
    for (float x = 86.9f; x < 200.0f; x = next(x, 101)) {
        float y = kmath_exp(-x);

        assert_true(y == 0 ? x > 86.98f : y >= 0x1p-126f && x < 87.0f);
        assert_false(signbit(y));
    }
    assert_true(kmath_exp(-87.0f) == 0 && kmath_exp(-INFINITY) == 0);
    assert_true(kmath_exp(88.72283f) < INFINITY);
    assert_true(kmath_exp(88.7229f) == INFINITY && kmath_exp(1e30f) == INFINITY &&
                kmath_exp(INFINITY) == INFINITY);
    assert_true(kmath_exp(0.0f) == 1 && kmath_exp(-0.0f) == 1);
    assert_true(kmath_exp(0x1p-149f) == 1);
}

static void exp2_is_within_three_ulp_and_one_at_zero(void **state)
{
    check_ulps("exp2", kmath_exp2, exp2, -125, 127, 3);
    assert_true(kmath_exp2(0.0f) == 1 && kmath_exp2(-0.0f) == 1 && kmath_exp2(-0x1p-149f) == 1);
}

static void exp2_ends_in_a_normal_number(void **state)
{
    for (float x = 124.0f; x < 300.0f; x = next(x, 101))
        assert_true(kmath_exp2(-x) >= 0x1p-126f);
    assert_true(kmath_exp2(-125.2f) == 0x1p-125f && kmath_exp2(-INFINITY) == 0x1p-125f);
}

static void tanh_is_within_four_ulp_and_odd(void **state)
{
    double worst = 0;
    float at = 0;

    for (float x = 1e-6f; x < 12.0f; x = next(x, 97)) {
        double u = ulps(kmath_tanh(x), tanh((double)x));

        assert_true(kmath_tanh(-x) == -kmath_tanh(x));
        if (u > worst) {
            worst = u;
            at = x;
        }
    }
    if (worst > 4)
        fail_msg("tanh(%.9g) is off by %.3g ulp", (double)at, worst);
    assert_true(kmath_tanh(1e-30f) == 1e-30f);
    assert_true(kmath_tanh(INFINITY) == 1 && kmath_tanh(-INFINITY) == -1);
    assert_true(kmath_tanh(-0.0f) == 0 && signbit(kmath_tanh(-0.0f)));
}

static void erf_is_within_two_in_ten_million(void **state)
{
    for (float x = -6.0f; x < 6.0f; x = fabsf(x) < 1e-5f ? x + 1e-6f : next(x, 97)) {
        double d = fabs((double)kmath_erf(x) - erf((double)x));

        if (d > 2e-7)
            fail_msg("erf(%.9g) is off by %.3g", (double)x, d);
    }
    assert_true(kmath_erf(INFINITY) == 1 && kmath_erf(-INFINITY) == -1 && kmath_erf(0.0f) == 0);
}

static double exact_act(double x, enum kern_act f)
{
    switch (f) {
    case KERN_SILU: return x / (1 + exp(-x));
    case KERN_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case KERN_GELU_ERF: return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    case KERN_GELU_QUICK: return x / (1 + exp(-1.702 * x));
    case KERN_RELU: return x > 0 ? x : 0;
    case KERN_N_ACTS: break;
    }
    return (double)NAN;
}

/* The error is absolute near zero and relative elsewhere, the best that fp32 can do for a product with x. */
static void activations_agree_with_double_precision(void **state)
{
    for (enum kern_act f = KERN_SILU; f < KERN_N_ACTS; f++)
        for (float x = -100.0f; x < 100.0f; x = fabsf(x) < 1e-4f ? x + 1e-5f : next(x, 997)) {
            double want = exact_act((double)x, f), d = fabs((double)kmath_act(x, f) - want);

            if (!(d <= 2.5e-7 * (1 + fabs(want))))
                fail_msg("activation %d of %.9g is %.9g, expected %.12g", (int)f, (double)x,
                         (double)kmath_act(x, f), want);
        }
}

static void nan_stays_nan(void **state)
{
    for (uint32_t payload = 1; payload < 0x00800000u; payload = payload * 3 + 1)
        for (uint32_t sign = 0; sign < 2; sign++) {
            float x = kmath_of_bits(sign << 31 | 0x7f800000u | payload);

            assert_true(isnan(kmath_exp(x)) && isnan(kmath_exp2(x)) && isnan(kmath_tanh(x)) &&
                        isnan(kmath_erf(x)));
            for (enum kern_act f = KERN_SILU; f < KERN_N_ACTS; f++)
                assert_true(isnan(kmath_act(x, f)));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulp),
        cmocka_unit_test(log_is_within_one_ulp),
        cmocka_unit_test(gumbel_noise_is_gumbels),
        cmocka_unit_test(exp_ends_in_zero_and_infinity_without_subnormals),
        cmocka_unit_test(exp2_is_within_three_ulp_and_one_at_zero),
        cmocka_unit_test(exp2_ends_in_a_normal_number),
        cmocka_unit_test(tanh_is_within_four_ulp_and_odd),
        cmocka_unit_test(erf_is_within_two_in_ten_million),
        cmocka_unit_test(activations_agree_with_double_precision),
        cmocka_unit_test(nan_stays_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
