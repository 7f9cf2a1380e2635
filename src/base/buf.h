/* buf.h - a growing run of bytes, and a writer of JSON into it.
 *
 * Running out of memory is sticky: appends become no-ops and `oom` stays set, so a writer checks it once when
 * it is done. A buffer belongs to one thread at a time.
 */
#ifndef GALLOP_BASE_BUF_H
#define GALLOP_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct buf {
    char *data;      /* [len], then a zero byte; NULL while the buffer is empty */
    size_t len, cap; /* LEN does not count the zero byte */
    enum mem_tag tag;
    bool oom;
};

void buf_init(struct buf *b, enum mem_tag tag);

/* Reserves memory for the next N bytes. False: out of memory, and `oom` is set. */
bool buf_reserve(struct buf *b, size_t n);

void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Empties the buffer, keeps its memory and resets `oom`. */
void buf_clear(struct buf *b);

/* Frees the memory. A zeroed buffer is fine. */
void buf_fini(struct buf *b);

/* ---- JSON: each function writes a comma first where the bytes so far end a value ---- */

void buf_json_begin(struct buf *b, char bracket); /* '{' or '[' */
void buf_json_end(struct buf *b, char bracket);   /* '}' or ']' */
void buf_json_key(struct buf *b, const char *key);
void buf_json_int(struct buf *b, int64_t v);

/* Writes V, which is finite, with a point or an exponent, and with as many digits as reading it back exactly
 * needs. */
void buf_json_real(struct buf *b, double v);
void buf_json_float(struct buf *b, float v);

void buf_json_bool(struct buf *b, bool v);
void buf_json_null(struct buf *b);

/* Writes the N bytes at S as a JSON string literal with quotes. Escapes what JSON requires and the line ends U+0085,
 * U+2028 and U+2029, copies other UTF-8 unchanged, and writes U+FFFD for each maximal ill-formed sequence:
 * the result is always valid JSON on one line. */
void buf_json_str(struct buf *b, const char *s, size_t n);

#endif
