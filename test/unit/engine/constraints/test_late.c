/* test_late.c - masks that threads make beside the steps: answers are the same, nobody else waits for them, sequences
 * may end meanwhile, and the work of a step on constraints is limited.
 */
#include <math.h>
#include <semaphore.h>

#include "base/mem.h"
#include "engine/constraints/constraints.h"
#include "engine/constraints/late.h"
#include "engine/constraints/masks.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/step.h"
#include "engines.h"
#include "gallop.h"
#include "text/tok/tok.h"

enum { N = 8, PLAIN = 0, MOST_NEW = 60 };

/* What the requests ask for. */
static const struct asked {
    const char *regex, *json, *grammar;
    int64_t n; /* number of answers; -1: it is an answer of the request before */
    int64_t n_new;
} asked[N] = {
    [PLAIN] = {.n = 1, .n_new = MOST_NEW},
    {.regex = "([a-z]{2,9} ){3,9}end", .n = 3, .n_new = MOST_NEW},
    {.n = -1},
    {.n = -1},
    {.regex = "[0-9]{4}-[0-9]{2}-[0-9]{2}", .n = 1, .n_new = MOST_NEW},
    /* complete, and nothing may follow, exactly with the last token that is allowed */
    {.regex = "[ab]", .n = 1, .n_new = 1},
    {.json =
         "{\"type\":\"object\",\"properties\":{\"the name\":{\"type\":\"boolean\"},\"n\":{\"enum\":[7,\"x\"]}},"
         "\"required\":[\"the name\",\"n\"],\"additionalProperties\":{\"type\":\"integer\"}}",
     .n = 1,
     .n_new = MOST_NEW},
    {.grammar = "root ::= \"(\" root \")\" | [a-c]{3}", .n = 1, .n_new = MOST_NEW},
};

static void submit(struct gallop *g, size_t which)
{
    const struct asked *a = &asked[which];
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    int32_t ids[20];

    if (a->n < 0)
        return;
    engines_text(which, 0, 20, ids);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 20;
    r.n = a->n;
    r.user = (void *)which;
    r.sampling.max_new_tokens = a->n_new;
    r.sampling.ignore_eos = which == PLAIN;
    r.sampling.temperature = 1.5;
    r.sampling.do_sample = 1;
    r.sampling.has_seed = 1;
    r.sampling.seed = 3 + which;
    r.structured_outputs.regex = a->regex;
    r.structured_outputs.json = a->json;
    r.structured_outputs.grammar = a->grammar;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

static struct gallop *open_engine(int threads, int64_t rows, const char *guesses)
{
    struct gallop_options o = engines_options(8, 32, 128);

    o.threads = threads;
    o.kv_cache_tokens = rows;
    o.speculative_config = guesses;
    return engines_open("demo", &o);
}

/* Has all requests answered into OUT, with MOST steps of work on constraints in a step. Returns the number of late
 * masks. */
static uint64_t answer_all(struct engines_answer *out, int threads, int64_t rows, const char *guesses,
                           size_t most)
{
    struct gallop *g = open_engine(threads, rows, guesses);
    struct step *step = engine_loop(g);
    uint64_t n_late;

    step->masks.most = most;
    memset(out, 0, N * sizeof(*out));
    for (size_t i = 0; i < N; i++)
        submit(g, i);
    engines_run(g, out);
    n_late = step->late.n_masks;
    if (most == 0)
        assert_true(step->masks.most_done < 1000); /* work that was not begun is counted, too */
    gallop_close(g);
    assert_int_equal(mem_live_blocks(), 0);
    return n_late;
}

/* With no work in steps every new mask is late; with little, some are. */
static void late_masks_change_no_answer(void **state)
{
    static const char ngram[] = "{\"method\":\"ngram\",\"prompt_lookup_min\":1,\"adaptive\":false}";
    static struct engines_answer alone[N], late[N];
    static const struct {
        int threads;
        int64_t rows;
        const char *guesses;
        size_t most;
    } way[] = {{1, 0, NULL, 0},   {2, 0, NULL, 0},    {1, 192, NULL, 0},   {2, 0, ngram, 0},
               {1, 0, NULL, 300}, {2, 0, ngram, 100}, {2, 192, ngram, 600}};
    char says[256];

    assert_int_equal(answer_all(alone, 1, 0, NULL, SIZE_MAX / 2), 0);
    assert_int_equal(alone[5].end.finish, GALLOP_FINISH_STOP);
    assert_int_equal(alone[5].n, 1);
    assert_int_equal(strlen(alone[4].text), 10);
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
        uint64_t n_late = answer_all(late, way[i].threads, way[i].rows, way[i].guesses, way[i].most);

        assert_true(n_late >= (way[i].most ? 1 : 10));
        if (engines_differ(alone, late, N, says))
            fail_msg("way %zu: %s", i, says);
    }
}

/* A door in front of each mask that a thread makes. */
struct door {
    sem_t open;
    sem_t seen;           /* threads that have come to the door */
    uint32_t client[256]; /* whose turns the first were */
};

static void wait_at_door(void *ctx, size_t turn, uint32_t client)
{
    struct door *d = ctx;

    if (turn < 256)
        d->client[turn] = client;
    sem_post(&d->seen);
    sem_wait(&d->open);
    sem_post(&d->open); /* it stays open */
}

static void close_door(struct gallop *g, struct door *d)
{
    memset(d->client, 0, sizeof(d->client));
    sem_init(&d->open, 0, 0);
    sem_init(&d->seen, 0, 0);
    engine_loop(g)->late.door = wait_at_door;
    engine_loop(g)->late.door_ctx = d;
    engine_loop(g)->masks.most = 0;
}

static void open_door(struct door *d)
{
    sem_post(&d->open);
}

static void fini_door(struct door *d)
{
    sem_destroy(&d->open);
    sem_destroy(&d->seen);
}

/* Computes N steps, and takes their events. */
static void run_steps(struct gallop *g, struct engines_answer *out, int n)
{
    struct gallop_event ev;

    while (n-- > 0) {
        gallop_step(g, 0);
        while (gallop_take(g, &ev))
            engines_take(out, &ev);
    }
}

static void a_late_mask_delays_nobody_else(void **state)
{
    static struct engines_answer alone[N], out[N];
    struct gallop *g;
    struct door d;
    char says[256];

    answer_all(alone, 1, 0, NULL, MASKS_STEPS);
    g = open_engine(1, 0, NULL);
    close_door(g, &d);
    memset(out, 0, sizeof(out));
    submit(g, 1);
    submit(g, PLAIN);
    run_steps(g, out, 2);
    sem_wait(&d.seen);
    for (size_t n = out[PLAIN].n; n + 2 < MOST_NEW; n++) { /* a token in each step */
        run_steps(g, out, 1);
        assert_int_equal(out[PLAIN].n, n + 1);
        assert_int_equal(out[1].n, 0);
        assert_int_equal(engine_loop(g)->n_late, 1);
    }
    open_door(&d);
    engines_run(g, out);
    for (size_t i = 0; i < 4; i++)
        if (engines_differ(&alone[i], &out[i], 1, says))
            fail_msg("answer %zu: %s", i, says);
    gallop_close(g);
    fini_door(&d);
}

/* Submits a request of CLIENT with a constraint of its own. */
static void submit_own(struct gallop *g, uint32_t client, size_t number)
{
    uint32_t before = mem_set_client(client);
    struct gallop_request r;
    char regex[40], err[GALLOP_ERR_SIZE];

    snprintf(regex, sizeof(regex), "%zu[a-z]{5}", number);
    gallop_request_init(&r);
    r.text = "Once";
    r.user = (void *)number;
    r.sampling.max_new_tokens = 10;
    r.structured_outputs.regex = regex;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
    mem_set_client(before);
}

/* Twenty constraints of a client wait for their masks when one of another comes. */
static void clients_take_turns_for_late_masks(void **state)
{
    struct gallop_options o = engines_options(24, 32, 128);
    static struct engines_answer out[21];
    struct gallop *g;
    struct door d;
    size_t at = 0;

    o.threads = 1;
    g = engines_open("demo", &o);
    close_door(g, &d);
    memset(out, 0, sizeof(out));
    for (size_t i = 0; i < 20; i++)
        submit_own(g, 1, i);
    run_steps(g, out, 1);
    while (engine_loop(g)->n_late < 20)
        run_steps(g, out, 1);
    submit_own(g, 2, 20);
    while (engine_loop(g)->n_late < 21)
        run_steps(g, out, 1);
    for (int i = 0; i < LATE_THREADS; i++)
        sem_wait(&d.seen);
    open_door(&d);
    engines_run(g, out);
    while (at < 20 && d.client[at] != 2)
        at++;
    /* Threads had taken some of the first client's, and one more was before it in the queue. */
    assert_in_range(at, 0, LATE_THREADS + 1);
    gallop_close(g);
    fini_door(&d);
    assert_int_equal(mem_live_blocks(), 0);
}

/* A prompt is computed up to its last row while the first mask is late. */
static void a_prompt_is_computed_while_its_mask_is_late(void **state)
{
    static struct engines_answer out[N];
    struct gallop *g = open_engine(1, 0, NULL);
    struct door d;

    close_door(g, &d);
    memset(out, 0, sizeof(out));
    submit(g, 4);
    run_steps(g, out, 4);
    assert_int_equal(engine_loop(g)->n_prompt_tokens, 19);
    open_door(&d);
    engines_run(g, out);
    assert_int_equal(strlen(out[4].text), 10);
    assert_int_equal(engine_loop(g)->n_prompt_tokens, 20);
    gallop_close(g);
    fini_door(&d);
}

/* Sequences that end while a thread has their runs end at once, and the memory comes back with the thread. */
static void a_sequence_may_end_while_its_mask_is_late(void **state)
{
    for (int closes = 0; closes < 2; closes++) {
        static struct engines_answer out[N];
        struct gallop *g = open_engine(1, 0, NULL);
        struct constraints *c = (struct constraints *)(uintptr_t)engine_constraints(g);
        struct door d;
        size_t before;

        close_door(g, &d);
        memset(out, 0, sizeof(out));
        submit(g, 6);
        before = atomic_load(&c->budget.bytes); /* without the texts of answers */
        submit(g, 1);
        run_steps(g, out, 2);
        sem_wait(&d.seen);
        sem_wait(&d.seen); /* both constraints are lent */
        assert_int_equal(gallop_cancel(g, 0), 0);
        run_steps(g, out, 1);
        assert_int_equal(out[6].end.finish, GALLOP_FINISH_CANCELLED);
        assert_int_equal(out[1].end.finish, GALLOP_FINISH_CANCELLED);
        open_door(&d);
        if (!closes) { /* the next answers use the same constraints */
            submit(g, 6);
            submit(g, 1);
            memset(out, 0, sizeof(out));
            engines_run(g, out);
            assert_true(out[6].n > 10 && out[6].end.finish <= GALLOP_FINISH_LENGTH);
            assert_int_equal(out[3].end.finish, GALLOP_FINISH_STOP);
            assert_true(atomic_load(&c->budget.bytes) > before);
        }
        gallop_close(g);
        fini_door(&d);
        assert_int_equal(mem_live_blocks(), 0);
    }
}

/* Constraints that take much work for each mask: what a step does of it stays near the limit, and they are answered. */
static void the_work_of_a_step_is_limited(void **state)
{
    static const struct {
        const char *regex, *grammar;
    } way[] = {
        {.regex = "((([a-z]{1,50},?){1,50};?){1,50})"},
        {.regex = "(.*a.{200}){10}"},
        {.regex = "(?:\\S+\\s+){0,49}\\S+(?=.{0,500})"},
        {.grammar =
             "root ::= r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r? r?\n"
             "r ::= \"a\" r \"c\" | [a-z] r?"}};
    static struct engines_answer out[N];

    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
        struct gallop *g = open_engine(1, 0, NULL);
        const struct masks *m = &engine_loop(g)->masks;

        memset(out, 0, sizeof(out));
        for (size_t k = 0; k < N; k++) {
            struct gallop_request r;
            char err[GALLOP_ERR_SIZE];

            gallop_request_init(&r);
            r.text = "Once";
            r.user = (void *)k;
            r.sampling.max_new_tokens = 20;
            r.sampling.temperature = 1;
            r.sampling.do_sample = 1;
            r.structured_outputs.regex = k % 2 ? way[i].regex : NULL;
            r.structured_outputs.grammar = k % 2 ? way[i].grammar : NULL;
            if (gallop_submit(g, &r, NULL, err) != 0)
                fail_msg("%s", err);
        }
        engines_run(g, out);
        for (size_t k = 0; k < N; k++)
            assert_true(out[k].end.finish == GALLOP_FINISH_LENGTH || out[k].end.finish == GALLOP_FINISH_STOP);
        assert_true(m->most_done > 0 && m->most_done < 2 * MASKS_STEPS);
        gallop_close(g);
    }
}

/* A limit that the constraint of a request reaches is one of the request, and says so. */
static void a_limit_of_the_constraint_is_said(void **state)
{
    static struct engines_answer out[N];
    struct gallop *g = open_engine(1, 0, NULL);
    struct gallop_request r;
    char json[2000], err[GALLOP_ERR_SIZE];
    size_t n = (size_t)snprintf(json, sizeof(json), "{\"type\":\"string\",\"allOf\":[{}");

    for (char c = 'a'; c <= 't'; c++)
        n += (size_t)snprintf(json + n, sizeof(json) - n, ",{\"pattern\":\"^(.*[%c].*){3}$\"}", c);
    snprintf(json + n, sizeof(json) - n, "]}");
    gallop_request_init(&r);
    r.text = "Once";
    r.structured_outputs.json = json;
    memset(out, 0, sizeof(out));
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
    submit(g, 4); /* another constraint goes on */
    engines_run(g, out);
    assert_int_equal(out[0].end.finish, GALLOP_FINISH_ERROR);
    assert_int_equal(out[0].end.forbids_all, 2);
    assert_int_equal(out[4].end.finish, GALLOP_FINISH_STOP);
    assert_int_equal(out[4].end.forbids_all, 0);
    gallop_close(g);
    assert_int_equal(mem_live_blocks(), 0);
}

/* ---- memory ---- */

static double fake_now;

static double fake_clock(void *ctx)
{
    return fake_now += 1e-6;
}

/* Objects with any names; if MEETS_LIMIT, the first value has patterns that need too much. */
static void write_object(char *json, size_t size, bool meets_limit)
{
    size_t n = (size_t)snprintf(json, size,
                                "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":"
                                "{\"type\":[\"string\",\"boolean\"],\"allOf\":[{}");

    for (char c = 'a'; meets_limit && c <= 't'; c++)
        n +=
            (size_t)snprintf(json + n, size - n, ",{\"type\":\"string\",\"pattern\":\"^(.*[%c].*){3}$\"}", c);
    snprintf(json + n, size - n, "]}},\"additionalProperties\":{\"type\":\"integer\"}}");
}

static int submit_object(struct gallop *g, bool meets_limit, int64_t n_new)
{
    struct gallop_request r;
    char json[4000];
    int rc;

    write_object(json, sizeof(json), meets_limit);
    gallop_request_init(&r);
    r.text = "Once";
    r.n = 2;
    r.deadline_s = 50;
    r.sampling.max_new_tokens = n_new;
    r.sampling.temperature = 1;
    r.sampling.do_sample = 1;
    r.structured_outputs.json = json;
    mem_charge(MEM_CHARGE_NEW);
    rc = gallop_submit(g, &r, NULL, NULL);
    mem_charge(MEM_CHARGE_NONE);
    return rc;
}

/* Brings the answers of G to an end as WAY says. */
static void end_answers(struct gallop *g, struct engines_answer *out, struct door *d, int way)
{
    bool is_late = strchr("Cd", way);

    close_door(g, d);
    engine_loop(g)->masks.most = way == 'p' ? 100 : is_late ? 0 : SIZE_MAX / 2;
    assert_int_equal(submit_object(g, way == 'e', way == 'l' ? 3 : 80), 0);
    if (!is_late)
        open_door(d);
    if (strchr("cCdt", way))
        run_steps(g, out, 4);
    if (is_late) /* the run is lent to a thread */
        sem_wait(&d->seen);
    if (way == 'c' || way == 'C')
        assert_int_equal(gallop_cancel(g, 0), 0);
    if (way == 't' || way == 'd')
        fake_now = 100;
    if (is_late) {
        run_steps(g, out, 1);
        assert_true(out[0].ended && out[1].ended);
        open_door(d);
        late_wait(&engine_loop(g)->late, 60);
        late_take(&engine_loop(g)->late);
    }
    engines_run(g, out);
}

/* The ends: stop, length, cancel, deadline, error; cancel and deadline while a thread has the run; paused masks. */
static void memory_of_answers_comes_back_however_they_end(void **state)
{
    static const enum gallop_finish ends[] = {
        ['l'] = GALLOP_FINISH_LENGTH, ['c'] = GALLOP_FINISH_CANCELLED, ['t'] = GALLOP_FINISH_DEADLINE,
        ['e'] = GALLOP_FINISH_ERROR,  ['C'] = GALLOP_FINISH_CANCELLED, ['d'] = GALLOP_FINISH_DEADLINE};

    for (const char *way = "slcteCdp"; *way; way++) {
        static struct engines_answer out[N];
        struct gallop *g = open_engine(1, 0, NULL);
        struct constraints *c = (struct constraints *)(uintptr_t)engine_constraints(g);
        struct door d;
        char json[4000];
        size_t left;

        memset(out, 0, sizeof(out));
        submit(g, PLAIN);
        engines_run(g, out); /* now the tokenizer has a scratch */
        ((struct executor *)(uintptr_t)engine_loop(g)->x)->clock_s = fake_clock;
        fake_now = 1;
        mem_set_budget((size_t)1 << 30);
        mem_set_client(7);
        memset(out, 0, sizeof(out));
        end_answers(g, out, &d, *way);
        if (*way != 's' && *way != 'p')
            assert_int_equal(out[0].end.finish, ends[(size_t)*way]);
        /* Only the constraint is left, unless it has reached a limit. */
        write_object(json, sizeof(json), false);
        assert_int_equal(c->first == NULL, *way == 'e');
        left = c->first ? constraint_bytes(constraints_of(c->first)) : 0;
        assert_int_equal(atomic_load(&c->budget.bytes), left);
        gallop_close(g);
        assert_int_equal(mem_client_bytes(7), 0);
        assert_int_equal(mem_charged_bytes(), 0);
        mem_set_budget(0);
        mem_set_client(0);
        fini_door(&d);
        assert_int_equal(mem_live_blocks(), 0);
    }
}

/* The steps of work end at any place of a mask behind a token that is added late: between token and mask, too. */
static void a_mask_that_pauses_adds_its_token_once(void **state)
{
    static const char regex[] = "([ab]{1,9}c|[a-z ]{2,30}d){3,5}";
    const struct constraint_source source = {.kind = CONSTRAINT_REGEX, .text = regex, .n = strlen(regex)};
    struct gallop *g = open_engine(1, 0, NULL);
    const struct tok *tok = engine_info(g)->tok;
    struct constraint_vocabulary *v;
    size_t n_allowed = 0, n_between = 0;
    int32_t token;

    assert_int_equal(constraint_vocabulary_new(&v, tok, NULL), 0);
    assert_true(tok_id_of(tok, "a", 1, &token));
    for (size_t most = 100000; most > 0; most = most * 2 / 3) { /* the first call makes all */
        struct late_mask *x = late_mask_new(constraint_mask_words(v));
        struct constraint_steps steps = {.left = most};
        struct constraint_run run;
        struct constraint *c;

        assert_int_equal(constraint_new(&c, &source, v, NULL, NULL), 0);
        assert_int_equal(constraint_run_open(&run, c, 4, NULL), 0);
        run.steps = &steps;
        x->has_token = true;
        x->token = token;
        if (!late_mask_make(x, &run)) {
            n_between += run.n == 1;
            run.steps = NULL;
            assert_true(late_mask_make(x, &run));
        }
        assert_int_equal(x->err.code, 0);
        assert_int_equal(run.n, 1);
        n_allowed = n_allowed ? n_allowed : x->n_allowed;
        assert_int_equal(x->n_allowed, n_allowed);
        late_mask_free(x);
        constraint_run_close(&run);
        constraint_free(c);
    }
    assert_true(n_allowed > 0 && n_between > 0);
    constraint_vocabulary_free(v);
    gallop_close(g);
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_masks_change_no_answer),
        cmocka_unit_test(a_late_mask_delays_nobody_else),
        cmocka_unit_test(clients_take_turns_for_late_masks),
        cmocka_unit_test(a_prompt_is_computed_while_its_mask_is_late),
        cmocka_unit_test(a_sequence_may_end_while_its_mask_is_late),
        cmocka_unit_test(the_work_of_a_step_is_limited),
        cmocka_unit_test(a_limit_of_the_constraint_is_said),
        cmocka_unit_test(memory_of_answers_comes_back_however_they_end),
        cmocka_unit_test(a_mask_that_pauses_adds_its_token_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
