/* clock.h - monotonic time, and processor time of a thread. */
#ifndef GALLOP_BASE_CLOCK_H
#define GALLOP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns nanoseconds since an arbitrary point; never decreases. */
static inline uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns nanoseconds of processor time that the calling thread has used. Other processes do not count. */
static inline uint64_t clock_thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double clock_seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

/* Converts SECONDS, a time of clock_seconds() (limited to 1e15), for waits with an absolute timeout. */
static inline struct timespec clock_at(double seconds)
{
    double s = seconds < 1e15 ? seconds : 1e15;

    return (struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
}

/* Sleeps for SECONDS, or until a signal comes. */
static inline void clock_sleep(double seconds)
{
    struct timespec t = clock_at(seconds);

    nanosleep(&t, NULL);
}

#endif
