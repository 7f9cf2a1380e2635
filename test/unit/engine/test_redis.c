/* test_redis.c - KV blocks on a Redis server: a later engine reads them and gets the same tokens. A server
 * that is missing, hangs, disconnects or answers nonsense costs cache hits, and never an answer. The tests
 * start their own servers: redis-server, if it is installed, and listeners with faults. */
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/engine_priv.h"
#include "engines.h"
#include "gallop.h"
#include "redis_server.h"

enum { PROMPT = 100, WHOLE = 96 };

static char where[64];

/* ---- requests ---- */

static struct engines_answer alone[1], got[1];

static void ask(struct gallop *g, struct engines_answer *a)
{
    int32_t ids[PROMPT];

    memset(a, 0, sizeof(*a));
    engines_text(1, 0, PROMPT, ids);
    engines_submit(g, ids, PROMPT, 20, 0);
    engines_run(g, a);
}

static size_t ask_with(const char *store, struct engines_answer *a)
{
    struct gallop_options o = engines_options(4, 64, 256);
    struct gallop *g;

    o.kv_store = store;
    g = engines_open("llama3-rope", &o);
    ask(g, a);
    engines_check_cache(g);
    gallop_close(g);
    return a->end.n_stored;
}

static void must_equal(void)
{
    char says[256];

    if (engines_differ(alone, got, 1, says))
        fail_msg("%s: %s", where, says);
}

/* ---- tests ---- */

static void blocks_are_read_from_a_server_after_a_restart(void **state)
{
    pid_t server = redis_server_begin(where);

    if (server < 0) {
        print_message("no redis-server, or no hiredis: skipped\n");
        skip();
    }
    ask_with(NULL, alone);
    assert_int_equal(ask_with(where, got), 0);
    must_equal();
    for (int i = 0; i < 50 && got->end.n_stored < WHOLE; i++) /* A busy machine may not wait. */
        ask_with(where, got);
    assert_int_equal(got->end.n_stored, WHOLE);
    must_equal();
    redis_server_end(server);
}

static void a_server_that_leaves_is_done_without(void **state)
{
    pid_t server = redis_server_begin(where);
    struct gallop_options o = engines_options(4, 64, 256);
    struct gallop *g;

    if (server < 0)
        skip();
    ask_with(NULL, alone);
    ask_with(where, got);
    o.kv_store = where;
    g = engines_open("llama3-rope", &o);
    redis_server_end(server);
    log_set_level(LOG_ERROR);
    ask(g, got);
    must_equal();
    assert_int_equal(got->end.n_stored, 0);
    gallop_close(g);
    assert_int_equal(ask_with(where, got), 0); /* the same with a server that never existed */
    must_equal();
    log_set_level(LOG_WARN);
}

/* Listens, and answers all input with ANSWER (NULL: never), until the process ends. */
static pid_t begin_listener(const char *answer, bool hangs_up)
{
    int fd = redis_server_listen(where);
    pid_t pid;

    fflush(NULL);
    signal(SIGPIPE, SIG_IGN);
    if ((pid = fork()) == 0)
        for (;;) {
            int c = accept(fd, NULL, NULL);
            char text[4096];

            while (read(c, text, sizeof(text)) > 0 && !hangs_up)
                if (answer && write(c, answer, strlen(answer)) < 0)
                    break;
            close(c);
        }
    close(fd);
    return pid;
}

static void nonsense_and_silence_cost_hits_and_no_answer(void **state)
{
    static const struct {
        const char *answer;
        bool hangs_up;
    } way[] = {{"HTTP/1.1 400 Bad Request\r\n\r\n", false},
               {NULL, true},
               {"-NOAUTH Authentication required.\r\n", false},
               {"*2147483647\r\n", false},
               {"$-1\r\n", false},
               {":1\r\n", false},
               {"+OK\r\n", false},
               {"$1\r\n1\r\n", false}, /* It greets correctly, and then sends this. */
               {NULL, false}};

    if (!redis_server_is_built_in())
        skip();
    ask_with(NULL, alone);
    log_set_level(LOG_ERROR);
    for (size_t w = 0; w < sizeof(way) / sizeof(way[0]); w++) {
        pid_t server = begin_listener(way[w].answer, way[w].hangs_up);

        assert_int_equal(ask_with(where, got), 0);
        must_equal();
        redis_server_end(server);
    }
    log_set_level(LOG_WARN);
}

static void addresses_that_are_none_are_refused(void **state)
{
    static const char *const none[] = {"redis://",           "redis://:6379",    "redis://host:0",
                                       "redis://host:99999", "redis://host:x",   "redis://host/x",
                                       "redis://[::1",       "redis://host/1/2", "redis://user:word@host",
                                       "redis://host:1x",    "redis://host/-1"};

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]) && redis_server_is_built_in(); i++) {
        struct gallop_options o = engines_options(4, 64, 256);
        char err[GALLOP_ERR_SIZE];
        struct gallop *g;

        o.kv_store = none[i];
        assert_int_equal(engines_try(&g, "llama3-rope", &o, err), GALLOP_BAD_INPUT);
        if (!strstr(err, "expected redis://host[:port][/db]"))
            fail_msg("%s", err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_read_from_a_server_after_a_restart),
        cmocka_unit_test(a_server_that_leaves_is_done_without),
        cmocka_unit_test(nonsense_and_silence_cost_hits_and_no_answer),
        cmocka_unit_test(addresses_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
