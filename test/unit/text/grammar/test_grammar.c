/* test_grammar.c - random grammars against the sets of short texts that they generate, and what the recognizer
 * promises about its rows.
 */
#include "base/mem.h"
#include "shorttexts.h"
#include "text/grammar/automata/recognizer.h"

enum { RULES = 4, MEMORY = 64 << 20, STEPS = 1 << 24 };

/* A grammar of random rules, kept as the shape that both the grammar and the sets are made of. */
struct shape {
    enum { LETTER, CALL, SEQUENCE, EITHER, REPEAT } kind;
    unsigned a, b; /* LETTER: text number. CALL: rule. Others: indices of shapes. */
    unsigned least, most;
};

struct random_grammar {
    struct shape shape[256];
    unsigned n, body[RULES];
};

static unsigned random_shape(struct random_grammar *r, int depth)
{
    struct shape x = {.kind = depth == 0 ? short_dice(2) : 1 + short_dice(4)};

    if (x.kind == LETTER)
        x.a = short_dice(15);
    if (x.kind == CALL)
        x.a = short_dice(RULES);
    if (x.kind >= SEQUENCE)
        x.a = random_shape(r, depth - 1);
    if (x.kind == SEQUENCE || x.kind == EITHER)
        x.b = random_shape(r, depth - 1);
    x.least = short_dice(3);
    x.most = short_dice(2) ? x.least + short_dice(3) : GRAMMAR_NO_LIMIT;
    r->shape[r->n] = x;
    return r->n++;
}

/* The short texts of shape I, where RULE holds those of the rules known so far. */
static uint64_t texts_of(const struct random_grammar *r, unsigned i, const uint64_t rule[RULES])
{
    const struct shape *x = &r->shape[i];

    switch (x->kind) {
    case LETTER: return UINT64_C(1) << x->a;
    case CALL: return rule[x->a];
    case SEQUENCE: return short_concat(texts_of(r, x->a, rule), texts_of(r, x->b, rule));
    case EITHER: return texts_of(r, x->a, rule) | texts_of(r, x->b, rule);
    case REPEAT: return short_repeat(texts_of(r, x->a, rule), x->least, x->most);
    }
    return 0;
}

static uint32_t expression_of(const struct random_grammar *r, struct grammar *g, unsigned i)
{
    const struct shape *x = &r->shape[i];
    char text[SHORT_LONGEST];
    uint32_t a;

    switch (x->kind) {
    case LETTER: {
        size_t n = short_text(x->a, text);

        return grammar_term(g, regex_literal(&g->regex, text, n));
    }
    case CALL: return grammar_call(g, x->a);
    case SEQUENCE: a = expression_of(r, g, x->a); return grammar_sequence(g, a, expression_of(r, g, x->b));
    case EITHER: a = expression_of(r, g, x->a); return grammar_either(g, a, expression_of(r, g, x->b));
    case REPEAT: return grammar_repeat(g, expression_of(r, g, x->a), x->least, x->most);
    }
    return GRAMMAR_NEVER;
}

/* Rules that call themselves at the left, at the right, in the middle, or without reading anything, and rules
 * that match the empty text or no text are all among them. */
static void random_grammars_match_the_texts_that_they_generate(void **state)
{
    unsigned without_text = 0;

    for (int round = 0; round < 4000; round++) {
        struct random_grammar r = {.n = 0};
        uint64_t rule[RULES] = {0}, before[RULES], found = 0;
        struct grammar g;
        struct recognizer rec;
        char text[SHORT_LONGEST];

        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        for (unsigned i = 0; i < RULES; i++) {
            r.body[i] = random_shape(&r, 1 + (int)short_dice(3));
            assert_int_equal(grammar_rule(&g), i);
        }
        do {
            memcpy(before, rule, sizeof(rule));
            for (unsigned i = 0; i < RULES; i++)
                rule[i] = texts_of(&r, r.body[i], before);
        } while (memcmp(before, rule, sizeof(rule)) != 0);
        for (unsigned i = 0; i < RULES; i++)
            grammar_define(&g, i, expression_of(&r, &g, r.body[i]));
        if (grammar_finish(&g, grammar_call(&g, 0), NULL) != 0) {
            assert_int_equal(rule[0], 0);
            without_text++;
            grammar_close(&g);
            continue;
        }
        assert_int_equal(recognizer_open(&rec, &g, NULL), 0);
        for (unsigned i = 0; i < SHORT_TEXTS; i++) {
            size_t n = short_text(i, text);

            found |= (uint64_t)recognizer_matches(&rec, text, n) << i;
        }
        assert_int_equal(g.regex.fault, REGEX_FINE);
        assert_int_equal(found, rule[0]);
        recognizer_close(&rec);
        grammar_close(&g);
    }
    assert_in_range(without_text, 100, 3000);
}

/* A grammar of nested lists: value = [ value , ... ] | a+ */
static void open_lists(struct grammar *g, struct recognizer *r)
{
    uint32_t value, list, letters;

    assert_int_equal(grammar_open(g, MEMORY, STEPS), 0);
    value = grammar_rule(g);
    letters = grammar_term(g, regex_repeat(&g->regex, regex_range(&g->regex, 'a', 'z'), 1, REGEX_NO_LIMIT));
    list = grammar_sequence(g, grammar_text(g, ","), grammar_call(g, value));
    list = grammar_sequence(g, grammar_call(g, value), grammar_repeat(g, list, 0, GRAMMAR_NO_LIMIT));
    list = grammar_sequence(g, grammar_text(g, "["), grammar_sequence(g, list, grammar_text(g, "]")));
    grammar_define(g, value, grammar_either(g, list, letters));
    assert_int_equal(grammar_finish(g, grammar_call(g, value), NULL), 0);
    assert_int_equal(recognizer_open(r, g, NULL), 0);
}

static uint32_t read(struct recognizer *r, const char *text)
{
    uint32_t row = RECOGNIZER_BEGIN;

    for (; *text; text++)
        row = recognizer_next(r, row, (uint8_t)*text);
    return row;
}

static void elements_of_a_list_share_their_rows(void **state)
{
    struct grammar g;
    struct recognizer r;
    size_t before;

    open_lists(&g, &r);
    assert_true(recognizer_matches(&r, "[a,[b,c],d]", 11));
    assert_false(recognizer_matches(&r, "[a,[b,c],d", 10));
    assert_int_equal(read(&r, "[a,[b,c],d]]"), RECOGNIZER_DEAD);
    assert_int_equal(read(&r, "[ab,"), read(&r, "[ab,[c],"));
    assert_int_equal(read(&r, "[[ab"), read(&r, "[[a"));
    before = r.n;
    assert_true(recognizer_matches(&r, "[a,[b,c],d,[ee,ff,gg],hh,ii,jj]", 31));
    assert_int_equal(r.n, before);
    recognizer_close(&r);
    grammar_close(&g);
}

/* Thousands of elements by recursion at the right or at the left must not need a row for each. */
static void recursion_at_an_end_takes_no_more_rows_than_repetition(void **state)
{
    for (int is_left = 0; is_left < 2; is_left++) {
        struct grammar g;
        struct recognizer r;
        uint32_t list, item, row = RECOGNIZER_BEGIN;
        size_t after_ten = 0;

        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        list = grammar_rule(&g);
        item = grammar_text(&g, "ab");
        grammar_define(&g, list,
                       grammar_either(&g, item,
                                      is_left ? grammar_sequence(&g, grammar_call(&g, list), item)
                                              : grammar_sequence(&g, item, grammar_call(&g, list))));
        assert_int_equal(grammar_finish(&g, grammar_call(&g, list), NULL), 0);
        assert_int_equal(recognizer_open(&r, &g, NULL), 0);
        for (int i = 0; i < 10000; i++) {
            row = recognizer_next(&r, row, 'a');
            row = recognizer_next(&r, row, 'b');
            assert_true(recognizer_may_end(&r, row));
            if (i == 10)
                after_ten = r.n;
        }
        assert_int_equal(r.n, after_ten);
        recognizer_close(&r);
        grammar_close(&g);
    }
}

/* A position is left out where no text can complete it, at once and not when the dead end is reached. */
static void no_row_is_a_dead_end(void **state)
{
    struct grammar g;
    struct recognizer r;
    uint32_t endless, a;

    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    endless = grammar_rule(&g);
    a = grammar_text(&g, "a");
    grammar_define(&g, endless, grammar_sequence(&g, a, grammar_call(&g, endless)));
    assert_int_equal(
        grammar_finish(&g,
                       grammar_either(&g, grammar_text(&g, "b"),
                                      grammar_sequence(&g, grammar_text(&g, "c"), grammar_call(&g, endless))),
                       NULL),
        0);
    assert_int_equal(recognizer_open(&r, &g, NULL), 0);
    assert_int_equal(read(&r, "c"), RECOGNIZER_DEAD);
    assert_true(recognizer_matches(&r, "b", 1));
    recognizer_close(&r);
    grammar_close(&g);
}

static void a_grammar_without_texts_is_refused(void **state)
{
    struct grammar g;
    struct err e = {0};

    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    assert_int_equal(grammar_finish(&g, grammar_call(&g, grammar_rule(&g)), &e), ERR_UNSUPPORTED);
    assert_string_equal(e.msg, "no text matches the grammar");
    grammar_close(&g);
}

static void the_limit_of_memory_ends_in_dead_rows(void **state)
{
    struct grammar g;
    struct recognizer r;
    struct err e = {0};
    uint32_t row = RECOGNIZER_BEGIN, digits;
    int i = 0;

    assert_int_equal(grammar_open(&g, 40000, STEPS), 0);
    digits = grammar_term(&g, regex_repeat(&g.regex, regex_range(&g.regex, '0', '9'), 0, 1000000));
    assert_int_equal(grammar_finish(&g, digits, NULL), 0);
    assert_int_equal(recognizer_open(&r, &g, NULL), 0);
    for (; i < 1000000 && row != RECOGNIZER_DEAD; i++)
        row = recognizer_next(&r, row, '7');
    assert_in_range(i, 50, 2000);
    assert_int_equal(grammar_fault(&g, &e), ERR_NOSPACE);
    assert_int_equal(recognizer_next(&r, RECOGNIZER_BEGIN, '7'), RECOGNIZER_DEAD);
    recognizer_close(&r);
    grammar_close(&g);
}

static void allocations_that_fail_are_reported(void **state)
{
    for (long at = 1;; at++) {
        struct grammar g = {0};
        struct recognizer r = {0};
        struct err e = {0};
        uint32_t list, item;
        bool fine;

        mem_fail_at(at);
        fine = grammar_open(&g, MEMORY, STEPS) == 0;
        if (fine) {
            list = grammar_rule(&g);
            item = grammar_text(&g, "abc");
            grammar_define(&g, list,
                           grammar_either(&g, item, grammar_sequence(&g, item, grammar_call(&g, list))));
            fine = grammar_finish(&g, grammar_call(&g, list), &e) == 0;
        }
        fine = fine && recognizer_open(&r, &g, &e) == 0;
        fine = fine && recognizer_matches(&r, "abcabcabc", 9);
        if (!mem_failed()) {
            mem_fail_at(0);
            assert_true(fine);
            recognizer_close(&r);
            grammar_close(&g);
            assert_in_range(at, 20, 1000);
            return;
        }
        mem_fail_at(0);
        assert_false(fine);
        recognizer_close(&r);
        grammar_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_grammars_match_the_texts_that_they_generate),
        cmocka_unit_test(elements_of_a_list_share_their_rows),
        cmocka_unit_test(recursion_at_an_end_takes_no_more_rows_than_repetition),
        cmocka_unit_test(no_row_is_a_dead_end),
        cmocka_unit_test(a_grammar_without_texts_is_refused),
        cmocka_unit_test(the_limit_of_memory_ends_in_dead_rows),
        cmocka_unit_test(allocations_that_fail_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
