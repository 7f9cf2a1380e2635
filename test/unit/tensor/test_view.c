/* test_view.c - shapes and strides. */
#include "tensor/view.h"

static void elements_are_the_product_of_the_shape(void **state)
{
    struct view v = {.n_dims = 3, .shape = {2, 3, 4}};

    assert_int_equal(view_elements(&v), 24);
    v.n_dims = 0;
    assert_int_equal(view_elements(&v), 1);
    v.n_dims = 2;
    v.shape[1] = 0;
    assert_int_equal(view_elements(&v), 0);
}

static void contiguous_means_row_major_without_gaps(void **state)
{
    struct view v = {.n_dims = 3, .shape = {2, 3, 4}};

    view_set_contiguous(&v);
    assert_true(v.stride[0] == 12 && v.stride[1] == 4 && v.stride[2] == 1);
    assert_true(view_is_contiguous(&v));
    v.stride[0] = 13;
    assert_false(view_is_contiguous(&v));
    v.shape[0] = 1; /* The stride of a dimension of size 1 is never used. */
    assert_true(view_is_contiguous(&v));
    v.shape[0] = 0; /* An empty tensor stores nothing. */
    assert_true(view_is_contiguous(&v));
    v = (struct view){.n_dims = 0};
    assert_true(view_is_contiguous(&v));
    v = (struct view){.n_dims = 1, .shape = {3}, .stride = {0}};
    assert_false(view_is_contiguous(&v));
}

static void a_transposed_view_reads_columns(void **state)
{
    const float x[6] = {1, 2, 3, 4, 5, 6};
    struct view v = {.data = x, .dtype = DT_F32, .n_dims = 2, .shape = {2, 3}}, t;
    float row[3];

    view_set_contiguous(&v);
    view_row_f32(&v, 1, row);
    assert_true(row[0] == 4 && row[1] == 5 && row[2] == 6);
    t = view_transposed(&v);
    assert_true(t.shape[0] == 3 && t.shape[1] == 2 && !view_is_contiguous(&t));
    view_row_f32(&t, 2, row);
    assert_true(row[0] == 3 && row[1] == 6);
    t = view_transposed(&t);
    assert_memory_equal(&t, &v, sizeof(v));
}

static void vectors_and_scalars_are_one_row(void **state)
{
    const uint16_t x[4] = {0x3f80, 0x4000, 0x4040, 0x4080}; /* 1, 2, 3, 4 */
    struct view v = {.data = x, .dtype = DT_BF16, .n_dims = 1, .shape = {2}, .stride = {3}};
    float row[2] = {0};

    view_row_f32(&v, 0, row);
    assert_true(row[0] == 1 && row[1] == 4);
    v.n_dims = 0;
    v.data = x + 2;
    view_row_f32(&v, 0, row);
    assert_true(row[0] == 3);
}

static void shapes_are_written_and_cut_to_the_space_there_is(void **state)
{
    struct view v = {.n_dims = 3, .shape = {2, 0, 18446744073709551615u}};
    char out[64];

    assert_string_equal(view_shape_text(&v, out, sizeof(out)), "[2, 0, 18446744073709551615]");
    for (size_t size = 1; size < 30; size++) {
        memset(out, '#', sizeof(out));
        view_shape_text(&v, out, size);
        assert_true(strlen(out) < size && out[size] == '#');
    }
    v.n_dims = 0;
    assert_string_equal(view_shape_text(&v, out, sizeof(out)), "[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_the_product_of_the_shape),
        cmocka_unit_test(contiguous_means_row_major_without_gaps),
        cmocka_unit_test(a_transposed_view_reads_columns),
        cmocka_unit_test(vectors_and_scalars_are_one_row),
        cmocka_unit_test(shapes_are_written_and_cut_to_the_space_there_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
