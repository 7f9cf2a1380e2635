/* test_token_masks.c - masks against the definition: a token may follow if its bytes, one by one, lead to a row
 * that is not dead. And the trie of the vocabulary of a tokenizer.
 */
#include "base/mem.h"
#include "shorttexts.h"
#include "text/grammar/automata/pattern.h"
#include "text/grammar/constraint.h"
#include "text/grammar/token_masks.h"

#include "text/tok/tok.h"

enum { MEMORY = 64 << 20, STEPS = 1 << 24, TOKENS = 300, LONGEST_TOKEN = 12 };

/* Random texts over a small alphabet, some of them equal, some empty. */
struct vocabulary {
    char bytes[TOKENS][LONGEST_TOKEN];
    const char *text[TOKENS];
    size_t len[TOKENS];
};

static void make_vocabulary(struct vocabulary *v)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyz\"\"\"\"\",,,,::{}[]0123 \\\n";

    for (size_t i = 0; i < TOKENS; i++) {
        v->len[i] = i < 50 ? 1 : short_dice(i % 3 ? 4 : LONGEST_TOKEN);
        for (size_t k = 0; k < v->len[i]; k++)
            v->bytes[i][k] = all[i < 50       ? i % (sizeof(all) - 1)
                                 : i % 4 == 3 ? short_dice(26) /* words */
                                              : short_dice(sizeof(all) - 1)];
        v->text[i] = v->bytes[i];
    }
}

/* Members with names and values: strings of limited length, numbers, nested objects and lists. */
static uint32_t make_grammar(struct grammar *g)
{
    struct regex_store *s = &g->regex;
    uint32_t letter = regex_or(s, regex_range(s, 'a', 'z'), regex_literal(s, "\\n", 2));
    uint32_t quote = regex_literal(s, "\"", 1), value = grammar_rule(g), list, object, pair;
    uint32_t word = regex_concat(s, quote, regex_concat(s, regex_repeat(s, letter, 0, 7), quote));
    uint32_t text =
        regex_concat(s, quote, regex_concat(s, regex_repeat(s, letter, 2, REGEX_NO_LIMIT), quote));
    uint32_t number = regex_repeat(s, regex_range(s, '0', '9'), 1, 5), bare = regex_repeat(s, letter, 2, 6);
    uint32_t blank = grammar_term(
        g, regex_repeat(s, regex_or(s, regex_literal(s, " ", 1), regex_literal(s, "\n", 1)), 0, 2));

    list = grammar_sequence(g, grammar_text(g, ","), grammar_sequence(g, blank, grammar_call(g, value)));
    list = grammar_sequence(g, grammar_call(g, value), grammar_repeat(g, list, 0, 3));
    list = grammar_sequence(g, grammar_text(g, "["), grammar_sequence(g, list, grammar_text(g, "]")));
    pair = grammar_sequence(g, grammar_term(g, word),
                            grammar_sequence(g, grammar_text(g, ":"), grammar_call(g, value)));
    object = grammar_sequence(
        g, pair, grammar_repeat(g, grammar_sequence(g, grammar_text(g, ","), pair), 0, GRAMMAR_NO_LIMIT));
    object = grammar_sequence(g, grammar_text(g, "{"), grammar_sequence(g, object, grammar_text(g, "}")));
    grammar_define(g, value,
                   grammar_choice(g,
                                  (uint32_t[]){grammar_term(g, text), grammar_term(g, number),
                                               grammar_term(g, bare), list, object},
                                  5));
    return grammar_call(g, value);
}

static bool may_follow(struct recognizer *r, uint32_t row, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        row = recognizer_next(r, row, (uint8_t)text[i]);
    return n > 0 && row != RECOGNIZER_DEAD;
}

static void a_mask_has_the_tokens_whose_bytes_may_follow(void **state)
{
    for (int round = 0; round < 120; round++) {
        struct vocabulary v;
        struct token_trie trie;
        struct token_masks m;
        struct grammar g;
        struct recognizer r;
        uint32_t row = RECOGNIZER_BEGIN, mask[(TOKENS + 31) / 32];
        size_t n_steps = 0;

        make_vocabulary(&v);
        assert_int_equal(token_trie_make(&trie, v.text, v.len, TOKENS, NULL), 0);
        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        assert_int_equal(grammar_finish(&g, make_grammar(&g), NULL), 0);
        assert_int_equal(recognizer_open(&r, &g, NULL), 0);
        assert_int_equal(token_masks_open(&m, &r, &trie, NULL), 0);
        for (; n_steps < 60; n_steps++) {
            size_t n = token_masks_get(&m, row, mask), n_expected = 0;
            uint32_t chosen;

            for (size_t i = 0; i < TOKENS; i++) {
                bool expected = may_follow(&r, row, v.text[i], v.len[i]);

                n_expected += expected;
                if ((mask[i / 32] >> i % 32 & 1) != expected)
                    fail_msg("round %d, step %zu: token %zu, \"%.*s\"", round, n_steps, i, (int)v.len[i],
                             v.text[i]);
            }
            assert_int_equal(n, n_expected);
            if (n == 0)
                break;
            for (chosen = short_dice(TOKENS); !(mask[chosen / 32] >> chosen % 32 & 1);)
                chosen = (chosen + 1) % TOKENS;
            row = token_masks_next(&m, row, (int32_t)chosen);
            assert_int_not_equal(row, RECOGNIZER_DEAD);
        }
        assert_int_equal(g.regex.fault, REGEX_FINE);
        token_masks_close(&m);
        recognizer_close(&r);
        grammar_close(&g);
        token_trie_close(&trie);
    }
}

/* Repetitions in which it is hard to tell how often an element was begun. Each mask is compared with reading each
 * token. */
static void masks_of_patterns_agree_with_reading_each_token(void **state)
{
    static const char *const pattern[] = {
        "[a-z0-9]+(-[a-z0-9]+)*",
        "[a-z]{3,5}(,[a-z]*)*",
        "([A-Za-z][a-z]*){1,3}",
        "([a-z][0-9]?){1,3}x",
        "[a-z]{0,1}(-[a-z]+)*",
        "([a-z]|[0-9]{2}){2,7}!",
        "[a-z ]{0,9}[.]?[a-zA-Z]{2,4}",
        "[a-zA-Z]{2,6}(0[a-zA-Z]{1,3}){0,2}",
        "([a-z0-9]+)?,[a-z0-9]+",
        "(([a-z]+)?[0-9]){0,3}!",
        "([a-z]{2}){1,3}[0-9]",
        "([a-z]+[0-9]+){1,2}",
        "([a-zA-Z0-9]{2}-[a-zA-Z0-9]{2}-[a-zA-Z0-9]{2}-[a-zA-Z0-9]{2}-[a-zA-Z0-9],){1,5}"};
    static const char letters[] = "abcxyzABC0189-,. !";

    for (size_t k = 0; k < 40 * sizeof(pattern) / sizeof(pattern[0]); k++) {
        const char *text = pattern[k / 40];
        struct vocabulary v;
        struct token_trie trie;
        struct token_masks m;
        struct grammar g;
        struct recognizer r;
        uint32_t regex, row = RECOGNIZER_BEGIN, mask[(TOKENS + 31) / 32];

        for (size_t i = 0; i < TOKENS; i++) {
            v.text[i] = v.bytes[i];
            v.len[i] = 1 + short_dice(i < 40 ? 1 : 6);
            for (size_t c = 0; c < v.len[i]; c++)
                v.bytes[i][c] = letters[short_dice(i % 2 ? 9 : sizeof(letters) - 1)];
        }
        assert_int_equal(token_trie_make(&trie, v.text, v.len, TOKENS, NULL), 0);
        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        assert_int_equal(
            pattern_read(&g.regex, text, strlen(text), regex_characters, PATTERN_WHOLE, &regex, NULL), 0);
        assert_int_equal(grammar_finish(&g, grammar_term(&g, regex), NULL), 0);
        assert_int_equal(recognizer_open(&r, &g, NULL), 0);
        assert_int_equal(token_masks_open(&m, &r, &trie, NULL), 0);
        for (int step = 0; step < 8 && token_masks_get(&m, row, mask) > 0; step++) {
            int32_t chosen = (int32_t)short_dice(TOKENS);

            for (int32_t i = 0; i < TOKENS; i++) {
                bool allowed = mask[i / 32] >> i % 32 & 1;

                if (allowed != (token_masks_next(&m, row, i) != RECOGNIZER_DEAD))
                    fail_msg("%s, step %d: token \"%.*s\" is %s", text, step, (int)v.len[i], v.text[i],
                             allowed ? "allowed" : "left out");
            }
            while (!(mask[chosen / 32] >> chosen % 32 & 1))
                chosen = (chosen + 1) % TOKENS;
            row = token_masks_next(&m, row, chosen);
        }
        assert_int_equal(g.regex.fault, REGEX_FINE);
        token_masks_close(&m);
        recognizer_close(&r);
        grammar_close(&g);
        token_trie_close(&trie);
    }
}

/* A string of at most a million characters: every position would have a mask of its own. */
static void positions_far_from_a_limit_share_a_mask(void **state)
{
    struct vocabulary v;
    struct token_trie trie;
    struct token_masks m;
    struct grammar g;
    struct recognizer r;
    uint32_t row = RECOGNIZER_BEGIN, mask[(TOKENS + 31) / 32];

    make_vocabulary(&v);
    assert_int_equal(token_trie_make(&trie, v.text, v.len, TOKENS, NULL), 0);
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    assert_int_equal(
        grammar_finish(
            &g, grammar_term(&g, regex_repeat(&g.regex, regex_range(&g.regex, 'a', 'z'), 0, 1000000)), NULL),
        0);
    assert_int_equal(recognizer_open(&r, &g, NULL), 0);
    assert_int_equal(token_masks_open(&m, &r, &trie, NULL), 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(token_masks_get(&m, row, mask) > 20);
        row = recognizer_next(&r, row, 'k');
    }
    assert_in_range(m.n_masks, 1, 2);
    token_masks_close(&m);
    recognizer_close(&r);
    grammar_close(&g);
    token_trie_close(&trie);
}

static void a_trie_gives_back_the_texts(void **state)
{
    static const char *const text[] = {"", "b", "ab", "a", "abc", "ab", "\xc3"};
    static const size_t len[] = {0, 1, 2, 1, 3, 2, 1};
    struct token_trie t;
    uint8_t out[3];

    assert_int_equal(token_trie_make(&t, text, len, 7, NULL), 0);
    assert_int_equal(t.depth, 3);
    assert_int_equal(t.n, 5); /* a, ab, abc, b, c3 */
    for (int32_t i = 0; i < 7; i++) {
        assert_int_equal(token_trie_text(&t, i, out), len[i]);
        assert_memory_equal(out, text[i], len[i]);
    }
    assert_int_equal(token_trie_text(&t, -1, out), 0);
    assert_int_equal(token_trie_text(&t, 7, out), 0);
    assert_int_equal(t.same[2], 5);
    assert_int_equal(t.same[5], -1);
    token_trie_close(&t);
    assert_int_equal(token_trie_make(&t, text, len, 0, NULL), 0);
    assert_int_equal(t.n, 0);
    token_trie_close(&t);
}

/* What the models folder of the project has: a byte-level vocabulary with control tokens. */
static void the_texts_of_a_tokenizer_are_its_bytes(void **state)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\xc4\xa0"
        "b\":1,\"\xc3\x83\":2,\"\xc4\x8a\":3,\"xyz\":4,"
        "\"\xc3\xbf\":5},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":6,\"content\":\"<end>\",\"special\":true},"
        "{\"id\":7,\"content\":\"<call>\",\"special\":false}]}";
    static const char *const text[] = {"a", " b", "\xc3", "\n", "xyz", "", "\xff<end>\xff", "<call>"};
    struct tok *tok;
    struct token_trie t;
    uint8_t out[16];
    struct err e = {0};

    if (tok_open_json(&tok, json, strlen(json), "t", &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(token_trie_open(&t, tok, false, &e), 0);
    assert_int_equal(t.n_vocab, 8);
    for (int32_t i = 0; i < 8; i++) {
        assert_int_equal(token_trie_text(&t, i, out), strlen(text[i]));
        assert_memory_equal(out, text[i], strlen(text[i]));
    }
    token_trie_close(&t);
    tok_close(tok);
}

/* A SentencePiece decoder drops the blank before the first word of an answer, and only that one. */
static void the_first_token_of_an_answer_may_lose_its_blank(void **state)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0,\"\xe2\x96\x81"
        "b\":1,\"<0xE2>\":2,"
        "\"<0x0A>\":3},\"merges\":[]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
        "\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}}";
    static const char *const text[2][4] = {{"a", " b", "\xe2", "\n"}, {"a", "b", "\xe2", "\n"}};
    struct tok *tok;
    struct token_trie t;
    uint8_t out[16];
    struct err e = {0};

    if (tok_open_json(&tok, json, strlen(json), "t", &e) != 0)
        fail_msg("%s", e.msg);
    for (int first = 0; first < 2; first++) {
        assert_int_equal(token_trie_open(&t, tok, first, &e), 0);
        for (int32_t i = 0; i < 4; i++) {
            assert_int_equal(token_trie_text(&t, i, out), strlen(text[first][i]));
            assert_memory_equal(out, text[first][i], strlen(text[first][i]));
        }
        token_trie_close(&t);
    }
    tok_close(tok);
}

/* A draft that is not accepted is taken back: the masks are those of before. */
static void tokens_are_taken_back(void **state)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"}}";
    const struct constraint_source source = {.kind = CONSTRAINT_REGEX, .text = "a(ba|c){2}", .n = 10};
    struct constraint_vocabulary *v = NULL;
    struct constraint *c = NULL;
    struct constraint_run run;
    struct tok *tok;
    struct err e = {0};
    uint32_t before, mask;

    if (tok_open_json(&tok, json, strlen(json), "t", &e) != 0 ||
        constraint_vocabulary_new(&v, tok, &e) != 0 || constraint_new(&c, &source, v, NULL, &e) != 0 ||
        constraint_run_open(&run, c, 5, &e) != 0)
        fail_msg("%s", e.msg);
    assert_true(constraint_run_add(&run, 0));
    assert_int_equal(constraint_run_mask(&run, &before, &e), 2);
    assert_true(constraint_run_add(&run, 1));
    assert_false(constraint_run_add(&run, 2));
    assert_true(constraint_run_add(&run, 0));
    assert_true(constraint_run_add(&run, 2));
    assert_true(constraint_run_may_end(&run));
    assert_int_equal(constraint_run_mask(&run, &mask, &e), 0);
    constraint_run_truncate(&run, 1);
    assert_false(constraint_run_may_end(&run));
    assert_int_equal(constraint_run_mask(&run, &mask, &e), 2);
    assert_int_equal(mask, before);
    assert_true(constraint_run_add(&run, 2));
    constraint_run_close(&run);
    constraint_free(c);
    constraint_vocabulary_free(v);
    tok_close(tok);
}

static const char string_tokens[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"{\":0,\"}\":1,\"[\":2,\"]\":3,\"\\\"\":4,\"a\":5,"
    "\"b\":6,\":\":7,\",\":8,\"1\":9,\"\\\":\":10,\"a\\\"\":11,\"b\\\":1\":12,\"\\\",\":13,"
    "\"\\\",\\\"\":14,\"\\\"a\":15,\"\\\\\":16,\"\\\\n\":17,\"\u0120\":18,\"\\\"]\":19,"
    "\"ab\\\"}\":20,\"\u0120\\\"\":21,\"\\\"\u0120:\":22,\"a\\\":\\\"\":23},\"merges\":[]},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"decoder\":{\"type\":\"ByteLevel\"}}";

/* The walks inside strings and names that all grammars of a vocabulary share give the masks that tokens read one by
 * one give. */
static void shared_walks_give_the_same_masks(void **state)
{
    enum { IDS = 24, LENGTH = 60 };
    static const char *const schema[] = {
        "{\"type\":\"object\"}", "{\"items\":{\"type\":\"string\"},\"type\":\"array\"}", "{}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"maxLength\":3},\"ab\":{\"type\":\"string\"}}}",
        /* walks that start from a shared one */
        "{\"type\":\"object\",\"properties\":{\"aab\":{},\"ab\":{},\"b:\":{},\"\\n\":{},\"\":{}}}",
        "{\"items\":{\"type\":\"string\",\"not\":{\"enum\":[\"ab\",\"a1\",\"\\n\"]}},\"type\":\"array\"}",
        "{\"items\":{\"type\":\"string\",\"pattern\":\"b$\"},\"type\":\"array\"}",
        "{\"propertyNames\":{\"pattern\":\"^[^1]*$\"},\"type\":\"object\"}"};
    struct constraint_vocabulary *v = NULL;
    struct err e = {0};
    struct tok *tok;

    (void)state;
    if (tok_open_json(&tok, string_tokens, strlen(string_tokens), "t", &e) != 0 ||
        constraint_vocabulary_new(&v, tok, &e) != 0)
        fail_msg("%s", e.msg);
    for (unsigned i = 0; i < 80; i++) {
        const char *text = schema[i % 8];
        struct constraint_source source = {
            .kind = CONSTRAINT_JSON_SCHEMA, .text = text, .n = strlen(text), .is_compact = i / 8 % 2};
        struct constraint *c = NULL;
        struct constraint_run run;
        uint32_t mask, expected;

        assert_int_equal(constraint_new(&c, &source, v, NULL, &e), 0);
        assert_int_equal(constraint_run_open(&run, c, LENGTH + 1, &e), 0);
        for (size_t n = 0; n < LENGTH && constraint_run_mask(&run, &mask, &e) > 0; n++) {
            int32_t id = (int32_t)short_dice(IDS);

            expected = 0;
            for (int32_t k = 0; k < IDS; k++) {
                expected |= constraint_run_add(&run, k) ? UINT32_C(1) << k : 0;
                constraint_run_truncate(&run, n);
            }
            assert_int_equal(mask, expected);
            while (!(mask >> id & 1))
                id = (id + 1) % IDS;
            assert_true(constraint_run_add(&run, id));
        }
        constraint_run_close(&run);
        constraint_free(c);
    }
    constraint_vocabulary_free(v);
    tok_close(tok);
}

/* Does the call FN of run R with few steps, again and again, until it is not paused. Returns how often it was. */
#define WITH_FEW_STEPS(r, n_pauses, call)                                           \
    for (size_t few_ = short_dice(4);; few_ += 1 + few_, (n_pauses)++) {            \
        struct constraint_steps steps_ = {.left = few_};                            \
        (r)->steps = &steps_;                                                       \
        call;                                                                       \
        (r)->steps = NULL;                                                          \
        assert_true(steps_.done <= few_ || constraint_is_paused((r)->c));           \
        assert_int_equal(steps_.left, steps_.done < few_ ? few_ - steps_.done : 0); \
        if (!constraint_is_paused((r)->c))                                          \
            break;                                                                  \
        assert_false(constraint_run_may_guess(r)); /* what it takes is not known */ \
    }

/* A mask, and the row behind a token, do not depend on how often their work was paused; nothing incomplete is kept. */
/* long: one walk, with and without pauses */
static void paused_work_gives_the_same_masks(void **state)
{
    enum { IDS = 24, LENGTH = 25 };
    static const struct {
        enum constraint_kind kind;
        const char *text;
    } source[] = {
        {CONSTRAINT_JSON_SCHEMA, "{\"type\":\"object\"}"},
        {CONSTRAINT_JSON_SCHEMA, "{}"},
        {CONSTRAINT_JSON_SCHEMA, "{\"items\":{\"type\":\"string\",\"pattern\":\"b$\"},\"type\":\"array\"}"},
        {CONSTRAINT_JSON_SCHEMA,
         "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\",\"ab\",\"aa\",\"ba\"]},"
         "\"minProperties\":4,\"additionalProperties\":{\"const\":1}}"},
        {CONSTRAINT_JSON_SCHEMA,
         "{\"items\":{\"maxLength\":9,\"minLength\":2,\"type\":\"string\"},\"type\":\"array\"}"},
        {CONSTRAINT_REGEX, "((([ab]{1,9},?){1,9}:?){1,9})"},
        {CONSTRAINT_REGEX, "(?=.*a.{5}b)(.*a.{7}){3}"},
        {CONSTRAINT_GRAMMAR, "root ::= (r? r? r? r?){2,3} \"]\"\nr ::= \"a\" r \"b\" | \"[\" r* | \"1\""},
        {CONSTRAINT_GRAMMAR, "root ::= root root | \"a\" | root \",\" | \"{\" root \"}\""},
    };
    struct constraint_vocabulary *v = NULL;
    struct err e = {0};
    size_t n_pauses = 0;
    struct tok *tok;

    (void)state;
    if (tok_open_json(&tok, string_tokens, strlen(string_tokens), "t", &e) != 0 ||
        constraint_vocabulary_new(&v, tok, &e) != 0)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < 36; i++) {
        const char *text = source[i % 9].text;
        struct constraint_source s = {.kind = source[i % 9].kind, .text = text, .n = strlen(text)};
        struct constraint *c[2] = {NULL};
        struct constraint_run run[2];
        uint32_t mask[2] = {0};

        for (int k = 0; k < 2; k++) {
            if (constraint_new(&c[k], &s, v, NULL, &e) != 0)
                fail_msg("%s: %s", text, e.msg);
            assert_int_equal(constraint_run_open(&run[k], c[k], LENGTH + 1, &e), 0);
        }
        for (size_t n = 0; n < LENGTH && constraint_run_mask(&run[0], &mask[0], &e) > 0; n++) {
            int32_t id = (int32_t)short_dice(IDS);
            bool is_added, is_wrong = short_dice(8) == 0;

            WITH_FEW_STEPS(&run[1], n_pauses, constraint_run_mask(&run[1], &mask[1], &e));
            assert_int_equal(mask[1], mask[0]);
            assert_int_equal(constraint_run_may_end(&run[1]), constraint_run_may_end(&run[0]));
            while (!is_wrong && !(mask[0] >> id & 1))
                id = (id + 1) % IDS;
            WITH_FEW_STEPS(&run[1], n_pauses, is_added = constraint_run_add(&run[1], id));
            assert_int_equal(constraint_run_add(&run[0], id), is_added);
            assert_int_equal(is_added, mask[0] >> id & 1);
        }
        assert_int_equal(constraint_run_mask(&run[1], &mask[1], &e),
                         constraint_run_mask(&run[0], &mask[0], &e));
        assert_false(constraint_is_spent(c[1]));
        assert_int_equal(constraint_error(c[1], &e), 0);
        for (int k = 0; k < 2; k++) {
            constraint_run_close(&run[k]);
            constraint_free(c[k]);
        }
    }
    assert_true(n_pauses > 500);
    constraint_vocabulary_free(v);
    tok_close(tok);
    assert_int_equal(mem_live_blocks(), 0);
}

/* The second property of an object with any names leads to the rows of the first one, whose masks are kept: no work is
 * left to do. */
static void masks_inside_names_are_kept(void **state)
{
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
                                 "\"additionalProperties\":true}";
    const struct constraint_source source = {
        .kind = CONSTRAINT_JSON_SCHEMA, .text = schema, .n = sizeof(schema) - 1};
    /* {"a":1, and then "aba":"ab", of string_tokens again and again */
    static const int32_t first[] = {0, 15, 10, 9, 8}, next[] = {15, 6, 23, 5, 6, 13};
    enum { N_FIRST = sizeof(first) / sizeof(*first), N_NEXT = sizeof(next) / sizeof(*next), ROUNDS = 9 };
    struct constraint_vocabulary *v = NULL;
    struct constraint_steps steps = {.left = SIZE_MAX / 2};
    struct constraint *c = NULL;
    struct constraint_run run;
    struct err e = {0};
    uint32_t mask, kept[N_NEXT];
    size_t before = 0;
    struct tok *tok;

    (void)state;
    if (tok_open_json(&tok, string_tokens, strlen(string_tokens), "t", &e) != 0 ||
        constraint_vocabulary_new(&v, tok, &e) != 0 || constraint_new(&c, &source, v, NULL, &e) != 0 ||
        constraint_run_open(&run, c, N_FIRST + ROUNDS * N_NEXT, &e) != 0)
        fail_msg("%s", e.msg);
    run.steps = &steps;
    for (int i = 0; i < N_FIRST; i++)
        assert_true(constraint_run_add(&run, first[i]));
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < N_NEXT; i++) {
            assert_true(constraint_run_mask(&run, &mask, &e) > 0);
            kept[i] = round ? kept[i] : mask;
            assert_int_equal(mask, kept[i]);
            assert_true(constraint_run_add(&run, next[i]));
            if (round == 1 && i == 0)
                before = steps.done;
        }
    assert_true(before > 0);
    assert_int_equal(steps.done, before);
    constraint_run_close(&run);
    constraint_free(c);
    constraint_vocabulary_free(v);
    tok_close(tok);
}

static void every_allocation_of_a_vocabulary_may_fail(void **state)
{
    const struct constraint_source source = {.kind = CONSTRAINT_JSON_SCHEMA, .text = "true", .n = 4};
    struct err e = {0};
    struct tok *tok;
    bool is_done = false;

    (void)state;
    assert_int_equal(tok_open_json(&tok, string_tokens, strlen(string_tokens), "t", &e), 0);
    for (long n = 1; !is_done; n++) {
        size_t blocks = mem_live_blocks();
        struct constraint_vocabulary *v = NULL;
        struct constraint *c = NULL;
        int rc;

        mem_fail_at(n);
        rc = constraint_vocabulary_new(&v, tok, &e);
        rc = rc ? rc : constraint_new(&c, &source, v, NULL, &e);
        is_done = !mem_failed();
        mem_fail_at(0);
        if (rc != (is_done ? 0 : ERR_NOMEM))
            fail_msg("allocation %ld: %d %s", n, rc, e.msg);
        constraint_free(c);
        constraint_vocabulary_free(v);
        assert_int_equal(mem_live_blocks(), blocks);
    }
    tok_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_has_the_tokens_whose_bytes_may_follow),
        cmocka_unit_test(masks_of_patterns_agree_with_reading_each_token),
        cmocka_unit_test(positions_far_from_a_limit_share_a_mask),
        cmocka_unit_test(a_trie_gives_back_the_texts),
        cmocka_unit_test(the_texts_of_a_tokenizer_are_its_bytes),
        cmocka_unit_test(tokens_are_taken_back),
        cmocka_unit_test(shared_walks_give_the_same_masks),
        cmocka_unit_test(paused_work_gives_the_same_masks),
        cmocka_unit_test(masks_inside_names_are_kept),
        cmocka_unit_test(every_allocation_of_a_vocabulary_may_fail),
        cmocka_unit_test(the_first_token_of_an_answer_may_lose_its_blank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
