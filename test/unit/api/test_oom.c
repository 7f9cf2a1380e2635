/* test_oom.c - memory that runs out while a request of any form is read, computed or answered: each of its
 * allocations fails once, on whatever thread. What comes is the right answer, an error, or a connection that
 * ends; never a crash, a leak, or an answer that lacks something and does not say so.
 *
 * The model says what a script tells it to, calls of tools and reasoning among it. GALLOP_OOM_EVERY=1 fails
 * every allocation; otherwise one of seventeen.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "api/api_priv.h"
#include "api/flight.h"
#include "base/buf.h"
#include "base/mem.h"
#include "chat/fields.h"
#include "demo.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engine/step.h"
#include "text/chat.h"
#include "text/markup/markup.h"
#include "text/markup/template.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

#define TOOLS                                                                                \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"does " \
    "\\\"it\\\"\",\"parameters\":{\"type\":\"object\"}}}]"

static const char template[] =
    "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif "
    "%}{% for m in messages %}<{{ m.role }}>{{ m.reasoning_content }}"
    "{{ m.content }}{% for c in m.tool_calls %}<tool_call>{\"name\": \"{{ c.function.name "
    "}}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}<assistant>";

static const char script[] =
    "<think>so it is</think>Let me \"see\".<tool_call>{\"name\": \"f\", \"arguments\": "
    "{\"a\": \"b\\\"c\"}}</tool_call>"
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": [1, {}]}}</tool_call>";

/* A request, and the members whose texts make up its answer. */
static const struct {
    const char *path, *body;
} requests[] = {
    {"/v1/chat/completions",
     "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"Be\"}"
     ",{\"type\":\"text\",\"text\":\"brief\"}]},"
     "{\"role\":\"user\",\"content\":\"Hello\"}]," TOOLS "}"},
    {"/v1/chat/completions",
     "{\"stream\":true,\"stream_options\":{\"include_usage\":true},\"messages\":[{\"role\":\"user\","
     "\"content\":\"Hello\"},"
     "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"x\","
     "\"type\":\"function\",\"function\":{\"name\":\"f\","
     "\"arguments\":\"{\\\"k\\\": 3}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"x\","
     "\"content\":\"9\"}]," TOOLS "}"},
    {"/v1/responses",
     "{\"instructions\":\"Be brief\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
     "\"text\":\"Hello\"}]},"
     "{\"type\":\"reasoning\",\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}],\"summary\":[]},"
     "{\"type\":\"function_call\",\"call_id\":\"x\",\"name\":\"f\",\"arguments\":\"{\\\"k\\\": 3}\"},"
     "{\"type\":\"function_call_output\",\"call_id\":\"x\",\"output\":\"9\"}],\"metadata\":{\"a\":\"b\"},"
     "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":false,\"parameters\":{\"type\":\"object\"}"
     "}]}"},
    {"/v1/responses", "{\"stream\":true,\"input\":\"Hello\",\"tools\":[{\"type\":\"function\","
                      "\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}]}"},
    {"/v1/messages", "{\"max_tokens\":500,\"system\":[{\"type\":\"text\",\"text\":\"Be brief\"}"
                     "],\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"},"
                     "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\","
                     "\"signature\":\"\"},{\"type\":\"text\",\"text\":\"I see\"},"
                     "{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"f\",\"input\":{\"k\":3}}"
                     "]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
                     "\"tool_use_id\":\"x\",\"content\":[{\"type\":\"text\",\"text\":\"9\"}]}"
                     "]}],\"tools\":[{\"name\":\"f\",\"description\":\"d\","
                     "\"input_schema\":{\"type\":\"object\"}}]}"},
    {"/v1/messages",
     "{\"stream\":true,\"max_tokens\":500,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}"
     "],\"tools\":[{\"name\":\"f\","
     "\"input_schema\":{\"type\":\"object\"}}]}"},
    {"/v1/messages/count_tokens",
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hello\"}"
     "]}],\"tools\":[{\"name\":\"f\","
     "\"input_schema\":{\"type\":\"object\"}}]}"},
    {"/api/chat", "{\"stream\":false,\"think\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}"
                  ",{\"role\":\"assistant\",\"content\":\"\","
                  "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"k\":3}}}"
                  "]},{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":\"9\"}]," TOOLS "}"},
    {"/api/chat",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"options\":{\"num_predict\":500,"
     "\"stop\":[\"zz\"]}," TOOLS "}"},
    {"/api/generate", "{\"stream\":false,\"system\":\"Be brief\",\"prompt\":\"Hello\",\"think\":false}"},
    {"/v1/embeddings", "{\"input\":[\"Hello\",\"you\"],\"encoding_format\":\"base64\"}"},
    {"/v1/embeddings", "{\"input\":[[5,6,7]]}"},
    {"/api/embed", "{\"input\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\"]}"},
    {"/api/show", "{\"model\":\"demo\"}"},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":2,"
                             "\"logprobs\":true,\"logprob_token_ids\":[5,6]}"},
    {"/tokenize", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"return_token_strs\":true}"},
    {"/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":40,\"temperature\":0,\"tool_choice\":{"
     "\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{\"type\":"
     "\"function\",\"function\":"
     "{\"name\":\"f\"}}]}}," TOOLS "}"},
    {"/v1/messages",
     "{\"max_tokens\":40,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"tools\":[{\"name\":\"f\","
     "\"strict\":true,\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"tool\",\"name\":"
     "\"f\"}}"},
    {"/v1/responses",
     "{\"input\":\"Hello\",\"max_output_tokens\":40,\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":true,"
     "\"parameters\":{\"type\":\"object\"}}],\"text\":{\"format\":{\"type\":\"json_object\"}}}"},
    {"/v1/completions", "{\"prompt\":\"Hello\",\"stop\":[\"so it\"],\"temperature\":0}"},
};
enum { N_REQUESTS = sizeof(requests) / sizeof(requests[0]), STOPS = N_REQUESTS - 1 };

static struct chat *chat;
static const struct executor *inner;
static struct tok_ids said;
static float *logits; /* [n_vocab] */

/* One sequence at a time: its rows are those of the model, its logits say the script. */
static size_t
    script_at; /* place in the script of the token that the last run predicts; SIZE_MAX: none of it */

static int run_script(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    int rc = inner->run(ctx, rows, n, e);

    script_at = n == 1 && rows[0].n_wanted == 1 ? rows[0].pos + rows[0].n - rows[0].n_prompt : SIZE_MAX;
    return rc;
}

static const float *say_script(void *ctx, size_t first, size_t n)
{
    const float *real = inner->logits(ctx, first, n);
    size_t id = script_at < said.n ? (size_t)said.id[script_at] : 2;

    if (script_at == SIZE_MAX)
        return real;
    for (size_t i = 0; i < inner->caps.n_vocab; i++)
        logits[i] = i == id ? 100 : -(float)i;
    return logits;
}

static int open_script(void)
{
    inner = demo_compute_by(run_script);
    demo_replaced()->logits = say_script;
    logits = malloc(inner->caps.n_vocab * sizeof(*logits));
    return tok_encode(engine_llm(demo.engine)->tok, script, strlen(script), 0, &said, NULL);
}

static int open_all(void **state)
{
    struct api_options o = {.max_running = 8,
                            .max_queued = 8,
                            .service.max_logprobs = 20,
                            .service.reasoning_field = "reasoning",
                            .quiet = true};
    static struct markup markup;
    static struct template examined;
    struct gallop_options of_engine = demo_options();

    of_engine.max_num_seqs = 1;
    of_engine.has_seed = 1;
    if (demo_open_engine(&of_engine) != 0 || open_script() != 0 || demo_open_chat(&chat, template) != 0 ||
        markup_choose(&markup, "hermes", "qwen3", NULL, NULL) != 0 ||
        tools_probe(chat, NULL, &examined.tools, NULL) != 0)
        return -1;
    examined.chat = chat;
    o.service.markup = &markup;
    o.service.template = &examined;
    return demo_open(o);
}

static int close_all(void **state)
{
    demo_close(state);
    chat_close(chat);
    tok_ids_fini(&said);
    free(logits);
    return 0;
}

/* Sends request I and returns what comes until the end. */
static const char *ask(int i)
{
    const char *text = demo_answer(demo_post(requests[i].path, "X-Request-Id: a\r\n", requests[i].body));

    demo_await_silence();
    return text;
}

/* ---- what an answer says ---- */

enum { N_TEXTS = 24 };

/* The texts of an answer by the names of their members, those of several events behind one another; of counts
 * the last. */
struct outcome {
    char name[N_TEXTS][32];
    struct buf text[N_TEXTS];
    size_t n_texts;
    bool fails; /* it says that something went wrong */
};

static void add_text(struct outcome *a, const char *name, const char *text, bool last)
{
    size_t i = 0;

    while (i < a->n_texts && strcmp(a->name[i], name) != 0)
        i++;
    assert_true(i < N_TEXTS);
    if (i == a->n_texts) {
        a->n_texts++;
        snprintf(a->name[i], sizeof(a->name[i]), "%s", name);
    }
    if (last)
        buf_clear(&a->text[i]);
    buf_str(&a->text[i], text);
}

/* Ids and times differ from answer to answer; how tokens make up events does, too, and with it what each
 * event says once. */
static bool is_compared(const char *name)
{
    static const char *const other[] = {"id",     "call_id", "item_id", "created_at", "type",
                                        "object", "bytes",   "model",   "role"};

    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        if (strcmp(name, other[i]) == 0)
            return false;
    return true;
}

static void add_value(struct outcome *a, const char *name, const json_t *v)
{
    const char *key;
    json_t *child;
    char number[32];
    size_t i;

    a->fails |= strcmp(name, "error") == 0 && !json_is_null(v);
    if (json_is_object(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, key, child) add_value(a, key, child);
    } else if (json_is_array(v)) {
        json_array_foreach(v, i, child) add_value(a, name, child);
    } else if (json_is_string(v) && is_compared(name)) {
        add_text(a, name, json_string_value(v), false);
    } else if (json_is_integer(v) && strstr(name, "_tokens") && !strstr(name, "cache") &&
               strcmp(name, "input_tokens") != 0) {
        snprintf(number, sizeof(number), "%lld;", (long long)json_integer_value(v));
        add_text(a, name, number, true);
    }
}

/* TEXT is what came; the JSON of all its lines that hold some. */
static void read_answer(struct outcome *a, const char *text)
{
    const char *line = strstr(text, "\r\n\r\n");

    *a = (struct outcome){.n_texts = 0};
    for (line = line ? line + 4 : ""; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        bool event = strncmp(line, "data: ", 6) == 0;
        json_t *v = json_loadb(line + 6 * event, n - 6 * event, 0, NULL);

        add_value(a, "", v);
        json_decref(v);
    }
}

static void free_answer(struct outcome *a)
{
    for (size_t i = 0; i < a->n_texts; i++)
        buf_fini(&a->text[i]);
}

static const char *text_of(const struct outcome *a, const char *name)
{
    for (size_t i = 0; i < a->n_texts; i++)
        if (strcmp(a->name[i], name) == 0)
            return a->text[i].data;
    return "";
}

/* The name of a text in which A is not what B is, or NULL. */
static const char *differ(const struct outcome *a, const struct outcome *b)
{
    for (size_t i = 0; i < b->n_texts; i++)
        if (strcmp(text_of(a, b->name[i]), b->text[i].data) != 0)
            return b->name[i];
    return a->n_texts == b->n_texts ? NULL : "number of texts";
}

/* A stream came to the end that its form has. */
static bool is_whole(const char *text)
{
    return !strstr(text, "text/event-stream") && !strstr(text, "x-ndjson")
               ? strstr(text, "\r\n\r\n") != NULL
               : strstr(text, "data: [DONE]") || strstr(text, "\"message_stop\"") ||
                     strstr(text, "\"response.completed\"") || strstr(text, "\"done\":true");
}

/* ---- tests ---- */

static void the_script_is_said_in_every_form(void **state)
{
    for (int i = 0; i < 10; i++) {
        const char *text = ask(i);

        if (!is_whole(text) || !strstr(text, " 200 ") ||
            (strcmp(requests[i].path, "/v1/messages/count_tokens") != 0 &&
             strcmp(requests[i].path, "/api/generate") != 0 &&
             !(strstr(text, "so it is") || strstr(text, "so"))))
            fail_msg("request %d: %s", i, text);
        if (strstr(requests[i].body, "\"tools\"") && !strstr(text, "tokens\":") &&
            !strstr(text, "\"tool_calls\""))
            fail_msg("request %d: %s", i, text);
    }
}

static void a_difference_is_seen(void **state)
{
    struct outcome a, b;

    read_answer(&a, "x\r\n\r\ndata: {\"content\":\"ab\",\"id\":\"1\"}\n\ndata: {\"delta\":{\"content\":\"c\"}"
                    "}\n\ndata: [DONE]\n\n");
    read_answer(&b,
                "x\r\n\r\ndata: {\"content\":\"a\",\"id\":\"2\"}\n\ndata: {\"x\":[{\"content\":\"bc\"}]}\n");
    assert_null(differ(&a, &b));
    free_answer(&b);
    read_answer(&b, "x\r\n\r\ndata: {\"content\":\"ab\"}\n");
    assert_string_equal(differ(&a, &b), "content");
    free_answer(&b);
    read_answer(&b, "x\r\n\r\ndata: {\"content\":\"abc\",\"name\":\"f\"}\n");
    assert_string_equal(differ(&a, &b), "name");
    assert_non_null(differ(&b, &a));
    free_answer(&b);
    free_answer(&a);
}

/* Request I with allocation N failing; true if it did fail. */
static bool try_at(int i, long n, const struct outcome *wanted)
{
    const char *text, *what;
    struct outcome a;
    bool failed;
    int status;

    mem_fail_at(n);
    text = ask(i);
    failed = mem_failed();
    mem_fail_at(0);
    status = demo_status(text);
    if (status != 200 && status != 0 && !(failed && (status == 503 || status == 500)))
        fail_msg("allocation %ld of request %d: %s", n, i, text);
    read_answer(&a, text);
    if (status == 200 && is_whole(text) && !a.fails && (what = differ(&a, wanted)) != NULL)
        fail_msg("allocation %ld of request %d: %s is \"%s\", not \"%s\": %s", n, i, what, text_of(&a, what),
                 text_of(wanted, what), text);
    if (!failed && (status != 200 || !is_whole(text) || a.fails))
        fail_msg("request %d, of which no allocation failed: %s", i, text);
    free_answer(&a);
    return failed;
}

static void memory_that_runs_out_makes_no_answer_wrong(void **state)
{
    const char *every = getenv("GALLOP_OOM_EVERY");
    long step = every && atol(every) > 0 ? atol(every) : 17;

    for (int i = 0; i < N_REQUESTS; i++) {
        int n_failed = 0, n_good = 0;
        struct outcome wanted;

        read_answer(&wanted, ask(i));
        for (long n = 1 + i % step; n < 100000 && n_good < 3; n += step)
            if (try_at(i, n, &wanted))
                n_failed++;
            else
                n_good++;
        free_answer(&wanted);
        print_message("%s: %d allocations failed\n", requests[i].path, n_failed);
        assert_true(n_failed > 0 && n_good == 3);
    }
}

/* ---- what the engine's thread cannot hand over ---- */

/* The first step of a request waits in the executor: step_waits is set then, and unset to let it go on. */
static atomic_bool step_waits, step_passed;

static int wait_and_run(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    if (!atomic_exchange(&step_passed, true)) {
        atomic_store(&step_waits, true);
        while (atomic_load(&step_waits))
            usleep(100);
    }
    return run_script(ctx, rows, n, e);
}

static int open_waiting(void **state)
{
    int rc = open_all(state);

    demo_replaced()->run = wait_and_run;
    atomic_store(&step_passed, false);
    return rc;
}

/* Request I; of what its first step gives, allocation N of the engine's thread fails: nobody else runs. */
static void lose_event(int i, long n)
{
    int fd = demo_post(requests[i].path, "", requests[i].body);
    const char *text;
    struct outcome a;

    while (!atomic_load(&step_waits))
        server_poll(demo.server);
    while (api_n_computing(demo.api) == 0 || flight_is_with_worker(demo.api->first))
        server_poll(demo.server);
    mem_fail_at(n);
    atomic_store(&step_waits, false);
    while (!mem_failed())
        usleep(100);
    mem_fail_at(0);
    text = demo_answer(fd);
    demo_await_silence();
    read_answer(&a, text);
    if (!a.fails || (demo_status(text) != 200 && demo_status(text) != 503))
        fail_msg("request %d, allocation %ld of the first step: %s", i, n, text);
    free_answer(&a);
    text = ask(i);
    assert_true(demo_status(text) == 200 && is_whole(text));
}

static void a_lost_event_ends_a_whole_answer_with_an_error(void **state)
{
    lose_event(0, 1);
}

static void a_lost_event_ends_a_stream_of_chat_with_an_error(void **state)
{
    lose_event(1, 1);
}

static void a_lost_event_ends_a_stream_of_responses_with_an_error(void **state)
{
    lose_event(3, 1);
}

static void a_lost_event_ends_a_stream_of_messages_with_an_error(void **state)
{
    lose_event(5, 1);
}

/* The answer of request STOPS when allocation N fails of those that the thread of the sockets makes for it:
 * meanwhile all has been computed and no other thread runs. True: it did fail. */
static bool lose_of_answer(long n, const struct outcome *wanted)
{
    uint64_t before = engine_loop(demo.engine)->n_finished;
    const char *text, *what;
    struct outcome a;
    bool failed;
    int fd;

    atomic_store(&step_passed, false);
    fd = demo_post(requests[STOPS].path, "", requests[STOPS].body);
    while (!atomic_load(&step_waits))
        server_poll(demo.server);
    while (api_n_computing(demo.api) == 0 || flight_is_with_worker(demo.api->first))
        server_poll(demo.server);
    atomic_store(&step_waits, false);
    while (*(volatile uint64_t *)&engine_loop(demo.engine)->n_finished == before)
        usleep(100);
    usleep(20000); /* the last event is handed over */
    mem_fail_at(n);
    text = demo_answer(fd);
    failed = mem_failed();
    mem_fail_at(0);
    demo_await_silence();
    read_answer(&a, text);
    if (demo_status(text) == 200 && !a.fails && (what = differ(&a, wanted)) != NULL)
        fail_msg("allocation %ld: %s is \"%s\", not \"%s\": %s", n, what, text_of(&a, what),
                 text_of(wanted, what), text);
    free_answer(&a);
    return failed;
}

static void memory_that_runs_out_loses_no_stop_string(void **state)
{
    struct outcome wanted;
    long n = 1;

    atomic_store(&step_passed, true);
    read_answer(&wanted, ask(STOPS));
    assert_string_equal(text_of(&wanted, "stop_reason"), "so it");
    assert_string_equal(text_of(&wanted, "finish_reason"), "stop");
    while (n < 1000 && lose_of_answer(n, &wanted))
        n++;
    assert_in_range(n, 4, 999);
    free_answer(&wanted);
}

/* Waits in the first step, which has one sequence, and in the first that has two. */
static atomic_int n_waits;

static int wait_for_both(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    int before = atomic_load(&n_waits);

    if (before == 0 || (before == 1 && n == 2)) {
        atomic_store(&step_waits, true); /* before the number, for which the test waits to unset this */
        atomic_store(&n_waits, before + 1);
        while (atomic_load(&step_waits))
            usleep(100);
    }
    return inner->run(ctx, rows, n, e);
}

static int open_two(void **state)
{
    struct gallop_options o = demo_options();

    o.max_num_seqs = 2;
    if (demo_open_engine(&o) != 0)
        return -1;
    atomic_store(&n_waits, 0);
    inner = demo_compute_by(wait_for_both);
    return demo_open((struct api_options){.service.chat_missing = "no template",
                                          .max_running = 2,
                                          .max_queued = 8,
                                          .service.max_logprobs = 5,
                                          .quiet = true});
}

static void await_step(void)
{
    while (!atomic_load(&step_waits))
        server_poll(demo.server);
}

/* Of two requests that are computed in one step, an event of one is lost: the other's answer is what it is
 * alone. */
static void a_lost_event_leaves_the_neighbour_as_it_is(void **state)
{
    static const char *const asked[] = {"{\"prompt\":\"Once\",\"max_tokens\":12,\"temperature\":0}",
                                        "{\"prompt\":\"The dog\",\"max_tokens\":12,\"temperature\":0}"};
    int fd[2], n_failed = 0, n_same = 0;

    for (int i = 0; i < 2; i++) {
        fd[i] = demo_post("/v1/completions", "", asked[i]);
        await_step();
        while (api_n_computing(demo.api) < (size_t)i + 1 || flight_is_with_worker(demo.api->first))
            server_poll(demo.server);
    }
    atomic_store(&step_waits, false);
    while (atomic_load(&n_waits) < 2)
        usleep(100);
    mem_fail_at(1); /* in the batch of that step, of the engine's thread: no other thread runs */
    atomic_store(&step_waits, false);
    while (!mem_failed())
        usleep(100);
    mem_fail_at(0);
    for (int i = 0; i < 2; i++) {
        struct outcome a, alone;

        read_answer(&a, demo_answer(fd[i]));
        n_failed += a.fails;
        read_answer(&alone, demo_answer(demo_post("/v1/completions", "", asked[i])));
        assert_false(alone.fails);
        n_same += !a.fails && !differ(&a, &alone);
        free_answer(&a);
        free_answer(&alone);
    }
    assert_int_equal(n_failed, 1);
    assert_int_equal(n_same, 1);
    demo_await_silence();
}

int main(void)
{
#define TEST(name)    cmocka_unit_test_setup_teardown(name, open_all, close_all)
#define WAITING(name) cmocka_unit_test_setup_teardown(name, open_waiting, close_all)
    const struct CMUnitTest tests[] = {
        TEST(the_script_is_said_in_every_form),
        cmocka_unit_test(a_difference_is_seen),
        WAITING(a_lost_event_ends_a_whole_answer_with_an_error),
        WAITING(a_lost_event_ends_a_stream_of_chat_with_an_error),
        WAITING(a_lost_event_ends_a_stream_of_responses_with_an_error),
        WAITING(a_lost_event_ends_a_stream_of_messages_with_an_error),
        cmocka_unit_test_setup_teardown(a_lost_event_leaves_the_neighbour_as_it_is, open_two, demo_close),
        WAITING(memory_that_runs_out_loses_no_stop_string),
        TEST(memory_that_runs_out_makes_no_answer_wrong)};

    return demo_run(tests);
}
