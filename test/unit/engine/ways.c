/* ways.c - see ways.h. */
#include "ways.h"

#include "engine/guess/oracle.h"
#include "engine/llm.h"
#include "engine/seq.h"
#include "engine/step.h"

/* Sanitizers are slow: one configuration of each cache type is enough for them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { THIN = 5 };
#else
enum { THIN = 1 };
#endif

/* The thread sanitizer needs the variant with two threads only. */
#if defined(__SANITIZE_THREAD__)
enum { FIRST = 2 };
#else
enum { FIRST = 0 };
#endif

const struct way ways[] = {{"dynamic", NULL, 0, 0},
                           {"slab_pool", "head_major", 0, 0},
                           {"slab_pool", "head_major", 16, 0},
                           {"slab_pool", "head_major", 64, 0},
                           {"slab_pool", "head_major", 256, 0},
                           {"slab_pool", "block_major", 16, 0},
                           {"slab_pool", "block_major", 32, 0},
                           {"slab_pool", "block_major", 256, 0},
                           {"paged", "head_major", 0, 0},
                           {"paged", "head_major", 16, 0},
                           {"paged", "head_major", 128, 0},
                           {"paged", "block_major", 16, 0},
                           {"paged", "block_major", 64, 0},
                           {"paged", "block_major", 256, 0},
                           {"bmc", NULL, 0, 0},
                           {"bmc", NULL, 0, 3}};
const size_t n_ways = sizeof(ways) / sizeof(ways[0]);

const char *const ways_types[4] = {"slab_pool", "paged", "dynamic", "bmc"};

void ways_set(struct gallop_options *o, const struct way *w)
{
    o->kv_cache_type = w->type;
    o->kv_cache_layout = w->layout;
    o->block_size = w->block;
    o->bmc_splits = w->splits;
}

const char *ways_name(const struct way *w)
{
    static char text[4][64];
    static size_t turn;
    char *out = text[turn++ % 4];

    snprintf(out, sizeof(text[0]), "%s %s %d", w->type, w->layout ? w->layout : "",
             (int)(w->block ? w->block : w->splits));
    return out;
}

struct gallop *ways_open(const struct way *w, int64_t step, int threads, int64_t budget)
{
    struct gallop_options o = engines_options(8, step, 256);

    o.threads = threads;
    o.kv_cache_tokens = budget;
    ways_set(&o, w);
    return engines_open("demo", &o);
}

/* Fails if one of the N answers OUT differs from ALONE, or is unlike what CHECK demands. */
static void compare(const struct way *w, int variant, int round, const struct engines_answer *alone,
                    const struct engines_answer *out, size_t n,
                    void (*check)(const struct engines_answer *answers))
{
    char says[256];

    if (check)
        check(out);
    if (engines_differ(out, alone, n, says))
        fail_msg("%s, variant %d, round %d: %s", ways_name(w), variant, round, says);
}

static const int32_t *right_answer(void *ctx, const struct seq *s, size_t *n)
{
    const struct engines_answer *a = (const struct engines_answer *)ctx + (size_t)s->user + s->choice;

    *n = a->n;
    return a->token;
}

/* Makes G guess the answers ALONE: in variant 1 four tokens, most of them right, in variant 2 twelve, which are often
 * wrong. */
static void guess(struct gallop *g, int variant, struct engines_answer *alone, struct oracle *o)
{
    *o = (struct oracle){.accept = variant == 1 ? .9 : .6,
                         .n_vocab = engine_llm(g)->model.info.vocab,
                         .answer = right_answer,
                         .ctx = alone};
    oracle_init(o, variant == 1 ? 4 : 12);
    if (variant)
        engine_loop(g)->guesser = &o->guesser;
}

struct ways_seen ways_alone_and_in_company(struct engines_answer *alone, size_t n, int64_t budget,
                                           void (*submit)(struct gallop *g, size_t which),
                                           void (*check)(const struct engines_answer *answers))
{
    static struct engines_answer out[WAYS_MAX_ANSWERS];
    uint64_t n_right = 0;
    struct oracle oracle;
    struct ways_seen seen = {0, 0};

    assert_true(n <= WAYS_MAX_ANSWERS);
    for (size_t w = 0; w < n_ways; w += THIN)
        for (int k = FIRST; k < 3; k++) {
            struct gallop *g = ways_open(&ways[w], k == 1 ? 16 : 64, k == 2 ? 2 : 1, k == 2 ? budget : 0);

            for (size_t i = 0; i < n && w == 0 && k == FIRST; i++) {
                submit(g, i);
                engines_run(g, alone);
            }
            guess(g, k, alone, &oracle);
            for (int round = 0; round < (k == 1 ? 1 : 2); round++) {
                memset(out, 0, sizeof(out));
                for (size_t i = 0; i < n; i++)
                    submit(g, i);
                engines_run(g, out);
                compare(&ways[w], k, round, alone, out, n, check);
                for (size_t i = 0; i < n; i++)
                    seen.n_cached += out[i].end.n_cached;
            }
            n_right += engine_loop(g)->guess_counts.n_accepted;
            seen.n_preempted += engines_stats(g).n_preempted;
            gallop_close(g);
        }
    assert_true(n_right > 0);
    return seen;
}
