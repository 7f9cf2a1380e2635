/* out.c - a buffer in front of write(2), and the first failure. */
#include "app/out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/output.h"
#include "base/err.h"
#include "base/mem.h"

static struct {
    char held[65536];
    size_t n;
    int fault; /* errno of the first failure, 0: none */
    struct output *file;
    struct err file_fault;
    bool told; /* a caller of out_flush() has the sentence */
} out;

void out_init(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) /* open() takes the lowest that is free */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

/* Waits until a descriptor that must not block takes bytes again. */
static bool wait_writable(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

static void write_all(const char *p, size_t n)
{
    if (out.file && !out.file_fault.code)
        output_write(out.file, p, n, &out.file_fault);
    while (n && !out.fault && !out.file) {
        ssize_t done = write(STDOUT_FILENO, p, n);

        if (done >= 0) {
            p += done;
            n -= (size_t)done;
        } else if (errno != EINTR && !(errno == EAGAIN && wait_writable())) {
            out.fault = errno;
        }
    }
}

static void write_held(void)
{
    write_all(out.held, out.n);
    out.n = 0;
}

void out_bytes(const void *bytes, size_t n)
{
    if (n > sizeof(out.held) - out.n)
        write_held();
    if (n > sizeof(out.held)) {
        write_all(bytes, n);
    } else if (n) {
        memcpy(out.held + out.n, bytes, n);
        out.n += n;
    }
}

void out_text(const char *text)
{
    out_bytes(text, strlen(text));
}

void out_fmt(const char *fmt, ...)
{
    va_list ap;
    char *big;
    int n;

    for (int pass = 0; pass < 2; pass++) { /* into what is free, else into all of it */
        va_start(ap, fmt);
        n = vsnprintf(out.held + out.n, sizeof(out.held) - out.n, fmt, ap);
        va_end(ap);
        ASSERT(n >= 0, "format %s", fmt);
        if ((size_t)n < sizeof(out.held) - out.n) {
            out.n += (size_t)n;
            return;
        }
        write_held();
    }
    if (!(big = mem_alloc((size_t)n + 1, MEM_APP))) {
        out.fault = out.fault ? out.fault : ENOMEM;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(big, (size_t)n + 1, fmt, ap);
    va_end(ap);
    out_bytes(big, (size_t)n);
    mem_free(big);
}

/* A pipe whose other end is closed says so without being written to. */
static bool nobody_reads(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLERR) != 0;
}

int out_flush(struct err *e)
{
    char why[128];

    write_held();
    if (out.file) {
        if (out.file_fault.code == 0)
            output_flush(out.file, &out.file_fault);
        if (out.file_fault.code && e)
            *e = out.file_fault;
        return out.file_fault.code;
    }
    if (!out.fault && nobody_reads())
        out.fault = EPIPE;
    if (!out.fault)
        return 0;
    out.told = out.told || e != NULL;
    if (out_reader_gone())
        return err_set(e, ERR_CANCELLED, "standard output: nobody reads it any more");
    return err_set(e, ERR_OS, "standard output: %s", strerror_r(out.fault, why, sizeof(why)));
}

void out_to(struct output *file)
{
    out.file = file;
    out.n = 0;
    out.file_fault = (struct err){0};
}

bool out_reader_gone(void)
{
    return out.fault == EPIPE;
}

int out_finish(int status)
{
    struct err e = {0};
    bool told = out.told;

    if (fflush(stdout) != 0 || ferror(stdout)) /* libedit's */
        out.fault = out.fault ? out.fault : errno;
    write_held();
    if (!out.fault && close(STDOUT_FILENO) != 0 && errno != EBADF) /* some file systems fail only here */
        out.fault = errno;
    if (!out.fault)
        return status;
    if (!told && !out_reader_gone()) {
        out_flush(&e);
        log_error("%s", e.msg);
    }
    return status ? status : 1;
}
