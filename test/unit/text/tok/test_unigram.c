/* test_unigram.c - the best segmentation compared with all segmentations, for random vocabularies and short
 * words. */
#include "base/mem.h"
#include "text/tok/ids.h"
#include "text/tok/unigram.h"

static uint64_t seed = 362436069u;

static uint32_t dice(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

static void add(struct unigram *u, struct vocab *v, const char *s, double score)
{
    assert_int_equal(vocab_add(v, s, strlen(s), (int64_t)v->n_ids, NULL), 0);
    assert_true(mem_grow((void **)&u->score, &u->score_cap, u->n_score + 1, sizeof(*u->score), MEM_TEXT));
    u->score[u->n_score++] = score;
}

/* Returns the highest sum over all ways to cut S into pieces. */
static double best_of_all(const struct unigram *u, const struct vocab *v, const char *s, size_t n)
{
    double best = -1e300;

    if (n == 0)
        return 0;
    for (size_t len = 1; len <= n; len++) {
        uint32_t id;
        double rest;

        if (!vocab_find(v, s, len, &id))
            continue;
        rest = u->score[id] + best_of_all(u, v, s + len, n - len);
        best = rest > best ? rest : best;
    }
    return best;
}

static void the_path_is_the_best_of_all(void **state)
{
    for (int round = 0; round < 200; round++) {
        struct unigram_work w = {0};
        struct unigram u = {0};
        struct vocab v;

        vocab_init(&v);
        add(&u, &v, "a", -1.0 - dice(900) / 100.0);
        add(&u, &v, "b", -1.0 - dice(900) / 100.0);
        for (int k = 0; k < 12; k++) {
            char s[8] = {0};
            uint32_t id, n = 2 + dice(4);

            for (uint32_t i = 0; i < n; i++)
                s[i] = (char)('a' + dice(2));
            if (!vocab_find(&v, s, n, &id))
                add(&u, &v, s, -1.0 - dice(1500) / 100.0);
        }
        assert_int_equal(unigram_seal(&u, &v, NULL), 0);
        for (int k = 0; k < 20; k++) {
            struct tok_ids ids = {0};
            double sum = 0;
            char s[16];
            size_t n = 1 + dice(12), at = 0;

            for (size_t i = 0; i < n; i++)
                s[i] = (char)('a' + dice(2));
            assert_int_equal(unigram_encode(&u, &w, s, n, &ids, NULL), 0);
            for (size_t i = 0; i < ids.n; i++) {
                const char *piece;
                size_t len;

                assert_true(vocab_str(&v, (size_t)ids.id[i], &piece, &len) && at + len <= n);
                assert_memory_equal(s + at, piece, len);
                at += len;
                sum += u.score[ids.id[i]];
            }
            assert_int_equal(at, n);
            assert_true(sum > best_of_all(&u, &v, s, n) - 1e-9);
            tok_ids_fini(&ids);
        }
        unigram_work_fini(&w);
        unigram_fini(&u);
        vocab_fini(&v);
    }
    assert_int_equal(mem_live_blocks(), 0);
}

/* As in Hugging Face's tokenizers, the longest of the pieces that end segmentations of equal sums is chosen,
 * because it begins first. */
static void of_equal_sums_the_path_that_was_found_first_stays(void **state)
{
    struct unigram_work w = {0};
    struct unigram u = {0};
    struct tok_ids ids = {0};
    struct vocab v;

    vocab_init(&v);
    add(&u, &v, "a", -1);
    add(&u, &v, "b", -1);
    add(&u, &v, "ab", -2);
    add(&u, &v, "bb", -2);
    add(&u, &v, "abb", -3);
    assert_int_equal(unigram_seal(&u, &v, NULL), 0);
    for (u.single = false;; u.single = true) {
        ids.n = 0;
        assert_int_equal(unigram_encode(&u, &w, "ab", 2, &ids, NULL), 0);
        assert_int_equal(unigram_encode(&u, &w, "babb", 4, &ids, NULL), 0);
        if (ids.n != 3 || ids.id[0] != 2 || ids.id[1] != 1 || ids.id[2] != 4)
            fail_msg("%zu pieces, of which the first is %d; expected are ab, b and abb (2, 1, 4)", ids.n,
                     (int)ids.id[0]);
        if (u.single)
            break;
    }
    tok_ids_fini(&ids);
    unigram_work_fini(&w);
    unigram_fini(&u);
    vocab_fini(&v);
}

static void unknown_characters_fuse_into_one_or_fall_back_to_bytes(void **state)
{
    static const char text[] = "a\xc3\xa9\xc3\xa9"
                               "a";
    struct unigram_work w = {0};
    struct unigram u = {.has_unk = true, .unk = 0};
    struct tok_ids ids = {0};
    struct vocab v;

    vocab_init(&v);
    add(&u, &v, "<unk>", 0);
    add(&u, &v, "a", -2);
    add(&u, &v, "<0xC3>", -9);
    add(&u, &v, "<0xA9>", -9);
    assert_int_equal(unigram_seal(&u, &v, NULL), 0);
    assert_int_equal(unigram_encode(&u, &w, text, sizeof(text) - 1, &ids, NULL), 0);
    assert_int_equal(ids.n, 3);
    assert_true(ids.id[0] == 1 && ids.id[1] == 0 && ids.id[2] == 1);
    u.fallback[0xc3] = 2;
    u.fallback[0xa9] = 3;
    u.byte_fallback = true;
    assert_int_equal(unigram_encode(&u, &w, text, sizeof(text) - 1, &ids, NULL), 0);
    assert_int_equal(ids.n, 3 + 6);
    assert_true(ids.id[4] == 2 && ids.id[5] == 3 && ids.id[6] == 2 && ids.id[7] == 3);
    tok_ids_fini(&ids);
    unigram_work_fini(&w);
    unigram_fini(&u);
    vocab_fini(&v);
}

static void scores_that_do_not_fit_the_pieces_are_refused(void **state)
{
    struct unigram u = {0};
    struct vocab v;
    struct err e = {0};

    vocab_init(&v);
    add(&u, &v, "a", -1);
    u.n_score = 2;
    assert_int_equal(unigram_seal(&u, &v, &e), ERR_INPUT);
    u.n_score = 1;
    u.has_unk = true;
    u.unk = 1;
    assert_int_equal(unigram_seal(&u, &v, &e), ERR_INPUT);
    unigram_fini(&u);
    vocab_fini(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_is_the_best_of_all),
        cmocka_unit_test(of_equal_sums_the_path_that_was_found_first_stays),
        cmocka_unit_test(unknown_characters_fuse_into_one_or_fall_back_to_bytes),
        cmocka_unit_test(scores_that_do_not_fit_the_pieces_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
