/* log.c - formats each line and writes it with one write(2), so that lines of several threads do not mix. On
 * a pipe that several programs share, writes of up to PIPE_BUF bytes are atomic.
 *
 * Nothing is allocated, so that a lack of memory can be logged. Text that does not fit into a line is
 * truncated. A truncated JSON line is still an object, because its message comes last.
 */
#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/utf8.h"

enum { LINE_BYTES = PIPE_BUF, MESSAGE_BYTES = 2048, FIELD_BYTES = 512, TAIL_BYTES = 4 };

struct line {
    char text[LINE_BYTES];
    size_t n;
};

static atomic_int level = LOG_WARN, format = LOG_TEXT;
static atomic_bool drops;

void log_set_level(enum log_level l)
{
    atomic_store(&level, (int)l);
}

enum log_level log_level(void)
{
    return (enum log_level)atomic_load(&level);
}

void log_set_format(enum log_format f)
{
    atomic_store(&format, (int)f);
}

void log_set_dropping(bool on)
{
    atomic_store(&drops, on);
}

/* ---- a line ---- */

/* Returns whether N more bytes fit before the TAIL_BYTES reserved for the end of the line. */
static bool has_room(const struct line *l, size_t n)
{
    return n <= LINE_BYTES - TAIL_BYTES - l->n;
}

static void log_put(struct line *l, const char *s, size_t n)
{
    if (!has_room(l, n))
        return;
    memcpy(l->text + l->n, s, n);
    l->n += n;
}

static void put_word(struct line *l, const char *s)
{
    log_put(l, s, strlen(s));
}

/* Appends S with escaped line ends and tabs; S has no other control characters. QUOTED: as a JSON string. */
static void put_escaped(struct line *l, const char *s, bool quoted)
{
    size_t n;
    bool good;

    if (quoted)
        log_put(l, "\"", 1);
    for (; *s; s += n) {
        n = utf8_sequence(s, strnlen(s, 4), &good);
        if (!has_room(l, n + 1)) /* an escape needs one byte more */
            break;
        if (*s == '\n')
            log_put(l, "\\n", 2);
        else if (*s == '\t')
            log_put(l, "\\t", 2);
        else if (quoted && (*s == '"' || *s == '\\'))
            log_put(l, (char[]){'\\', *s}, 2);
        else
            log_put(l, s, n);
    }
    if (quoted)
        l->text[l->n++] = '"';
}

static void put_field(struct line *l, const struct log_field *f)
{
    char text[FIELD_BYTES];

    if (!has_room(l, 2 * FIELD_BYTES)) /* keeps room for the message */
        return;
    log_put(l, ",\"", 2);
    put_word(l, f->name);
    log_put(l, "\":", 2);
    snprintf(text, sizeof(text) / 2, "%s", f->text ? f->text : "");
    utf8_printable(text);
    if (f->text) {
        put_escaped(l, text, true);
    } else {
        snprintf(text, sizeof(text), "%.*f", f->digits, f->number);
        put_word(l, text);
    }
}

/* Appends the time like 2026-01-31T12:00:00.000Z. */
static void put_time(struct line *l)
{
    struct timespec now;
    struct tm tm;
    char text[80];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(now.tv_nsec / 1000000));
    put_word(l, text);
}

/* Appends {"time":"2026-01-31T12:00:00.000Z","level":"info", fields, "message": ...}. */
static void put_json(struct line *l, enum log_level at, const struct log_field *field, size_t n,
                     const char *message)
{
    static const char *const levels[] = {[LOG_ERROR] = "error", [LOG_WARN] = "warning", [LOG_INFO] = "info"};

    put_word(l, "{\"time\":\"");
    put_time(l);
    put_word(l, "\",\"level\":\"");
    put_word(l, levels[at]);
    log_put(l, "\"", 1);
    for (size_t i = 0; i < n; i++)
        put_field(l, &field[i]);
    put_word(l, ",\"message\":");
    put_escaped(l, message, true);
    l->text[l->n++] = '}';
}

static void make_line(struct line *l, enum log_level at, const struct log_field *field, size_t n,
                      const char *message)
{
    static const char *const words[] = {[LOG_ERROR] = "", [LOG_WARN] = "warning: ", [LOG_INFO] = ""};

    if (atomic_load(&format) == LOG_JSON) {
        put_json(l, at, field, n, message);
    } else {
        if (atomic_load(&format) == LOG_TIMED) {
            put_time(l);
            put_word(l, " ");
        }
        put_word(l, "gallop: ");
        put_word(l, words[at]);
        put_escaped(l, message, false);
    }
    l->text[l->n++] = '\n';
}

/* ---- writing ---- */

static void write_line(const struct line *l)
{
    if (write(STDERR_FILENO, l->text, l->n) < 0)
        return; /* an error cannot be reported anywhere */
}

/* Returns whether writing a line would not block. A pipe must have PIPE_BUF free bytes. */
static bool takes_line(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&p, 1, 0) != 0;
}

/* Writes L, or counts it as dropped if writing would block. The lock keeps other threads from filling the
 * pipe between takes_line() and the write. */
static void write_or_drop(const struct line *l)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static size_t n_dropped;
    struct line note = {.n = 0};
    char message[80];

    pthread_mutex_lock(&lock);
    if (n_dropped && takes_line()) {
        snprintf(message, sizeof(message), "standard error was full: %zu log lines are missing here",
                 n_dropped);
        make_line(&note, LOG_WARN, NULL, 0, message);
        write_line(&note);
        n_dropped = 0;
    }
    if (n_dropped == 0 && takes_line())
        write_line(l);
    else
        n_dropped++;
    pthread_mutex_unlock(&lock);
}

static void say(enum log_level at, const struct log_field *field, size_t n, const char *fmt, va_list ap)
{
    char message[MESSAGE_BYTES];
    struct line l = {.n = 0};

    if ((int)at > atomic_load(&level) || vsnprintf(message, sizeof(message), fmt, ap) < 0)
        return;
    utf8_printable(message);
    make_line(&l, at, field, n, message);
    if (atomic_load(&drops))
        write_or_drop(&l);
    else
        write_line(&l);
}

#define LOG_FUNCTION(name, at)      \
    void name(const char *fmt, ...) \
    {                               \
        va_list ap;                 \
        va_start(ap, fmt);          \
        say(at, NULL, 0, fmt, ap);  \
        va_end(ap);                 \
    }

LOG_FUNCTION(log_error, LOG_ERROR)
LOG_FUNCTION(log_warn, LOG_WARN)
LOG_FUNCTION(log_info, LOG_INFO)

void log_fields(enum log_level at, const struct log_field *field, size_t n, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(at, field, n, fmt, ap);
    va_end(ap);
}
