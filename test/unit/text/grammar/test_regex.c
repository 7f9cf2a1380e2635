/* test_regex.c - random expressions against the sets of short texts that they describe by definition, the
 * counts of states of large repetitions, the limits of a store, and UTF-8.
 */
#include "base/threads/thread.h"
#include "base/utf8.h"
#include "shorttexts.h"
#include "text/grammar/automata/regex.h"

/* A random expression of at most DEPTH operators, and the short texts of its language. */
static uint32_t random_expression(struct regex_store *s, int depth, uint64_t *texts)
{
    uint64_t x, y;
    uint32_t a, b, least = short_dice(3), most = short_dice(3) ? least + short_dice(3) : REGEX_NO_LIMIT;

    switch (depth == 0 ? short_dice(3) : 3 + short_dice(7)) {
    case 0: *texts = 2; return regex_literal(s, "a", 1);
    case 1: *texts = 6; return regex_range(s, 'a', 'b');
    case 2: *texts = UINT64_C(1) << short_number("bab", 3); return regex_literal(s, "bab", 3);
    case 3:
    case 4:
        a = random_expression(s, depth - 1, &x);
        b = random_expression(s, depth - 1, &y);
        *texts = short_concat(x, y);
        return regex_concat(s, a, b);
    case 5:
        a = random_expression(s, depth - 1, &x);
        b = random_expression(s, depth - 1, &y);
        *texts = x | y;
        return regex_or(s, a, b);
    case 6:
        a = random_expression(s, depth - 1, &x);
        b = random_expression(s, depth - 1, &y);
        *texts = x & y;
        return regex_and(s, a, b);
    case 7:
        a = random_expression(s, depth - 1, &x);
        *texts = ~x & SHORT_ALL;
        return regex_not(s, a);
    default:
        a = random_expression(s, depth - 1, &x);
        *texts = short_repeat(x, least, most);
        return regex_repeat(s, a, least, most);
    }
}

static void random_expressions_match_the_texts_of_their_definition(void **state)
{
    for (int round = 0; round < 3000; round++) {
        struct regex_store s;
        uint64_t expected, found = 0;
        char text[SHORT_LONGEST + 1];
        uint32_t r;

        assert_int_equal(regex_open(&s, 64 << 20, 1 << 22), 0);
        r = random_expression(&s, 1 + (int)short_dice(4), &expected);
        for (unsigned i = 0; i < SHORT_TEXTS; i++) {
            size_t n = short_text(i, text);

            found |= (uint64_t)regex_matches(&s, r, text, n) << i;
        }
        assert_int_equal(s.fault, REGEX_FINE);
        assert_int_equal(found, expected);
        if (expected)
            assert_false(regex_is_empty(&s, r));
        regex_close(&s);
    }
}

/* A state that is not REGEX_NOTHING must have a text: dead ends would let a model write half a value. */
static void a_derivative_without_texts_is_nothing(void **state)
{
    struct regex_store s;
    uint32_t a, r;

    assert_int_equal(regex_open(&s, 64 << 20, 1 << 20), 0);
    /* an even number of letters, all a, and a b at the end */
    a = regex_repeat(&s, regex_range(&s, 'a', 'a'), 0, REGEX_NO_LIMIT);
    r = regex_and(&s, regex_repeat(&s, regex_literal(&s, "aa", 2), 0, REGEX_NO_LIMIT),
                  regex_concat(&s, a, regex_literal(&s, "ab", 2)));
    assert_true(regex_is_empty(&s, r));
    r = regex_and(&s, regex_not(&s, regex_literal(&s, "xy", 2)), regex_literal(&s, "xy", 2));
    assert_int_equal(regex_next(&s, r, 'x'), REGEX_NOTHING);
    assert_true(regex_is_empty(&s, r));
    r = regex_and(&s, regex_not(&s, regex_literal(&s, "xy", 2)),
                  regex_concat(&s, regex_literal(&s, "x", 1), a));
    assert_false(regex_is_empty(&s, r));
    assert_true(regex_matches(&s, r, "x", 1));
    regex_close(&s);
}

static void a_large_repetition_costs_a_state_for_each_byte_read(void **state)
{
    struct regex_store s;
    uint32_t r;
    size_t before;

    assert_int_equal(regex_open(&s, 1 << 20, 1 << 20), 0);
    r = regex_repeat(&s, regex_characters(&s, 0, 0x10ffff), 0, 1000000);
    before = s.n;
    for (int i = 0; i < 1000; i++)
        r = regex_next(&s, r, 'x');
    assert_true(regex_matches_empty(&s, r));
    assert_in_range(s.n - before, 1000, 1010);
    assert_int_equal(s.fault, REGEX_FINE);
    regex_close(&s);
}

/* (a?){1000}a{1000} has 2^1000 ways to match for a backtracking matcher. */
static void neighbouring_repetitions_add_up(void **state)
{
    struct regex_store s;
    uint32_t a, r;
    char text[2001];

    memset(text, 'a', sizeof(text));
    assert_int_equal(regex_open(&s, 1 << 20, 1 << 20), 0);
    a = regex_range(&s, 'a', 'a');
    r = regex_concat(&s, regex_repeat(&s, regex_repeat(&s, a, 0, 1), 1000, 1000),
                     regex_repeat(&s, a, 1000, 1000));
    assert_false(regex_matches(&s, r, text, 999));
    assert_true(regex_matches(&s, r, text, 1000));
    assert_true(regex_matches(&s, r, text, 2000));
    assert_false(regex_matches(&s, r, text, 2001));
    regex_close(&s);
}

/* 400 000 parts, whose emptiness has to be searched: the stack must not grow with their number. */
static void a_long_concatenation_is_read_without_recursion(void **state)
{
    struct regex_store s;
    uint32_t part[2], r;

    assert_int_equal(regex_open(&s, 512 << 20, 1 << 24), 0);
    r = regex_and(&s, regex_not(&s, regex_literal(&s, "x", 1)), regex_range(&s, 'x', 'y'));
    for (int i = 0; i < 2; i++)
        part[i] = regex_repeat(&s, regex_range(&s, (uint8_t)('a' + i), (uint8_t)('a' + i)), 0, 1);
    for (int i = 0; i < 400000; i++)
        r = regex_concat(&s, part[i % 2], r);
    assert_false(regex_is_empty(&s, r));
    assert_int_equal(s.fault, REGEX_FINE);
    regex_close(&s);
}

/* Wraps R in an expression of the kind KIND. */
static uint32_t wrap(struct regex_store *s, int kind, uint32_t r)
{
    uint32_t a = regex_range(s, 'a', 'a');

    return kind == 0   ? regex_repeat(s, regex_concat(s, r, a), 0, 3)
           : kind == 1 ? regex_not(s, regex_or(s, r, regex_concat(s, a, a)))
           : kind == 2 ? regex_concat(s, regex_or(s, r, regex_concat(s, a, a)), a)
                       : regex_repeat(s, regex_and(s, regex_not(s, r), regex_not(s, a)), 0, 2);
}

/* At the largest depth, all functions that recurse fit the stack of a small thread; one more is a fault. */
static void *match_deep(void *context)
{
    size_t *most = context;

    for (int kind = 0; kind < 4; kind++) {
        struct regex_store s;
        struct regex_set first;
        uint32_t r, whole = REGEX_NOTHING;
        size_t n = 0;

        assert_int_equal(regex_open(&s, 64 << 20, 1 << 20), 0);
        for (r = regex_range(&s, 'a', 'b'); s.fault == REGEX_FINE; n++) {
            whole = r;
            r = wrap(&s, kind, r);
        }
        assert_int_equal(s.fault, REGEX_OVER_DEPTH);
        s.fault = REGEX_FINE;
        regex_first(&s, whole, &first);
        regex_is_empty(&s, whole);
        regex_clamp(&s, whole, 4);
        regex_next(&s, whole, 'a');
        most[kind] = n;
        regex_close(&s);
    }
    return NULL;
}

static void nested_expressions_are_limited_and_fit_the_stack(void **state)
{
    size_t most[4];
    struct thread t;

    assert_int_equal(thread_start(&t, match_deep, most), 0);
    thread_join(&t);
    assert_int_equal(most[0], (REGEX_MOST_DEPTH - 2) / 2 + 1); /* a concatenation and its repetition */
    assert_int_equal(most[1], (REGEX_MOST_DEPTH - 1) / 2 + 1);
    assert_int_equal(most[2], (REGEX_MOST_DEPTH - 1) / 2 + 1);
    assert_int_equal(most[3], (REGEX_MOST_DEPTH - 1) / 3 + 1);
}

static void limits_of_memory_and_work_end_in_a_fault(void **state)
{
    struct regex_store s;
    uint32_t r;

    assert_int_equal(regex_open(&s, 20000, 1 << 20), 0);
    r = regex_repeat(&s, regex_range(&s, 'a', 'z'), 0, 1000000);
    for (int i = 0; i < 10000; i++)
        r = regex_next(&s, r, 'x');
    assert_int_equal(s.fault, REGEX_OVER_MEMORY);
    assert_int_equal(r, REGEX_NOTHING);
    regex_close(&s);

    assert_int_equal(regex_open(&s, 1 << 20, 100), 0);
    r = regex_repeat(&s, regex_range(&s, 'a', 'z'), 0, 1000000);
    for (int i = 0; i < 200; i++)
        r = regex_next(&s, r, 'x');
    assert_int_equal(s.fault, REGEX_OVER_WORK);
    regex_close(&s);
}

static void characters_are_utf8_without_surrogates(void **state)
{
    static const struct {
        uint32_t low, high;
    } range[] = {{0, 0x10ffff},        {'a', 'z'},        {0x7f, 0x80},     {0x7ff, 0x800},
                 {0xd7ff, 0xe000},     {0xfff0, 0x10010}, {0x3042, 0x4e2d}, {0x1f600, 0x1f64f},
                 {0x10ffff, 0x10ffff}, {0xd800, 0xdfff},  {0x81, 0x2fff1}};

    for (size_t i = 0; i < sizeof(range) / sizeof(*range); i++) {
        struct regex_store s;
        uint32_t r;

        assert_int_equal(regex_open(&s, 16 << 20, 1 << 24), 0);
        r = regex_characters(&s, range[i].low, range[i].high);
        for (uint32_t c = 0; c < 0x110000; c += c < 0x900 || (c > 0xd700 && c < 0x10200) ? 1 : 13) {
            char text[4];
            size_t n = utf8_encode(c, text);
            bool is_surrogate = c >= 0xd800 && c < 0xe000;

            if (is_surrogate)
                continue;
            if (regex_matches(&s, r, text, n) != (c >= range[i].low && c <= range[i].high))
                fail_msg("U+%04X in [U+%04X, U+%04X]", c, range[i].low, range[i].high);
        }
        assert_false(regex_matches(&s, r, "\xed\xa0\x80", 3));
        assert_false(regex_matches(&s, r, "\xc0\x80", 2));
        regex_close(&s);
    }
}

static void multiples_are_counted_digit_by_digit(void **state)
{
    struct regex_store s;
    uint32_t r;
    char text[16];

    assert_int_equal(regex_open(&s, 16 << 20, 1 << 24), 0);
    r = regex_and(&s, regex_multiple(&s, 7), regex_repeat(&s, regex_range(&s, '0', '9'), 1, REGEX_NO_LIMIT));
    for (int i = 0; i < 3000; i++)
        assert_int_equal(regex_matches(&s, r, text, (size_t)snprintf(text, sizeof(text), "%d", i)),
                         i % 7 == 0);
    regex_close(&s);
}

/* Clamping must not change which of the next bytes are allowed, and must make most states equal. */
static void clamped_states_allow_the_same_next_bytes(void **state)
{
    struct regex_store s;
    uint32_t letter, r, wide;

    assert_int_equal(regex_open(&s, 16 << 20, 1 << 24), 0);
    letter = regex_range(&s, 'a', 'z');
    r = regex_concat(&s, regex_repeat(&s, letter, 100, 500), regex_literal(&s, ".", 1));
    wide = regex_clamp(&s, r, 8);
    for (int i = 0; i < 500; i++, r = regex_next(&s, r, 'k')) {
        uint32_t exact = r, clamped = regex_clamp(&s, r, 8);

        if (i < 92)
            assert_int_equal(clamped, wide);
        for (int j = 0; j < 8; j++) {
            assert_int_equal(regex_next(&s, exact, 'k') != REGEX_NOTHING,
                             regex_next(&s, clamped, 'k') != REGEX_NOTHING);
            assert_int_equal(regex_next(&s, exact, '.') != REGEX_NOTHING,
                             regex_next(&s, clamped, '.') != REGEX_NOTHING);
            exact = regex_next(&s, exact, 'k');
            clamped = regex_next(&s, clamped, 'k');
        }
    }
    assert_int_equal(s.fault, REGEX_FINE);
    regex_close(&s);
}

/* Compares which texts of at most LEFT letters lead from A and from B to a state, and to the end of a text. */
static void compare_beginnings(struct regex_store *s, uint32_t a, uint32_t b, unsigned left)
{
    assert_int_equal(a == REGEX_NOTHING, b == REGEX_NOTHING);
    assert_int_equal(regex_matches_empty(s, a), regex_matches_empty(s, b));
    for (char letter = 'a'; letter <= 'c' && left > 0 && a != REGEX_NOTHING; letter++)
        compare_beginnings(s, regex_next(s, a, (uint8_t)letter), regex_next(s, b, (uint8_t)letter), left - 1);
}

/* Bounds that a short text cannot reach do not count, within intersections as well. */
static void clamping_changes_no_short_text(void **state)
{
    size_t n_changed = 0, n_simpler = 0;

    for (int round = 0; round < 4000; round++) {
        struct regex_store s;
        uint64_t texts;
        uint32_t r, clamped, most = 1 + short_dice(4), bound = short_dice(12);

        assert_int_equal(regex_open(&s, 64 << 20, 1 << 22), 0);
        r = random_expression(&s, 1 + (int)short_dice(3), &texts);
        if (short_dice(4))
            r = regex_and(&s, r,
                          regex_repeat(&s, regex_range(&s, 'a', short_dice(2) ? 'b' : 'c'),
                                       short_dice(5) ? 0 : bound / 2, bound));
        r = short_dice(2) ? regex_concat(&s, r, regex_range(&s, 'c', 'c')) : r;
        r = regex_is_empty(&s, r) ? REGEX_NOTHING : r; /* states are never empty */
        clamped = regex_clamp(&s, r, most);
        compare_beginnings(&s, r, clamped, most);
        assert_int_equal(regex_clamp(&s, r, most), clamped);
        assert_int_equal(s.fault, REGEX_FINE);
        n_changed += clamped != r;
        for (char c = 'a'; c <= 'c' && clamped != r; c++) /* states behind it are clamped alike */
            n_simpler += regex_clamp(&s, regex_next(&s, r, (uint8_t)c), most) == clamped;
        regex_close(&s);
    }
    assert_in_range(n_changed, 300, 4000);
    assert_in_range(n_simpler, 20, 12000);
}

/* What completes a beginning may be longer than the shortest text: "ab" needs four more letters, which the length does
 * not allow. */
static void a_length_counts_what_completes_a_text(void **state)
{
    for (uint32_t length = 1; length < 9; length++) {
        struct regex_store s;
        uint32_t r, a, five;

        assert_int_equal(regex_open(&s, 16 << 20, 1 << 20), 0);
        a = regex_range(&s, 'a', 'a');
        five = regex_literal(&s, "bbbbb", 5);
        r = regex_and(&s, regex_concat(&s, a, regex_repeat(&s, five, 0, 1)),
                      regex_repeat(&s, regex_range(&s, 'a', 'b'), 0, length));
        compare_beginnings(&s, r, regex_clamp(&s, r, 2), 2);
        r = regex_and(&s, regex_repeat(&s, regex_concat(&s, a, five), 1, 3),
                      regex_repeat(&s, regex_range(&s, 'a', 'b'), 0, 2 * length));
        r = regex_is_empty(&s, r) ? REGEX_NOTHING : r;
        compare_beginnings(&s, r, regex_clamp(&s, r, 1), 1);
        regex_close(&s);
    }
}

/* At most ten words in at most 100 characters: far from the bounds, the number of characters does not matter. */
static void states_of_a_pattern_with_a_length_are_shared(void **state)
{
    struct regex_store s;
    uint32_t letter, word, r, first;
    size_t n_before;

    assert_int_equal(regex_open(&s, 16 << 20, 1 << 24), 0);
    letter = regex_range(&s, 'a', 'z');
    word = regex_repeat(&s, letter, 1, REGEX_NO_LIMIT);
    r = regex_concat(&s, regex_repeat(&s, regex_concat(&s, word, regex_range(&s, ' ', ' ')), 0, 9), word);
    r = regex_and(&s, r, regex_repeat(&s, regex_range(&s, ' ', 'z'), 0, 100));
    r = regex_next(&s, r, 'k');
    first = regex_clamp(&s, r, 8);
    n_before = s.n;
    for (int i = 1; i < 100; i++) {
        r = regex_next(&s, r, 'k');
        assert_true(r != REGEX_NOTHING);
        if (99 - i > 11) /* 8 bytes, and 3 that complete a text: a letter, a blank and a letter */
            assert_int_equal(regex_clamp(&s, r, 8), first);
        else if (99 - i < 8)
            assert_true(regex_clamp(&s, r, 8) != first);
    }
    assert_true(s.n - n_before < 99 * 8);
    assert_int_equal(regex_next(&s, r, 'k'), REGEX_NOTHING);
    assert_int_equal(s.fault, REGEX_FINE);
    regex_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_expressions_match_the_texts_of_their_definition),
        cmocka_unit_test(a_derivative_without_texts_is_nothing),
        cmocka_unit_test(a_large_repetition_costs_a_state_for_each_byte_read),
        cmocka_unit_test(neighbouring_repetitions_add_up),
        cmocka_unit_test(a_long_concatenation_is_read_without_recursion),
        cmocka_unit_test(nested_expressions_are_limited_and_fit_the_stack),
        cmocka_unit_test(limits_of_memory_and_work_end_in_a_fault),
        cmocka_unit_test(characters_are_utf8_without_surrogates),
        cmocka_unit_test(multiples_are_counted_digit_by_digit),
        cmocka_unit_test(clamped_states_allow_the_same_next_bytes),
        cmocka_unit_test(clamping_changes_no_short_text),
        cmocka_unit_test(a_length_counts_what_completes_a_text),
        cmocka_unit_test(states_of_a_pattern_with_a_length_are_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
