/* log.h - lines for the operator, on stderr.
 *
 * A line is "gallop: ...", "gallop: warning: ...", the same behind the time (UTC), or an object of JSON. Each line
 * is one write() of at most 4096 bytes: control characters are escaped or replaced, and what is longer is cut.
 * Nothing is logged inside a step. Level and format are the only global state of the library that changes.
 */
#ifndef GALLOP_BASE_LOG_H
#define GALLOP_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO };
enum log_format { LOG_TEXT, LOG_JSON, LOG_TIMED }; /* LOG_TIMED: text that begins with the time */

/* A member of a JSON line beside time, level and message. */
struct log_field {
    const char *name; /* letters and '_' */
    const char *text; /* of which the first 255 bytes are written; NULL: the field is a number */
    double number;    /* finite */
    int digits;       /* of the number, after the decimal point */
};

void log_set_level(enum log_level level);    /* default LOG_WARN */
void log_set_format(enum log_format format); /* default LOG_TEXT */
enum log_level log_level(void);
/* True: lines that would block, because a pipe on stderr is full, are dropped and counted; the next line that is
 * written says how many are missing. False, the default: a line waits until it is written. */
void log_set_dropping(bool on);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line whose message says for people what FIELD [n] says for programs. */
void log_fields(enum log_level level, const struct log_field *field, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
