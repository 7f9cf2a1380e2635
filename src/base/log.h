/* log.h - writes log lines for the operator to standard error.
 *
 * A line is "gallop: ..." or "gallop: warning: ...", optionally after the time (UTC), or a JSON object. Each line is
 * one write() of at most 4096 bytes; longer lines are truncated. Control characters are escaped or replaced. Nothing is
 * logged inside a step. Level, format and dropping are the only mutable global state of the library.
 */
#ifndef GALLOP_BASE_LOG_H
#define GALLOP_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO };
enum log_format { LOG_TEXT, LOG_JSON, LOG_TIMED }; /* LOG_TIMED: text that begins with the time */

/* A member of a JSON line in addition to time, level and message. */
struct log_field {
    const char *name; /* letters and '_' */
    const char *text; /* only the first 255 bytes are written; NULL: the field is a number */
    double number;    /* finite */
    int digits;       /* digits of NUMBER after the decimal point */
};

void log_set_level(enum log_level level);    /* default LOG_WARN */
void log_set_format(enum log_format format); /* default LOG_TEXT */
enum log_level log_level(void);
/* True: lines that would block, because standard error is a full pipe, are dropped, and their number is
 * logged when the pipe has room. False, the default: logging blocks. */
void log_set_dropping(bool on);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Logs a line with the fields FIELD [n], which only JSON lines show. The message repeats them for people. */
void log_fields(enum log_level level, const struct log_field *field, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
