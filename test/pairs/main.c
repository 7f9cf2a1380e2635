/* main.c - random requests get in company what they get one at a time, all bits: `make pairs SEED=s N=n`.
 *
 *   pairs [SEED [N]]       N random requests of the cases SEED, SEED + 1, ... [1, 1000]
 *
 * A case is a model in a number format, some requests with many features (requests.c), and an engine with options that
 * must not change an answer (ways.c). The requests are answered one at a time by a plain engine without a prefix
 * cache, and twice, in a random order, by the other engine, in company. Of a case with a difference the requests that
 * are not needed for it are left out, and what remains is printed. The program ends with the number of differences, and
 * with status 1 if there are any.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "base/err.h"
#include "base/log.h"
#include "draws.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engine/step.h"
#include "files.h"
#include "kv/kv.h"
#include "requests.h"
#include "ways.h"

enum { REQUESTS = 16, ROUNDS = 2, MAX_TRIES = 20 };

/* A case. */
struct pairs {
    uint64_t seed;
    struct ways_model model;
    struct way way;
    struct request request[REQUESTS];
    struct answer alone[REQUESTS], together[REQUESTS];
    bool is_left_out[REQUESTS];
    uint64_t order_seed;
};

/* What the cases have done, for the last line. */
struct sums {
    size_t n_requests, n_refused, n_cancelled, n_errors, n_beams, n_differences, n_ways_refused;
    uint64_t n_preempted, n_cached, n_stored, n_guessed, n_outages;
};

/* Returns whether every case and refusal is printed. */
static bool is_shown(void)
{
    return getenv("GALLOP_PAIRS_SHOW") != NULL;
}

/* ---- running requests ---- */

static void take_all(struct pairs *c, struct gallop *g, struct answer *answer, const uint64_t *id,
                     size_t n_vocab)
{
    struct gallop_event ev;

    while (gallop_take(g, &ev)) {
        size_t i = (size_t)ev.user;
        struct answer *a = &answer[i];

        answers_add(a, &ev, n_vocab);
        if (answer == c->together && ev.type == GALLOP_TOKEN &&
            a->choice[ev.choice].ids.n / sizeof(int32_t) == c->request[i].cancel_at)
            gallop_cancel(g, id[i]);
    }
}

static void submit(struct pairs *c, struct gallop *g, size_t i, struct answer *a, uint64_t *id)
{
    a->code = gallop_submit(g, &c->request[i].r, id, a->reason);
    if (a->code == 0 && a == &c->together[i] && c->request[i].cancel_at == 0)
        gallop_cancel(g, *id);
}

static void finish_all(struct pairs *c, struct gallop *g, struct answer *answer, const uint64_t *id,
                       size_t n_vocab)
{
    while (gallop_step(g, 0))
        take_all(c, g, answer, id, n_vocab);
}

/* Makes the requests, and answers each before the next is made, whose prompt may contain the answer. */
static void answer_alone(struct pairs *c, struct draws *d)
{
    struct ways_engine e;
    uint64_t id[REQUESTS];
    char err[GALLOP_ERR_SIZE];
    struct way w;
    size_t n_vocab;

    ways_alone(&w, &c->model);
    if (ways_open(&e, &c->model, &w, c->alone, NULL, err) != 0) { /* not every model has every format */
        c->model.quant = c->model.kv_sparse = c->model.kv_dtype = NULL;
        ways_alone(&w, &c->model);
        if (ways_open(&e, &c->model, &w, c->alone, NULL, err) != 0) {
            fprintf(stderr, "%s: %s\n", c->model.name, err);
            exit(2);
        }
    }
    n_vocab = gallop_describe(e.g)->vocab_size;
    for (size_t i = 0; i < REQUESTS; i++) {
        requests_make(&c->request[i], i, c->request, c->alone, &c->model.kind, d);
        submit(c, e.g, i, &c->alone[i], &id[i]);
        finish_all(c, e.g, c->alone, id, n_vocab);
    }
    gallop_close(e.g);
}

/* Submits all requests in a random order, with steps between them, and takes their answers. */
static void answer_together(struct pairs *c, struct gallop *g, struct draws *d)
{
    size_t order[REQUESTS], n_vocab = gallop_describe(g)->vocab_size;
    uint64_t id[REQUESTS];

    for (size_t i = 0; i < REQUESTS; i++) {
        size_t at = draws_below(d, i + 1);

        order[i] = order[at];
        order[at] = i;
        answers_clear(&c->together[i]);
    }
    for (size_t k = 0; k < REQUESTS; k++) {
        size_t i = order[k], n_steps = draws_chance(d, 50) ? draws_below(d, 6) : 0;

        if (c->is_left_out[i])
            continue;
        submit(c, g, i, &c->together[i], &id[i]);
        for (; n_steps; n_steps--) {
            gallop_step(g, 0);
            take_all(c, g, c->together, id, n_vocab);
        }
    }
    finish_all(c, g, c->together, id, n_vocab);
}

/* Submits the requests once more and computes some steps; the engine is closed then, or cancels all. */
static void leave_requests(struct pairs *c, struct gallop *g, struct draws *d)
{
    struct gallop_event ev;

    for (size_t i = 0; i < REQUESTS; i++)
        if (!c->is_left_out[i])
            gallop_submit(g, &c->request[i].r, NULL, NULL);
    for (size_t n = draws_below(d, 12); n; n--) {
        gallop_step(g, 0);
        while (gallop_take(g, &ev))
            ;
    }
    if (draws_chance(d, 50))
        return;
    gallop_cancel(g, 0);
    while (gallop_next(g, &ev))
        ;
}

/* Returns the path of a new store. */
static const char *new_store(void)
{
    static const char *folder;
    static char path[4096];
    static int n;

    folder = folder ? folder : files_folder();
    snprintf(path, sizeof(path), "%s/store-%d", folder, n++);
    return path;
}

/* ---- differences ---- */

/* Writes to SAYS what is wrong with the idle engine of C; returns false if nothing is. */
static bool is_untidy(const struct pairs *c, struct gallop *g, char says[256])
{
    struct gallop_stats s;
    struct err e = {0};

    gallop_stats(g, &s);
    if (s.n_running || s.n_waiting)
        snprintf(says, 256, "%zu sequences run and %zu requests wait at the end", s.n_running, s.n_waiting);
    else if (!c->model.on_plugin && s.kv_used_bytes)
        snprintf(says, 256, "%zu bytes of the KV cache are used at the end", s.kv_used_bytes);
    else if (!c->model.on_plugin && kv_check(&engine_llm(g)->kv, &e) != 0)
        snprintf(says, 256, "%.250s", e.msg);
    else
        return false;
    return true;
}

static void add_sums(struct sums *sums, struct gallop *g)
{
    struct gallop_stats s;

    gallop_stats(g, &s);
    sums->n_preempted += s.n_preempted;
    sums->n_cached += s.n_cached_tokens;
    sums->n_stored += s.n_stored_tokens;
    sums->n_guessed += s.n_draft_tokens;
    sums->n_outages += atomic_load(&engine_loop(g)->outage.n_restarts);
}

/* Compares the answers of a round. Returns the number of differences, of which the first is written to SAYS. */
static size_t compare(const struct pairs *c, int round, char says[512])
{
    size_t n = 0;
    char how[256];

    for (size_t i = 0; i < REQUESTS; i++)
        if (!c->is_left_out[i] &&
            answers_differ(&c->together[i], &c->alone[i], c->request[i].cancel_at, how) && n++ == 0)
            snprintf(says, 512, "round %d, request %zu: %s", round, i, how);
    return n;
}

/* Answers the requests in company. Returns the number of differences, of which the first is written to SAYS, or -1 if
 * the engine is refused, with the reason. */
static int answer_case(struct pairs *c, struct sums *sums, char says[512])
{
    struct draws d = {c->order_seed, 0};
    struct ways_engine e = {0};
    const char *store = c->way.stores ? new_store() : NULL;
    char how[256], err[GALLOP_ERR_SIZE];
    size_t n = 0;

    for (int round = 0; round < ROUNDS; round++) {
        if (!e.g && ways_open(&e, &c->model, &c->way, c->alone, store, err) != 0) {
            snprintf(says, 512, "%.500s", err);
            return -1;
        }
        answer_together(c, e.g, &d);
        n += compare(c, round, n ? how : says);
        if (is_untidy(c, e.g, how) && n++ == 0)
            snprintf(says, 512, "round %d: %s", round, how);
        if (sums && (round + 1 == ROUNDS || c->way.stores)) /* before the engine is closed */
            add_sums(sums, e.g);
        if (round + 1 == ROUNDS && draws_chance(&d, 30))
            leave_requests(c, e.g, &d);
        if (round + 1 == ROUNDS ||
            c->way.stores) { /* the next engine has what this one wrote into the store */
            gallop_close(e.g);
            e.g = NULL;
        }
    }
    return (int)n;
}

static void print_case(const struct pairs *c)
{
    char text[2048];

    ways_describe_model(&c->model, text, sizeof(text));
    printf("  model: %s\n", text);
    ways_describe(&c->way, text, sizeof(text));
    printf("  engine: %s\n", text);
    for (size_t i = 0; i < REQUESTS; i++)
        if (!c->is_left_out[i]) {
            requests_describe(&c->request[i], text, sizeof(text));
            printf("  request %zu: %s\n", i, text);
        }
}

/* Leaves out the requests without which a difference remains, and prints the others. */
static void report(struct pairs *c, const char *says)
{
    char text[2048], how[512];

    snprintf(how, sizeof(how), "%s", says);
    for (size_t i = 0; i < REQUESTS; i++) {
        if (c->is_left_out[i])
            continue;
        c->is_left_out[i] = true;
        if (answer_case(c, NULL, text) > 0)
            snprintf(how, sizeof(how), "%.500s", text);
        else
            c->is_left_out[i] = false;
    }
    printf("make pairs SEED=%llu N=1: %s\n", (unsigned long long)c->seed, how);
    print_case(c);
}

/* Ends the program unless a change of each part of an answer is a difference. */
static void check_comparison(void)
{
    static struct answer a, b;
    struct choice *c = &a.choice[ANSWERS_MAX_CHOICES - 1];
    struct bytes *const parts[] = {&c->ids, &c->tokens, &c->prompt, &c->embedding, &c->text, &c->special};
    static char some[] = "some";
    char says[256];
    size_t n_noticed = 0, n = 0;

#define CHECK(member, value)                                       \
    do {                                                           \
        member = (value);                                          \
        n_noticed += answers_differ(&a, &b, SIZE_MAX, says);       \
        n++;                                                       \
        memset(&a, 0, sizeof(a));                                  \
        c->ended = b.choice[ANSWERS_MAX_CHOICES - 1].ended = true; \
    } while (0)
    c->ended = b.choice[ANSWERS_MAX_CHOICES - 1].ended = true;
    if (answers_differ(&a, &b, SIZE_MAX, says))
        exit(2);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        CHECK(*parts[i], ((struct bytes){some, 4, 0}));
    CHECK(a.code, GALLOP_NO_SPACE);
    CHECK(a.reason[0], 'x');
    CHECK(c->ended, false);
    CHECK(c->finish, GALLOP_FINISH_LENGTH);
    CHECK(c->finish, GALLOP_FINISH_CANCELLED);
    CHECK(c->n_prompt, 1);
    CHECK(c->n_output, 1);
    CHECK(c->n_warnings, 1);
    CHECK(c->stop_token, 1);
    CHECK(c->context_full, 1);
    CHECK(c->forbids_all, 1);
    CHECK(c->has_score, 1);
    CHECK(c->score, 1);
    CHECK(c->sum, 1);
    CHECK(c->stop[0], 'x');
    CHECK(c->error[0], 'x');
#undef CHECK
    if (n_noticed == n)
        return;
    fprintf(stderr, "%zu of %zu changes of an answer are noticed\n", n_noticed, n);
    exit(2);
}

/* ---- cases ---- */

static void count_answers(const struct pairs *c, struct sums *sums)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        const struct answer *a = &c->alone[i];

        if (c->is_left_out[i])
            continue;
        sums->n_requests++;
        sums->n_refused += a->code != 0;
        if (a->code && is_shown())
            printf("request refused: %s\n", a->reason);
        sums->n_cancelled += c->together[i].choice[0].finish == GALLOP_FINISH_CANCELLED;
        sums->n_errors += a->choice[0].ended && a->choice[0].finish == GALLOP_FINISH_ERROR;
        sums->n_beams += a->code == 0 && c->request[i].r.sampling.use_beam_search == 1;
    }
}

static void run_case(struct pairs *c, uint64_t seed, struct sums *sums)
{
    struct draws d = {seed, 0};
    char says[512] = "";
    int n = -1;

    memset(c, 0, sizeof(*c));
    c->seed = seed;
    ways_draw_model(&c->model, &d);
    answer_alone(c, &d);
    for (int i = 0; n < 0 && i < MAX_TRIES; i++) {
        ways_draw(&c->way, &c->model, &d);
        c->order_seed = seed ^ (uint64_t)1 << 40;
        for (size_t k = 0; k < REQUESTS; k++)
            c->is_left_out[k] = !ways_serves(&c->way, &c->request[k]);
        if (is_shown()) {
            printf("case %llu\n", (unsigned long long)seed);
            print_case(c);
        }
        n = answer_case(c, sums, says);
        sums->n_ways_refused += n < 0;
        if (n < 0 && is_shown())
            printf("refused: %s\n", says);
    }
    count_answers(c, sums);
    if (n) {
        sums->n_differences += n < 0 ? 1 : (size_t)n;
        report(c, says);
    }
    for (size_t i = 0; i < REQUESTS; i++) {
        answers_clear(&c->alone[i]);
        answers_clear(&c->together[i]);
    }
}

int main(int argc, char **argv)
{
    static struct pairs c;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    size_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    struct sums sums = {0};

    check_comparison();
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    log_set_level(LOG_ERROR);
    setenv("FAKE_PJRT_FRAMES", "1", 1);
    setenv("FAKE_PJRT_FAIL", "0", 1);
    while (sums.n_requests < n)
        run_case(&c, seed++, &sums);
    printf(
        "%zu requests, of which %zu were refused, %zu cancelled, %zu ended with an error and %zu were beam searches; "
        "%zu ways refused\n"
        "%llu preemptions, %llu outages, %llu tokens from the prefix cache, %llu of them from a store, %llu guessed\n"
        "%zu differences\n",
        sums.n_requests, sums.n_refused, sums.n_cancelled, sums.n_errors, sums.n_beams, sums.n_ways_refused,
        (unsigned long long)sums.n_preempted, (unsigned long long)sums.n_outages,
        (unsigned long long)sums.n_cached, (unsigned long long)sums.n_stored,
        (unsigned long long)sums.n_guessed, sums.n_differences);
    /* A thousand requests meet all of these, unless a part of the engine is not used. */
    if (n >= 1000 &&
        (!sums.n_preempted || !sums.n_cached || !sums.n_guessed || !sums.n_outages || !sums.n_beams ||
         !sums.n_cancelled || !sums.n_errors || sums.n_ways_refused > n / 100)) {
        printf("too little was tried\n");
        return 1;
    }
    return sums.n_differences != 0;
}
