/* crash.h - reports a crash on standard error before the program ends. */
#ifndef GALLOP_APP_CRASH_H
#define GALLOP_APP_CRASH_H

#include <stddef.h>
#include <stdint.h>

/* A line of the report, which is composed before it is written. */
struct crash_line {
    char text[480];
    size_t n;
};

/* Makes SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL on any thread write a report to standard error: signal, address,
 * thread, version, the lines of DESCRIBE, and the call stack. (An overflow of the stack is reported on the main thread
 * only.) Then they end the program as they do by default. A signal that already has a handler, such as a sanitizer's,
 * keeps this handler. DESCRIBE writes lines with the functions below, and may call only async-signal-safe functions;
 * NULL: no lines are added. */
void crash_watch(void (*describe)(void));

/* Appends S to L; bytes that are not printable ASCII become '?'. */
void crash_put(struct crash_line *l, const char *s);

/* Appends X to L, in decimal (BASE 10) or as 0x and hexadecimal digits (BASE 16). */
void crash_put_number(struct crash_line *l, uint64_t x, unsigned base);

/* Writes "gallop: crash: " and L to standard error. */
void crash_end(struct crash_line *l);

#endif
