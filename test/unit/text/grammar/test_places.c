/* test_places.c - from which function and schema rules come, and what a constraint says of a limit. */
#include "text/grammar/places.h"

#include "base/mem.h"

static void the_narrowest_place_of_a_rule_is_said(void **state)
{
    struct places p = {0};

    assert_null(places_only(&p));
    assert_null(places_of(&p, 0));
    assert_int_equal(places_add(&p, 3, 9, "f", "/tools/0/function/parameters", NULL), 0);
    assert_int_equal(places_add(&p, 5, 6, "f", "/tools/0/function/parameters/properties/a", NULL), 0);
    assert_string_equal(places_of(&p, 3), "function \"f\": schema at /tools/0/function/parameters");
    assert_string_equal(places_of(&p, 5),
                        "function \"f\": schema at /tools/0/function/parameters/properties/a");
    assert_string_equal(places_of(&p, 8), places_of(&p, 3));
    assert_null(places_of(&p, 2));
    assert_null(places_of(&p, 9));
    assert_string_equal(places_only(&p), places_of(&p, 3));
    assert_int_equal(places_add(&p, 9, 12, NULL, "", NULL), 0);
    assert_string_equal(places_of(&p, 9), "schema");
    assert_null(places_only(&p));
    places_close(&p);
    assert_int_equal(mem_live_blocks(), 0);
}

/* Where places of single rules would take too much memory, the place of their schema is said. */
static void places_take_little_memory(void **state)
{
    struct places p = {0};
    char pointer[500];

    memset(pointer, 'x', sizeof(pointer) - 1);
    pointer[0] = '/';
    pointer[sizeof(pointer) - 1] = 0;
    assert_int_equal(places_add(&p, 0, 1000, NULL, "/a", NULL), 0);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(places_add(&p, i, i + 1, NULL, pointer, NULL), 0);
    assert_in_range(p.n_bytes, PLACES_MOST_BYTES - 600, PLACES_MOST_BYTES + 1);
    assert_string_equal(places_of(&p, 999), "schema at /a");
    assert_int_equal(strlen(places_of(&p, 0)), strlen("schema at ") + 499);
    /* those of whole schemas are kept */
    assert_int_equal(places_add(&p, 1000, 1002, "g", "/b", NULL), 0);
    assert_string_equal(places_of(&p, 1001), "function \"g\": schema at /b");
    places_close(&p);
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_narrowest_place_of_a_rule_is_said),
                                       cmocka_unit_test(places_take_little_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
