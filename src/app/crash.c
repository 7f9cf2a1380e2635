/* crash.c - writes the report of a crash, using only operations that are safe when the program's state may be
 * damaged.
 *
 * The code runs in a signal handler on any thread. Nothing is allocated or locked, numbers are formatted by
 * hand, and each line is one write(2). The call stack comes last, because reading a damaged stack may fault
 * again, which ends the program at once. */
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "app/crash.h"
#include "engine/engine.h"
#include "gallop.h"

enum { FRAMES = 64, STACK_BYTES = 64 << 10, REPORT_S = 10 };

static const struct {
    int number;
    const char *name;
} watched[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGABRT, "SIGABRT"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}};
enum { N_WATCHED = sizeof(watched) / sizeof(watched[0]) };

static void (*describe)(void);
static atomic_flag reporting = ATOMIC_FLAG_INIT;
static _Atomic pid_t reporter;  /* id of the thread that writes the report */
static char stack[STACK_BYTES]; /* signal stack of the main thread, whose own stack may have overflowed */

/* ---- lines ---- */

void crash_put(struct crash_line *l, const char *s)
{
    while (*s && l->n < sizeof(l->text) - 1) {
        l->text[l->n++] = *s >= 0x20 && *s < 0x7f ? *s : '?';
        s++;
    }
}

void crash_put_number(struct crash_line *l, uint64_t x, unsigned base)
{
    char digits[24] = "";
    size_t n = sizeof(digits) - 1;

    do {
        digits[--n] = "0123456789abcdef"[x % base];
        x /= base;
    } while (x);
    crash_put(l, base == 16 ? "0x" : "");
    crash_put(l, digits + n);
}

void crash_end(struct crash_line *l)
{
    static const char head[] = "gallop: crash: ";
    char text[sizeof(head) + sizeof(l->text)];

    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + sizeof(head) - 1, l->text, l->n);
    text[sizeof(head) - 1 + l->n] = '\n';
    if (write(STDERR_FILENO, text, sizeof(head) + l->n) < 0)
        return; /* standard error cannot be written */
}

/* ---- the report ---- */

static void report(int sig, const siginfo_t *info)
{
    struct crash_line l = {.n = 0};
    const char *name = "?";

    for (int i = 0; i < N_WATCHED; i++)
        name = watched[i].number == sig ? watched[i].name : name;
    crash_put(&l, name);
    if (info->si_code > 0) {
        crash_put(&l, " at ");
        crash_put_number(&l, (uint64_t)(uintptr_t)info->si_addr, 16);
    } else {
        crash_put(&l, " sent by process ");
        crash_put_number(&l, (uint64_t)info->si_pid, 10);
    }
    crash_put(&l, ", thread ");
    crash_put_number(&l, (uint64_t)gettid(), 10);
    crash_put(&l, " of process ");
    crash_put_number(&l, (uint64_t)getpid(), 10);
    crash_put(&l, ", gallop ");
    crash_put(&l, gallop_version());
    crash_end(&l);
}

static void put_calls(void)
{
    struct crash_line l = {.n = 0};
    void *frame[FRAMES];
    int n = backtrace(frame, FRAMES);

    crash_put(&l, "calls, the last first (addr2line -e PROGRAM +OFFSET):");
    crash_end(&l);
    backtrace_symbols_fd(frame, n, STDERR_FILENO);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)context;
    while (atomic_flag_test_and_set(&reporting)) {
        if (reporter == gettid()) { /* the report itself called abort(): SIGABRT is not blocked */
            signal(sig, SIG_DFL);
            raise(sig);
            return;
        }
        pause(); /* another thread writes the report and then ends the program */
    }
    reporter = gettid();
    signal(SIGALRM, SIG_DFL);
    alarm(REPORT_S); /* standard error may be a full pipe without a reader */
    report(sig, info);
    if (describe)
        describe();
    put_calls();
    signal(sig, SIG_DFL);
    raise(sig); /* delivered when the handler returns */
}

void crash_watch(void (*more)(void))
{
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, before;
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
    void *frame[1];

    describe = more;
    backtrace(frame, 1); /* the first call loads a library, which a handler must not do */
    sigaltstack(&own, NULL);
    sigfillset(&ours.sa_mask);
    for (int i = 0; i < N_WATCHED; i++)
        if (sigaction(watched[i].number, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) &&
            before.sa_handler == SIG_DFL)
            sigaction(watched[i].number, &ours, NULL);
}
