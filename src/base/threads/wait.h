/* wait.h - lets compute threads wait for a word that another thread writes: they spin, then sleep on the word. */
#ifndef GALLOP_BASE_THREADS_WAIT_H
#define GALLOP_BASE_THREADS_WAIT_H

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns how often a thread looks at a word before it sleeps: for about 100 us, longer than the time between two
 * steps. CROWDED: there are more threads than processors, and a thread yields instead of spinning. */
static inline int wait_spins(bool crowded)
{
    return crowded ? 64 : 4096;
}

static inline void wait_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void wait_briefly(bool crowded)
{
    if (crowded)
        sched_yield();
    else
        wait_pause();
}

/* Sleeps while *WORD equals SEEN. */
static inline void wait_sleep(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* Wakes all threads that sleep on WORD. */
static inline void wait_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

#endif
