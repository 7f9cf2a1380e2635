/* buf.h - a growing byte buffer, and functions that append JSON to it.
 *
 * If memory runs out, `oom` is set and later appends do nothing, so that a writer checks `oom` once at the
 * end. One thread at a time may use a buffer.
 */
#ifndef GALLOP_BASE_BUF_H
#define GALLOP_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct buf {
    char *data;      /* [len], then a zero byte; NULL while the buffer is empty */
    size_t len, cap; /* LEN excludes the zero byte */
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

/* Frees the memory. B may be zeroed. */
void buf_fini(struct buf *b);

/* ---- JSON: each function first appends a comma if the buffer ends with a value ---- */

void buf_json_begin(struct buf *b, char bracket); /* '{' or '[' */
void buf_json_end(struct buf *b, char bracket);   /* '}' or ']' */
void buf_json_key(struct buf *b, const char *key);
void buf_json_int(struct buf *b, int64_t v);

/* Appends the finite number V with a point or an exponent, and with enough digits to parse to exactly V. */
void buf_json_real(struct buf *b, double v);
void buf_json_float(struct buf *b, float v);

void buf_json_bool(struct buf *b, bool v);
void buf_json_null(struct buf *b);

/* Appends S [n] as a JSON string with quotes, which is always valid JSON on one line. The function escapes
 * the characters that JSON requires and the line ends U+0085, U+2028 and U+2029, writes U+FFFD for each
 * maximal ill-formed sequence, and copies other UTF-8. */
void buf_json_str(struct buf *b, const char *s, size_t n);

#endif
