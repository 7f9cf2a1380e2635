/* test_masks.c - the work on constraints: that of one constraint stays on one thread, since its sequences share cached
 * states, and that of several is spread over the threads, also for tokens that constraints force.
 */
#include <pthread.h>

#include "base/mem.h"
#include "base/threads/pool.h"
#include "engine/constraints/masks.h"
#include "engine/guess/guess.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "gallop.h"

enum { SEQS = 12, THREADS = 2 };

struct log {
    pthread_t thread[SEQS];
    int n_calls[SEQS];
    struct seq *seq;
};

static void work(void *ctx, struct seq *s)
{
    struct log *log = ctx;
    size_t i = (size_t)(s - log->seq);

    log->thread[i] = pthread_self();
    log->n_calls[i]++;
    mem_free(mem_alloc(64, MEM_ENGINE)); /* new states of a constraint are allocated */
}

static void sequences_of_one_constraint_share_a_thread(void **state)
{
    static const size_t of[SEQS] = {2, 0, 1, 2, 2, 0, 1, 1, 0, 3, 3, 2};
    struct seq *list[SEQS], *seq = calloc(SEQS, sizeof(*seq));
    char constraint[4]; /* addresses only */
    struct log log = {.seq = seq};
    struct masks m = {.seq = list, .work = work, .ctx = &log};
    struct pool *pool;

    assert_int_equal(pool_new(&pool, THREADS, NULL), 0);
    for (size_t i = 0; i < SEQS; i++) {
        seq[i].run.c = (struct constraint *)(void *)&constraint[of[i]];
        masks_add(&m, &seq[i]);
    }
    masks_run(&m, pool);
    for (size_t i = 0; i < SEQS; i++) {
        assert_int_equal(log.n_calls[i], 1);
        assert_true(seq[i].mask_s > 0);
        for (size_t k = 0; k < i; k++)
            assert_true(of[i] != of[k] || pthread_equal(log.thread[i], log.thread[k]));
    }
    pool_free(pool);
    free(seq);
}

/* A source of guesses in front of that of the engine. */
struct watch {
    struct guess_maker own, *inner;
    size_t n_forced;
};

static void propose(void *ctx, struct seq **seq, size_t n)
{
    struct watch *w = ctx;

    w->inner->depth = w->own.depth;
    w->inner->propose(w->inner->ctx, seq, n);
    for (size_t i = 0; i < n; i++) {
        w->n_forced += seq[i]->guess.source == GUESS_FORCED ? seq[i]->guess.n : 0;
        assert_true(seq[i]->mask_s > 0); /* counted with the masks of the step */
    }
}

/* The time of forced tokens is in the metric of masks, which has one duration for each token that was drawn. */
static void the_time_of_forced_tokens_is_counted(void **state)
{
    static struct engines_answer got[4];
    struct gallop_options o = engines_options(4, 64, 256);
    uint64_t n_durations = 0, n_tokens = 0, n_guesses = 0;
    struct gallop_stats stats;
    struct watch w = {0};
    struct gallop *g;

    o.threads = THREADS;
    o.speculative_config = "{\"method\":\"ngram\",\"prompt_lookup_min\":100,\"adaptive\":false}";
    g = engines_open("demo", &o);
    w.inner = engine_loop(g)->guesser;
    w.own = *w.inner;
    w.own.ctx = &w;
    w.own.propose = propose;
    w.own.leave = NULL;
    engine_loop(g)->guesser = &w.own;
    memset(got, 0, sizeof(got));
    for (size_t i = 0; i < 4; i++) {
        char json[160];
        struct gallop_request r;

        snprintf(json, sizeof(json),
                 "{\"type\":\"object\",\"properties\":{\"the name of number %zu\":{\"type\":\"boolean\"}},"
                 "\"required\":[\"the name of number %zu\"],\"additionalProperties\":false}",
                 i % 3, i % 3);
        gallop_request_init(&r);
        r.text = "Once";
        r.sampling.max_new_tokens = 100;
        r.structured_outputs.json = json;
        r.structured_outputs.disable_any_whitespace = 1;
        r.user = (void *)i;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    }
    engines_run(g, got);
    stats = engines_stats(g);
    for (size_t i = 0; i < GALLOP_N_DURATIONS; i++)
        n_durations += stats.grammar_mask.count[i];
    for (size_t i = 0; i < 4; i++) {
        n_tokens += got[i].end.speculation.n_steps;
        n_guesses += got[i].end.speculation.n_accepted_tokens;
        assert_int_equal(got[i].end.finish, GALLOP_FINISH_STOP);
    }
    assert_true(w.n_forced > 10 && n_guesses > 10);
    assert_int_equal(n_durations, n_tokens);
    gallop_close(g);
}

/* allowed_token_ids of a vocabulary that does not fill its last word, with a constraint that allows every token. */
static void allowed_tokens_limit_a_mask_to_its_last_word(void **state)
{
    for (size_t n_vocab = 1; n_vocab <= 70; n_vocab++) {
        uint32_t allowed[3] = {0}, mask[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
        struct seq_common common = {.allowed = allowed, .n_vocab = n_vocab};
        struct seq *s = calloc(1, sizeof(*s));

        s->common = &common;
        allowed[0] = 1;
        allowed[(n_vocab - 1) / 32] |= UINT32_C(1) << (n_vocab - 1) % 32;
        masks_finish(s, mask);
        assert_memory_equal(mask, allowed, (n_vocab + 31) / 32 * sizeof(*mask));
        free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allowed_tokens_limit_a_mask_to_its_last_word),
        cmocka_unit_test(sequences_of_one_constraint_share_a_thread),
        cmocka_unit_test(the_time_of_forced_tokens_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
