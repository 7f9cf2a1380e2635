/* test_leave.c - clients that leave at each state of a request, in a stream or not: it is in no further step,
 * and its rows are free when the step that runs has ended. The executor of the engine does one step at a
 * time, when it is told to, so nothing depends on how fast the machine is.
 */
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/crash_table.h"
#include "base/clock.h"
#include "demo.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "gallop.h"
#include "kv/kv.h"

enum { LONG_PROMPT = 48, ROWS = 32, NEIGHBOUR_TOKENS = 12 }; /* a long prompt takes two steps */

enum when { WAITING, PROMPT, LAST_OF_PROMPT, ANSWER, N_WHENS };

static const struct executor *inner;

static atomic_int steps_allowed, n_steps; /* steps that have begun; the last one waits to be allowed */
static atomic_int last_with_it;           /* the last step with rows of the client that leaves; 0: none */
static atomic_bool prompt_done;           /* its prompt is computed to the end with that step */
static atomic_size_t n_sequences;         /* of the last step */
static atomic_size_t held_bytes;          /* by its sequence in the step after that */
static size_t slot;                       /* of it; the engine's thread alone */

static int run_stepwise(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    int step = atomic_load(&n_steps) + 1;

    if (atomic_load(&last_with_it) == step - 1 && step > 1)
        atomic_store(&held_bytes, kv_held_bytes(&engine_llm(demo.engine)->kv, slot));
    for (size_t i = 0; i < n; i++)
        if (rows[i].n_prompt == LONG_PROMPT) {
            slot = rows[i].slot;
            atomic_store(&last_with_it, step);
            atomic_store(&prompt_done, rows[i].pos + rows[i].n >= LONG_PROMPT);
        }
    atomic_store(&n_sequences, n);
    atomic_store(&n_steps, step);
    while (atomic_load(&steps_allowed) == 0)
        usleep(100);
    atomic_fetch_sub(&steps_allowed, 1);
    return inner->run(ctx, rows, n, e);
}

static int open_all(void **state)
{
    struct gallop_options o = demo_options();

    o.max_num_seqs = 2;
    o.max_batched_tokens = ROWS;
    o.prefix_index = "none";
    if (demo_open_engine(&o) != 0)
        return -1;
    inner = demo_compute_by(run_stepwise);
    return demo_open((struct api_options){.service.chat_missing = "no template",
                                          .max_running = 2,
                                          .max_queued = 8,
                                          .service.max_logprobs = 5,
                                          .quiet = true});
}

static int close_all(void **state)
{
    atomic_store(&steps_allowed, 1000000);
    return demo_close(state);
}

#define AWAIT(condition)                                                               \
    for (double end_s = clock_seconds() + 600; !(condition); server_poll(demo.server)) \
    assert_true(clock_seconds() < end_s)

static void do_step(void)
{
    int before = atomic_load(&n_steps);

    atomic_fetch_add(&steps_allowed, 1);
    AWAIT(atomic_load(&n_steps) > before);
}

static int ask(size_t n_prompt, int n_tokens, bool stream)
{
    char body[4 * LONG_PROMPT + 200];
    int n = snprintf(body, sizeof(body), "{\"prompt\":[5");

    for (size_t i = 1; i < n_prompt; i++)
        n += snprintf(body + n, sizeof(body) - (size_t)n, ",%zu", 5 + i % 90);
    snprintf(body + n, sizeof(body) - (size_t)n, "],\"max_tokens\":%d,\"min_tokens\":%d,\"stream\":%s}",
             n_tokens, n_tokens, stream ? "true" : "false");
    return demo_post("/v1/completions", "", body);
}

/* The answer on FD says that all tokens were computed. */
static void check_answer(int fd)
{
    char wanted[64];

    snprintf(wanted, sizeof(wanted), "\"completion_tokens\":%d", NEIGHBOUR_TOKENS);
    assert_non_null(strstr(demo_answer(fd), wanted));
}

static size_t n_submitted(void)
{
    size_t n, n_used = 0;
    const struct crash_table_row *r = api_running(demo.api, &n);

    for (size_t i = 0; i < n; i++)
        n_used += atomic_load(&r[i].used);
    return n_used;
}

static void leave(bool stream, bool half, enum when when)
{
    size_t n_neighbours = when == WAITING ? 2 : 1; /* and then there is no place beside them */
    int neighbour[2], fd, left_in;

    atomic_store(&steps_allowed, 0);
    atomic_store(&n_steps, 0);
    atomic_store(&last_with_it, 0);
    atomic_store(&prompt_done, false);
    atomic_store(&held_bytes, 0);
    for (size_t i = 0; i < n_neighbours; i++)
        neighbour[i] = ask(3, NEIGHBOUR_TOKENS, false);
    AWAIT(n_submitted() == n_neighbours && atomic_load(&n_steps) > 0);
    while (atomic_load(&n_sequences) < n_neighbours)
        do_step();
    fd = ask(LONG_PROMPT, 100, stream);
    AWAIT(n_submitted() == n_neighbours + 1);
    while (when != WAITING && atomic_load(&last_with_it) == 0)
        do_step();
    while (when >= LAST_OF_PROMPT && !atomic_load(&prompt_done))
        do_step();
    for (int i = 0; i < 3 && (when == ANSWER || when == WAITING); i++)
        do_step();
    left_in = atomic_load(&n_steps);
    assert_int_equal(atomic_load(&last_with_it), when == WAITING ? 0 : left_in);
    assert_true(when != PROMPT || !atomic_load(&prompt_done));
    if (half)
        shutdown(fd, SHUT_WR);
    else
        close(fd);
    AWAIT(server_n_connections(demo.server) == n_neighbours);
    atomic_store(&steps_allowed, 1000);
    for (size_t i = 0; i < n_neighbours; i++)
        check_answer(neighbour[i]);
    AWAIT(api_n_requests(demo.api) == 0);
    assert_int_equal(atomic_load(&last_with_it), when == WAITING ? 0 : left_in);
    assert_int_equal(atomic_load(&held_bytes), 0);
    if (half)
        close(fd);
}

static void a_client_that_leaves_is_in_no_further_step(void **state)
{
    for (int i = 0; i < 4 * N_WHENS; i++)
        leave(i & 1, i & 2, (enum when)(i / 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_client_that_leaves_is_in_no_further_step, open_all, close_all)};

    return demo_run(tests);
}
