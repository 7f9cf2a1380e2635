/* buf.c - grows buffers by doubling, and appends JSON. */
#include "base/buf.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void buf_init(struct buf *b, enum mem_tag tag)
{
    *b = (struct buf){.tag = tag};
}

bool buf_reserve(struct buf *b, size_t n)
{
    size_t need;

    if (b->oom)
        return false;
    if (__builtin_add_overflow(b->len, n, &need) || __builtin_add_overflow(need, (size_t)1, &need) ||
        !mem_grow((void **)&b->data, &b->cap, need, 1, b->tag)) {
        b->oom = true;
        return false;
    }
    return true;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    if (!buf_reserve(b, n))
        return;
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !buf_reserve(b, (size_t)n))
        return;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->oom = false;
    if (b->data)
        b->data[0] = 0;
}

void buf_fini(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf){.tag = b->tag};
}

/* ---- JSON ---- */

/* Appends a comma if the buffer ends with a value, because another value or a key follows. */
static void json_next(struct buf *b)
{
    if (b->len && (strchr("}]\"", b->data[b->len - 1]) || isalnum((unsigned char)b->data[b->len - 1])))
        buf_char(b, ',');
}

void buf_json_begin(struct buf *b, char bracket)
{
    json_next(b);
    buf_char(b, bracket);
}

void buf_json_end(struct buf *b, char bracket)
{
    buf_char(b, bracket);
}

void buf_json_key(struct buf *b, const char *key)
{
    buf_json_str(b, key, strlen(key));
    buf_char(b, ':');
}

void buf_json_int(struct buf *b, int64_t v)
{
    json_next(b);
    buf_fmt(b, "%" PRId64, v);
}

static void put_real(struct buf *b, double v, int digits)
{
    char text[40], *from, *to;

    snprintf(text, sizeof(text), "%.*g", digits, v);
    if ((from = strchr(text, 'e')) != NULL) { /* 1e-07 becomes 1e-7, 1e+20 becomes 1e20 */
        to = from + (from[1] == '-' ? 2 : 1);
        from += 2 + strspn(from + 2, "0");
        memmove(to, from, strlen(from) + 1);
    }
    json_next(b);
    buf_str(b, text);
    if (!strpbrk(text, ".e"))
        buf_str(b, ".0");
}

void buf_json_real(struct buf *b, double v)
{
    put_real(b, v, 17);
}

void buf_json_float(struct buf *b, float v)
{
    put_real(b, (double)v, 9);
}

void buf_json_bool(struct buf *b, bool v)
{
    json_next(b);
    buf_str(b, v ? "true" : "false");
}

void buf_json_null(struct buf *b)
{
    json_next(b);
    buf_str(b, "null");
}

static void json_escape(struct buf *b, unsigned char c)
{
    switch (c) {
    case '"': buf_str(b, "\\\""); break;
    case '\\': buf_str(b, "\\\\"); break;
    case '\n': buf_str(b, "\\n"); break;
    case '\r': buf_str(b, "\\r"); break;
    case '\t': buf_str(b, "\\t"); break;
    case '\b': buf_str(b, "\\b"); break;
    case '\f': buf_str(b, "\\f"); break;
    default: buf_fmt(b, "\\u%04x", c);
    }
}

/* Returns whether S [n] is U+0085, U+2028 or U+2029. Many programs treat them as line ends, so they are
 * escaped to keep a value on one line. */
static bool ends_line(const char *s, size_t n)
{
    return (n == 2 && memcmp(s, "\xc2\x85", 2) == 0) ||
           (n == 3 && memcmp(s, "\xe2\x80", 2) == 0 && (s[2] == '\xa8' || s[2] == '\xa9'));
}

void buf_json_str(struct buf *b, const char *s, size_t n)
{
    size_t i = 0, kept = 0; /* s[kept, i) needs no escape */

    json_next(b);
    buf_char(b, '"');
    while (i < n) {
        unsigned char c = (unsigned char)s[i];
        size_t step = 1;
        bool good = true;

        if (c >= 0x80)
            step = utf8_sequence(s + i, n - i, &good);
        if (good && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !ends_line(s + i, step)) {
            i += step;
            continue;
        }
        buf_add(b, s + kept, i - kept);
        if (!good)
            buf_str(b, "\xef\xbf\xbd");
        else if (step > 1)
            buf_fmt(b, "\\u%04x", step == 2 ? 0x85u : 0x2000u | ((unsigned char)s[i + 2] & 0x3fu));
        else
            json_escape(b, c);
        i += step;
        kept = i;
    }
    if (kept < n)
        buf_add(b, s + kept, n - kept);
    buf_char(b, '"');
}
