/* test_match.c - a sequence's guesses from its own tokens are those of a search through all of them, for any
 * text, and within the memory that was asked for. */
#include "engine/guess/match.h"

#include <math.h>

#include "check.h"

enum { CANARY = 0x5a };

/* Returns an index over memory of exactly the size that it asks for, with a canary behind it. */
static void *open_match(struct match *m, size_t capacity, size_t max_length, uint64_t seed)
{
    size_t bytes = match_bytes(capacity);
    uint8_t *memory = calloc(1, bytes + 1);

    assert_non_null(memory);
    memory[bytes] = CANARY;
    match_init(m, memory, capacity, max_length, seed);
    return memory;
}

static void close_match(const struct match *m, void *memory)
{
    assert_int_equal(((uint8_t *)memory)[match_bytes(m->capacity)], CANARY);
    free(memory);
}

static size_t common(const int32_t *token, size_t a, size_t b, size_t most)
{
    size_t n = 0;

    while (n < most && n < a && n < b && token[a - 1 - n] == token[b - 1 - n])
        n++;
    return n;
}

/* The longest match by a search from the newest end to the oldest. */
static size_t search(const int32_t *token, size_t n, size_t most, size_t *end)
{
    size_t best = 0;

    for (size_t e = n; e-- > 1;) {
        size_t length = common(token, e, n, most);

        if (length > best) {
            best = length;
            *end = e;
        }
    }
    return best;
}

/* The guesses by the words of match.h. */
static size_t naive_guess(const int32_t *token, size_t n, size_t max_length, const struct match_rule *r,
                          int32_t *guess)
{
    size_t end = 0, length = search(token, n, max_length, &end), k = 0;

    if (length == 0 || length < r->min_length)
        return 0;
    for (; k < r->n_most && (double)(k + 1) <= r->factor * (double)length; k++) {
        if (end + k >= n && !r->repeats)
            break;
        guess[k] = end + k < n ? token[end + k] : guess[end + k - n];
    }
    return k;
}

static void assert_equals_search(const struct match *m, const int32_t *token, size_t n, size_t max_length,
                                 const struct match_rule *r)
{
    int32_t guess[64], expected[64];
    size_t end = 0, found, length = 0, wanted, ends[MATCH_MAX_OCCURRENCES], n_ends;

    wanted = search(token, n, max_length, &end);
    assert_int_equal(match_longest(m, &found), wanted);
    if (wanted)
        assert_int_equal(found, end);
    n_ends = match_occurrences(m, ends);
    assert_int_equal(n_ends > 0, wanted > 0);
    for (size_t i = 0; i < n_ends; i++) {
        assert_int_equal(common(token, ends[i], n, wanted), wanted);
        assert_true(ends[i] < (i ? ends[i - 1] : n));
    }
    for (wanted = 0, end = 1; end <= MATCH_MAX_GAP && end < n && wanted < MATCH_MIN_INTERRUPTED; end++)
        wanted = search(token, n - end, max_length, &length);
    length += end - 1;
    assert_int_equal(match_interrupted(m, &found), wanted < MATCH_MIN_INTERRUPTED ? 0 : wanted);
    if (wanted >= MATCH_MIN_INTERRUPTED)
        assert_int_equal(found, length);
    wanted = naive_guess(token, n, max_length, r, expected);
    assert_int_equal(match_guess(m, token, n, r, guess, &length), wanted);
    assert_memory_equal(guess, expected, wanted * sizeof(*guess));
}

static void any_text_has_the_guesses_of_a_search(void **state)
{
    static const size_t lengths[] = {1, 2, 3, 5, 24, MATCH_MAX_LENGTH};
    struct check_rng g = {1};

    for (size_t round = 0; round < 240; round++) {
        size_t n = 1 + check_below(&g, 300), n_tokens = 1 + check_below(&g, round % 3 ? 3 : 40);
        size_t max_length = lengths[round % 6];
        struct match_rule r = {1 + check_below(&g, 4), check_below(&g, 20), .5 * (double)check_below(&g, 6),
                               round / 6 % 2, 0};
        struct match m;
        void *memory = open_match(&m, n, max_length, check_u32(&g));
        int32_t token[300];

        for (size_t i = 0; i < n; i++) { /* at times a part of the text again */
            token[i] = (int32_t)check_below(&g, n_tokens);
            if (i > 20 && check_below(&g, 30) == 0)
                for (size_t from = check_below(&g, i - 10), k = 0; k < 15 && i + 1 < n; k++, i++)
                    token[i + 1] = token[i] = token[from + k];
        }
        for (size_t i = 1; i <= n; i++) {
            match_add(&m, token, i);
            assert_equals_search(&m, token, i, max_length, &r);
        }
        close_match(&m, memory);
    }
}

/* Several answers to a prompt share its index, each with an index of its own tokens behind it. */
static void answers_that_share_a_prompt_have_the_guesses_of_a_search(void **state)
{
    static const size_t lengths[] = {1, 2, 3, 5, 24, MATCH_MAX_LENGTH};
    struct check_rng g = {3};

    for (size_t round = 0; round < 120; round++) {
        size_t n_base = 1 + check_below(&g, 120), n_own = 1 + check_below(&g, 120),
               max_length = lengths[round % 6];
        size_t n_tokens = 1 + check_below(&g, round % 3 ? 3 : 40);
        struct match_rule r = {1 + check_below(&g, 4), check_below(&g, 20), .5 * (double)check_below(&g, 6),
                               round / 6 % 2, 0};
        struct match base, m;
        void *memory = open_match(&base, n_base, max_length, check_u32(&g)), *own;
        int32_t token[240];

        for (size_t i = 0; i < n_base; i++)
            token[i] = (int32_t)check_below(&g, n_tokens);
        match_add(&base, token, n_base - 1);
        for (int answer = 0; answer < 3; answer++) {
            for (size_t i = n_base; i < n_base + n_own; i++) /* at times the prompt again */
                token[i] = check_below(&g, 4) ? token[(i * 7 + (size_t)answer) % n_base]
                                              : (int32_t)check_below(&g, n_tokens);
            own = open_match(&m, n_own, max_length, check_u32(&g));
            match_follow(&m, &base);
            assert_true(match_has(&m, n_base) == (answer > 0)); /* the prompt is not complete yet */
            match_add(&base, token, n_base);
            for (size_t i = n_base; i <= n_base + n_own; i++) {
                match_add(&m, token, i);
                assert_true(match_has(&m, i) && !match_has(&m, i + 1));
                assert_equals_search(&m, token, i, max_length, &r);
            }
            close_match(&m, own);
        }
        close_match(&base, memory);
    }
}

static void a_prompt_at_once_is_as_token_by_token(void **state)
{
    struct check_rng g = {2};
    int32_t token[2000];
    struct match_rule r = {1, 12, 2, true, 0};
    struct match one, all;
    void *memory = open_match(&one, 2000, 24, 3), *other = open_match(&all, 2000, 24, 4);

    for (size_t i = 0; i < 2000; i++)
        token[i] = (int32_t)check_below(&g, 5);
    match_add(&all, token, 1500);
    for (size_t i = 1; i <= 2000; i++)
        match_add(&one, token, i);
    for (size_t i = 1500; i <= 2000; i++)
        match_add(&all, token, i);
    for (size_t i = 1; i <= 2000; i++) {
        assert_int_equal(one.older[i], all.older[i]);
        assert_int_equal(one.longest[i], all.longest[i]);
    }
    assert_equals_search(&all, token, 2000, 24, &r);
    close_match(&one, memory);
    close_match(&all, other);
}

/* Texts that make long paths or many nodes. */
static int32_t hostile(size_t kind, size_t i)
{
    switch (kind) {
    case 0: return 7;
    case 1: return i % 2 ? 7 : INT32_MAX;
    case 2: return (int32_t)i;
    case 3: return __builtin_ctzll(i + 1);      /* the ruler sequence: every period a power of two */
    case 4: return __builtin_popcountll(i) % 2; /* Thue-Morse: no part three times in a row */
    default: return (int32_t)(i % 301 == 300);  /* long runs of one token */
    }
}

static void hostile_texts_have_the_guesses_of_a_search(void **state)
{
    static int32_t token[5000];
    struct match_rule r = {1, 12, 2, false, 0};

    for (size_t kind = 0; kind < 6; kind++) {
        struct match m;
        void *memory = open_match(&m, 5000, MATCH_MAX_LENGTH, kind);

        for (size_t i = 0; i < 5000; i++)
            token[i] = hostile(kind, i);
        for (size_t i = 1; i <= 5000; i++) {
            match_add(&m, token, i);
            if (i < 30 || i % 97 == 0)
                assert_equals_search(&m, token, i, MATCH_MAX_LENGTH, &r);
        }
        assert_true(m.n_nodes <= 2 * 5000 + 1);
        close_match(&m, memory);
    }
}

static void a_period_goes_on_only_if_the_rule_says_so(void **state)
{
    static const int32_t token[] = {9, 1, 2, 3, 1, 2, 3, 1, 2, 3}, period[] = {1, 2, 3, 1, 2, 3, 1, 2};
    struct match_rule r = {1, 8, 2, true, 0};
    struct match m;
    void *memory = open_match(&m, 10, 24, 0);
    int32_t guess[8];
    size_t length;

    match_add(&m, token, 10);
    assert_int_equal(match_guess(&m, token, 10, &r, guess, &length), 8);
    assert_int_equal(length, 6);
    assert_memory_equal(guess, period, sizeof(period));
    r.repeats = false;
    assert_int_equal(match_guess(&m, token, 10, &r, guess, NULL), 3);
    assert_memory_equal(guess, period, 3 * sizeof(*guess));
    close_match(&m, memory);
}

static void a_rule_limits_the_guesses(void **state)
{
    struct match_rule r = {3, 12, 2, true, 0};

    assert_int_equal(match_depth(&r, 0), 0);
    assert_int_equal(match_depth(&r, 2), 0);
    assert_int_equal(match_depth(&r, 3), 6);
    assert_int_equal(match_depth(&r, 6), 12);
    assert_int_equal(match_depth(&r, 7), 12);
    r.factor = 1.5;
    assert_int_equal(match_depth(&r, 3), 4);
    r.factor = .25;
    assert_int_equal(match_depth(&r, 3), 0);
    assert_int_equal(match_depth(&r, 4), 1);
    r.factor = 1e300;
    assert_int_equal(match_depth(&r, 256), 12);
    r.factor = -1;
    assert_int_equal(match_depth(&r, 256), 0);
    r.factor = (double)NAN;
    assert_int_equal(match_depth(&r, 256), 0);
    r = (struct match_rule){0, 0, 2, true, 0};
    assert_int_equal(match_depth(&r, 5), 0);
    r.n_most = 1;
    assert_int_equal(match_depth(&r, 0), 0);
    assert_int_equal(match_depth(&r, 1), 1);
}

static void a_sequence_beyond_the_capacity_has_no_guesses(void **state)
{
    static const int32_t token[] = {5, 5, 5, 5};
    struct match_rule r = {1, 4, 2, true, 0};
    int32_t guess[4];

    for (size_t capacity = 0; capacity < 5; capacity++) {
        struct match m;
        void *memory = open_match(&m, capacity, 24, 0);

        for (size_t n = 0; n <= 4; n++) {
            match_add(&m, token, n);
            assert_int_equal(match_guess(&m, token, n, &r, guess, NULL) > 0, n >= 2 && n <= capacity);
        }
        close_match(&m, memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_text_has_the_guesses_of_a_search),
        cmocka_unit_test(answers_that_share_a_prompt_have_the_guesses_of_a_search),
        cmocka_unit_test(a_prompt_at_once_is_as_token_by_token),
        cmocka_unit_test(hostile_texts_have_the_guesses_of_a_search),
        cmocka_unit_test(a_period_goes_on_only_if_the_rule_says_so),
        cmocka_unit_test(a_rule_limits_the_guesses),
        cmocka_unit_test(a_sequence_beyond_the_capacity_has_no_guesses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
