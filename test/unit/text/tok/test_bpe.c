/* test_bpe.c - BPE merges compared with a direct implementation of the definition, for random vocabularies,
 * for short and long words, and for words that are split at junctions; and the time of a hostile word. */
#include <time.h>

#include "base/utf8.h"
#include "text/tok/build.h"

struct model {
    struct vocab vocab;
    struct bpe bpe;
    struct bpe_rule *rule; /* a copy, in the order of ranks */
    size_t n_rules;
};

static uint64_t seed = 88172645463325252u;

static uint32_t dice(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

static uint32_t add_piece(struct model *m, const char *s, size_t n)
{
    uint32_t id;

    if (vocab_find(&m->vocab, s, n, &id))
        return id;
    assert_int_equal(vocab_add(&m->vocab, s, n, (int64_t)m->vocab.n_ids, NULL), 0);
    return (uint32_t)m->vocab.n_ids - 1;
}

static uint32_t joined(struct model *m, uint32_t left, uint32_t right)
{
    const char *s;
    char whole[256];
    size_t n, n2;

    vocab_str(&m->vocab, left, &s, &n);
    memcpy(whole, s, n);
    vocab_str(&m->vocab, right, &s, &n2);
    memcpy(whole + n, s, n2);
    return add_piece(m, whole, n + n2);
}

/* Makes a model of characters (of bytes if BYTES is set) and random rules between random pieces. */
static void make(struct model *m, const char *const *chars, size_t n_chars, bool fallback, size_t n_rules)
{
    *m = (struct model){.bpe.byte_fallback = fallback};
    vocab_init(&m->vocab);
    for (unsigned b = 0; b < 256 && fallback; b++) {
        char s[8];

        add_piece(m, s, (size_t)snprintf(s, sizeof(s), "<0x%02X>", b));
    }
    for (size_t i = 0; i < n_chars; i++)
        add_piece(m, chars[i], strlen(chars[i]));
    m->rule = malloc(n_rules * sizeof(*m->rule));
    while (m->n_rules < n_rules) {
        uint32_t first = fallback ? 256 : 0, span = (uint32_t)m->vocab.n_ids - first;
        uint32_t left = first + dice(span), right = first + dice(span);
        const char *s;
        size_t nl, nr;
        bool known = false;

        vocab_str(&m->vocab, left, &s, &nl);
        vocab_str(&m->vocab, right, &s, &nr);
        for (size_t i = 0; i < m->n_rules; i++)
            known = known || (m->rule[i].left == left && m->rule[i].right == right);
        if (nl + nr > 24 || known)
            continue;
        m->rule[m->n_rules] = (struct bpe_rule){left, right, (uint32_t)m->n_rules, joined(m, left, right)};
        assert_int_equal(
            bpe_add_rule(&m->bpe, left, right, (uint32_t)m->n_rules, m->rule[m->n_rules].merged, NULL), 0);
        m->n_rules++;
    }
    assert_int_equal(bpe_seal(&m->bpe, &m->vocab, NULL), 0);
}

static void drop(struct model *m)
{
    bpe_fini(&m->bpe);
    vocab_fini(&m->vocab);
    free(m->rule);
}

/* Encodes by the definition: applies the rule of the lowest rank at its leftmost position until no rule
 * applies. */
static size_t by_definition(const struct model *m, uint32_t *id, size_t n)
{
    for (size_t k = 0; k < m->n_rules;) {
        size_t i = 0;

        while (i + 1 < n && (id[i] != m->rule[k].left || id[i + 1] != m->rule[k].right))
            i++;
        if (i + 1 >= n) {
            k++;
            continue;
        }
        id[i] = m->rule[k].merged;
        memmove(id + i + 1, id + i + 2, (n - i - 2) * sizeof(*id));
        n--;
        k = 0; /* A merge may make a rule of lower rank applicable. */
    }
    return n;
}

static size_t symbols(const struct model *m, const char *s, size_t n, uint32_t *id)
{
    size_t count = 0;

    for (size_t i = 0, len; i < n; i += len) {
        utf8_decode(s + i, &len);
        if (vocab_find(&m->vocab, s + i, len, &id[count])) {
            count++;
            continue;
        }
        for (size_t k = 0; k < len; k++)
            id[count++] = (unsigned char)s[i + k]; /* The byte pieces are first. */
    }
    return count;
}

static void compare(const struct model *m, struct bpe_work *w, const char *s, size_t n)
{
    uint32_t *want = malloc((n + 1) * sizeof(*want));
    struct tok_ids got = {0};
    size_t count = by_definition(m, want, symbols(m, s, n, want));

    assert_int_equal(bpe_encode(&m->bpe, w, s, n, &got, NULL), 0);
    if (got.n != count)
        fail_msg("%.*s: %zu pieces, by the definition %zu", (int)n, s, got.n, count);
    assert_memory_equal(got.id, want, count * sizeof(*want));
    tok_ids_fini(&got);
    free(want);
}

static const char *const letters[] = {"a", "b", "c", "\xc3\xa9", "\xe2\x96\x81", "\xe9\xa6\xac"};

static void words_of_any_length_merge_by_the_definition(void **state)
{
    for (int round = 0; round < 60; round++) {
        struct bpe_work *w;
        struct model m;

        make(&m, letters, 2 + dice(5), round % 2, 3 + dice(60));
        w = bpe_work_new(&m.bpe);
        for (int k = 0; k < 40; k++) {
            char text[1024];
            size_t n = 0, want = k % 8 == 0 ? 200 + dice(100) : 1 + dice(70);

            while (n < want) {
                const char *c = round % 2 && dice(30) == 0 ? "\xf0\x9f\x90\x8e" : letters[dice(6)];
                uint32_t id;

                if (!(round % 2) && !vocab_find(&m.vocab, c, strlen(c), &id))
                    continue;
                memcpy(text + n, c, strlen(c));
                n += strlen(c);
            }
            compare(&m, w, text, n);
            compare(&m, w, text, n); /* The word comes from the cache if it fits. */
        }
        bpe_work_free(w);
        drop(&m);
    }
    assert_int_equal(mem_live_blocks(), 0);
}

/* The rule y z -> yz takes the y from the candidate x y, and x has another candidate x yz of a later rank.
 * The old candidate must not be taken for the new one: p x is merged in between. */
static void a_candidate_that_lost_its_right_half_has_no_turn(void **state)
{
    static const char *const chars[] = {"p", "x", "y", "z"};
    enum { P, X, Y, Z, YZ, XY, PX, XYZ, YZPX };
    static const struct bpe_rule rule[] = {
        {Y, Z, 0, YZ}, {X, Y, 1, XY}, {P, X, 2, PX}, {X, YZ, 3, XYZ}, {YZ, PX, 4, YZPX}};
    struct model m = {.n_rules = 5};
    struct bpe_work *w;

    vocab_init(&m.vocab);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(add_piece(&m, chars[i], 1), i);
    m.rule = malloc(sizeof(rule));
    memcpy(m.rule, rule, sizeof(rule));
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(joined(&m, rule[i].left, rule[i].right), rule[i].merged);
        assert_int_equal(bpe_add_rule(&m.bpe, rule[i].left, rule[i].right, i, rule[i].merged, NULL), 0);
    }
    assert_int_equal(bpe_seal(&m.bpe, &m.vocab, NULL), 0);
    w = bpe_work_new(&m.bpe);
    for (size_t turns = 1; turns <= 40; turns++) { /* Another function merges words of at most 48 symbols. */
        char text[200];

        for (size_t i = 0; i < turns; i++)
            memcpy(text + 4 * i, "pxyz", 4);
        compare(&m, w, text, 4 * turns);
    }
    bpe_work_free(w);
    drop(&m);
}

static void a_wrong_merge_would_be_seen(void **state)
{
    struct model m;
    uint32_t id[] = {0, 1, 0, 1};

    make(&m, letters, 2, false, 1);
    m.rule[0] = (struct bpe_rule){0, 1, 0, 2};
    assert_int_equal(by_definition(&m, id, 4), 2);
    assert_true(id[0] == 2 && id[1] == 2);
    drop(&m);
}

static void unknown_characters_fuse_or_not(void **state)
{
    static const char text[] = "xa\xc3\xa9\xc3\xa9"
                               "a";
    struct bpe_work *w;
    struct tok_ids ids = {0};
    struct model m;

    make(&m, letters, 2, false, 1);
    w = bpe_work_new(&m.bpe);
    m.bpe.has_unk = true;
    m.bpe.unk = 2; /* The piece is the result of the only rule, so no rule contains it. */
    assert_int_equal(bpe_encode(&m.bpe, w, text, sizeof(text) - 1, &ids, NULL), 0);
    assert_int_equal(ids.n, 5);
    bpe_work_free(w); /* The contents of the cache depend on the settings. */
    w = bpe_work_new(&m.bpe);
    m.bpe.fuse_unk = true;
    assert_int_equal(bpe_encode(&m.bpe, w, text, sizeof(text) - 1, &ids, NULL), 0);
    assert_int_equal(ids.n, 5 + 4);
    bpe_work_free(w);
    w = bpe_work_new(&m.bpe);
    m.bpe.has_unk = false; /* Unknown characters vanish then. */
    assert_int_equal(bpe_encode(&m.bpe, w, text, sizeof(text) - 1, &ids, NULL), 0);
    assert_int_equal(ids.n, 5 + 4 + 2);
    tok_ids_fini(&ids);
    bpe_work_free(w);
    drop(&m);
}

static void derived_rules_are_those_of_every_cut(void **state)
{
    static const char *const piece[] = {"a", "b", "ab", "aba", "ba"};
    static const uint32_t rank[] = {0, 1, 2, 3, 4};
    struct model m = {0};
    struct bpe_work *w;
    struct tok_ids ids = {0};

    vocab_init(&m.vocab);
    for (size_t i = 0; i < 5; i++)
        add_piece(&m, piece[i], strlen(piece[i]));
    assert_int_equal(bpe_derive(&m.bpe, &m.vocab, rank, NULL), 0);
    assert_int_equal(m.bpe.n_added, 4); /* a+b, ab+a, a+ba, b+a */
    assert_int_equal(bpe_seal(&m.bpe, &m.vocab, NULL), 0);
    w = bpe_work_new(&m.bpe);
    assert_int_equal(bpe_encode(&m.bpe, w, "ababa", 5, &ids, NULL), 0);
    assert_int_equal(ids.n,
                     2); /* First ab ab a, then ab + aba: the leftmost pair is ab + ab, which has no rule. */
    assert_true(ids.id[0] == 2 && ids.id[1] == 3);
    tok_ids_fini(&ids);
    bpe_work_free(w);
    drop(&m);
}

/* Short and long words need memory for their lists, their heap and their ids. */
static void a_word_without_memory_is_an_error(void **state)
{
    static const size_t length[] = {1, 48, 49, 400};
    struct model m;
    char text[400];

    make(&m, letters, 2, false, 20);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = "ab"[dice(2)];
    for (size_t i = 0; i < sizeof(length) / sizeof(*length); i++) {
        bool failed = true;
        long n = 0;

        while (failed) {
            struct bpe_work *w = bpe_work_new(&m.bpe);
            struct tok_ids ids = {0};
            struct err e = {0};
            size_t before = mem_live_blocks();
            int rc;

            mem_fail_at(++n);
            rc = bpe_encode(&m.bpe, w, text, length[i], &ids, &e);
            failed = mem_failed();
            mem_fail_at(0);
            if (rc != (failed ? ERR_NOMEM : 0))
                fail_msg("a word of %zu letters, allocation %ld: %d %s", length[i], n, rc, e.msg);
            assert_true(mem_live_blocks() >= before);
            tok_ids_fini(&ids);
            bpe_work_free(w);
        }
        assert_true(n > 2);
    }
    drop(&m);
    assert_int_equal(mem_live_blocks(), 0);
}

static double seconds_for(const struct model *m, const char *unit, size_t n)
{
    size_t step = strlen(unit);
    char *text = malloc(n + step);
    double best = 1e9;

    for (size_t i = 0; i < n; i += step)
        memcpy(text + i, unit, step);
    for (int turn = 0; turn < 3; turn++) {
        struct bpe_work *w = bpe_work_new(&m->bpe);
        struct tok_ids ids = {0};
        double begin = (double)clock() / CLOCKS_PER_SEC, took;

        assert_int_equal(bpe_encode(&m->bpe, w, text, n / step * step, &ids, NULL), 0);
        took = (double)clock() / CLOCKS_PER_SEC - begin;
        best = took < best ? took : best;
        tok_ids_fini(&ids);
        bpe_work_free(w);
    }
    free(text);
    return best;
}

static void a_hostile_word_takes_time_in_proportion_to_its_length(void **state)
{
    static const char *const unit[] = {"a", "ab", "aab", "\xe9\xa6\xac", "abcab"};
    struct model m;

    make(&m, letters, 6, true, 120);
    for (size_t i = 0; i < sizeof(unit) / sizeof(*unit); i++) {
        double small = seconds_for(&m, unit[i], 1 << 16), large = seconds_for(&m, unit[i], 1 << 19);

        if (large >
            24 * small +
                0.1) /* The word is eight times as long. A quadratic algorithm takes 64 times as long. */
            fail_msg("\"%s\": 64 KiB take %.4f s, 512 KiB %.4f s", unit[i], small, large);
    }
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_any_length_merge_by_the_definition),
        cmocka_unit_test(a_candidate_that_lost_its_right_half_has_no_turn),
        cmocka_unit_test(a_wrong_merge_would_be_seen),
        cmocka_unit_test(unknown_characters_fuse_or_not),
        cmocka_unit_test(derived_rules_are_those_of_every_cut),
        cmocka_unit_test(a_word_without_memory_is_an_error),
        cmocka_unit_test(a_hostile_word_takes_time_in_proportion_to_its_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
