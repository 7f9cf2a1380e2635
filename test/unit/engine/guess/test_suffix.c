/* test_suffix.c - the method "suffix" guesses what most occurrences of the longest match went on with, in the
 * own tokens or in the history. */
#include "engine/guess/suffix.h"

#include "engine/guess/match.h"

static const uint64_t realm[2] = {1, 2};

/* A sequence whose guesses are looked at, and the history. */
struct scene {
    struct history h;
    struct history_writer writer;
    struct match own;
    void *memory;
    int32_t guess[32];
    size_t n_guesses, length;
};

static void begin(struct scene *s)
{
    *s = (struct scene){.writer = history_writer(realm, 0)};
    assert_int_equal(history_open(&s->h, HISTORY_MIN_BYTES, HISTORY_MAX_SEQUENCES, 0, NULL), 0);
}

static void end(struct scene *s)
{
    free(s->memory);
    history_close(&s->h);
}

/* Writes TEXT, a token for each character, as a sequence that has ended. */
static void earlier(struct scene *s, const char *text)
{
    struct history_writer w = history_writer(realm, 0);
    int32_t token[400];
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        token[i] = text[i];
    history_write(&s->h, &w, token, n, true);
}

/* Fails unless a sequence with the tokens TEXT has the guesses EXPECTED, after a match of LENGTH. */
static void assert_guesses(struct scene *s, const char *text, const struct match_rule *r,
                           const char *expected, size_t length)
{
    int32_t token[400];
    size_t n = strlen(text);
    char found[33] = "";

    for (size_t i = 0; i < n; i++)
        token[i] = text[i];
    free(s->memory);
    s->memory = calloc(1, match_bytes(n));
    match_init(&s->own, s->memory, n, 24, 0);
    match_add(&s->own, token, n);
    s->n_guesses = suffix_guess(&s->own, &s->h, &s->writer, token, n, r, s->guess, &s->length);
    for (size_t i = 0; i < s->n_guesses; i++)
        found[i] = (char)s->guess[i];
    assert_string_equal(found, expected);
    assert_int_equal(s->length, length);
}

static const struct match_rule rule = {1, 12, 2, true, .1};

static void the_longer_match_is_taken(void **state)
{
    struct scene s;

    begin(&s);
    earlier(&s, "--the quick brown fox");
    assert_guesses(&s, "the quiet; the q", &rule, "uiet; the ", 5); /* both are as long */
    assert_guesses(&s, "/the quiet./the q", &rule, "uiet./the qu", 6);
    assert_guesses(&s, "a quiet, the q", &rule, "uick brown", 5);
    assert_guesses(&s, "a b c", &rule, "", 0);
    end(&s);
}

static void an_own_occurrence_wins_a_tie(void **state)
{
    struct scene s;

    begin(&s);
    earlier(&s, "=abcX");
    assert_guesses(&s, "+abcY-abc", &rule, "Y-abcY", 3);
    earlier(&s, "/abcX");
    assert_guesses(&s, "+abcY-abc", &rule, "X", 3); /* two against one */
    end(&s);
}

static void most_occurrences_decide_and_of_equal_ones_the_newest(void **state)
{
    struct scene s;

    begin(&s);
    earlier(&s, "1abcXYZ");
    earlier(&s, "2abcUVW");
    assert_guesses(&s, "3abc", &rule, "UVW", 3);
    earlier(&s, "4abcXYR");
    assert_guesses(&s, "3abc", &rule, "XYR", 3);
    end(&s);
}

static void too_few_occurrences_end_the_guesses(void **state)
{
    struct match_rule r = rule;
    struct scene s;

    begin(&s);
    earlier(&s, "1abcPQ1");
    earlier(&s, "2abcPQ2");
    earlier(&s, "3abcPR3");
    earlier(&s, "4abcS");
    r.min_share = .75;
    assert_guesses(&s, "5abc", &r, "P", 3);
    r.min_share = .5;
    assert_guesses(&s, "5abc", &r, "PQ", 3);
    r.min_share = .25;
    assert_guesses(&s, "5abc", &r, "PQ2", 3);
    r.min_share = 1;
    assert_guesses(&s, "5abc", &r, "", 3);
    end(&s);
}

static void the_rule_limits_the_guesses(void **state)
{
    struct match_rule r = rule;
    struct scene s;

    begin(&s);
    earlier(&s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    assert_guesses(&s, "--klm", &r, "nopqrs", 3);
    r.factor = 1;
    assert_guesses(&s, "--klm", &r, "nop", 3);
    r.factor = 20; /* across the border of chunks to the end of the sequence */
    r.n_most = 32;
    assert_guesses(&s, "--klm", &r, "nopqrstuvwxyzABCDEFGHIJKLMNOPQRS", 3);
    assert_guesses(&s, "--RST", &r, "UVWXYZ", 3);
    r.n_most = 1;
    assert_guesses(&s, "--klm", &r, "n", 3);
    r.n_most = 0;
    assert_guesses(&s, "--klm", &r, "", 3);
    r = rule;
    r.min_length = 4;
    assert_guesses(&s, "--klm", &r, "", 3);
    end(&s);
}

static void guesses_go_on_behind_a_token_that_differs(void **state)
{
    struct match_rule r = rule;
    struct scene s;

    begin(&s);
    assert_guesses(&s, "{size:12};{size:3", &rule, "2};{", 2);
    assert_guesses(&s, "{size:12};{size:34", &rule, "};{s", 2);
    assert_guesses(&s, "{size:12};{size:345", &rule, "", 0);
    assert_guesses(&s, "ize:12};{ize3", &rule, "", 0); /* a match of three tokens */
    earlier(&s, "--ze:3PQR");
    assert_guesses(&s, "{size:12};{size:3", &rule, "PQR", 4); /* a match that was not interrupted */
    r.factor = 1;
    assert_guesses(&s, "{size:12};{size:", &r, "12};{s", 6);
    assert_guesses(&s, "{size:12};{size:7", &r, "2}", 2);
    r.min_length = 3;
    assert_guesses(&s, "{size:12};{size:7", &r, "", 2);
    end(&s);
}

static void without_a_history_the_own_tokens_serve(void **state)
{
    static const int32_t token[] = {1, 2, 3, 1, 2, 3, 1};
    struct match_rule r = rule;
    struct match own;
    void *memory = calloc(1, match_bytes(7));
    int32_t guess[12];
    size_t length;

    match_init(&own, memory, 7, 24, 0);
    match_add(&own, token, 7);
    assert_int_equal(suffix_guess(&own, NULL, NULL, token, 7, &r, guess, &length), 8);
    assert_int_equal(length, 4);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(guess[i], (int32_t)(7 + i) % 3 + 1);
    r.repeats = false;
    assert_int_equal(suffix_guess(&own, NULL, NULL, token, 7, &r, guess, NULL), 3);
    assert_int_equal(suffix_guess(&own, NULL, NULL, token, 6, &r, guess, NULL), 0); /* not what is indexed */
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longer_match_is_taken),
        cmocka_unit_test(an_own_occurrence_wins_a_tie),
        cmocka_unit_test(most_occurrences_decide_and_of_equal_ones_the_newest),
        cmocka_unit_test(too_few_occurrences_end_the_guesses),
        cmocka_unit_test(the_rule_limits_the_guesses),
        cmocka_unit_test(guesses_go_on_behind_a_token_that_differs),
        cmocka_unit_test(without_a_history_the_own_tokens_serve),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
