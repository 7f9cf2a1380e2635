/* engine_thread.h - the loop of a thread that owns an engine: it computes a step whenever there is something to
 * compute, lets its user take the events, and sleeps otherwise. The server (api/event_ring.h) and the Python package
 * (python/native/runner.h) run their engines with it.
 */
#ifndef GALLOP_ENGINE_ENGINE_THREAD_H
#define GALLOP_ENGINE_ENGINE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gallop;

struct engine_thread {
    struct gallop *g;
    bool (*begin)(void *ctx);   /* is called before each step, and may wait; false ends the loop */
    void (*collect)(void *ctx); /* is called after each step, and takes all events */
    void *ctx;
    _Atomic uint64_t step_ns; /* clock in nanoseconds at which the current step began; 0: no step runs */
};

/* Runs the loop on the calling thread, which alone may run the engine, until t->begin() returns false. An engine
 * without requests sleeps: after engine_wake() the loop calls t->begin() again. */
void engine_thread_run(struct engine_thread *t);

/* Returns the time of clock_ns() at which the current step began; 0: no step runs. Any thread may call it. */
uint64_t engine_thread_step_ns(const struct engine_thread *t);

#endif
