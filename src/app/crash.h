/* crash.h - what is said of a fault before it ends the program. */
#ifndef GALLOP_APP_CRASH_H
#define GALLOP_APP_CRASH_H

#include <stddef.h>
#include <stdint.h>

struct crash_line {
    char text[480];
    size_t n;
};

/* From now on SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL, on any thread (that has run out of its stack: on
 * the main thread only), write a report to standard error
 * (signal, address, thread, version, what DESCRIBE says, the calls that led there), and then end the program
 * as they do by default. One that has a handler, as a sanitizer's, is left alone. DESCRIBE writes lines by
 * the functions below and calls nothing that a signal handler may not; NULL: nothing more. */
void crash_watch(void (*describe)(void));

void crash_put(struct crash_line *l, const char *s); /* '?' for what is no printable ASCII */
void crash_put_number(struct crash_line *l, uint64_t x, unsigned base);
void crash_end(struct crash_line *l);

#endif
