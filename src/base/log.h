/* log.h - lines for the operator on stderr: "gallop: ...", "gallop: warning: ...". Never called inside a
 * step. The level is the only global state of the library that changes.
 */
#ifndef GALLOP_BASE_LOG_H
#define GALLOP_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level); /* default LOG_WARN */
enum log_level log_level(void);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
