/* test_ends.c - whatever kind a request is of and however it ends, what it held is given back: places and waiting
 * tokens of its client, memory of requests, bytes of bodies, rows of the KV cache, memory of constraints. One request
 * of each kind is answered first, so that what is kept for later requests (compiled constraints) is there. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "api/api_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include "demo.h"
#include "engine/constraints/constraints.h"
#include "engine/engine_priv.h"
#include "text/chat.h"
#include "text/markup/markup.h"
#include "text/markup/template.h"

#define PROMPT                                                                                                \
    "\"prompt\":[5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36," \
    "37,38,39,40]"
#define LONG ",\"max_tokens\":12,\"min_tokens\":12,\"temperature\":0,\"user\":\"u\""
#define CITY                                                                                \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":30}," \
    "\"size\":{\"enum\":[\"small\",\"large\"]}},\"required\":[\"city\",\"size\"]}"

/* FAULT is a member that is refused when the others have been read. */
static const struct {
    const char *name, *path, *body, *fault;
} kinds[] = {
    {"plain", "/v1/completions", PROMPT LONG ",\"logprobs\":2", ",\"logit_bias\":{\"99999\":1}"},
    {"stream", "/v1/completions", PROMPT LONG ",\"stream\":true", ",\"logit_bias\":{\"99999\":1}"},
    {"n", "/v1/completions", PROMPT LONG ",\"n\":3,\"repetition_penalty\":1.1", ",\"bad_words\":[\"\"]"},
    {"several prompts", "/v1/completions", "\"prompt\":[[5,6,7],[8,9],[10]]" LONG ",\"n\":2",
     ",\"stop_token_ids\":[99999]"},
    {"beams", "/v1/completions", PROMPT LONG ",\"num_beams\":4,\"n\":2", ",\"logit_bias\":{\"99999\":1}"},
    {"constraint", "/v1/completions",
     PROMPT ",\"max_tokens\":12,\"temperature\":0,\"user\":\"u\",\"structured_outputs\":{\"json\":" CITY "}",
     ",\"stop_token_ids\":[99999]"},
    {"stream of a constraint", "/v1/completions",
     PROMPT
     ",\"max_tokens\":12,\"temperature\":0,\"stream\":true,\"n\":2,\"structured_outputs\":{\"json\":" CITY
     "}",
     ",\"stop_token_ids\":[99999]"},
    {"tools", "/v1/chat/completions",
     "\"messages\":[{\"role\":\"user\",\"content\":\"What is the weather in the city of my sister and of her "
     "friends, and what should they wear?\"}],\"tool_choice\":\"required\",\"tools\":[{\"type\":\"function\","
     "\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":" CITY
     "}}],\"max_tokens\":12,\"temperature\":0",
     ",\"stop_token_ids\":[99999]"},
    {"embeddings", "/v1/embeddings",
     "\"input\":[[5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30],[31]],"
     "\"user\":\"u\"",
     ",\"encoding_format\":\"x\""},
};

enum way { FINISH, CANCEL, LEAVE, FAIL, REFUSE, TIMEOUT };
static const char *const ways[] = {"finish", "cancel", "leave", "fail", "refuse", "timeout"};

/* ---- a server whose steps can be held, and can fail ---- */

static const char template[] = "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}"
                               "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>";

static const struct executor *inner;
static struct chat *chat;
static atomic_int hold_from; /* the number of the first step that waits; NO_STEP: none */
static atomic_bool fails;    /* steps fail */
static atomic_int n_begun;   /* steps */
static bool is_late;         /* no request has the time that it takes */

enum { NO_STEP = 1 << 30 };

static int run_held(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    int number = atomic_fetch_add(&n_begun, 1) + 1;

    while (number >= atomic_load(&hold_from))
        usleep(100);
    if (is_late)
        usleep(30000);
    return atomic_load(&fails) ? err_set(e, ERR_OS, "the device is gone") : inner->run(ctx, rows, n, e);
}

static int reopen(void *ctx, struct err *e)
{
    return 0;
}

static void reopen_wait(void *ctx, double seconds)
{
}

/* An executor that has failed is opened again after a millisecond in place of a second. */
static double fast_clock(void *ctx)
{
    return is_late ? inner->clock_s(ctx) : 1000 * inner->clock_s(ctx);
}

static int open_all(void **state)
{
    static struct markup markup;
    static struct template examined;
    struct api_options o = {.max_running = 4,
                            .max_queued = 16,
                            .max_queued_tokens = 4096,
                            .service.max_logprobs = 5,
                            .max_request_bytes = 64 << 20,
                            .fair = true,
                            .quiet = true};
    struct gallop_options of_engine = demo_options();
    struct executor *x;

    is_late = *state != NULL;
    atomic_store(&hold_from, NO_STEP);
    o.service.request_timeout_s = is_late ? 0.02 : 0;
    of_engine.max_num_seqs = 4;
    of_engine.max_batched_tokens = 16;
    of_engine.has_seed = 1;
    of_engine.prefix_index = is_late ? "none" : NULL; /* else a prompt may take a single step */
    if (demo_open_engine(&of_engine) != 0 || demo_open_chat(&chat, template) != 0 ||
        markup_choose(&markup, "hermes", "none", NULL, NULL) != 0 ||
        tools_probe(chat, NULL, &examined.tools, NULL) != 0)
        return -1;
    inner = demo_compute_by(run_held);
    x = demo_replaced();
    x->reopen = reopen;
    x->reopen_wait = reopen_wait;
    x->clock_s = fast_clock;
    examined.chat = chat;
    o.service.markup = &markup;
    o.service.template = &examined;
    return demo_open(o);
}

static int close_all(void **state)
{
    demo_close(state);
    chat_close(chat);
    return 0;
}

/* ---- what is held ---- */

struct held {
    size_t n_flights, n_running, n_waiting, n_places, n_tokens, body_bytes, request_bytes, kv_bytes,
        constraint_bytes, n_jobs;
    size_t bytes_of[SHARES_CLIENTS], places_of[SHARES_CLIENTS], tokens_of[SHARES_CLIENTS];
};

/* Returns the jobs of all clients that threads of T do. */
static size_t n_jobs(const struct workers_team *t)
{
    size_t n = 0;

    for (uint32_t c = 0; c < SHARES_CLIENTS; c++)
        n += t->small.line[c].n_taken + t->large.line[c].n_taken;
    return n;
}

static struct held held_now(void)
{
    static struct held h;
    struct gallop_stats s;

    gallop_stats(demo.engine, &s);
    h = (struct held){.n_flights = demo.api->n_flights,
                      .n_running = s.n_running,
                      .n_waiting = s.n_waiting,
                      .n_places = demo.api->queue.places.n,
                      .n_tokens = demo.api->queue.tokens.n,
                      .body_bytes = server_bodies_bytes(demo.server),
                      .request_bytes = mem_charged_bytes(),
                      .kv_bytes = s.kv_used_bytes,
                      .constraint_bytes = engine_constraints(demo.engine)->budget.bytes};
    for (uint32_t c = 0; c < SHARES_CLIENTS; c++) {
        h.bytes_of[c] = mem_client_bytes(c);
        h.places_of[c] = demo.api->queue.places.of[c];
        h.tokens_of[c] = demo.api->queue.tokens.of[c];
    }
    pthread_mutex_lock(&demo.api->workers.lock);
    h.n_jobs = n_jobs(&demo.api->workers.front) + n_jobs(&demo.api->workers.compilers);
    pthread_mutex_unlock(&demo.api->workers.lock);
    return h;
}

/* Waits until no more is held than WANTED, which the threads of the engine may take a moment for. */
static void await_held(const struct held *wanted, const char *kind, const char *way)
{
    double end = clock_seconds() + 60;
    struct held h;

    do {
        server_poll(demo.server);
        h = held_now();
    } while (memcmp(&h, wanted, sizeof(h)) != 0 && clock_seconds() < end);
    if (memcmp(&h, wanted, sizeof(h)) == 0)
        return;
#define SHOW(member) print_message("  %-16s %zu, wanted %zu\n", #member, h.member, wanted->member)
    SHOW(n_flights), SHOW(n_running), SHOW(n_waiting), SHOW(n_places), SHOW(n_tokens), SHOW(body_bytes);
    SHOW(request_bytes), SHOW(kv_bytes), SHOW(constraint_bytes), SHOW(n_jobs);
    fail_msg("%s, %s: it is not all given back", kind, way);
}

/* ---- ends ---- */

/* Sends a request of kind I with a MEMBER more. */
static int ask(size_t i, const char *member)
{
    char body[1200];

    snprintf(body, sizeof(body), "{%s%s}", kinds[i].body, member);
    return demo_post(kinds[i].path, "X-Request-Id: mine\r\n", body);
}

static void abort_it(void)
{
    assert_non_null(strstr(demo_answer(demo_post("/abort_requests", "", "{\"request_ids\":\"mine\"}")),
                           "{\"aborted\":1}"));
}

/* Sends a request of kind I and ends it in step AT. Returns the status of its answer; 0: the client has left. */
static int end_by(size_t i, enum way way, int at)
{
    bool waits = way == CANCEL || way == LEAVE;
    int fd, status = 0;

    atomic_store(&n_begun, 0);
    atomic_store(&hold_from, waits ? at : NO_STEP);
    fd = ask(i, way == REFUSE ? kinds[i].fault : "");
    while (waits && atomic_load(&n_begun) < at) { /* an answer of fewer steps ends before */
        server_poll(demo.server);
        if (demo.api->n_flights == 0 && atomic_load(&n_begun))
            break;
    }
    if (way == LEAVE) {
        close(fd);
        while (server_n_connections(demo.server))
            server_poll(demo.server);
    } else if (way == CANCEL && demo.api->n_flights) {
        abort_it();
    }
    atomic_store(&hold_from, NO_STEP);
    if (way != LEAVE)
        status = demo_status(demo_answer(fd));
    demo_await_silence();
    return status;
}

static bool is_right(enum way way, int status, bool streams)
{
    switch (way) {
    case FINISH: return status == 200;
    case CANCEL: return status == 200 || status == 400;
    case LEAVE: return status == 0;
    case FAIL: return status == (streams ? 200 : 500);
    case REFUSE: return status == 400;
    case TIMEOUT: return status == 504 || (streams && status == 200);
    }
    return false;
}

static void check_end(size_t i, enum way way, int at, const struct held *before)
{
    int status;

    atomic_store(&fails, way == FAIL);
    status = end_by(i, way, at);
    atomic_store(&fails, false);
    if (!is_right(way, status, strstr(kinds[i].body, "\"stream\"") != NULL))
        fail_msg("%s, %s: the status is %d", kinds[i].name, ways[way], status);
    await_held(before, kinds[i].name, ways[way]);
}

static void what_a_request_holds_is_given_back(void **state)
{
    static struct held before;

    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
            end_by(i, FINISH, 0);
    while (before = held_now(), before.n_running + before.n_waiting + before.kv_bytes)
        server_poll(demo.server);
    assert_true(before.n_flights + before.n_places + before.n_tokens + before.n_jobs == 0);
    assert_true(before.constraint_bytes > 0); /* It is kept. */
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        check_end(i, FINISH, 0, &before);
        check_end(i, FAIL, 0, &before);
        check_end(i, REFUSE, 0, &before);
        for (int at = 1; at < 6; at++) {
            check_end(i, CANCEL, at, &before);
            check_end(i, LEAVE, at, &before);
        }
    }
}

static void what_a_late_request_holds_is_given_back(void **state)
{
    static struct held before;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        end_by(i, TIMEOUT, 0);
    before = held_now();
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        check_end(i, TIMEOUT, 0, &before);
}

int main(void)
{
    static bool late = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_request_holds_is_given_back, open_all, close_all),
        cmocka_unit_test_prestate_setup_teardown(what_a_late_request_holds_is_given_back, open_all, close_all,
                                                 &late)};

    return demo_run(tests);
}
