/* test_mixed.c - 300 requests of every kind get together what they get one by one, bit for bit: tokens,
 * log-probabilities, texts and ends.
 *
 * Prompts have 1 to 2000 tokens, and some begin alike. There are several answers, scored prompts, stop
 * strings and tokens, seeds, penalties and cancellations; 1, 8 or 64 requests at once; no prefix cache and
 * each index of it; a pool so small that requests are preempted; admission for the worst case; each scheduler
 * and policy; an executor of static shapes, and executors that die. Each load runs twice on the same engine:
 * the second time the rows of the first run are cached. With a KV store the second engine is a new one, which
 * finds the blocks that the first has written to a disk or to a Redis server.
 *
 * GALLOP_MIXED=all (`make test-mixed`) runs every model in every way, GALLOP_MIXED=qwen3 that model, and
 * GALLOP_MIXED=pjrt some on the plugin GALLOP_PJRT_PLUGIN, where log-probabilities are not compared.
 */
#include "base/err.h"
#include "base/log.h"
#include "dying.h"
#include "engine/engine_priv.h"
#include "engine/guess/oracle.h"
#include "engine/llm.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "letters.h"
#include "redis_server.h"
#include "static_shapes.h"

enum { REQUESTS = 300, ANSWERS = 3, LONGEST = STATIC_LONGEST, SHORT = 256, MOST_PROMPT = 2000 };

/* a growing list of bytes */
struct bytes {
    char *at;
    size_t n, cap;
};

/* the content of an answer */
struct answer {
    struct bytes tokens; /* the id, the log-probability and the most likely tokens of each token */
    struct bytes prompt; /* the same for the tokens of the prompt */
    struct bytes text;
    struct bytes ids; /* the ids of its tokens, for guesses */
    bool ended;
    enum gallop_finish finish;
    size_t n_prompt, n_output;
    int32_t stop_token;
    const char *stop_string; /* one of stop_strings */
    int context_full;
    size_t n_cached, n_stored; /* These are not compared. */
};

static struct answer alone[REQUESTS][ANSWERS], together[REQUESTS][ANSWERS];
static const char *const stop_strings[] = {"ab", "cc", "dq", "xyzzy"};

/* ---- the requests ---- */

struct wish {
    struct gallop_request r;
    int32_t ids[MOST_PROMPT];
    size_t cancel_at; /* the request is cancelled after this many tokens; SIZE_MAX: never */
};

/* Short prompts have long answers, which together need more than a small pool. */
static bool is_flood(size_t i)
{
    return i >= 100 && i < 180;
}

/* Some texts are the beginning of others. 23 texts follow them, so whole prompts repeat as well. */
static size_t make_prompt(size_t i, int32_t *ids)
{
    static const size_t shared[] = {0, 33, 64, 100, 0, 300};
    size_t same = shared[i % 6], own = i % 48 == 7 ? MOST_PROMPT - same - 4 * (295 - i) : 1 + i * 29 % 90;

    if (i % 50 == 13 || is_flood(i)) {
        same = 0;
        own = i % 50 == 13 ? 1 : 1 + i % 20;
    }
    engines_text(1, 0, same, ids);
    engines_text(10 + i % 23, same, own, ids + same);
    return same + own;
}

static void set_sampling(size_t i, struct gallop_sampling *p)
{
    static const int32_t stop_tokens[] = {9, 77}, bias_ids[] = {5, 40};
    static const float biases[] = {3, -5};

    p->max_new_tokens = i % 37 == 0 ? 0 : is_flood(i) ? 70 : (int64_t)(1 + i * 17 % 30);
    p->ignore_eos = i % 5 != 0;
    p->do_sample = i % 3 != 0;
    p->temperature = 1 + .1 * (double)(i % 7);
    p->top_k = i % 4 == 3 ? 30 : 0;
    p->top_p = i % 6 == 1 ? .9 : 1;
    p->repetition_penalty = i % 7 == 0 ? 1.2 : 1;
    p->presence_penalty = i % 8 == 2 ? .5 : 0;
    p->typical_p = i % 9 == 4 ? .9 : 1;
    p->top_n_sigma = i % 11 == 4 ? 1.5 : 0;
    p->xtc_probability = i % 6 == 4 ? .5 : 0;
    p->xtc_threshold = .02;
    p->dry_multiplier = i % 5 == 2 ? 2 : 0;
    p->dry_allowed_length = (int64_t)(i % 3);
    p->has_seed = 1;
    p->seed = i / 2;
    p->logprobs = (int64_t)(i % 5) - 1;
    if (i % 4 == 1) {
        p->stop = stop_strings;
        p->n_stop = sizeof(stop_strings) / sizeof(stop_strings[0]);
    }
    if (i % 13 == 2) {
        p->stop_token = stop_tokens;
        p->n_stop_token = 2;
    }
    if (i % 14 == 3) {
        p->bias_id = bias_ids;
        p->bias = biases;
        p->n_bias = 2;
    }
}

static void make_wish(size_t i, struct wish *w)
{
    static const char *const keys[] = {NULL, "a", "b", "c"}, *const salts[] = {NULL, "salt", NULL, NULL};
    struct gallop_request *r = &w->r;

    gallop_request_init(r);
    set_sampling(i, &r->sampling);
    r->ids = w->ids;
    r->n_ids = make_prompt(i, w->ids);
    r->user = (void *)i;
    r->n = i % 10 == 3 ? ANSWERS : 1;
    r->prompt_logprobs = i % 17 == 4 ? 2 : -1;
    r->key = keys[i % 4];
    r->cache_salt = salts[i / 6 % 4];
    r->priority = (int)(i % 3);
    w->cancel_at = i % 11 == 5 && r->n == 1 ? i % 9 : SIZE_MAX;
}

/* ---- answers ---- */

static void put(struct bytes *b, const void *what, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        assert_non_null(b->at = realloc(b->at, b->cap));
    }
    memcpy(b->at + b->n, what, n);
    b->n += n;
}

static void forget(struct answer all[REQUESTS][ANSWERS])
{
    for (size_t i = 0; i < REQUESTS * ANSWERS; i++) {
        struct answer *a = &all[i / ANSWERS][i % ANSWERS];

        free(a->tokens.at);
        free(a->prompt.at);
        free(a->text.at);
        free(a->ids.at);
    }
    memset(all, 0, REQUESTS * sizeof(all[0]));
}

static void put_token(struct bytes *b, const struct gallop_event *ev, bool scored)
{
    put(b, &ev->token, sizeof(ev->token));
    if (!scored)
        return;
    put(b, &ev->logprob, sizeof(ev->logprob));
    put(b, ev->top, ev->n_top * sizeof(*ev->top));
}

static void note(struct answer all[REQUESTS][ANSWERS], const struct gallop_event *ev)
{
    struct answer *a = &all[(size_t)ev->user][ev->choice];
    struct wish w;

    assert_false(a->ended);
    switch (ev->type) {
    case GALLOP_TOKEN:
        put(&a->ids, &ev->token, sizeof(ev->token));
        set_sampling((size_t)ev->user, &w.r.sampling);
        put_token(&a->tokens, ev, w.r.sampling.logprobs >= 0);
        a->n_output++;
        break;
    case GALLOP_PROMPT_TOKEN: put_token(&a->prompt, ev, true); break;
    case GALLOP_TEXT: put(&a->text, ev->text, ev->text_len); break;
    case GALLOP_EMBEDDING: break; /* These were not requested. */
    case GALLOP_FINISHED:
        a->ended = true;
        a->finish = ev->finish;
        a->n_prompt = ev->n_prompt;
        a->stop_token = ev->stop_token;
        for (size_t i = 0; i < sizeof(stop_strings) / sizeof(stop_strings[0]); i++)
            if (ev->stop_string && strcmp(ev->stop_string, stop_strings[i]) == 0)
                a->stop_string = stop_strings[i];
        a->context_full = ev->context_full;
        a->n_cached = ev->n_cached;
        a->n_stored = ev->n_stored;
        assert_int_equal(ev->n_output, a->n_output);
    }
}

static bool bytes_differ(const struct bytes *a, const struct bytes *b, const char *what, char says[256])
{
    size_t at = 0;

    while (at < a->n && at < b->n && a->at[at] == b->at[at])
        at++;
    if (at == a->n && at == b->n)
        return false;
    return snprintf(says, 256, "%s differs at byte %zu of %zu, alone %zu", what, at, a->n, b->n);
}

/* With ROUGHLY, logits may differ by rounding. */
static bool answers_differ(const struct answer *a, const struct answer *b, bool roughly, char says[256])
{
    if (a->ended != b->ended || a->finish != b->finish || a->n_output != b->n_output ||
        a->n_prompt != b->n_prompt || a->stop_token != b->stop_token || a->stop_string != b->stop_string ||
        a->context_full != b->context_full)
        return snprintf(says, 256, "it ends behind %zu tokens (%d), alone behind %zu (%d)", a->n_output,
                        (int)a->finish, b->n_output, (int)b->finish);
    return bytes_differ(&a->ids, &b->ids, "ids", says) ||
           (!roughly && bytes_differ(&a->tokens, &b->tokens, "tokens", says)) ||
           (!roughly && bytes_differ(&a->prompt, &b->prompt, "the scored prompt", says)) ||
           bytes_differ(&a->text, &b->text, "text", says);
}

static void every_part_of_an_answer_is_compared(void **state)
{
    struct answer a = {.ended = true}, b = {.ended = true};
    struct bytes *const parts[] = {&a.tokens, &a.prompt, &a.text, &b.tokens, &b.prompt, &b.text};
    char says[256];

    for (int i = 0; i < 6; i++)
        put(parts[i], "abcd", 4);
    assert_false(answers_differ(&a, &b, false, says));
    for (int i = 0; i < 6; i++) {
        parts[i]->at[3] ^= 1;
        assert_true(answers_differ(&a, &b, false, says));
        parts[i]->at[3] ^= 1;
        parts[i]->n = 3;
        assert_true(answers_differ(&a, &b, false, says));
        parts[i]->n = 4;
    }
    b.finish = GALLOP_FINISH_LENGTH;
    assert_true(answers_differ(&a, &b, false, says));
    for (int i = 0; i < 6; i++)
        free(parts[i]->at);
}

/* ---- ways to compute the answers ---- */

static const struct way {
    const char *name, *type, *index, *admission, *scheduler, *policy;
    int64_t block, pool; /* rows of the pool; 0: as many as fit */
    bool is_static;
    const char *store; /* the store that an engine leaves for the next: "disk" or "redis" */
    size_t guesses;    /* number of guessed tokens of a step */
    double accept;     /* chance that a guess is right */
    uint64_t dies;     /* each run of the executor whose number is a multiple of it fails; 0: none */
    bool is_pjrt;      /* frames on the plugin of GALLOP_PJRT_PLUGIN, with GALLOP_MIXED=pjrt only */
} ways[] = {
    {"off", "paged", "none", NULL, NULL, NULL, 16, 0, false, NULL, 0, 0, 0, false},
    {"hash", "paged", "hash", NULL, NULL, NULL, 16, 0, false, NULL, 0, 0, 0, false},
    {"radix", "slab_pool", "radix", NULL, NULL, NULL, 16, 0, false, NULL, 0, 0, 0, false},
    {"part of a block", "paged", "radix", NULL, NULL, NULL, 128, 0, false, NULL, 0, 0, 0, false},
    {"small pool", "paged", "hash", NULL, NULL, NULL, 16, LONGEST + 64, false, NULL, 0, 0, 0, false},
    {"small pool, part of a block", "slab_pool", "radix", NULL, NULL, "priority", 64, LONGEST + 64, false,
     NULL, 0, 0, 0, false},
    {"worst case", "paged", "hash", "worst-case", NULL, NULL, 16, LONGEST + 64, false, NULL, 0, 0, 0, false},
    {"static", "dynamic", "none", NULL, NULL, NULL, 16, 0, true, NULL, 0, 0, 0, false},
    {"static, dies", "dynamic", "none", NULL, NULL, NULL, 16, 0, true, NULL, 0, 0, 211, false},
    {"dies", "paged", "none", NULL, NULL, NULL, 16, 0, false, NULL, 0, 0, 29, false},
    {"dies, guesses, small pool", "slab_pool", "radix", NULL, NULL, "fair", 32, LONGEST + 64, false, NULL, 12,
     .3, 43, false},
    {"prompts first", "paged", "hash", NULL, "continuous_prefill_first", "fair", 16, 0, false, NULL, 0, 0, 0,
     false},
    {"one at a time", "paged", "radix", NULL, "iterative", "fair", 16, 0, false, NULL, 0, 0, 0, false},
    {"small pool, priority", "paged", "hash", NULL, NULL, "priority", 16, LONGEST + 64, false, NULL, 0, 0, 0,
     false},
    {"small pool, fair", "paged", "radix", NULL, NULL, "fair", 32, LONGEST + 64, false, NULL, 0, 0, 0, false},
    {"guesses", "paged", "hash", NULL, NULL, NULL, 16, 0, false, NULL, 4, .8, 0, false},
    {"wrong guesses, small pool", "slab_pool", "radix", NULL, NULL, "fair", 32, LONGEST + 64, false, NULL, 12,
     .3, 0, false},
    {"guesses, worst case", "paged", "radix", "worst-case", NULL, NULL, 16, LONGEST + 64, false, NULL, 12, .9,
     0, false},
    {"guesses, bmc", "bmc", "none", NULL, NULL, NULL, 0, 0, false, NULL, 1, .5, 0, false},
    {"from disk, guesses", "paged", "hash", NULL, NULL, NULL, 16, 0, false, "disk", 4, .8, 0, false},
    {"from disk", "paged", "hash", NULL, NULL, NULL, 16, 0, false, "disk", 0, 0, 0, false},
    {"from disk, small pool", "slab_pool", "radix", NULL, NULL, "fair", 32, LONGEST + 64, false, "disk", 0, 0,
     0, false},
    {"from disk, worst case", "paged", "radix", "worst-case", NULL, NULL, 16, LONGEST + 64, false, "disk", 0,
     0, 0, false},
    {"from Redis", "paged", "hash", NULL, NULL, NULL, 64, 0, false, "redis", 0, 0, 0, false},
    {"frames", "paged", "none", NULL, NULL, NULL, 16, 0, false, NULL, 0, 0, 0, true},
    {"static, frames", "paged", "none", NULL, NULL, NULL, 16, 0, true, NULL, 0, 0, 0, true},
    {"frames, dies", "paged", "none", NULL, NULL, NULL, 16, 0, false, NULL, 0, 0, 211, true},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static const int64_t companies[] = {1, 8, 64};
enum { COMPANIES = sizeof(companies) / sizeof(companies[0]) };

static const char *const models[] = {"llama3-rope",   "gemma3", "gpt-oss", "phi3-longrope",
                                     "llama-dynamic", "gemma4", "mixtral", "qwen3-moe",
                                     "llama-yarn",    "llama4", "mistral", "qwen3"};
enum {
    MODELS = sizeof(models) / sizeof(models[0]),
    USUAL_MODELS = 6 /* The other models run only with GALLOP_MIXED=all. */
};

static struct gallop *open_way(const char *model, const struct way *w, int64_t company, const char *store)
{
    struct gallop_options o =
        engines_options(company + w->is_static, w->is_static ? LONGEST : 192 + company, LONGEST);

    o.kv_cache_type = w->type;
    o.prefix_index = w->index;
    o.admission = w->admission;
    o.scheduler = w->scheduler;
    o.scheduling_policy = w->policy;
    o.block_size = w->block;
    o.kv_cache_tokens = w->pool;
    o.kv_store = store;
    if (w->is_pjrt) {
        o.executor = "pjrt";
        o.max_model_len = SHORT;
        o.max_batched_tokens = w->is_static ? SHORT : 100;
        o.batch_buckets = w->is_static ? "9" : "8";
        o.context_buckets = "128";
    }
    return engines_open(model, &o);
}

/* Executors of static shapes have one row of logits for each slot, and take prompts as a whole. With guesses, a
 * cancelled answer may have more tokens, because a step gives several. Plugins for CPUs are slow. */
static bool is_served(const struct way *w, const struct wish *q)
{
    if (w->is_pjrt && q->r.n_ids + 80 > SHORT)
        return false;
    return w->is_static ? q->r.prompt_logprobs < 0 : !w->guesses || q->cancel_at == SIZE_MAX;
}

static const int32_t *right_answer(void *ctx, const struct seq *s, size_t *n)
{
    const struct bytes *ids = &alone[(size_t)s->user][s->choice].ids;

    (void)ctx;
    *n = ids->n / sizeof(int32_t);
    return (const int32_t *)(const void *)ids->at;
}

/* Makes G guess the answers in ALONE. */
static void guess(struct gallop *g, const struct way *w, struct oracle *o)
{
    *o = (struct oracle){
        .accept = w->accept, .n_vocab = engine_llm(g)->model.info.vocab, .answer = right_answer};
    oracle_init(o, w->guesses);
    if (w->guesses)
        engine_loop(g)->guesser = &o->guesser;
}

/* Takes all events, and cancels the requests that are to be cancelled. */
static void take_all(struct gallop *g, const uint64_t id[REQUESTS], const size_t cancel_at[REQUESTS],
                     struct answer all[REQUESTS][ANSWERS])
{
    struct gallop_event ev;

    while (gallop_next(g, &ev)) {
        size_t i = (size_t)ev.user;

        note(all, &ev);
        if (ev.type == GALLOP_TOKEN && all[i][0].n_output == cancel_at[i])
            assert_int_equal(gallop_cancel(g, id[i]), 0);
    }
}

/* Selects requests: every STRIDE-th from FIRST. */
struct load {
    size_t first, stride;
};

/* Runs the requests of L that W supports, one by one or at once. */
static void run_load(struct gallop *g, const struct way *w, const struct load *l, bool at_once,
                     struct answer all[REQUESTS][ANSWERS])
{
    static uint64_t id[REQUESTS];
    static size_t cancel_at[REQUESTS];

    forget(all);
    for (size_t i = l->first; i < REQUESTS; i += l->stride) {
        static struct wish q;
        char err[GALLOP_ERR_SIZE];

        make_wish(i, &q);
        cancel_at[i] = q.cancel_at;
        if (!is_served(w, &q))
            continue;
        if (gallop_submit(g, &q.r, &id[i], err) != 0)
            fail_msg("request %zu: %s", i, err);
        if (q.cancel_at == 0)
            assert_int_equal(gallop_cancel(g, id[i]), 0);
        if (!at_once)
            take_all(g, id, cancel_at, all);
    }
    take_all(g, id, cancel_at, all);
}

/* rows that other requests had computed */
struct hits {
    size_t n_cached, n_stored;
};

/* Fails unless the answers of W in COMPANY are those ALONE. */
static struct hits compare(const char *model, const struct way *w, const struct load *l, int64_t company,
                           int round)
{
    struct hits h = {0};

    for (size_t i = l->first; i < REQUESTS; i += l->stride) {
        static struct wish q;
        char says[256];

        make_wish(i, &q);
        for (size_t k = 0; k < (size_t)q.r.n && is_served(w, &q); k++) {
            if (answers_differ(&together[i][k], &alone[i][k], w->is_pjrt, says))
                fail_msg("%s, %s, %d at once, round %d: answer %zu to request %zu: %s", model, w->name,
                         (int)company, round, k, i, says);
            h.n_cached += together[i][k].n_cached;
            h.n_stored += together[i][k].n_stored;
        }
    }
    return h;
}

static void must_not_preempt(const char *name, const struct way *w, int64_t company, size_t n_preempted)
{
    if (n_preempted && w->admission)
        fail_msg("%s, %s, %d at once: %zu preempted with admission %s", name, w->name, (int)company,
                 n_preempted, w->admission);
}

/* Returns the number of preemptions. */
static size_t try_way(const char *name, const char *model, const struct way *w, const struct load *l,
                      int64_t company)
{
    struct gallop *g = open_way(model, w, company, NULL);
    struct static_shapes f;
    struct dying d;
    struct oracle oracle;
    size_t n_cached = 0, n_preempted;

    if (w->is_static)
        static_shapes_drive(&f, g);
    if (w->dies) {
        dying_drive(&d, g);
        d.every = w->dies;
    }
    guess(g, w, &oracle);
    for (int round = 0; round < 2; round++) {
        run_load(g, w, l, true, together);
        n_cached = compare(name, w, l, company, round).n_cached;
        engines_check_cache(g);
    }
    n_preempted = engines_stats(g).n_preempted;
    assert_true(n_cached > 0 || w->is_pjrt || strcmp(w->index, "none") == 0);
    must_not_preempt(name, w, company, n_preempted);
    assert_true(!w->dies || d.n_opened > 0);
    if (w->is_static)
        assert_true(f.n_prompts > REQUESTS / l->stride / 2 && f.n_frames > 0 &&
                    (f.n_padding > 0) == !w->is_pjrt);
    gallop_close(g);
    return n_preempted;
}

/* The same with a new engine for each round, which has only what the engine before it wrote into STORE. On a
 * busy machine requests may not wait for all reads, and the writer may not get to its blocks before the engine is
 * closed; then there is another round. */
static size_t try_store(const char *name, const char *model, const struct way *w, const struct load *l,
                        int64_t company, const char *store)
{
    size_t n_preempted = 0, n_stored = 0;

    for (int round = 0; round < 2 || n_stored == 0; round++) {
        struct gallop *g = open_way(model, w, company, store);
        struct gallop_stats s;
        struct oracle oracle;

        if (round == 20)
            fail_msg("%s, %s, %d at once: nothing was read", name, w->name, (int)company);
        guess(g, w, &oracle);
        run_load(g, w, l, true, together);
        n_stored = compare(name, w, l, company, round).n_stored;
        engines_check_cache(g);
        s = engines_stats(g);
        n_preempted += s.n_preempted;
        assert_true(s.n_stored_tokens >= n_stored && s.n_store_damaged == 0);
        gallop_close(g);
    }
    must_not_preempt(name, w, company, n_preempted);
    return n_preempted;
}

/* Returns the store of W: an empty folder, or the server at REDIS; "" if W has none. */
static const char *new_store(const struct way *w, const char *redis)
{
    static const char *folder;
    static char path[256];
    static int n;

    if (strcmp(w->store, "redis") == 0)
        return redis;
    folder = folder ? folder : files_folder();
    snprintf(path, sizeof(path), "%s/store-%d", folder, n++);
    return path;
}

/* The ways and models of a default run: the first model with all requests in all ways, and the others with a
 * seventh of the requests in every other way. */
static bool is_tried(size_t m, size_t w, size_t company)
{
    return m == 0 ? w < 3 || company == 2 - w % 2 : company == (m + w) / 2 % 3 && (m + w) % 2;
}

/* Runs model M in all ways, or in those of a default run, or in those on a plugin. Returns the number of
 * preemptions. */
static size_t try_model(size_t m, bool all, bool on_plugin, const char *redis)
{
    const struct load l = {m && !all ? m : 0, on_plugin ? 4 : m && !all ? 7 : 1};
    const char *model = letters_model(engines_path(models[m]));
    struct gallop *g = open_way(model, &ways[0], 1, NULL);
    size_t n_preempted = 0;

    run_load(g, &ways[0], &l, false, alone);
    gallop_close(g);
    for (size_t i = 0; i < WAYS * COMPANIES; i++) {
        const struct way *w = &ways[i / COMPANIES];
        int64_t company = companies[i % COMPANIES];
        const char *store = w->store ? new_store(w, redis) : NULL;

        if (w->is_pjrt != on_plugin || (on_plugin && company != 8) ||
            (!all && !is_tried(m, i / COMPANIES, i % COMPANIES)))
            continue;
        if (!store)
            n_preempted += try_way(models[m], model, w, &l, company);
        else if (*store)
            n_preempted += try_store(models[m], model, w, &l, company, store);
    }
    return n_preempted;
}

static void requests_get_in_company_what_they_get_alone(void **state)
{
    const char *wanted = getenv("GALLOP_MIXED");
    bool on_plugin = wanted && strcmp(wanted, "pjrt") == 0;
    size_t n_preempted = 0, n_models = 0;
    char redis[REDIS_SERVER_WHERE];
    pid_t server = redis_server_begin(redis);

    if (server < 0) {
        print_message("no redis-server, or no hiredis: that way is skipped\n");
        redis[0] = 0;
    }
    for (size_t m = 0; m < (size_t)(wanted ? MODELS : USUAL_MODELS); m++)
        if (on_plugin ? m == 0 : !wanted || strcmp(wanted, "all") == 0 || strcmp(wanted, models[m]) == 0) {
            n_preempted += try_model(m, wanted != NULL, on_plugin, redis);
            n_models++;
        }
    if (server >= 0)
        redis_server_end(server);
    print_message("%zu models; %zu times a request was preempted\n", n_models, n_preempted);
    assert_true(n_models > 0);
    assert_true(n_preempted > 10 || on_plugin);
    forget(alone);
    forget(together);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_an_answer_is_compared),
        cmocka_unit_test(requests_get_in_company_what_they_get_alone),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
