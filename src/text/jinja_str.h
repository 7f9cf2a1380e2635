/* jinja_str.h - strings as templates see them: sequences of characters over UTF-8 bytes, immutable, sharing
 * bytes.
 *
 * Always well-formed UTF-8. A substring borrows the bytes of its parent. A string made by concatenation may
 * own room behind its bytes, so that appending to the newest one again and again costs linear time in all.
 * Not here: case and character classes (jinja_case.h), methods (jinja_strm.c).
 */
#ifndef GALLOP_TEXT_JINJA_STR_H
#define GALLOP_TEXT_JINJA_STR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja_val.h"

struct jroom { /* bytes that a growing string may still use */
    size_t used, cap;
    char bytes[];
};

struct jstr {
    const char *p; /* not terminated */
    size_t n;
    size_t chars; /* SIZE_MAX: not counted yet */
    struct jroom *room;
};

/* A string under construction; becomes one with jinja_str_done(). */
struct jbuf {
    struct jrun *r;
    char *p;
    size_t n, cap;
    size_t max; /* most bytes it may hold; 0: as many as memory allows */
};

struct jv jinja_str_new(struct jrun *r, const char *p, size_t n); /* copies */
struct jv jinja_str_ref(struct jrun *r, const char *p,
                        size_t n); /* borrows P for as long as the rendering lasts */
struct jv jinja_str_lit(struct jrun *r, const char *literal);

/* Initialises a constant of the template: counts its characters, so that nobody writes to it later. */
struct jv jinja_str_const(struct jstr *s, const char *p, size_t n);

/* Bytes [FROM, TO) of the string V, with V's flags. */
struct jv jinja_str_sub(struct jrun *r, struct jv v, size_t from, size_t to);

struct jv jinja_str_concat(struct jrun *r, struct jv a, struct jv b); /* plain bytes; no flags */

size_t jinja_str_chars(const struct jstr *s);

/* Byte offset of character I (at most the number of characters). */
size_t jinja_str_offset(const struct jstr *s, size_t i);

/* Number of characters in N bytes. */
size_t jinja_str_count(const char *p, size_t n);

/* Byte offset of the first or last occurrence of M bytes in N, or SIZE_MAX. The last one costs steps. */
size_t jinja_str_find(const char *p, size_t n, const char *q, size_t m);
size_t jinja_str_rfind(struct jrun *r, const char *p, size_t n, const char *q, size_t m);

bool jinja_str_is(struct jv v, const char *literal);

void jinja_str_put_slowly(struct jbuf *b, const char *p, size_t n);
void jinja_str_puts(struct jbuf *b, const char *s);
void jinja_str_putc(struct jbuf *b, char c);
void jinja_str_putu(struct jbuf *b, uint32_t c);                  /* one character */
void jinja_str_pad(struct jbuf *b, struct jv fill, size_t times); /* the string FILL, TIMES over */
void jinja_str_putf(struct jbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct jv jinja_str_done(struct jbuf *b); /* shares the buffer's bytes */

static inline void jinja_str_put(struct jbuf *b, const char *p, size_t n)
{
    if (n == 0)
        return;
    if (n > b->cap - b->n) {
        jinja_str_put_slowly(b, p, n);
        return;
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

/* Number of bytes of the character at P. */
static inline size_t jinja_str_step(const char *p)
{
    unsigned char c = (unsigned char)*p;

    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Number of bytes of the character that ends before P + N (N > 0). */
static inline size_t jinja_str_back(const char *p, size_t n)
{
    size_t k = 1;

    while (k < n && ((unsigned char)p[n - k] & 0xc0) == 0x80)
        k++;
    return k;
}

static inline uint32_t jinja_str_char(const char *p)
{
    size_t len;

    return utf8_decode(p, &len);
}

#endif
