/* test_gallop_answer.c - what gallop_answer() does besides answering, and when memory runs out. The answers themselves
 * are compared with the server's by test/cli/bodies.py.
 */
#include <string.h>

#include "base/mem.h"
#include "gallop.h"
#include "test.h"

static struct gallop *engine;

static int start(void **state)
{
    struct gallop_options o;
    char err[GALLOP_ERR_SIZE];

    gallop_options_init(&o);
    o.model = GALLOP_SOURCE_DIR "/models/demo";
    o.threads = 1;
    return gallop_open(&engine, &o, err);
}

static int end(void **state)
{
    gallop_close(engine);
    return 0;
}

/* Returns the status of the answer to BODY, whose text is then in *ANSWER. */
static int ask(const char *path, const char *body, char **answer)
{
    char err[GALLOP_ERR_SIZE];
    size_t n = 0;
    int status = 0;

    assert_int_equal(gallop_answer(engine, path, body, SIZE_MAX, &status, answer, &n, err), 0);
    assert_int_equal(strlen(*answer), n);
    return status;
}

static void a_body_of_a_given_length_is_read(void **state)
{
    char err[GALLOP_ERR_SIZE], *answer;
    int status;
    size_t n;

    assert_int_equal(gallop_answer(engine, "/tokenize", "{\"prompt\":\"a\"}}", 14, &status, &answer, &n, err),
                     0);
    assert_int_equal(status, 200);
    gallop_free(answer);
    assert_int_equal(gallop_answer(engine, "/tokenize", "{\"prompt\":\"a\"}}", 15, &status, &answer, &n, err),
                     0);
    assert_int_equal(status, 400);
    gallop_free(answer);
}

static void a_path_that_is_none_is_404(void **state)
{
    char *answer;

    assert_int_equal(ask("/v1/nothing", "{}", &answer), 404);
    assert_non_null(strstr(answer, "NotFoundError"));
    gallop_free(answer);
    assert_int_equal(ask("", "{}", &answer), 404);
    gallop_free(answer);
    assert_int_equal(ask("/v1/models", "{}", &answer), 404);
    gallop_free(answer);
}

static void events_of_other_requests_are_not_lost(void **state)
{
    struct gallop_request r;
    struct gallop_event ev = {.type = GALLOP_TOKEN};
    char err[GALLOP_ERR_SIZE], *answer;
    int status;
    size_t n;

    gallop_request_init(&r);
    r.text = "Once";
    r.sampling.max_new_tokens = 2;
    assert_int_equal(gallop_submit(engine, &r, NULL, err), 0);
    assert_int_equal(
        gallop_answer(engine, "/v1/completions", "{\"prompt\":\"a\"}", SIZE_MAX, &status, &answer, &n, err),
        GALLOP_BAD_INPUT);
    assert_string_equal(err, "the engine has other requests, expected none");
    assert_null(answer);
    while (gallop_next(engine, &ev))
        ;
    assert_int_equal(ev.type, GALLOP_FINISHED);
    assert_int_equal(ask("/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":2}", &answer), 200);
    gallop_free(answer);
}

static void a_service_without_a_server_is_described(void **state)
{
    char *answer;

    assert_int_equal(ask("/api/show", "{}", &answer), 200);
    assert_null(strstr(answer, "\"modified_at\":\"1970"));
    gallop_free(answer);
    assert_int_equal(ask("/v1/completions", "{\"prompt\":\"a\",\"priority\":1}", &answer), 400);
    gallop_free(answer);
}

static void priorities_are_those_of_the_policy(void **state)
{
    struct gallop_options o;
    struct gallop *g;
    char err[GALLOP_ERR_SIZE], *answer;
    int status;
    size_t n;

    gallop_options_init(&o);
    o.model = GALLOP_SOURCE_DIR "/models/demo";
    o.scheduling_policy = "priority";
    assert_int_equal(gallop_open(&g, &o, err), 0);
    assert_int_equal(gallop_answer(g, "/v1/completions", "{\"prompt\":\"a\",\"priority\":1,\"max_tokens\":1}",
                                   SIZE_MAX, &status, &answer, &n, err),
                     0);
    assert_int_equal(status, 200);
    gallop_free(answer);
    gallop_close(g);
}

/* Each allocation fails once: the answer is then complete, or an error of the server, or there is none. */
static void memory_runs_out(void **state)
{
    static const char *const bodies[][2] = {
        {"/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":3,\"temperature\":0,"
         "\"logprobs\":true,\"top_logprobs\":2,\"n\":2}"},
        {"/v1/embeddings", "{\"input\":[\"a\",\"b\"]}"},
    };

    for (size_t i = 0; i < 2; i++) {
        bool failed = true;

        for (long n = 1; failed; n++) {
            char err[GALLOP_ERR_SIZE], *answer = NULL;
            int status = 0, rc;
            size_t len;

            mem_fail_at(n);
            rc = gallop_answer(engine, bodies[i][0], bodies[i][1], SIZE_MAX, &status, &answer, &len, err);
            failed = mem_failed();
            mem_fail_at(0);
            if (rc) {
                assert_int_equal(rc, GALLOP_NO_MEMORY);
                assert_null(answer);
            } else {
                assert_true(status == 200 || status == 503 || status == 500);
                assert_true(answer[0] == '{' && answer[len - 1] == '}');
            }
            if (!failed)
                assert_int_equal(status, 200);
            gallop_free(answer);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_of_a_given_length_is_read),
        cmocka_unit_test(a_path_that_is_none_is_404),
        cmocka_unit_test(events_of_other_requests_are_not_lost),
        cmocka_unit_test(a_service_without_a_server_is_described),
        cmocka_unit_test(priorities_are_those_of_the_policy),
        cmocka_unit_test(memory_runs_out),
    };

    return cmocka_run_group_tests(tests, start, end);
}
