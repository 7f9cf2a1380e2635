/* log.c - one write(2) a line, so that lines of several threads do not mix. */
#include "base/err.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/utf8.h"

static atomic_int level = LOG_WARN;

void log_set_level(enum log_level l)
{
    atomic_store(&level, (int)l);
}

enum log_level log_level(void)
{
    return (enum log_level)atomic_load(&level);
}

static void line(enum log_level l, const char *word, const char *fmt, va_list ap)
{
    char text[2048];
    int head, n;

    if ((int)l > atomic_load(&level))
        return;
    head = snprintf(text, sizeof(text), "gallop: %s", word);
    n = vsnprintf(text + head, sizeof(text) - (size_t)head - 1, fmt, ap);
    if (n < 0)
        return;
    n = head + n < (int)sizeof(text) - 2 ? head + n : (int)sizeof(text) - 2;
    text[n] = 0;
    n = (int)utf8_printable(text);
    text[n] = '\n';
    if (write(STDERR_FILENO, text, (size_t)n + 1) < 0)
        return; /* nowhere left to say so */
}

#define LOG_FUNCTION(name, lvl, word) \
    void name(const char *fmt, ...)   \
    {                                 \
        va_list ap;                   \
        va_start(ap, fmt);            \
        line(lvl, word, fmt, ap);     \
        va_end(ap);                   \
    }

LOG_FUNCTION(log_error, LOG_ERROR, "")
LOG_FUNCTION(log_warn, LOG_WARN, "warning: ")
LOG_FUNCTION(log_info, LOG_INFO, "")
