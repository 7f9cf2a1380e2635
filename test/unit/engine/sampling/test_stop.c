/* test_stop.c - ends of texts: tokens, lengths, and stop strings that are split in every possible way. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/sampling/sampling.h"
#include "engine/sampling/stop.h"

static struct sampling s;
static struct arena arena;
static struct stop st;
static struct buf shown;
static struct sampling_str list[8];

static int setup(void **state)
{
    sampling_default(&s);
    arena_init(&arena, MEM_ENGINE);
    buf_init(&shown, MEM_ENGINE);
    return 0;
}

static int teardown(void **state)
{
    arena_fini(&arena);
    buf_fini(&shown);
    return 0;
}

static void stop_at(const char *const *strings)
{
    s.stop = list;
    for (s.n_stop = 0; strings[s.n_stop]; s.n_stop++)
        list[s.n_stop] = (struct sampling_str){.s = strings[s.n_stop], .n = strlen(strings[s.n_stop])};
}

#define STOP_AT(...) stop_at((const char *const[]){__VA_ARGS__, NULL})

static void begin(size_t n_prompt, size_t max_len)
{
    struct err e = {0};

    arena_fini(&arena);
    buf_clear(&shown);
    assert_int_equal(stop_init(&st, &s, n_prompt, max_len, &arena, &e), 0);
}

static bool say(const char *piece)
{
    return stop_text(&st, piece, strlen(piece), &shown);
}

static void expect(const char *text)
{
    assert_string_equal(shown.data ? shown.data : "", text);
}

static void the_length_ends_it(void **state)
{
    s.max_new_tokens = 2;
    begin(3, 100);
    assert_int_equal(stop_token(&st, 5, 1), STOP_NONE);
    assert_int_equal(stop_token(&st, 5, 2), STOP_LENGTH);
}

static void a_full_context_ends_it(void **state)
{
    begin(98, 100);
    assert_int_equal(st.limit, 2);
    assert_int_equal(stop_token(&st, 5, 1), STOP_NONE);
    assert_int_equal(stop_token(&st, 5, 2), STOP_LENGTH);
    begin(100, 100);
    assert_int_equal(st.limit, 0);
    begin(200, 100);
    assert_int_equal(st.limit, 0);
}

static void a_models_max_length_counts_only_without_max_new_tokens(void **state)
{
    s.max_length = 20;
    sampling_mark(&s, SAMPLING_MAX_LENGTH);
    begin(15, 100);
    assert_int_equal(st.limit, 5);
    begin(19, 100);
    assert_int_equal(st.limit, 1);
    begin(20, 100); /* Such a prompt is refused before. */
    assert_int_equal(st.limit, 0);
    s.max_new_tokens = 9;
    sampling_mark(&s, SAMPLING_MAX_NEW_TOKENS);
    begin(15, 100);
    assert_int_equal(st.limit, 9);
}

static void end_tokens_end_it_unless_ignored(void **state)
{
    int32_t eos[] = {2, 7};

    s.eos = eos, s.n_eos = 2;
    begin(1, 100);
    assert_int_equal(stop_token(&st, 3, 1), STOP_NONE);
    assert_int_equal(stop_token(&st, 7, 2), STOP_EOS);
    assert_int_equal(st.token, 7);
    s.ignore_eos = true;
    begin(1, 100);
    assert_int_equal(stop_token(&st, 7, 1), STOP_NONE);
}

static void stop_tokens_end_it_even_when_end_tokens_are_ignored(void **state)
{
    int32_t eos[] = {2}, stops[] = {2, 9};

    s.eos = eos, s.n_eos = 1;
    s.stop_token = stops, s.n_stop_token = 2;
    begin(1, 100);
    assert_int_equal(stop_token(&st, 9, 1), STOP_TOKEN);
    assert_int_equal(st.token, 9);
    begin(1, 100);
    assert_int_equal(stop_token(&st, 2, 1), STOP_EOS);
    s.ignore_eos = true;
    begin(1, 100);
    assert_int_equal(stop_token(&st, 2, 1), STOP_TOKEN);
}

static void an_end_token_that_is_also_the_last_counts_as_stop(void **state)
{
    int32_t eos[] = {2};

    s.eos = eos, s.n_eos = 1;
    s.max_new_tokens = 1;
    begin(1, 100);
    assert_int_equal(stop_token(&st, 2, 1), STOP_EOS);
}

static void nothing_stops_before_min_new_tokens(void **state)
{
    int32_t eos[] = {2}, stops[] = {9};

    s.eos = eos, s.n_eos = 1;
    s.stop_token = stops, s.n_stop_token = 1;
    s.min_new_tokens = 2;
    STOP_AT("END");
    begin(1, 100);
    assert_int_equal(stop_token(&st, 2, 1), STOP_NONE);
    assert_false(say("END"));
    assert_int_equal(stop_token(&st, 9, 2), STOP_NONE);
    assert_false(say("END.EN")); /* The stop string begins before it and ends after it. */
    assert_int_equal(stop_token(&st, 3, 3), STOP_NONE);
    assert_true(say("D!"));
    expect("ENDEND.");
    begin(1, 100);
    assert_int_equal(stop_token(&st, 9, 3), STOP_TOKEN);
}

static void a_match_that_came_too_early_may_begin_the_one_that_counts(void **state)
{
    s.min_new_tokens = 1;
    STOP_AT("aba");
    begin(1, 100);
    stop_token(&st, 1, 1);
    assert_false(say("xaba"));
    expect("xab");
    stop_token(&st, 1, 2);
    assert_true(say("ba"));
    expect("xab");
}

static void a_stop_string_across_tokens_is_never_shown(void **state)
{
    STOP_AT("</answer>");
    begin(1, 100);
    stop_token(&st, 1, 1);
    assert_false(say("yes<"));
    expect("yes");
    stop_token(&st, 1, 2);
    assert_false(say("/ans"));
    expect("yes");
    stop_token(&st, 1, 3);
    assert_true(say("wer> and more"));
    expect("yes");
    assert_int_equal(st.why, STOP_STRING);
    assert_int_equal(st.string, 0);
    stop_flush(&st, &shown);
    expect("yes");
}

static void text_that_only_began_like_a_stop_string_is_shown_at_last(void **state)
{
    STOP_AT("\n\nQ:");
    begin(1, 100);
    stop_token(&st, 1, 1);
    assert_false(say("a\n\n"));
    expect("a");
    assert_false(say("b\n"));
    expect("a\n\nb");
    stop_flush(&st, &shown);
    expect("a\n\nb\n");
    stop_flush(&st, &shown);
    expect("a\n\nb\n");
}

static void a_stop_string_in_the_last_token_beats_the_length(void **state)
{
    STOP_AT("x");
    s.max_new_tokens = 1;
    begin(1, 100);
    assert_int_equal(stop_token(&st, 1, 1), STOP_LENGTH);
    assert_true(say("abxc"));
    expect("ab");
    assert_int_equal(st.why, STOP_STRING);
}

static void of_several_the_one_that_ends_first_counts_then_the_longest(void **state)
{
    STOP_AT("abcd", "bc", "c");
    begin(1, 100);
    stop_token(&st, 1, 1);
    assert_true(say("zabcd"));
    expect("za");
    assert_int_equal(st.string, 1);
}

static void without_stop_strings_text_passes_at_once(void **state)
{
    begin(1, 100);
    stop_token(&st, 1, 1);
    assert_false(say("abc"));
    assert_false(say(""));
    assert_false(stop_text(&st, NULL, 0, &shown));
    expect("abc");
    stop_flush(&st, &shown);
    expect("abc");
}

/* Finds the first stop string in TEXT, by the end of the match and then by its beginning. */
static bool find_first(const char *text, size_t n, size_t *at, size_t *which)
{
    for (size_t end = 1; end <= n; end++)
        for (size_t begin_at = 0; begin_at < end; begin_at++)
            for (size_t i = 0; i < s.n_stop; i++)
                if (s.stop[i].n == end - begin_at &&
                    memcmp(text + begin_at, s.stop[i].s, end - begin_at) == 0) {
                    *at = begin_at;
                    *which = i;
                    return true;
                }
    return false;
}

/* Random texts of three letters in random pieces, compared with a search in the whole text. After each piece
 * the shown text must be the beginning of the final text, and must contain everything that no stop string can
 * touch any more. */
static void any_cutting_into_pieces_gives_the_same_text(void **state)
{
    uint64_t r = 0;

    for (int round = 0; round < 6000; round++) {
        char text[41], strings[3][8];
        size_t n = 1 + (size_t)(rng_uniform(1, r++) * 40), at = n, which = 0, fed = 0, longest = 0;
        bool stops, stopped = false;

        for (size_t i = 0; i < n; i++)
            text[i] = (char)('a' + (int)(rng_uniform(1, r++) * 3));
        text[n] = 0;
        s.n_stop = 1 + (size_t)(rng_uniform(1, r++) * 3);
        s.stop = list;
        for (size_t i = 0; i < s.n_stop; i++) {
            size_t len = 1 + (size_t)(rng_uniform(1, r++) * 7);

            for (size_t j = 0; j < len; j++)
                strings[i][j] = (char)('a' + (int)(rng_uniform(1, r++) * 3));
            list[i] = (struct sampling_str){.s = strings[i], .n = len};
            longest = len > longest ? len : longest;
        }
        stops = find_first(text, n, &at, &which);
        begin(1, 1000);
        for (size_t token = 1; fed < n && !stopped; token++) {
            size_t piece = (size_t)(rng_uniform(1, r++) * 6);
            char copy[6]; /* No text precedes it. */

            piece = piece < n - fed ? piece : n - fed;
            memcpy(copy, text + fed, piece);
            stop_token(&st, 1, token);
            stopped = stop_text(&st, copy, piece, &shown);
            fed += piece;
            assert_true(shown.len <= at && memcmp(shown.data ? shown.data : "", text, shown.len) == 0);
            assert_true(stopped || shown.len + longest > fed);
        }
        assert_int_equal(stopped, stops);
        if (stops)
            assert_int_equal(s.stop[st.string].n, s.stop[which].n);
        else
            stop_flush(&st, &shown);
        assert_int_equal(shown.len, at);
    }
}

static void the_check_above_can_fail(void **state)
{
    size_t at, which;

    STOP_AT("aa", "b");
    assert_false(find_first("acac", 4, &at, &which));
    assert_true(find_first("caab", 4, &at, &which) && at == 1 && which == 0);
}

static void running_out_of_memory_is_reported(void **state)
{
    struct err e = {0};
    char long_string[1000];
    bool failed = true;

    memset(long_string, 'x', sizeof(long_string));
    list[0] = list[1] = list[2] = (struct sampling_str){.s = long_string, .n = sizeof(long_string)};
    s.stop = list, s.n_stop = 3;
    for (long n = 1; failed; n++) {
        struct arena a;
        int rc;

        arena_init(&a, MEM_ENGINE);
        mem_fail_at(n);
        rc = stop_init(&st, &s, 1, 10, &a, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(rc, failed ? ERR_NOMEM : 0);
        arena_fini(&a);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_length_ends_it),
        TEST(a_full_context_ends_it),
        TEST(a_models_max_length_counts_only_without_max_new_tokens),
        TEST(end_tokens_end_it_unless_ignored),
        TEST(stop_tokens_end_it_even_when_end_tokens_are_ignored),
        TEST(an_end_token_that_is_also_the_last_counts_as_stop),
        TEST(nothing_stops_before_min_new_tokens),
        TEST(a_match_that_came_too_early_may_begin_the_one_that_counts),
        TEST(a_stop_string_across_tokens_is_never_shown),
        TEST(text_that_only_began_like_a_stop_string_is_shown_at_last),
        TEST(a_stop_string_in_the_last_token_beats_the_length),
        TEST(of_several_the_one_that_ends_first_counts_then_the_longest),
        TEST(without_stop_strings_text_passes_at_once),
        TEST(any_cutting_into_pieces_gives_the_same_text),
        TEST(the_check_above_can_fail),
        TEST(running_out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
