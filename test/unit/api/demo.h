/* demo.h - a server within the test's process, which answers from the demo model over pairs of sockets: what
 * tests of the whole way of a request share. There is one at a time; what fails, fails the test.
 */
#ifndef GALLOP_TEST_API_DEMO_H
#define GALLOP_TEST_API_DEMO_H

#include "api/api.h"
#include "engine/executor.h"
#include "net/server.h"

extern struct demo {
    struct gallop *engine;
    struct api *api;
    struct server *server;
} demo;

/* First the engine, with demo_options() or more, then the server; the name and the
 * engine in A are set here. Return 0, as set-up functions do. */
struct gallop_options demo_options(void);
int demo_open_engine(const struct gallop_options *o);
int demo_open(struct api_options a);
int demo_close(void **state);

/* Between the two: RUN computes steps in place of the executor that is returned. */
typedef int demo_run_step(void *ctx, const struct executor_rows *rows, size_t n, struct err *e);
const struct executor *demo_compute_by(demo_run_step *run);
/* The executor that demo_compute_by() has put in place, whose other functions a test may replace, too. */
struct executor *demo_replaced(void);

struct chat;

/* Opens the chat template TEMPLATE. Returns 0, as set-up functions do. */
int demo_open_chat(struct chat **out, const char *template);

/* Send a request and return the socket on which its answer comes. HEADS are lines that end in CR LF. */
int demo_send(const char *request, size_t n);
int demo_post(const char *path, const char *heads, const char *body);

/* What comes on FD until its end, which is closed then; valid until the next call. */
const char *demo_answer(int fd);
int demo_status(const char *answer); /* 0: nothing came */

void demo_await_silence(void); /* until no request and no connection is left */

/* Runs TESTS, after which the heap has to be empty. The program's exit status. */
#define demo_run(tests) demo_check_heap(cmocka_run_group_tests(tests, NULL, NULL))
int demo_check_heap(int failed);

#endif
