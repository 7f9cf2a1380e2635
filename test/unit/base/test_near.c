/* test_near.c - the known name that is closest to a mistyped word. */
#include "base/near.h"

static const char *guess(const char *word, const char *names)
{
    static char found[64];
    struct near n;

    near_begin(&n, word, strlen(word));
    near_offer_list(&n, names);
    if (!n.name)
        return NULL;
    memcpy(found, n.name, n.name_len);
    found[n.name_len] = 0;
    return found;
}

static void one_edit_of_each_kind_is_seen(void **state)
{
    static const char names[] = "prompt|temperature|seed";

    assert_string_equal(guess("temprature", names), "temperature");   /* A letter is missing. */
    assert_string_equal(guess("temperrature", names), "temperature"); /* There is one letter too many. */
    assert_string_equal(guess("temperatyre", names), "temperature");  /* One letter is different. */
    assert_string_equal(guess("tepmerature", names), "temperature");  /* Two letters are swapped. */
    assert_string_equal(guess("Temperature", names), "temperature");
    assert_string_equal(guess("sede", names), "seed");
    assert_string_equal(guess("max_new_tokens", "max-new-tokens"), "max-new-tokens");
}

static void a_third_of_the_letters_may_be_wrong_and_no_more(void **state)
{
    assert_string_equal(guess("abcdxx", "abcdef"), "abcdef");
    assert_null(guess("abcxxx", "abcdef"));
    assert_null(guess("xx", "ab"));
    assert_string_equal(guess("ax", "ab"), "ab");
    assert_null(guess("a", "b"));
    assert_null(guess("", "b"));
}

static void the_closest_name_wins_and_the_first_of_equals(void **state)
{
    assert_string_equal(guess("top-q", "top-k|top-p"), "top-k");
    assert_string_equal(guess("top-pp", "top-k|top-p"), "top-p");
    assert_string_equal(guess("stop", "stop-token|stop"), "stop");
}

static void long_words_are_not_compared(void **state)
{
    char a[NEAR_MAX_BYTES + 2];

    memset(a, 'a', sizeof(a));
    a[NEAR_MAX_BYTES] = 0;
    assert_string_equal(guess(a, a), a);
    a[NEAR_MAX_BYTES] = 'a', a[NEAR_MAX_BYTES + 1] = 0;
    assert_null(guess(a, a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_edit_of_each_kind_is_seen),
                                       cmocka_unit_test(a_third_of_the_letters_may_be_wrong_and_no_more),
                                       cmocka_unit_test(the_closest_name_wins_and_the_first_of_equals),
                                       cmocka_unit_test(long_words_are_not_compared)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
