/* crash.h - the report of a crash before it ends the program. */
#ifndef GALLOP_APP_CRASH_H
#define GALLOP_APP_CRASH_H

#include <stddef.h>
#include <stdint.h>

struct crash_line {
    char text[480];
    size_t n;
};

/* From now on SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL on any thread write a report to standard error: signal,
 * address, thread, version, the lines of DESCRIBE, and the call stack. (An overflow of the stack is reported on the
 * main thread only.) Then they end the program as they do by default. Signals that have a handler already, as that
 * of a sanitizer, are left alone. DESCRIBE writes lines by the functions below and calls only what a signal handler
 * may call; NULL: no further lines. */
void crash_watch(void (*describe)(void));

void crash_put(struct crash_line *l, const char *s); /* bytes that are not printable ASCII become '?' */
void crash_put_number(struct crash_line *l, uint64_t x, unsigned base);
void crash_end(struct crash_line *l);

#endif
