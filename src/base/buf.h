/* buf.h - a growing run of bytes. Running out of memory is sticky: appends become no-ops and `oom` stays set,
 * so a writer checks once at its end. data is terminated by a zero byte that len does not count (NULL while
 * empty).
 */
#ifndef GALLOP_BASE_BUF_H
#define GALLOP_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct buf {
    char *data;
    size_t len, cap;
    enum mem_tag tag;
    bool oom;
};

void buf_init(struct buf *b, enum mem_tag tag);
bool buf_reserve(struct buf *b,
                 size_t n); /* the next N bytes need no memory; false, and oom: out of memory */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b); /* keeps the memory; forgets oom */
void buf_fini(struct buf *b);  /* a zeroed buf is fine */

/* The bytes as a JSON string literal with quotes: escapes what JSON must and the line ends U+0085, U+2028
 * and U+2029, keeps other UTF-8 as it is, and writes U+FFFD for each maximal ill-formed sequence, so that
 * what comes out is always valid JSON on one line. */
void buf_json_str(struct buf *b, const char *s, size_t n);

#endif
