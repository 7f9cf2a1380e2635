/* test_pairs.c - the chosen combinations contain what they must contain, and are few. */
#include "pairs.h"

static const size_t size[] = {3, 7, 2, 5, 1, 4};
enum { N = sizeof(size) / sizeof(size[0]) };

/* Returns the row that holds value A of dimension D and value B of E, or N_ROWS. */
static size_t find(const struct pairs_row *row, size_t n_rows, size_t d, size_t a, size_t e, size_t b)
{
    size_t i = 0;

    while (i < n_rows && !(row[i].at[d] == a && row[i].at[e] == b))
        i++;
    return i;
}

static void a_pair_of_values_is_missing(void **state)
{
    size_t n, lone = 0;
    struct pairs_row *row = pairs_cover(size, N, 0, &n);

    for (size_t d = 0; d < N; d++)
        for (size_t e = d + 1; e < N; e++)
            for (size_t k = 0; k < size[d] * size[e]; k++) {
                size_t at = find(row, n, d, k / size[e], e, k % size[e]);

                assert_true(at < n);
                lone += find(row + at + 1, n - at - 1, d, k / size[e], e, k % size[e]) == n - at - 1;
            }
    assert_true(lone > 0); /* The search fails if one row is left out. */
    assert_true(n >= 7 * 5 && n <= 7 * 5 + 10);
    free(row);
}

static void a_combination_of_whole_dimensions_is_missing(void **state)
{
    size_t n;
    struct pairs_row *row = pairs_cover(size, N, 1u << 0 | 1u << 1 | 1u << 5, &n);
    bool seen[3 * 7 * 4] = {false};
    size_t n_seen = 0;

    for (size_t i = 0; i < n; i++) {
        bool *s = &seen[(row[i].at[0] * 7 + row[i].at[1]) * 4 + row[i].at[5]];

        n_seen += !*s;
        *s = true;
    }
    assert_int_equal(n_seen, 3 * 7 * 4);
    assert_true(find(row, n, 1, 6, 3, 4) < n);
    free(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_of_values_is_missing),
        cmocka_unit_test(a_combination_of_whole_dimensions_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
