/* test_quant.c - quantized blocks against the results of gguf-py for the same bytes (test/data/gguf, made by
 * test/make/gguf-vectors), and views of them. */
#include "tensor/quant.h"
#include "tensor/view.h"

static const enum dtype types[] = {
#define QUANT(name, ...) DT_##name,
#include "tensor/quant.def"
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

/* One file of vectors. */
struct vectors {
    enum dtype t;
    size_t n; /* elements */
    char *blocks;
    float *want;
};

static void load(struct vectors *v, enum dtype t)
{
    char path[512];
    uint32_t n;
    FILE *f;

    snprintf(path, sizeof(path), "%s/test/data/gguf/%s.bin", GALLOP_SOURCE_DIR, dtype_name(t));
    f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    assert_int_equal(fread(&n, 4, 1, f), 1);
    assert_in_range(n, 3, 100);
    *v = (struct vectors){.t = t, .n = n * dtype_group(t)};
    v->blocks = malloc(n * dtype_bytes(t));
    v->want = malloc(v->n * sizeof(float));
    assert_true(v->blocks && v->want);
    assert_int_equal(fread(v->blocks, dtype_bytes(t), n, f), n);
    assert_int_equal(fread(v->want, sizeof(float), v->n, f), v->n);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

static void unload(struct vectors *v)
{
    free(v->blocks);
    free(v->want);
}

/* Returns the first element whose bits differ, or N. */
static size_t first_difference(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0)
            return i;
    return n;
}

static void every_block_decodes_as_gguf_py_does(void **state)
{
    for (int i = 0; i < N_TYPES; i++) {
        struct vectors v;
        float *got;

        load(&v, types[i]);
        got = malloc(v.n * sizeof(float));
        assert_non_null(got);
        quant_to_f32(got, v.blocks, v.t, 0, v.n);
        if (first_difference(got, v.want, v.n) != v.n)
            fail_msg("%s: element %zu differs", dtype_name(v.t), first_difference(got, v.want, v.n));
        free(got);
        unload(&v);
    }
}

static void one_wrong_bit_is_seen(void **state)
{
    for (int i = 0; i < N_TYPES; i++) {
        struct vectors v;
        float *got;

        load(&v, types[i]);
        got = malloc(v.n * sizeof(float));
        assert_non_null(got);
        v.blocks[(v.n / dtype_group(v.t) - 1) * dtype_bytes(v.t) + 5] ^= 1;
        quant_to_f32(got, v.blocks, v.t, 0, v.n);
        assert_true(first_difference(got, v.want, v.n) < v.n);
        free(got);
        unload(&v);
    }
}

static void any_part_of_a_run_equals_that_part_of_the_whole(void **state)
{
    for (int i = 0; i < N_TYPES; i++) {
        struct vectors v;
        float *got;

        load(&v, types[i]);
        for (size_t first = 0; first < v.n; first += 13)
            for (size_t n = 0; first + n <= v.n; n += 1 + n) {
                got = malloc(n * sizeof(float) + 1);
                assert_non_null(got);
                quant_to_f32(got, v.blocks, v.t, first, n);
                assert_int_equal(first_difference(got, v.want + first, n), n);
                free(got);
            }
        unload(&v);
    }
}

static void blocks_may_lie_at_any_address(void **state)
{
    struct vectors v;
    char *odd;
    float got[32];

    load(&v, DT_Q5_1);
    odd = malloc(dtype_bytes(v.t) + 1);
    assert_non_null(odd);
    memcpy(odd + 1, v.blocks, dtype_bytes(v.t));
    quant_to_f32(got, odd + 1, v.t, 0, 32);
    assert_int_equal(first_difference(got, v.want, 32), 32);
    free(odd);
    unload(&v);
}

/* ---- views ---- */

/* [6, 64] of the Q8_0 vectors. */
static struct view matrix(const struct vectors *v)
{
    struct view m = {.name = "m", .data = v->blocks, .dtype = v->t, .n_dims = 2, .shape = {6, 64}};

    assert_true(v->n >= 6 * 64);
    view_set_contiguous(&m);
    return m;
}

static void rows_of_a_block_view_are_its_rows(void **state)
{
    struct vectors v;
    struct view m;
    float got[64];

    load(&v, DT_Q8_0);
    m = matrix(&v);
    assert_int_equal(view_bytes(&m), 6 * 2 * 34);
    for (size_t r = 0; r < 6; r++) {
        view_row_f32(&m, r, got);
        assert_int_equal(first_difference(got, v.want + r * 64, 64), 64);
        view_part_f32(&m, r, 21, 30, got);
        assert_int_equal(first_difference(got, v.want + r * 64 + 21, 30), 30);
    }
    unload(&v);
}

static void a_turned_block_view_gives_columns_and_turns_back(void **state)
{
    struct vectors v;
    struct view m, t, back;
    float got[64];

    load(&v, DT_Q8_0);
    m = matrix(&v);
    t = view_transposed(&m);
    for (size_t c = 0; c < 64; c++) {
        view_row_f32(&t, c, got);
        for (size_t r = 0; r < 6; r++)
            assert_memory_equal(&got[r], &v.want[r * 64 + c], sizeof(float));
    }
    back = view_transposed(&t);
    view_row_f32(&back, 5, got);
    assert_int_equal(first_difference(got, v.want + 5 * 64, 64), 64);
    unload(&v);
}

static void zipped_rows_come_back_in_halves(void **state)
{
    static const size_t stored[6] = {0, 2, 1, 3, 4, 5}; /* groups of four and of two heads */
    static const float vector[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    struct view bias = {.name = "b", .data = vector, .dtype = DT_F32, .n_dims = 1, .shape = {8}, .zipped = 8};
    struct vectors v;
    struct view m;
    float got[64];

    load(&v, DT_Q8_0);
    m = matrix(&v);
    m.shape[0] = 4;
    m.zipped = 4;
    assert_false(view_is_contiguous(&m));
    for (size_t r = 0; r < 4; r++) {
        view_row_f32(&m, r, got);
        assert_int_equal(first_difference(got, v.want + stored[r] * 64, 64), 64);
    }
    m.shape[0] = 6;
    m.zipped = 2; /* one row in each half: nothing changes */
    view_row_f32(&m, 4, got);
    assert_int_equal(first_difference(got, v.want + 4 * 64, 64), 64);
    view_set_contiguous(&bias);
    view_row_f32(&bias, 0, got);
    for (size_t i = 0; i < 8; i++)
        assert_true(got[i] == (float)i);
    view_part_f32(&bias, 0, 3, 2, got);
    assert_true(got[0] == 3 && got[1] == 4);
    unload(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_decodes_as_gguf_py_does),
        cmocka_unit_test(one_wrong_bit_is_seen),
        cmocka_unit_test(any_part_of_a_run_equals_that_part_of_the_whole),
        cmocka_unit_test(blocks_may_lie_at_any_address),
        cmocka_unit_test(rows_of_a_block_view_are_its_rows),
        cmocka_unit_test(a_turned_block_view_gives_columns_and_turns_back),
        cmocka_unit_test(zipped_rows_come_back_in_halves),
    };

    return cmocka_run_group_tests_name("tensor/quant", tests, NULL, NULL);
}
