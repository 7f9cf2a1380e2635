/* demo.h - a server within the test's process, which answers from the demo model over pairs of sockets: what
 * tests of the whole way of a request share. There is one at a time; what fails, fails the test.
 */
#ifndef GALLOP_TEST_API_DEMO_H
#define GALLOP_TEST_API_DEMO_H

#include "api/api.h"

extern struct demo {
    struct gallop *engine;
    struct api *api;
    struct server *server;
} demo;

/* First the engine, of which N sequences are computed at once (0: as many as by default), then what stands in
 * front of it; the name and the engine in A are set here. Return 0, as set-up functions do. */
int demo_open_engine(int64_t n);
int demo_open(struct api_options a);
int demo_close(void **state);

/* Send a request and return the socket on which its answer comes. HEADS are lines that end in CR LF. */
int demo_send(const char *request, size_t n);
int demo_post(const char *path, const char *heads, const char *body);

/* What comes on FD until its end, which is closed then; valid until the next call. */
const char *demo_answer(int fd);
int demo_status(const char *answer); /* 0: nothing came */

void demo_await_silence(void); /* until no request and no connection is left */

/* Runs TESTS, behind which the heap has to be empty. The program's exit status. */
#define demo_run(tests) demo_check_heap(cmocka_run_group_tests(tests, NULL, NULL))
int demo_check_heap(int failed);

#endif
