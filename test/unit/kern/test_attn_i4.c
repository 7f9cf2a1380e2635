/* test_attn_i4.c - rows of a KV cache in 4 bits: rounding in every kernel, and attention compared with that
 * to int8 tiles, which are built here from the layout that attn_i4.h describes.
 *
 * test_attn.c tests attention to int8. This test shows that a tile of 4 bits is read as the int8 tile that it
 * represents, bit for bit, in every kernel of every class, and that only visible tiles count.
 */
#include <math.h>

#include "check.h"
#include "kern/format/attn_i4.h"
#include "kern/kern.h"
#include "rows.h"

enum { MOST_M = 30, MOST_D = KERN_ATTN_DIM, GROUPS = MOST_D / KERN_I4_GROUP };

/* The chunk of one head: rows as codes, zero points and scales, and both forms of the tiles. */
struct problem {
    size_t m, dp, tiles;
    float q[MOST_M * MOST_D];
    int32_t lo[MOST_M], hi[MOST_M];
    char *i4[2], *i8[2]; /* keys, values */
};

struct result {
    float out[MOST_M * MOST_D], max[MOST_M], sum[MOST_M];
};

static float *scratch;

static void *take(size_t bytes)
{
    void *p = malloc(bytes);

    assert_non_null(p);
    return p;
}

static size_t i8_bytes(size_t dp)
{
    return KERN_TILE * (dp + sizeof(float));
}

/* Stores row TOKEN in both forms of a tile. The int8 form is computed independently. */
static void put(struct problem *p, struct check_rng *g, bool values, size_t token)
{
    uint8_t code[MOST_D], factor[GROUPS];
    char *i8 = p->i8[values] + token / KERN_TILE * i8_bytes(p->dp);
    size_t in = token % KERN_TILE;
    uint16_t scale = dtype_f32_to_bf16(0.01f * fabsf(check_float(g)));
    float wide = dtype_bf16_to_f32(scale);

    for (size_t d = 0; d < p->dp; d++) {
        code[d] = (uint8_t)check_below(g, 16);
        factor[d / KERN_I4_GROUP] =
            d % KERN_I4_GROUP ? factor[d / KERN_I4_GROUP] : (uint8_t)check_below(g, 16);
        i8[values ? (in / 4 * p->dp + d) * 4 + in % 4 : (d / 4 * KERN_TILE + in) * 4 + d % 4] =
            (char)((code[d] - 8) * (factor[d / KERN_I4_GROUP] + 1));
    }
    memcpy(i8 + KERN_TILE * p->dp + in * sizeof(wide), &wide, sizeof(wide));
    i4_put_row(p->i4[values] + token / KERN_TILE * kern_i4_tile_bytes(p->dp), p->dp, in, values, code, factor,
               scale);
}

/* Makes M rows, each of which sees a random part of TILES tiles. The tiles keep their old content at
 * first. */
static void make(struct problem *p, struct check_rng *g, size_t m, size_t dp, size_t tiles)
{
    *p = (struct problem){.m = m, .dp = dp, .tiles = tiles};
    for (int v = 0; v < 2; v++) {
        p->i4[v] = take(tiles * kern_i4_tile_bytes(dp));
        p->i8[v] = take(tiles * i8_bytes(dp));
        memset(p->i4[v], 0x35, tiles * kern_i4_tile_bytes(dp));
        for (size_t t = 0; t < tiles * KERN_TILE; t++)
            put(p, g, v, t);
    }
    for (size_t i = 0; i < m * dp; i++)
        p->q[i] = check_float(g);
    for (size_t r = 0; r < m; r++) {
        p->lo[r] = (int32_t)check_below(g, tiles * KERN_TILE);
        p->hi[r] = (int32_t)check_below(g, tiles * KERN_TILE + 1);
    }
}

static void drop(struct problem *p)
{
    for (int v = 0; v < 2; v++) {
        free(p->i4[v]);
        free(p->i8[v]);
    }
}

static void run(const struct problem *p, char *const form[2], size_t bytes,
                void (*attn)(const struct kern_attn *), struct result *r)
{
    const void *k[KERN_CHUNK_TILES], *v[KERN_CHUNK_TILES];
    struct kern_attn a = {.q = p->q,
                          .k_tile = k,
                          .v_tile = v,
                          .next = k,
                          .n_next = p->m % 2 ? p->tiles : 0,
                          .lo = p->lo,
                          .hi = p->hi,
                          .out = r->out,
                          .max = r->max,
                          .sum = r->sum,
                          .scratch = scratch,
                          .m = p->m,
                          .dp = p->dp,
                          .n_tiles = p->tiles,
                          .scale = 0.3f};

    for (size_t t = 0; t < p->tiles; t++) {
        k[t] = form[0] + t * bytes;
        v[t] = form[1] + t * bytes;
    }
    memset(scratch, 0xff, kern_i4_scratch_bytes(p->dp));
    memset(r, 0xff, sizeof(*r));
    attn(&a);
}

static struct result want, got;

static void compare(const struct problem *p, const struct rows *row)
{
    run(p, p->i8, i8_bytes(p->dp), row->k.attn_i8, &want);
    run(p, p->i4, kern_i4_tile_bytes(p->dp), row->k.attn_i4, &got);
    check_same(got.max, want.max, p->m, "%s m=%zu dp=%zu: max", row->name, p->m, p->dp);
    check_same(got.sum, want.sum, p->m, "%s m=%zu dp=%zu: sum", row->name, p->m, p->dp);
    check_same(got.out, want.out, p->m * p->dp, "%s m=%zu dp=%zu: out", row->name, p->m, p->dp);
}

/* A key with a scale of NaN is one of int8, too. */
static void spoil(struct problem *p, struct check_rng *g)
{
    const size_t token = check_below(g, p->tiles * KERN_TILE), in = token % KERN_TILE;
    const uint16_t half = 0x7fc0;
    const float whole = NAN;

    memcpy(p->i4[0] + (token / KERN_TILE + 1) * kern_i4_tile_bytes(p->dp) - (KERN_TILE - in) * 2, &half, 2);
    memcpy(p->i8[0] + (token / KERN_TILE + 1) * i8_bytes(p->dp) - (KERN_TILE - in) * 4, &whole, 4);
}

static void a_tile_differs_from_the_int8_that_it_stands_for(void **state)
{
    static const size_t dims[] = {16, 32, 48, 64, 80, 128, 256, MOST_D};
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list), met = 0;
    struct check_rng g = {41};

    for (size_t i = 0; i < sizeof(dims) / sizeof(*dims); i++)
        for (size_t m = 1; m <= MOST_M; m += 9) {
            struct problem p;

            make(&p, &g, m, dims[i], 1 + check_below(&g, dims[i] < 256 ? KERN_CHUNK_TILES : 3));
            if (m % 2)
                spoil(&p, &g);
            for (size_t row = 0; row < n; row++)
                if (list[row].k.attn_i4) {
                    compare(&p, &list[row]);
                    met++;
                }
            drop(&p);
        }
    assert_true(met >= sizeof(dims) / sizeof(*dims));
}

static void a_bit_of_a_tile_stands_for_nothing(void **state)
{
    static char before[KERN_TILE * (32 + 4)], after[KERN_TILE * (32 + 4)];
    struct check_rng g = {42};
    struct problem p;

    make(&p, &g, 1, 32, 1);
    for (int v = 0; v < 2; v++) {
        i4_expand(before, p.i4[v], 32, v);
        for (size_t bit = 0; bit < 8 * kern_i4_tile_bytes(32); bit++) {
            p.i4[v][bit / 8] = (char)(p.i4[v][bit / 8] ^ 1 << bit % 8);
            i4_expand(after, p.i4[v], 32, v);
            p.i4[v][bit / 8] = (char)(p.i4[v][bit / 8] ^ 1 << bit % 8);
            if (memcmp(before, after, sizeof(after)) == 0)
                fail_msg("bit %zu of a tile of %s", bit, v ? "values" : "keys");
        }
    }
    drop(&p);
}

/* ---- rounding ---- */

struct rounded {
    uint8_t code[MOST_D + 1], factor[GROUPS + 1];
    uint16_t scale;
};

static struct rounded rounded(const struct kern *k, const float *x, size_t n)
{
    struct rounded r;

    memset(&r, 99, sizeof(r));
    k->to_i4(r.code, r.factor, &r.scale, x, n);
    return r;
}

static double value(const struct rounded *r, size_t i)
{
    return (r->code[i] - 8) * (r->factor[i / KERN_I4_GROUP] + 1) * (double)dtype_bf16_to_f32(r->scale);
}

static void rows_are_rounded_differently_or_by_more_than_a_step(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n_rows = rows_list(list);
    struct check_rng g = {43};
    float x[MOST_D];

    for (size_t n = 1; n <= MOST_D; n += n < 70 ? 1 : 61)
        for (int kind = 0; kind < 3; kind++) {
            struct rounded a;
            double m = 0, lost = 0, all = 0;

            for (size_t i = 0; i < n; i++) {
                x[i] = check_float(&g) * (kind == 1 ? 0x1p-110f : 1) * (i / KERN_I4_GROUP % 3 ? 1 : 0.2f);
                if (kind == 2 && check_below(&g, 9) == 0)
                    x[i] = check_below(&g, 2) ? NAN : INFINITY;
                m = fmax(m, fabs((double)x[i]));
            }
            a = rounded(&list[0].k, x, n);
            for (size_t row = 1; row < n_rows; row++)
                if (list[row].k.to_i4) {
                    struct rounded b = rounded(&list[row].k, x, n);

                    if (memcmp(&a, &b, sizeof(a)) != 0)
                        fail_msg("%s to_i4 n=%zu kind %d differs", list[row].name, n, kind);
                }
            assert_int_equal(a.code[(n + 15) / 16 * 16], 99);
            assert_int_equal(a.factor[(n + 15) / 16], 99);
            for (size_t i = n; i < (n + 15) / 16 * 16; i++)
                assert_int_equal(a.code[i], 8);
            for (size_t i = 0; i < n && kind < 2; i++) {
                lost += pow((double)x[i] - value(&a, i), 2);
                all += pow((double)x[i], 2);
                assert_true(fabs((double)x[i] - value(&a, i)) <= m / 7 * 3);
            }
            if (kind < 2 && lost > 0.02 * all + 0x1p-240)
                fail_msg("n=%zu: %.4f of a row's squares are lost", n, lost / all);
        }
}

static void rows_of_zeros_or_tiny_or_boundless_numbers_are_undefined(void **state)
{
    struct rows list[ROWS_MAX];
    size_t n = rows_list(list);
    float zero[20] = {0, -0.0f, 0x1p-149f}, whole[16] = {112, -128, 16, -16, 32, 7.9f}, most[16] = {INFINITY};

    for (size_t row = 0; row < n; row++) {
        struct rounded r;

        if (!list[row].k.to_i4)
            continue;
        r = rounded(&list[row].k, zero, 20);
        assert_int_equal(r.scale, 0);
        for (size_t i = 0; i < 32; i++)
            assert_int_equal(r.code[i], 8);
        assert_int_equal(r.factor[0] + r.factor[1], 0);
        r = rounded(&list[row].k, whole, 16);
        assert_true(fabs(value(&r, 0) - 112) < 8 && fabs(value(&r, 1) + 128) < 8);
        assert_int_equal(r.code[5], 8);
        r = rounded(&list[row].k, most, 16);
        assert_true(isinf(dtype_bf16_to_f32(r.scale)));
        assert_true(r.code[0] == 15 && r.code[1] == 8);
    }
}

static int setup(void **state)
{
    scratch = aligned_alloc(64, kern_i4_scratch_bytes(MOST_D));
    return scratch ? 0 : -1;
}

static int teardown(void **state)
{
    free(scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_differs_from_the_int8_that_it_stands_for),
        cmocka_unit_test(a_bit_of_a_tile_stands_for_nothing),
        cmocka_unit_test(rows_are_rounded_differently_or_by_more_than_a_step),
        cmocka_unit_test(rows_of_zeros_or_tiny_or_boundless_numbers_are_undefined),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
