/* test_gemm.c - every kernel of gemm_f32, gemm_bf16 and gemm_i8: the bits of ref, an oracle, and independence
 * of the other rows in a call.
 *
 * A problem holds W both exactly and packed as gemm.h says. The rows of A are further apart than K, with NaN
 * in between, and A ends with its last element; the rows of C are further apart than N, with marks in
 * between. So the test sees reads and writes beyond the rows. If sums end in an activation, the floats or all
 * bytes of the next gemm's input are compared with what ref's activation and the kernel's own gemm_in make of
 * the sums.
 */
#include <math.h>

#include "check.h"
#include "kern/kern.h"
#include "rows.h"
#include "tensor/dtype.h"

enum { A_GAP = 3, C_GAP = 5, MOST_M = 130, MOST_K = 8800, MOST_N = 200 };

enum type { F32, BF16, I8, N_TYPES };

struct problem {
    size_t m, k, n, panels, lda, ldc;
    enum type type;
    bool with_bias;
    float *a; /* A before it is rounded */
    void *b;
    double *w; /* [n][k], the exact values of the weights */
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

static size_t panel_bytes(enum type t, size_t k)
{
    return t == I8 ? kern_i8_panel_bytes(k) : (t == BF16 ? (k + 1) / 2 : k) * KERN_NR * 4;
}

/* Stores weight (column COL, K) of a panel. Returns its exact value, without the scale of an int8 column. */
static double put_weight(enum type t, void *panel, size_t col, size_t k, struct check_rng *g)
{
    float x = check_float(g);

    if (t == I8) {
        int8_t q = (int8_t)((int)check_below(g, 255) - 127);

        ((int8_t *)panel)[k / 4 * 4 * KERN_NR + 4 * col + k % 4] = q;
        return q;
    }
    if (t == F32)
        return ((float *)panel)[k * KERN_NR + col] = x;
    ((uint16_t *)panel)[(k / 2 * KERN_NR + col) * 2 + k % 2] = dtype_f32_to_bf16(x);
    return dtype_bf16_to_f32(dtype_f32_to_bf16(x));
}

/* Stores the tail of an int8 column with the weights W [k], and multiplies W by the scale of the column. */
static void put_tail(char *panel, size_t col, double *w, size_t k, float scale)
{
    int32_t sum = 0;
    char *tail = panel + kern_i8_panel_bytes(k) - KERN_I8_TAIL + 4 * col;

    for (size_t i = 0; i < k; i++) {
        sum -= 128 * (int32_t)w[i];
        w[i] *= (double)scale;
    }
    memcpy(tail, &sum, 4);
    memcpy(tail + KERN_I8_TAIL / 2, &scale, 4);
}

static void make_b(struct problem *p, struct check_rng *g)
{
    size_t bytes = panel_bytes(p->type, p->k);

    p->w = take(p->n * p->k * sizeof *p->w);
    p->b = take(p->panels * bytes);
    memset(p->b, 0, p->panels * bytes);
    for (size_t j = 0; j < p->n; j++) {
        char *panel = (char *)p->b + j / KERN_NR * bytes;

        for (size_t k = 0; k < p->k; k++)
            p->w[j * p->k + k] = put_weight(p->type, panel, j % KERN_NR, k, g);
        if (p->type == I8)
            put_tail(panel, j % KERN_NR, p->w + j * p->k, p->k, fabsf(check_float(g)));
    }
}

static void make(struct problem *p, struct check_rng *g, enum type t, size_t m, size_t k, size_t n)
{
    *p = (struct problem){.m = m, .k = k, .n = n, .type = t, .lda = k + A_GAP, .ldc = n + C_GAP};
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

/* Returns M rows of K floats, LD apart, as the input of a gemm of KERN. The bytes that gemm_in leaves
 * unwritten are NaN. */
static void *new_in(const struct kern *kern, enum type t, const float *x, size_t ld, size_t m, size_t k)
{
    void *in = aligned_alloc(64, m * kern_in_bytes(k) + 64);

    assert_non_null(in);
    memset(in, 0xff, m * kern_in_bytes(k));
    for (size_t i = m; x && i-- > 0;)
        if (t == I8)
            kern->gemm_in_i8(in, x + i * ld, i, m, k, 0);
        else
            (t == BF16 ? kern->gemm_in_bf16 : kern->gemm_in_f32)(in, x + i * ld, i, m, k);
    return in;
}

/* Computes the rows [r, r + m) of A for the panels [p0, p1), with the result and the epilogue that G
 * names. */
static void run_as(const struct problem *p, const struct kern *k, size_t r, size_t m, size_t p0, size_t p1,
                   struct kern_gemm g)
{
    void *in = new_in(k, p->type, p->a + r * p->lda, p->lda, m, p->k);

    g.in = in;
    g.sums = lent_sums();
    g.b = (const char *)p->b + g.first * panel_bytes(p->type, p->k);
    g.bias = p->with_bias ? p->bias : NULL;
    g.m = m;
    g.k = p->k;
    (p->type == I8 ? k->gemm_i8 : p->type == BF16 ? k->gemm_bf16 : k->gemm_f32)(&g, p0, p1);
    free(in);
}

/* Computes the rows [r, r + m) of C for the panels [p0, p1) into OUT [m, ldc]. */
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
    return p->type == I8 ? KERN_FN_gemm_i8 : p->type == BF16 ? KERN_FN_gemm_bf16 : KERN_FN_gemm_f32;
}

static bool has_row(const struct problem *p, const struct rows *r)
{
    return p->type == I8     ? r->k.gemm_i8 != NULL
           : p->type == BF16 ? r->k.gemm_bf16 != NULL
                             : r->k.gemm_f32 != NULL;
}

/* Sets A to row R as the gemm reads it. */
static void exact_row(const struct problem *p, size_t r, double *a)
{
    const float *x = p->a + r * p->lda;
    float most = 0;

    for (size_t k = 0; k < p->k; k++) {
        most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
        a[k] = (double)(p->type == BF16 ? dtype_bf16_to_f32(dtype_f32_to_bf16(x[k])) : x[k]);
    }
    for (size_t k = 0; k < p->k && p->type == I8; k++)
        a[k] = isinf(127.0f / most) ? 0 : (double)rintf(x[k] * (127.0f / most)) * (double)(most / 127.0f);
}

/* A sum of K fused operations has an error of at most K half units of the sum of magnitudes, in any order. A
 * sum of integers is exact, and is rounded three times on its way to a float. */
static void compare_with_oracle(const struct problem *p, const float *c, const char *name)
{
    double want[MOST_N], tolerance[MOST_N], a[MOST_K];

    for (size_t r = 0; r < p->m; r++) {
        exact_row(p, r, a);
        for (size_t j = 0; j < p->n; j++) {
            double sum = 0, magnitude = 0;

            for (size_t k = 0; k < p->k; k++) {
                double product = a[k] * p->w[j * p->k + k];

                sum += product;
                magnitude += fabs(product);
            }
            magnitude = p->type == I8 ? 3 * fabs(sum) : (double)p->k * magnitude;
            if (p->with_bias)
                sum += (double)p->bias[j];
            want[j] = sum;
            tolerance[j] = CHECK_U * (magnitude + fabs(sum)) * 1.01 + 1e-37;
        }
        check_near(c + r * p->ldc, want, tolerance, p->n, "%s %s m=%zu k=%zu n=%zu row %zu", name,
                   kern_name(fn_of(p)), p->m, p->k, p->n, r);
    }
}

/* Runs every kernel of the machine on one problem. Compares with ref where the arithmetic class promises
 * equal bits, otherwise with the oracle. */
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
    for (enum type t = F32; t < N_TYPES; t++) {
        struct problem p;

        make(&p, g, t, m, k, n);
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

/* Negative products that are too small for fp32 sum up to -0. Adding a missing bias as zero would make it
 * +0. */
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
                if (bf16) /* The fourth element of K is padding. */
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

    for (int trial = 0; trial < 4 * N_TYPES; trial++)
        for (size_t i = 0; i < n; i++) {
            struct problem p;
            float *all, *alone;

            make(&p, &g, (enum type)(trial % N_TYPES), 1 + check_below(&g, 60), 1 + check_below(&g, 600),
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

    for (int trial = 0; trial < 12 * N_TYPES; trial++)
        for (size_t i = 0; i < n; i++) {
            struct problem p;
            size_t cut, row;
            float *whole, *parts;

            make(&p, &g, (enum type)(trial % N_TYPES), 1 + check_below(&g, 60), 1 + check_below(&g, 600),
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

/* Computes part PART of PARTS of the rows of P. */
static void run_part(const struct problem *p, const struct kern *k, size_t part, size_t parts, float *out)
{
    run_as(p, k, 0, p->m, 0, p->panels,
           (struct kern_gemm){.c = out, .ldc = p->ldc, .n = p->n, .part = part, .parts = parts});
}

static void parts_of_rows_make_the_whole_each_row_in_one_of_them(void **state)
{
    static const size_t cases[][2] = {{64, 1},  {128, 2}, {200, 3}, {256, 2},
                                      {257, 2}, {512, 2}, {513, 8}, {530, 3}};
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    struct check_rng g = {10};

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < N_TYPES * sizeof cases / sizeof *cases; j++) {
            size_t m = cases[j / N_TYPES][0], parts = cases[j / N_TYPES][1];
            struct problem p;
            float *whole;
            int *times;

            make(&p, &g, (enum type)(j % N_TYPES), m, 1 + check_below(&g, 100), 1 + check_below(&g, 80));
            whole = new_c(&p);
            times = take(m * sizeof *times);
            memset(times, 0, m * sizeof *times);
            if (has_row(&p, &list[i]))
                run(&p, &list[i].k, 0, m, 0, p.panels, whole);
            for (size_t part = 0; part < parts && has_row(&p, &list[i]); part++) {
                float *c = new_c(&p);

                run_part(&p, &list[i].k, part, parts, c);
                for (size_t r = 0; r < m; r++)
                    if (c[r * p.ldc] != mark) {
                        times[r]++;
                        check_same(c + r * p.ldc, whole + r * p.ldc, p.ldc, "%s %s m=%zu row %zu",
                                   list[i].name, kern_name(fn_of(&p)), m, r);
                    }
                free(c);
            }
            for (size_t r = 0; r < m && has_row(&p, &list[i]); r++)
                if (times[r] != 1)
                    fail_msg("%s %s m=%zu row %zu is in %d of %zu parts", list[i].name, kern_name(fn_of(&p)),
                             m, r, times[r], parts);
            free(times);
            free(whole);
            drop(&p);
        }
}

/* Kernels may store whole cache lines differently from parts of them. */
static void results_in_whole_lines_are_those_in_others(void **state)
{
    static const size_t shapes[][3] = {{127, 40, 64}, {128, 40, 64}, {130, 100, 96}, {530, 33, 72}};
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    struct check_rng g = {11};

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < N_TYPES * sizeof shapes / sizeof *shapes; j++) {
            const size_t *s = shapes[j / N_TYPES];
            size_t ld = (s[2] + 15) / 16 * 16 + 16;
            struct problem p;
            float *lines, *others;

            make(&p, &g, (enum type)(j % N_TYPES), s[0], s[1], s[2]);
            if (has_row(&p, &list[i])) {
                others = new_c(&p);
                lines = aligned_alloc(64, p.m * ld * sizeof *lines);
                assert_non_null(lines);
                for (size_t at = 0; at < p.m * ld; at++)
                    lines[at] = mark;
                run(&p, &list[i].k, 0, p.m, 0, p.panels, others);
                run_as(&p, &list[i].k, 0, p.m, 0, p.panels,
                       (struct kern_gemm){.c = lines, .ldc = ld, .n = p.n});
                for (size_t r = 0; r < p.m; r++) {
                    check_same(lines + r * ld, others + r * p.ldc, p.n, "%s %s m=%zu k=%zu n=%zu row %zu",
                               list[i].name, kern_name(fn_of(&p)), p.m, p.k, p.n, r);
                    for (size_t at = p.n; at < ld; at++)
                        assert_true(lines[r * ld + at] == mark);
                }
                free(others);
                free(lines);
            }
            drop(&p);
        }
}

/* Computes the elements [k0, k1) of K of all rows for the panels [p0, p1), continuing from the sums in
 * OUT. */
static void run_piece(const struct problem *p, const struct kern *k, size_t k0, size_t k1, size_t p0,
                      size_t p1, float *out)
{
    size_t es = p->type == BF16 ? 2 : 4;
    void *in = new_in(k, p->type, p->a + k0, p->lda, p->m, k1 - k0);
    struct kern_gemm g = {.in = in,
                          .b = (const char *)p->b + k0 * KERN_NR * es,
                          .c = out,
                          .ldc = p->ldc,
                          .bias = p->with_bias && k1 == p->k ? p->bias : NULL,
                          .m = p->m,
                          .k = k1 - k0,
                          .n = p->n,
                          .panel_k = p->k,
                          .onto = k0 > 0,
                          .sums = lent_sums()};

    (p->type == BF16 ? k->gemm_bf16 : k->gemm_f32)(&g, p0, p1);
    free(in);
}

/* Computes P in slices of K of any length that the contract allows, each in two calls, with every kernel of
 * the machine. */
static void compare_pieces(const struct problem *p, struct check_rng *g)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list), cut = check_below(g, p->panels + 1),
           most = 1 + check_below(g, p->k / KERN_PIECE + 1);

    for (size_t i = 0; i < n; i++) {
        float *whole, *pieces;

        if (!has_row(p, &list[i]))
            continue;
        whole = new_c(p);
        pieces = new_c(p);
        run(p, &list[i].k, 0, p->m, 0, p->panels, whole);
        for (size_t k0 = 0, k1; k0 == 0 || k0 < p->k; k0 = k1) {
            k1 = k0 + KERN_PIECE * (1 + check_below(g, most));
            k1 = k1 < p->k ? k1 : p->k;
            run_piece(p, &list[i].k, k0, k1, 0, cut, pieces);
            run_piece(p, &list[i].k, k0, k1, cut, p->panels, pieces);
        }
        check_same(pieces, whole, p->m * p->ldc, "%s %s m=%zu k=%zu n=%zu, in pieces of at most %zu of K",
                   list[i].name, kern_name(fn_of(p)), p->m, p->k, p->n, KERN_PIECE * most);
        free(whole);
        free(pieces);
    }
}

static void pieces_of_k_one_onto_the_other_equal_the_whole(void **state)
{
    static const size_t shapes[][3] = {{530, 70, 40},  {4, 8700, 33},  {13, 4103, 65}, {24, 2051, 33},
                                       {1, 4337, 100}, {6, 1540, 161}, {9, 2048, 64},  {130, 1100, 47}};
    struct check_rng g = {9};
    struct problem p;

    for (size_t m = 1; m <= 33; m++)
        for (enum type t = F32; t <= BF16; t++) {
            make(&p, &g, t, m, 1 + check_below(&g, 300), 1 + check_below(&g, MOST_N));
            compare_pieces(&p, &g);
            drop(&p);
        }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum type t = F32; t <= BF16; t++) {
            make(&p, &g, t, shapes[i][0], shapes[i][1], shapes[i][2]);
            compare_pieces(&p, &g);
            drop(&p);
        }
}

/* Returns the SUMS of P after the activation of ref, [m, n]. With KERN_GLU, P has whole panels. */
static float *activated(const struct problem *p, const float *sums, enum kern_gemm_end end, enum kern_act act,
                        size_t n)
{
    const struct kern *ref = kern_table(CPU_REF);
    float *x = take(p->m * n * sizeof *x);

    for (size_t r = 0; r < p->m; r++)
        for (size_t i = 0; i < n; i++) {
            const float *c =
                sums + r * p->ldc + (end == KERN_GLU ? i / KERN_PAIRS * KERN_NR + i % KERN_PAIRS : i);

            if (end == KERN_GLU)
                ref->glu(&x[r * n + i], c, c + KERN_PAIRS, 1, act);
            else
                ref->act(&x[r * n + i], c, 1, act);
        }
    return x;
}

/* Computes the panels of P in two calls, the second with its own panels alone. */
static void run_cut(const struct problem *p, const struct kern *k, size_t cut, struct kern_gemm as)
{
    run_as(p, k, 0, p->m, 0, cut, as);
    as.first = cut;
    run_as(p, k, 0, p->m, cut, p->panels, as);
}

/* Checks that AS ends in the floats X [m, n], in rows further apart than n; or, if an input can be written in
 * parts, in the input made of them. OTHER must differ from them. */
static void compare_end(const struct problem *p, const struct rows *row, size_t cut, struct kern_gemm as,
                        const float *x, const float *other)
{
    size_t n = as.n, bytes = p->m * kern_in_bytes(n);
    struct problem wide = *p;
    void *in;

    wide.ldc = as.ldc = n + C_GAP;
    as.c = new_c(&wide);
    run_cut(p, &row->k, cut, as);
    for (size_t r = 0; r < p->m; r++) {
        check_same(as.c + r * as.ldc, x + r * n, n, "%s %s m=%zu k=%zu n=%zu end %d act %d", row->name,
                   kern_name(fn_of(p)), p->m, p->k, n, as.end, as.act);
        for (size_t i = n; i < as.ldc; i++)
            assert_true(as.c[r * as.ldc + i] == mark);
    }
    free(as.c);
    if (p->type == I8)
        return;
    as.c = NULL;
    as.out = new_in(&row->k, p->type, NULL, 0, p->m, n);
    run_cut(p, &row->k, cut, as);
    in = new_in(&row->k, p->type, x, n, p->m, n);
    if (memcmp(as.out, in, bytes) != 0)
        fail_msg("%s %s m=%zu k=%zu n=%zu end %d act %d, cut at panel %zu: another input", row->name,
                 kern_name(fn_of(p)), p->m, p->k, n, as.end, as.act, cut);
    free(in);
    in = new_in(&row->k, p->type, other, n, p->m, n);
    if (p->k && p->m * n > 9 && memcmp(as.out, in, bytes) == 0)
        fail_msg("%s: the same input by another activation", row->name);
    free(in);
    free(as.out);
}

/* Checks a gemm of M x K that ends in N columns, with every kernel of the machine. */
static void compare_ends(struct check_rng *g, enum type t, size_t m, size_t k, size_t n,
                         enum kern_gemm_end end, enum kern_act act)
{
    size_t columns = end == KERN_GLU ? (n + KERN_PAIRS - 1) / KERN_PAIRS * KERN_NR : n, n_list, cut;
    struct rows list[ROWS_MAX];
    struct problem p;

    make(&p, g, t, m, k, columns);
    n_list = rows_list(list);
    cut = check_below(g, p.panels + 1);
    for (size_t i = 0; i < n_list; i++) {
        float *sums, *want, *other;

        if (!has_row(&p, &list[i]))
            continue;
        sums = new_c(&p);
        run(&p, &list[i].k, 0, p.m, 0, p.panels, sums);
        want = activated(&p, sums, end, act, n);
        other = activated(&p, sums, end, act == KERN_RELU ? KERN_SILU : KERN_RELU, n);
        compare_end(&p, &list[i], cut, (struct kern_gemm){.n = n, .end = end, .act = act}, want, other);
        free(sums);
        free(want);
        free(other);
    }
    drop(&p);
}

static void sums_end_activated_in_floats_and_in_the_next_input(void **state)
{
    static const size_t shapes[][3] = {
        {12, 64, 64}, {530, 5, 40},  {259, 9, 150}, {13, 2051, 47},  {7, 4103, 33},
        {1, 0, 20},   {1, 1537, 65}, {3, 3, 1},     {520, 1030, 17}, {24, 1025, 31},
    };
    struct check_rng g = {8};

    for (size_t m = 1; m <= 30; m++)
        for (enum kern_act act = KERN_SILU; act < KERN_N_ACTS; act++)
            compare_ends(&g, (enum type)check_below(&g, N_TYPES), m, 1 + check_below(&g, 70),
                         1 + check_below(&g, 100), check_below(&g, 2) ? KERN_ACT : KERN_GLU, act);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int j = 0; j < 2 * N_TYPES; j++)
            compare_ends(&g, (enum type)(j / 2), shapes[i][0], shapes[i][1], shapes[i][2],
                         j % 2 ? KERN_ACT : KERN_GLU, (enum kern_act)check_below(&g, KERN_N_ACTS));
}

/* The byte 255 times 127 over the longest K, and its negative, are the largest sums that the integers must
 * hold. */
static void the_largest_integers_do_not_wrap(void **state)
{
    enum { K = KERN_I8_MOST_K };
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);

    for (size_t i = 0; i < n; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            char *panel = take(kern_i8_panel_bytes(K));
            float *x = take(K * sizeof *x), y = 0;
            double *w = take(K * sizeof *w);
            void *in;

            if (list[i].k.gemm_i8) {
                memset(panel, 0, kern_i8_panel_bytes(K));
                for (size_t k = 0; k < K; k++) {
                    x[k] = 1;
                    w[k] = sign * 127;
                    panel[k / 4 * 4 * KERN_NR + k % 4] = (char)(sign * 127);
                }
                put_tail(panel, 0, w, K, 1.0f / 127);
                in = new_in(&list[i].k, I8, x, K, 1, K);
                list[i].k.gemm_i8(
                    &(struct kern_gemm){
                        .in = in, .b = panel, .c = &y, .ldc = 1, .m = 1, .k = K, .n = 1, .sums = lent_sums()},
                    0, 1);
                if (fabs((double)y - sign * (double)K) > K * 2e-7)
                    fail_msg("%s: found %g, expected %d", list[i].name, (double)y, sign * K);
                free(in);
            }
            free(w);
            free(x);
            free(panel);
        }
}

/* The rows are zeros, numbers whose inverse is infinite, halves, and numbers that are not finite. */
static void rows_of_any_size_become_integers(void **state)
{
    static const struct {
        float x[3], want; /* the sum of 3 x as integers with their own scale, with weights of 1 */
    } cases[] = {
        {{0, -0.0f, 0}, 0},          {{0x1p-149f, 0, 0}, 0}, /* 127 / x is infinite. */
        {{127, 0.5f, 1.5f}, 129},                            /* Ties round to even: 127, 0, 2. */
        {{-127, 2.5f, -0.5f}, -125}, {{NAN, 1, 1}, NAN},     {{1, INFINITY, 1}, NAN},
        {{1, -INFINITY, NAN}, NAN},  {{3e38f, 0, 0}, 3e38f},
    };
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    char panel[128 + KERN_I8_TAIL] __attribute__((aligned(64))) = {0};
    double w[3] = {1, 1, 1};

    panel[0] = panel[1] = panel[2] = 1;
    put_tail(panel, 0, w, 3, 1.0f);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; list[i].k.gemm_i8 && c < sizeof cases / sizeof *cases; c++) {
            void *in = new_in(&list[i].k, I8, cases[c].x, 3, 1, 3);
            float y = 1;

            list[i].k.gemm_i8(
                &(struct kern_gemm){
                    .in = in, .b = panel, .c = &y, .ldc = 1, .m = 1, .k = 3, .n = 1, .sums = lent_sums()},
                0, 1);
            if (isnan(cases[c].want) ? !isnan(y) : fabsf(y - cases[c].want) > 2e-7f * fabsf(y))
                fail_msg("%s case %zu: found %g, expected %g", list[i].name, c, (double)y,
                         (double)cases[c].want);
            free(in);
        }
}

/* Elements beyond the given maximum are limited to it. The limit does not hide a number that is not
 * finite. */
static void a_row_with_a_given_size_becomes_other_integers(void **state)
{
    static const struct {
        float x[3], fixed;
        bool finite;
    } cases[] = {
        {{1, -2, 4}, 4, true},   {{1, -2, 4}, 2, true},        {{1, -2, 4}, 500, true},
        {{NAN, 0, 1}, 4, false}, {{INFINITY, 0, 1}, 4, false}, {{0, 0, 0}, 4, true},
    };
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    _Alignas(64) char panel[4 * KERN_NR + KERN_I8_TAIL] = {1, 2, 3};
    int32_t sum = -128 * 6;
    float one = 1;

    memcpy(panel + 4 * KERN_NR, &sum, 4);
    memcpy(panel + 4 * KERN_NR + KERN_I8_TAIL / 2, &one, 4);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; list[i].k.gemm_i8 && c < sizeof cases / sizeof *cases; c++) {
            void *in = new_in(&list[i].k, I8, NULL, 3, 1, 3);
            float fixed = cases[c].fixed, unit = fixed / 127, y = 1;
            double want = 0;

            for (int k = 0; k < 3; k++) {
                float q = rintf(fminf(fmaxf(cases[c].x[k] / unit, -127), 127));

                want += (k + 1) * (double)q * (double)unit;
            }
            list[i].k.gemm_in_i8(in, cases[c].x, 0, 1, 3, fixed);
            list[i].k.gemm_i8(
                &(struct kern_gemm){
                    .in = in, .b = panel, .c = &y, .ldc = 1, .m = 1, .k = 3, .n = 1, .sums = lent_sums()},
                0, 1);
            if (!cases[c].finite ? !isnan(y) : fabs((double)y - want) > 1e-6 * fabs(want))
                fail_msg("%s case %zu: found %g, expected %g", list[i].name, c, (double)y, want);
            free(in);
        }
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
        cmocka_unit_test(parts_of_rows_make_the_whole_each_row_in_one_of_them),
        cmocka_unit_test(results_in_whole_lines_are_those_in_others),
        cmocka_unit_test(pieces_of_k_one_onto_the_other_equal_the_whole),
        cmocka_unit_test(sums_end_activated_in_floats_and_in_the_next_input),
        cmocka_unit_test(the_largest_integers_do_not_wrap),
        cmocka_unit_test(rows_of_any_size_become_integers),
        cmocka_unit_test(a_row_with_a_given_size_becomes_other_integers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
