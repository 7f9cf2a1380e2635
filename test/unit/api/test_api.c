/* test_api.c - the whole way of requests within one process: a server on pairs of sockets, the threads of the
 * front and the engine, the demo model. What the program shows from outside is in test/cli; this is where
 * threads and memory are watched.
 */
#include <unistd.h>

#include "api/api_priv.h"
#include "api/flight.h"
#include "api/prepare.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "chat/dialect/dialect.h"
#include "demo.h"

static int open_all(void **state)
{
    struct gallop_options o = demo_options();

    o.max_num_seqs = 8;
    o.prefix_index = "hash"; /* short prompts find nothing, so an answer does not depend on those before it */
    return demo_open_engine(&o) != 0 || demo_open((struct api_options){.service.chat_missing = "no template",
                                                                       .max_running = 8,
                                                                       .max_queued = 100,
                                                                       .n_threads = 2,
                                                                       .service.max_logprobs = 20,
                                                                       .ping_s = 0.05,
                                                                       .quiet = true}) != 0;
}

/* All that comes on FD [n] until the server closes them; FD are closed. */
static void receive(const int *fd, size_t n, struct buf *out)
{
    double end = clock_seconds() + 600;
    size_t open = n;
    int *left = malloc(n * sizeof(*left));

    memcpy(left, fd, n * sizeof(*left));
    while (open && clock_seconds() < end) {
        server_poll(demo.server);
        for (size_t i = 0; i < n; i++) {
            char bytes[4096];
            ssize_t k = left[i] < 0 ? -1 : read(left[i], bytes, sizeof(bytes));

            if (k > 0)
                buf_add(&out[i], bytes, (size_t)k);
            if (k == 0) {
                close(left[i]);
                left[i] = -1;
                open--;
            }
        }
    }
    free(left);
    assert_int_equal(open, 0);
}

/* 60 requests, streams and whole answers, good and bad, some of whose clients leave: the others get what they
 * get alone. */
static void many_clients_at_once(void **state)
{
    static const char good[] =
        "{\"prompt\":[5,6,7],\"max_tokens\":30,\"temperature\":0,\"return_token_ids\":true}",
                      stream[] =
                          "{\"prompt\":[5,6,7],\"max_tokens\":30,\"temperature\":0,\"stream\":true,\"n\":2}",
                      bad[] = "{\"prompt\":[5,6,70000],\"max_tokens\":30}";
    struct buf out[40] = {{0}}, alone = {0};
    int fd[40], n = 0;
    const char *choices;

    fd[0] = demo_post("/v1/completions", "", good);
    receive(fd, 1, &alone);
    choices = strstr(alone.data, "\"choices\"");
    for (int i = 0; i < 60; i++) {
        int one = demo_post("/v1/completions", "", i % 3 == 0 ? good : i % 3 == 1 ? stream : bad);

        server_poll(demo.server);
        if (i % 6 >= 4)
            close(one);
        else
            fd[n++] = one;
    }
    receive(fd, (size_t)n, out);
    for (int i = 0; i < n; i++) {
        if (strstr(out[i].data, "\"object\":\"text_completion\",\"created\"") &&
            !strstr(out[i].data, "data: "))
            assert_string_equal(strstr(out[i].data, "\"choices\""), choices);
        else if (strstr(out[i].data, "data: "))
            assert_non_null(strstr(out[i].data, "data: [DONE]"));
        else
            assert_non_null(strstr(out[i].data, "HTTP/1.1 400"));
        buf_fini(&out[i]);
    }
    buf_fini(&alone);
    demo_await_silence();
}

/* Each allocation that a request makes, on whatever thread, fails once: it is answered all the same, or its
 * connection ends, and nothing of it stays. A stream that lost something does not end as if it were whole. */
static void memory_that_runs_out_ends_one_request(void **state)
{
    static const char *const bodies[] = {
        "{\"prompt\":[[5,6],[7]],\"max_tokens\":4,\"min_tokens\":4,\"n\":2,\"stop\":[\"zz\"],\"logprobs\":2,"
        "\"echo\":true,\"logit_bias\":{\"9\":1}}",
        "{\"prompt\":\"Hello\",\"max_tokens\":4,\"min_tokens\":4,\"stream\":true,\"return_token_ids\":true}"};

    for (int i = 0; i < 2; i++) {
        int n_failed = 0, n_good = 0;

        for (long n = 1; n < 1500 && n_good < 3; n += n < 60 ? 1 : 7) {
            const char *text;
            bool failed;
            int status;

            mem_fail_at(n);
            text = demo_answer(demo_post("/v1/completions", "", bodies[i]));
            failed = mem_failed();
            mem_fail_at(0);
            status = demo_status(text);
            n_failed += failed;
            n_good += !failed;
            if (status != 200 && status != 0 && !(failed && (status == 503 || status == 500)))
                fail_msg("allocation %ld of request %d: %s", n, i, text);
            if (status == 200 && i && strstr(text, "[DONE]")) /* else it was cut */
                assert_non_null(
                    strstr(text, strstr(text, "\"error\"") ? "\"code\":50" : "\"finish_reason\":\"length\""));
            else if (i)
                assert_true(failed);
            else if (status == 200)
                assert_non_null(strstr(text, "\"completion_tokens\":16"));
            demo_await_silence();
        }
        assert_true(n_failed > 20 && n_good == 3);
    }
}

/* Appends what comes on FD to OUT until it contains TEXT or the end of a stream. */
static void await_text(int fd, struct buf *out, const char *text)
{
    double end = clock_seconds() + 600;

    while (clock_seconds() < end &&
           !(out->data && (strstr(out->data, text) || strstr(out->data, "[DONE]")))) {
        char bytes[4096];
        ssize_t k;

        server_poll(demo.server);
        if ((k = read(fd, bytes, sizeof(bytes))) > 0)
            buf_add(out, bytes, (size_t)k);
    }
    if (!out->data || !strstr(out->data, text))
        fail_msg("no %s in %s", text, out->data ? out->data : "nothing");
}

/* A stream that waits for its turn is told so; what it is told is no event. */
static void a_stream_in_silence_is_pinged(void **state)
{
    static const char running[] =
        "{\"prompt\":[5],\"max_tokens\":900,\"min_tokens\":900,\"n\":8,\"stream\":true}";
    static const char waiting[] = "{\"prompt\":[5],\"max_tokens\":2,\"min_tokens\":2,\"stream\":true}";
    struct buf out[2] = {{0}};
    int fd[2] = {demo_post("/v1/completions", "", running)};

    await_text(fd[0], &out[0], "\"index\":7");
    fd[1] = demo_post("/v1/completions", "", waiting);
    /* An empty line behind a comment would end an event for some clients. */
    await_text(fd[1], &out[1], "\r\n\r\n: ping\n: ping\n");
    assert_non_null(strstr(out[1].data, "text/event-stream"));
    api_abort(demo.api);
    receive(fd, 2, out);
    assert_non_null(strstr(out[1].data, "data: [DONE]"));
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    demo_await_silence();
}

static void a_drain_ends_what_runs_and_refuses_the_rest(void **state)
{
    int fd[2] = {demo_post("/v1/completions", "",
                           "{\"prompt\":[5],\"max_tokens\":900,\"min_tokens\":900,\"stream\":true}"),
                 0};
    struct buf out[2] = {{0}};

    await_text(fd[0], &out[0], "data: ");
    api_drain(demo.api);
    fd[1] = demo_post("/v1/completions", "", "{\"prompt\":[5]}");
    server_poll(demo.server);
    api_abort(demo.api);
    receive(fd, 2, out);
    assert_non_null(strstr(out[0].data, "\"finish_reason\":\"abort\""));
    assert_non_null(strstr(out[1].data, "HTTP/1.1 503"));
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    demo_await_silence();
}

/* Long prompts that no worker has begun to read do not delay the shutdown. */
static void what_is_not_begun_at_the_end_is_refused(void **state)
{
    struct flight f = {.api = demo.api, .q.dialect = &openai_completions, .q.unwanted = true};
    const struct service s = {.n_names = 0};

    f.q.service = &s;
    buf_init(&f.q.reply, MEM_API);
    buf_init(&f.body, MEM_API);
    buf_str(&f.body, "{\"prompt\":[5]}");
    prepare_request(&f.job);
    assert_int_equal(f.q.status, 503);
    assert_non_null(strstr(f.q.reply.data, "the server is shutting down"));
    assert_int_equal(f.q.n_prompts, 0);
    buf_fini(&f.q.reply);
    buf_fini(&f.body);
}

/* A worker has the request when it is to end: nothing of its body is known. */
static void a_request_is_ended_before_it_is_read(void **state)
{
    int fd[2] = {demo_post("/v1/completions", "X-Request-Id: mine\r\n",
                           "{\"prompt\":[5],\"max_tokens\":900,\"min_tokens\":900}"),
                 demo_post("/abort_requests", "", "{\"request_ids\":[\"mine\"]}")};
    struct buf out[2] = {{0}};

    receive(fd, 2, out);
    assert_non_null(strstr(out[1].data, "{\"aborted\":1}"));
    assert_non_null(strstr(out[0].data, "\"finish_reason\":\"abort\""));
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    demo_await_silence();
}

/* It has no word for it as texts have: it would be taken for a vector. */
static void an_embedding_that_was_ended_is_an_error(void **state)
{
    static const char *const paths[] = {"/v1/embeddings", "/api/embed"};
    static char body[1 << 16];
    size_t n = (size_t)snprintf(body, sizeof(body), "{\"input\":[");

    for (int i = 0; i < 60; i++) {
        n += (size_t)snprintf(body + n, sizeof(body) - n, i ? ",[%d" : "[%d", 5 + i);
        for (int k = 0; k < 300; k++)
            n += (size_t)snprintf(body + n, sizeof(body) - n, ",7");
        n += (size_t)snprintf(body + n, sizeof(body) - n, "]");
    }
    snprintf(body + n, sizeof(body) - n, "]}");
    for (int i = 0; i < 2; i++) {
        struct buf out[2] = {{0}};
        int fd[2] = {demo_post(paths[i], "X-Request-Id: mine\r\n", body), -1};

        while (api_n_requests(demo.api) == 0)
            server_poll(demo.server);
        fd[1] = demo_post("/abort_requests", "", "{\"request_ids\":\"mine\"}");
        receive(fd, 2, out);
        assert_non_null(strstr(out[1].data, "{\"aborted\":1}"));
        assert_int_equal(demo_status(out[0].data), 400); /* which clients do not repeat */
        buf_fini(&out[0]);
        buf_fini(&out[1]);
        demo_await_silence();
    }
}

/* The body is read on the thread of the sockets, which no client may delay. */
static void a_large_request_to_end_requests_is_refused(void **state)
{
    static char text[300000];

    for (size_t more = 0; more < 2; more++) {
        size_t n = (256 << 10) + more, sent = 1000;
        int fd, at = snprintf(text, sizeof(text),
                              "POST /abort_requests HTTP/1.0\r\nContent-Length: %zu\r\n\r\n", n);

        memset(text + at, ' ', n);
        memcpy(text + at, "{\"request_ids\":[]", 17);
        text[(size_t)at + n - 1] = '}';
        fd = demo_send(text, sent);
        while (sent < (size_t)at + n) {
            ssize_t k = write(fd, text + sent, (size_t)at + n - sent);

            sent += k > 0 ? (size_t)k : 0;
            server_poll(demo.server);
        }
        assert_int_equal(demo_status(demo_answer(fd)), more ? 413 : 200);
    }
}

static void a_name_that_is_none_is_not_repeated(void **state)
{
    static const char *const bodies[] = {"{", "{\"prompt\":[5]}"};

    for (int i = 0; i < 2; i++) {
        const char *answer =
            demo_answer(demo_post("/v1/completions", "X-Request-Id: two words\r\n", bodies[i]));

        assert_int_equal(demo_status(answer), 400);
        assert_null(strstr(answer, "two words"));
    }
}

/* Errors are about what the client wrote, not about what was made of it. */
static void errors_name_the_field_of_the_request(void **state)
{
    static const struct {
        const char *path, *body, *param;
    } rows[] = {
        {"/v1/responses", "{\"input\":\"x\"}", "\"param\":\"input\""},
        {"/api/generate", "{\"prompt\":\"x\"}", "\"param\":\"prompt\""},
        {"/api/chat", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "\"param\":\"messages\""},
        {"/api/generate", "{\"prompt\":\"x\",\"raw\":true,\"options\":{\"num_predict\":-3}}",
         "options.num_predict"},
        {"/api/generate", "{\"prompt\":\"x\",\"raw\":true,\"options\":{\"num_predict\":-3}}",
         "\"param\":\"options\""},
        {"/v1/completions", "{\"prompt\":[5],\"max_tokens\":-1}", "\"param\":\"max_tokens\""},
        {"/abort_requests", "{", "\"param\":null"},
        {"/abort_requests", "{}", "\"param\":\"request_ids\""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *answer = demo_answer(demo_post(rows[i].path, "", rows[i].body));

        assert_int_equal(demo_status(answer), 400);
        if (!strstr(answer, rows[i].param))
            fail_msg("%s: no %s in %s", rows[i].path, rows[i].param, answer);
    }
}

static void check_metrics(const char *line)
{
    static const char get[] = "GET /metrics HTTP/1.0\r\n\r\n";
    const char *answer = demo_answer(demo_send(get, sizeof(get) - 1));

    if (!strstr(answer, line))
        fail_msg("no %s in %s", line, answer);
}

/* Answers that end before the first of their prompt have found its rows: nothing that was cached. */
static void rows_of_the_first_answer_are_no_hits_of_the_cache(void **state)
{
    for (int i = 0; i < 8; i++) {
        char body[1000];
        int n = snprintf(body, sizeof(body), "{\"prompt\":[%d", 100 + i);

        for (int k = 0; k < 64; k++)
            n += snprintf(body + n, sizeof(body) - (size_t)n, ",%d", 200 + k);
        snprintf(body + n, sizeof(body) - (size_t)n,
                 "],\"n\":8,\"seed\":%d,\"allowed_token_ids\":[5,6],\"stop_token_ids\":[5]}", i);
        assert_int_equal(demo_status(demo_answer(demo_post("/v1/completions", "", body))), 200);
    }
    check_metrics("vllm:prompt_tokens_total{engine=\"0\",model_name=\"demo\"} 520\n");
    check_metrics("vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"demo\"} 0\n");
}

static void an_answer_without_a_limit_has_that_of_the_context(void **state)
{
    static const char body[] = "{\"prompt\":[5,7],\"max_tokens\":null,\"allowed_token_ids\":[6],"
                               "\"stop_token_ids\":[6]}";

    assert_int_equal(demo_status(demo_answer(demo_post("/v1/completions", "", body))), 200);
    check_metrics("vllm:request_params_max_tokens_sum{engine=\"0\",model_name=\"demo\"} 1022\n");
}

/* Prometheus refuses all where a line is there twice, and texts that are equal may lie at two places. */
static void a_route_has_one_line(void **state)
{
    static struct metrics m;
    char route[] = "/x", same[] = "/x", method[] = "POST", other[] = "GET";

    metrics_count_http(&m, route, method, 200);
    metrics_count_http(&m, same, "POST", 200);
    assert_int_equal(m.n_http, 1);
    metrics_count_http(&m, same, other, 200);
    metrics_count_http(&m, same, method, 400);
    assert_int_equal(m.n_http, 3);
}

static void what_runs_is_let_go_of_at_the_end(void **state)
{
    for (int i = 0; i < 12; i++)
        demo_post("/v1/completions", "",
                  "{\"prompt\":[5],\"max_tokens\":900,\"min_tokens\":900,\"stream\":true}");
    for (int i = 0; i < 20; i++)
        server_poll(demo.server);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, demo_close)
    const struct CMUnitTest tests[] = {TEST(many_clients_at_once),
                                       TEST(memory_that_runs_out_ends_one_request),
                                       TEST(a_stream_in_silence_is_pinged),
                                       TEST(a_drain_ends_what_runs_and_refuses_the_rest),
                                       TEST(what_is_not_begun_at_the_end_is_refused),
                                       TEST(a_request_is_ended_before_it_is_read),
                                       TEST(an_embedding_that_was_ended_is_an_error),
                                       TEST(a_large_request_to_end_requests_is_refused),
                                       TEST(a_name_that_is_none_is_not_repeated),
                                       TEST(errors_name_the_field_of_the_request),
                                       TEST(rows_of_the_first_answer_are_no_hits_of_the_cache),
                                       TEST(an_answer_without_a_limit_has_that_of_the_context),
                                       TEST(a_route_has_one_line),
                                       TEST(what_runs_is_let_go_of_at_the_end)};

    return demo_run(tests);
}
