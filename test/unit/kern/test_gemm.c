/* test_gemm.c - every row of gemm_f32 and gemm_bf16: bits of ref, an oracle, independence from company.
 *
 * A problem holds W once in exact values and packed as kern.h says. A has rows further apart than K with NaN
 * in between, and ends with its last element; C has rows further apart than N with marks in between: what a
 * kernel reads or writes beyond its own shows. Where sums end in the next gemm's input, all bytes of it are
 * compared with what the sums, activated by ref and put there by the row's own gemm_in, make of it.
 */
#include <math.h>

#include "check.h"
#include "kern/kern.h"
#include "rows.h"
#include "tensor/dtype.h"

enum { A_GAP = 3, C_GAP = 5, MOST_M = 130, MOST_K = 8800, MOST_N = 200 };

struct problem {
    size_t m, k, n, panels, lda, ldc;
    bool bf16, with_bias;
    float *a; /* bf16: before rounding */
    void *b;
    float *w; /* [n][k] exact values of the weights */
    float *bias;
};

static const float mark = 12345.0f;

static void *take(size_t bytes)
{
    void *p = malloc(bytes > 0 ? bytes : 1);

    assert_non_null(p);
    return p;
}

static void make_a(struct problem *p, struct check_rng *g)
{
    size_t n = (p->m - 1) * p->lda + p->k;

    p->a = take(n * sizeof *p->a);
    for (size_t i = 0; i < n; i++)
        p->a[i] = i % p->lda < p->k ? check_float(g) : NAN;
}

static void make_b(struct problem *p, struct check_rng *g)
{
    size_t depth = p->bf16 ? (p->k + 1) / 2 * 2 : p->k, n = p->panels * KERN_NR * depth;

    p->w = take(p->n * p->k * sizeof *p->w);
    p->b = take(n * (p->bf16 ? 2 : 4));
    memset(p->b, 0, n * (p->bf16 ? 2 : 4));
    for (size_t j = 0; j < p->n; j++)
        for (size_t k = 0; k < p->k; k++) {
            float x = check_float(g);
            size_t panel = j / KERN_NR * KERN_NR * depth, col = j % KERN_NR;

            if (p->bf16) {
                uint16_t h = dtype_f32_to_bf16(x);

                ((uint16_t *)p->b)[panel + (k / 2 * KERN_NR + col) * 2 + k % 2] = h;
                x = dtype_bf16_to_f32(h);
            } else {
                ((float *)p->b)[panel + k * KERN_NR + col] = x;
            }
            p->w[j * p->k + k] = x;
        }
}

static void make(struct problem *p, struct check_rng *g, bool bf16, size_t m, size_t k, size_t n)
{
    *p = (struct problem){.m = m, .k = k, .n = n, .bf16 = bf16, .lda = k + A_GAP, .ldc = n + C_GAP};
    p->panels = (n + KERN_NR - 1) / KERN_NR;
    p->with_bias = check_below(g, 2);
    make_a(p, g);
    make_b(p, g);
    p->bias = take(n * sizeof *p->bias);
    check_fill(g, p->bias, n);
}

static void drop(struct problem *p)
{
    free(p->a);
    free(p->b);
    free(p->w);
    free(p->bias);
}

/* M rows of K floats, LD apart, as the input of one of K's gemms; what they leave unwritten is NaN. */
static void *new_in(const struct kern *kern, bool bf16, const float *x, size_t ld, size_t m, size_t k)
{
    void *in = aligned_alloc(64, m * kern_in_bytes(k) + 64);

    assert_non_null(in);
    memset(in, 0xff, m * kern_in_bytes(k));
    for (size_t i = m; x && i-- > 0;)
        (bf16 ? kern->gemm_in_bf16 : kern->gemm_in_f32)(in, x + i * ld, i, m, k);
    return in;
}

/* Rows [r, r + m) of A over panels [p0, p1), to what G says of C and of the end. */
static void run_as(const struct problem *p, const struct kern *k, size_t r, size_t m, size_t p0, size_t p1,
                   struct kern_gemm g)
{
    void *in = new_in(k, p->bf16, p->a + r * p->lda, p->lda, m, p->k);

    g.in = in;
    g.b = (const char *)p->b + g.first * KERN_NR * (p->bf16 ? (p->k + 1) / 2 : p->k) * 4;
    g.bias = p->with_bias ? p->bias : NULL;
    g.m = m;
    g.k = p->k;
    (p->bf16 ? k->gemm_bf16 : k->gemm_f32)(&g, p0, p1);
    free(in);
}

/* Rows [r, r + m) of C over panels [p0, p1) into OUT [m, ldc]. */
static void run(const struct problem *p, const struct kern *k, size_t r, size_t m, size_t p0, size_t p1,
                float *out)
{
    run_as(p, k, r, m, p0, p1, (struct kern_gemm){.c = out, .ldc = p->ldc, .n = p->n});
}

static float *new_c(const struct problem *p)
{
    size_t n = p->m * p->ldc;
    float *c = take(n * sizeof *c);

    for (size_t i = 0; i < n; i++)
        c[i] = mark;
    return c;
}

static enum kern_fn fn_of(const struct problem *p)
{
    return p->bf16 ? KERN_FN_gemm_bf16 : KERN_FN_gemm_f32;
}

static bool has_row(const struct problem *p, const struct rows *r)
{
    return p->bf16 ? r->k.gemm_bf16 != NULL : r->k.gemm_f32 != NULL;
}

/* A sum of K fused operations errs by at most K half units of the sum of magnitudes, whatever their order. */
static void compare_with_oracle(const struct problem *p, const float *c, const char *name)
{
    double want[MOST_N], tolerance[MOST_N];

    for (size_t r = 0; r < p->m; r++) {
        for (size_t j = 0; j < p->n; j++) {
            double sum = 0, magnitude = 0;

            for (size_t k = 0; k < p->k; k++) {
                size_t at = r * p->lda + k;
                float a = p->bf16 ? dtype_bf16_to_f32(dtype_f32_to_bf16(p->a[at])) : p->a[at];
                double product = (double)a * (double)p->w[j * p->k + k];

                sum += product;
                magnitude += fabs(product);
            }
            if (p->with_bias)
                sum += (double)p->bias[j];
            want[j] = sum;
            tolerance[j] = CHECK_U * ((double)p->k * magnitude + fabs(sum)) * 1.01 + 1e-37;
        }
        check_near(c + r * p->ldc, want, tolerance, p->n, "%s %s m=%zu k=%zu n=%zu row %zu", name,
                   kern_name(fn_of(p)), p->m, p->k, p->n, r);
    }
}

/* Every row of the machine on one problem: against ref where bits are promised, else against the oracle. */
static void compare_rows(const struct problem *p, bool oracle_too)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    float *want = new_c(p);

    run(p, &list[0].k, 0, p->m, 0, p->panels, want);
    if (oracle_too)
        compare_with_oracle(p, want, "ref");
    for (size_t i = 1; i < n; i++) {
        float *got;

        if (!has_row(p, &list[i]))
            continue;
        got = new_c(p);
        run(p, &list[i].k, 0, p->m, 0, p->panels, got);
        if (rows_equal_ref(&list[i], fn_of(p)))
            check_same(got, want, p->m * p->ldc, "%s %s m=%zu k=%zu n=%zu ldc=%zu", list[i].name,
                       kern_name(fn_of(p)), p->m, p->k, p->n, p->ldc);
        else if (oracle_too)
            compare_with_oracle(p, got, list[i].name);
        free(got);
    }
    free(want);
}

static void compare_shape(struct check_rng *g, size_t m, size_t k, size_t n, bool oracle_too)
{
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct problem p;

        make(&p, g, bf16, m, k, n);
        compare_rows(&p, oracle_too);
        drop(&p);
    }
}

static void rows_of_a_class_give_equal_bits_on_odd_shapes(void **state)
{
    static const size_t ks[] = {1, 2, 3, 255, 256, 257, 511, 512, 513, 700};
    static const size_t ns[] = {1,  7,  8,  9,  15, 16, 17, 24,  31,  32, 33,
                                48, 63, 64, 65, 95, 96, 97, 100, 129, 150};
    struct check_rng g = {1};

    for (size_t m = 1; m <= 30; m++)
        for (int i = 0; i < 4; i++)
            compare_shape(&g, m, 1 + check_below(&g, 700), 1 + check_below(&g, 100), false);
    for (size_t m = 1; m <= 8; m++)
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
            compare_shape(&g, m, ks[i], 1 + check_below(&g, 100), false);
    for (size_t m = 1; m <= 8; m++)
        for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
            compare_shape(&g, m, 1 + check_below(&g, 40), ns[i], false);
}

static void blocks_of_rows_and_depth_do_not_change_bits(void **state)
{
    static const size_t shapes[][3] = {
        {48, 300, 40},  {49, 520, 33},  {55, 257, 40},  {97, 64, 70},   {130, 260, 129},
        {1, 4335, 40},  {1, 4337, 33},  {2, 8700, 35},  {3, 4336, 17},  {3, 8673, 64},
        {4, 4337, 33},  {7, 1025, 160}, {12, 1537, 33}, {13, 96, 64},   {25, 2047, 32},
        {30, 1024, 32}, {6, 1540, 97},  {5, 3075, 40},  {4, 1537, 130}, {2, 1536, 65},
        {1, 1535, 100}, {9, 2048, 65},  {13, 2049, 40}, {24, 4103, 33}, {6, 1025, 64},
    };
    struct check_rng g = {2};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        compare_shape(&g, shapes[i][0], shapes[i][1], shapes[i][2], false);
}

static void sums_are_as_near_as_their_length_allows(void **state)
{
    struct check_rng g = {3};

    for (size_t m = 1; m <= 30; m += 1 + check_below(&g, 3))
        compare_shape(&g, m, 1 + check_below(&g, 700), 1 + check_below(&g, 100), true);
    compare_shape(&g, 3, 4097, 50, true);
}

static void nothing_is_multiplied_when_k_is_zero(void **state)
{
    struct check_rng g = {4};

    compare_shape(&g, 1, 0, 33, true);
    compare_shape(&g, 9, 0, 40, true);
}

/* Negative products too small for fp32 sum up to -0; adding a bias that is not there would make it +0. */
static void a_sum_that_vanishes_keeps_its_sign(void **state)
{
    struct check_rng g = {7};
    struct kern ref;

    assert_true(kern_rows(CPU_REF, &ref));
    for (size_t m = 1; m <= 14; m++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct problem p;
            float *c;

            make(&p, &g, bf16, m, 3, 40);
            p.with_bias = false;
            for (size_t i = 0; i < (m - 1) * p.lda + p.k; i++)
                p.a[i] = 1e-30f;
            for (size_t i = 0; i < p.panels * KERN_NR * (bf16 ? 4 : 3); i++)
                if (bf16) /* the fourth of K is padding */
                    ((uint16_t *)p.b)[i] = i / KERN_NR % 4 > 1 && i % 2 ? 0 : dtype_f32_to_bf16(-1e-30f);
                else
                    ((float *)p.b)[i] = -1e-30f;
            c = new_c(&p);
            run(&p, &ref, 0, m, 0, p.panels, c);
            assert_true(c[0] == 0 && signbit(c[0]));
            compare_rows(&p, false);
            free(c);
            drop(&p);
        }
}

static void a_row_alone_equals_the_row_in_company(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    struct check_rng g = {5};

    for (int turn = 0; turn < 8; turn++)
        for (size_t i = 0; i < n; i++) {
            struct problem p;
            float *all, *alone;

            make(&p, &g, turn % 2, 1 + check_below(&g, 60), 1 + check_below(&g, 600),
                 1 + check_below(&g, 100));
            if (has_row(&p, &list[i])) {
                all = new_c(&p);
                alone = new_c(&p);
                run(&p, &list[i].k, 0, p.m, 0, p.panels, all);
                for (size_t r = 0; r < p.m; r++)
                    run(&p, &list[i].k, r, 1, 0, p.panels, alone + r * p.ldc);
                check_same(alone, all, p.m * p.ldc, "%s %s m=%zu k=%zu n=%zu, rows one by one", list[i].name,
                           kern_name(fn_of(&p)), p.m, p.k, p.n);
                free(all);
                free(alone);
            }
            drop(&p);
        }
}

static void any_split_of_rows_and_panels_equals_the_whole(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    struct check_rng g = {6};

    for (int turn = 0; turn < 24; turn++)
        for (size_t i = 0; i < n; i++) {
            struct problem p;
            size_t cut, row;
            float *whole, *parts;

            make(&p, &g, turn % 2, 1 + check_below(&g, 60), 1 + check_below(&g, 600),
                 1 + check_below(&g, MOST_N));
            cut = check_below(&g, p.panels + 1);
            row = check_below(&g, p.m + 1);
            if (has_row(&p, &list[i])) {
                whole = new_c(&p);
                parts = new_c(&p);
                run(&p, &list[i].k, 0, p.m, 0, p.panels, whole);
                run(&p, &list[i].k, 0, row, 0, cut, parts);
                run(&p, &list[i].k, 0, row, cut, p.panels, parts);
                run(&p, &list[i].k, row, p.m - row, 0, cut, parts + row * p.ldc);
                run(&p, &list[i].k, row, p.m - row, cut, p.panels, parts + row * p.ldc);
                check_same(parts, whole, p.m * p.ldc, "%s %s m=%zu k=%zu n=%zu, cut at row %zu and panel %zu",
                           list[i].name, kern_name(fn_of(&p)), p.m, p.k, p.n, row, cut);
                free(whole);
                free(parts);
            }
            drop(&p);
        }
}

/* The sums of P, activated by ref, as N columns of the next gemm's input: of KERN_GLU P has whole panels. */
static void *activated(const struct problem *p, const struct kern *k, enum kern_gemm_end end,
                       enum kern_act act, size_t n)
{
    const struct kern *ref = kern_table(CPU_REF);
    float *sums = new_c(p), *x = take(p->m * n * sizeof *x);
    void *in;

    run(p, k, 0, p->m, 0, p->panels, sums);
    for (size_t r = 0; r < p->m; r++)
        for (size_t i = 0; i < n; i++) {
            const float *c =
                sums + r * p->ldc + (end == KERN_GLU ? i / KERN_PAIRS * KERN_NR + i % KERN_PAIRS : i);

            if (end == KERN_GLU)
                ref->glu(&x[r * n + i], c, c + KERN_PAIRS, 1, act);
            else
                ref->act(&x[r * n + i], c, 1, act);
        }
    in = new_in(k, p->bf16, x, n, p->m, n);
    free(sums);
    free(x);
    return in;
}

/* A gemm of M x K that ends in N columns of an input, by each row of the machine, in two calls for two parts
 * of the panels, the second with those panels alone. */
static void compare_ends(struct check_rng *g, bool bf16, size_t m, size_t k, size_t n, enum kern_gemm_end end,
                         enum kern_act act)
{
    size_t columns = end == KERN_GLU ? (n + KERN_PAIRS - 1) / KERN_PAIRS * KERN_NR : n, n_list, cut;
    struct rows list[ROWS_MAX];
    struct problem p;

    make(&p, g, bf16, m, k, columns);
    n_list = rows_list(list);
    cut = check_below(g, p.panels + 1);
    for (size_t i = 0; i < n_list; i++) {
        struct kern_gemm as = {.n = n, .end = end, .act = act};
        void *want, *other;

        if (!has_row(&p, &list[i]))
            continue;
        want = activated(&p, &list[i].k, end, act, n);
        other = activated(&p, &list[i].k, end, act == KERN_RELU ? KERN_SILU : KERN_RELU, n);
        as.out = new_in(&list[i].k, bf16, NULL, 0, m, n);
        run_as(&p, &list[i].k, 0, m, 0, cut, as);
        as.first = cut;
        run_as(&p, &list[i].k, 0, m, cut, p.panels, as);
        if (memcmp(as.out, want, m * kern_in_bytes(n)) != 0)
            fail_msg("%s %s m=%zu k=%zu n=%zu end %d act %d, cut at panel %zu: another input", list[i].name,
                     kern_name(fn_of(&p)), m, k, n, end, act, cut);
        if (k && m * n > 9 && memcmp(as.out, other, m * kern_in_bytes(n)) == 0)
            fail_msg("%s: the same input by another activation", list[i].name);
        free(want);
        free(other);
        free(as.out);
    }
    drop(&p);
}

static void sums_that_end_in_the_next_input_are_those_activated_and_put_there(void **state)
{
    static const size_t shapes[][3] = {
        {12, 64, 64}, {530, 5, 40},  {259, 9, 150}, {13, 2051, 47},  {7, 4103, 33},
        {1, 0, 20},   {1, 1537, 65}, {3, 3, 1},     {520, 1030, 17}, {24, 1025, 31},
    };
    struct check_rng g = {8};

    for (size_t m = 1; m <= 30; m++)
        for (enum kern_act act = KERN_SILU; act < KERN_N_ACTS; act++)
            compare_ends(&g, check_below(&g, 2), m, 1 + check_below(&g, 70), 1 + check_below(&g, 100),
                         check_below(&g, 2) ? KERN_ACT : KERN_GLU, act);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int j = 0; j < 4; j++)
            compare_ends(&g, j % 2, shapes[i][0], shapes[i][1], shapes[i][2], j / 2 ? KERN_ACT : KERN_GLU,
                         (enum kern_act)check_below(&g, KERN_N_ACTS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_class_give_equal_bits_on_odd_shapes),
        cmocka_unit_test(blocks_of_rows_and_depth_do_not_change_bits),
        cmocka_unit_test(sums_are_as_near_as_their_length_allows),
        cmocka_unit_test(nothing_is_multiplied_when_k_is_zero),
        cmocka_unit_test(a_sum_that_vanishes_keeps_its_sign),
        cmocka_unit_test(a_row_alone_equals_the_row_in_company),
        cmocka_unit_test(any_split_of_rows_and_panels_equals_the_whole),
        cmocka_unit_test(sums_that_end_in_the_next_input_are_those_activated_and_put_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
