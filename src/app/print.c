/* print.c - buffers output and remembers the first failure of write(2); prints JSON and the progress bar. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/print.h"
#include "app/save.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json/json_tree.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tok/ids.h"

static struct {
    char held[65536]; /* [n] buffered output */
    size_t n;
    int fault;             /* errno of the first failure on standard output; 0: none */
    struct save *file;     /* file that receives the output; NULL: standard output */
    struct err file_fault; /* the first failure of FILE */
    bool told;             /* a caller of print_flush() has received the error */
    bool lost;             /* memory for a JSON value ran out, so a line of output is missing */
} out;

void print_init(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) /* open() returns FD, the lowest free descriptor */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

/* Waits until a non-blocking descriptor accepts bytes again. */
static bool wait_writable(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

static void write_all(const char *p, size_t n)
{
    if (out.file && !out.file_fault.code)
        save_write(out.file, p, n, &out.file_fault);
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

void print_bytes(const void *bytes, size_t n)
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

/* Returns the number of bytes of the control character at P [n]. Returns 0 for any other character, and for
 * line ends and tabs, which are printed as they are. */
static size_t is_control(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;

    if ((*u < 0x20 && *u != '\n' && *u != '\t') || *u == 0x7f)
        return 1;
    return n > 1 && *u == 0xc2 && u[1] >= 0x80 && u[1] < 0xa0 ? 2 : 0; /* U+0080 to U+009F */
}

void print_foreign(const char *text, size_t n)
{
    bool shown = !out.file && isatty(STDOUT_FILENO);
    size_t kept = 0, len;

    for (size_t i = 0; shown && i < n; i++)
        if ((len = is_control(text + i, n - i)) != 0) {
            print_bytes(text + kept, i - kept);
            print_fmt("\\x%02x", (unsigned char)text[i + len - 1]);
            kept = i + len;
            i = kept - 1;
        }
    print_bytes(text + kept, n - kept);
}

void print_text(const char *text)
{
    print_bytes(text, strlen(text));
}

void print_fmt(const char *fmt, ...)
{
    va_list ap;
    char *big;
    int n;

    for (int pass = 0; pass < 2;
         pass++) { /* pass 0 appends to the buffered bytes; pass 1 writes to the flushed buffer */
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
    print_bytes(big, (size_t)n);
    mem_free(big);
}

/* Returns whether standard output is a pipe whose reading end is closed. poll() detects this without a
 * write. */
static bool nobody_reads(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLERR) != 0;
}

int print_flush(struct err *e)
{
    char why[128];

    write_held();
    if (out.file) {
        if (out.file_fault.code == 0)
            save_flush(out.file, &out.file_fault);
        if (out.file_fault.code && e)
            *e = out.file_fault;
        return out.file_fault.code;
    }
    if (!out.fault && nobody_reads())
        out.fault = EPIPE;
    if (!out.fault)
        return 0;
    out.told = out.told || e != NULL;
    if (print_reader_gone())
        return err_set(e, ERR_CANCELLED, "standard output: the reader is gone");
    return err_set(e, ERR_OS, "standard output: %s", strerror_r(out.fault, why, sizeof(why)));
}

void print_to(struct save *file)
{
    out.file = file;
    out.n = 0;
    out.file_fault = (struct err){0};
}

bool print_reader_gone(void)
{
    return out.fault == EPIPE;
}

/* ---- JSON ---- */

/* Returns the number of bytes of the character at P [n] if JSON strings must escape it, and its code point in
 * *CODE; 0 for other characters. Escaped are U+0085, U+2028 and U+2029, which end a line for some programs, and
 * DEL, which terminals interpret. */
static size_t must_escape(const char *p, size_t n, unsigned *code)
{
    const unsigned char *u = (const unsigned char *)p;

    *code = 0;
    if (*u == 0x7f)
        *code = 0x7f;
    else if (n > 1 && u[0] == 0xc2 && u[1] == 0x85)
        *code = 0x85;
    else if (n > 2 && u[0] == 0xe2 && u[1] == 0x80 && (u[2] == 0xa8 || u[2] == 0xa9))
        *code = 0x2000 | (u[2] & 0x3f);
    return *code == 0 ? 0 : *code == 0x7f ? 1 : *code == 0x85 ? 2 : 3;
}

/* Prints JSON text, and escapes the characters that must_escape() finds. */
static void print_escaped(const char *text, size_t n)
{
    size_t kept = 0, len;
    unsigned code;

    for (size_t i = 0; i < n; i++)
        if ((len = must_escape(text + i, n - i, &code)) != 0) {
            print_bytes(text + kept, i - kept);
            print_fmt("\\u%04x", code);
            kept = i + len;
            i = kept - 1;
        }
    print_bytes(text + kept, n - kept);
}

void print_json_value(const json_t *o)
{
    struct buf text = {.tag = MEM_APP};

    json_tree_put_rounded(&text, o, 9);
    if (text.oom) {
        log_error("a result is missing: there is no memory for it");
        out.lost = true;
    } else {
        print_escaped(text.data, text.len);
    }
    buf_fini(&text);
}

void print_json(json_t *o)
{
    if (!o) { /* json_pack() refuses numbers that are not finite, and text that is not UTF-8 */
        if (!out.lost)
            log_error("a result is missing: a number in it is not finite, or there is no memory for it");
        out.lost = true;
        return;
    }
    print_json_value(o);
    print_text("\n");
    json_decref(o);
}

json_t *print_json_string(const char *text, size_t n)
{
    struct buf clean = {.tag = MEM_APP};
    json_t *string;

    while (n) {
        size_t good = utf8_valid_prefix(text, n), skip = 0;
        bool whole;

        buf_add(&clean, text, good);
        if (good < n) {
            skip = utf8_sequence(text + good, n - good, &whole);
            buf_str(&clean, "\xef\xbf\xbd");
        }
        text += good + skip;
        n -= good + skip;
    }
    string = clean.oom ? NULL : json_stringn(clean.data ? clean.data : "", clean.len);
    buf_fini(&clean);
    return string;
}

json_t *print_json_text(const char *text)
{
    return text ? print_json_string(text, strlen(text)) : json_null();
}

void print_ids(const struct tok_ids *ids)
{
    for (size_t i = 0; i < ids->n; i++)
        print_fmt(i ? ",%d" : "%d", (int)ids->id[i]);
}

json_t *print_json_ids(const struct tok_ids *ids)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ids->n; i++)
        json_array_append_new(list, json_integer(ids->id[i]));
    return list;
}

json_t *print_json_speculation(const struct gallop_speculation *s)
{
    json_t *positions = json_array();

    for (size_t i = 0; i < s->n_positions; i++)
        json_array_append_new(positions, json_integer((json_int_t)s->accepted_per_pos[i]));
    return json_pack("{s:I,s:I,s:I,s:o}", "steps", (json_int_t)s->n_steps, "drafted",
                     (json_int_t)s->n_draft_tokens, "accepted", (json_int_t)s->n_accepted_tokens,
                     "accepted_per_pos", positions);
}

/* ---- standard error ---- */

void print_remark(const char *fmt, ...)
{
    va_list args;

    if (log_level() == LOG_ERROR)
        return;
    va_start(args, fmt);
    fputs("gallop: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- the progress bar ---- */

void print_progress(void *ctx, size_t done, size_t total)
{
    struct print_bar *b = ctx;
    int width = 30, full;

    if (b->start == 0)
        b->start = clock_seconds();
    if (log_level() == LOG_ERROR || !isatty(STDERR_FILENO) || clock_seconds() - b->start < 1 || total == 0)
        return;
    b->shown = true;
    full = (int)((double)width * (double)done / (double)total);
    fprintf(stderr, "\r%s [%.*s%*s] %zu/%zu", b->what, full, "##############################", width - full,
            "", done, total);
    fflush(stderr);
}

void print_bar_end(struct print_bar *b)
{
    if (b->shown)
        fputs("\r\033[K", stderr);
    b->shown = false;
}

bool print_next_event(struct print_bar *bar, struct gallop *engine, uint64_t n_before, size_t n_prompt,
                      struct gallop_event *ev)
{
    struct gallop_stats stats;

    while (!gallop_take(engine, ev)) {
        uint64_t n;

        if (!gallop_step(engine, 0))
            return false;
        gallop_stats(engine, &stats);
        n = stats.n_prompt_tokens + stats.n_cached_tokens;
        if (n < n_before + n_prompt)
            print_progress(bar, (size_t)(n - n_before), n_prompt);
    }
    print_bar_end(bar);
    return true;
}

/* ---- the end ---- */

int print_finish(int status)
{
    struct err e = {0};
    bool told = out.told;

    if (fflush(stdout) != 0 || ferror(stdout)) /* libedit prints to stdout */
        out.fault = out.fault ? out.fault : errno;
    write_held();
    if (!out.fault && close(STDOUT_FILENO) != 0 &&
        errno != EBADF) /* some file systems report write errors only at close() */
        out.fault = errno;
    if (!out.fault)
        return out.lost && !status ? 1 : status;
    if (!told && !print_reader_gone()) {
        print_flush(&e);
        log_error("%s", e.msg);
    }
    return status ? status : 1;
}
