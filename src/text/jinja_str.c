/* jinja_str.c - strings and string buffers in the arena of a rendering. */
#include "text/jinja_str.h"

#include <stdarg.h>
#include <stdio.h>

/* Every byte that continues a character has bit 7 set and bit 6 clear: eight of them are counted at a time.
 * */
size_t jinja_str_count(const char *p, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t continued = 0, i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t w;

        memcpy(&w, p + i, sizeof(w));
        continued += (size_t)(((w >> 7 & ~(w >> 6) & ones) * ones) >> 56);
    }
    for (; i < n; i++)
        continued += ((unsigned char)p[i] & 0xc0) == 0x80;
    return n - continued;
}

/* The string that everything comes to once an error is set: callers may look into it, nobody writes to it. */
static struct jv no_str(void)
{
    static const struct jstr empty = {.p = ""};
    struct jv v = jv_of(JV_STR);

    v.u.str = &empty;
    return v;
}

struct jv jinja_str_ref(struct jrun *r, const char *p, size_t n)
{
    struct jv v = jv_of(JV_STR);
    struct jstr *s = jinja_run_alloc(r, sizeof(*s));

    if (!s)
        return no_str();
    *s = (struct jstr){.p = p, .n = n, .chars = SIZE_MAX};
    v.u.str = s;
    return v;
}

struct jv jinja_str_new(struct jrun *r, const char *p, size_t n)
{
    char *copy = jinja_run_alloc(r, n);

    if (!copy)
        return no_str();
    if (n)
        memcpy(copy, p, n);
    return jinja_str_ref(r, copy, n);
}

struct jv jinja_str_lit(struct jrun *r, const char *literal)
{
    return jinja_str_ref(r, literal, strlen(literal));
}

struct jv jinja_str_const(struct jstr *s, const char *p, size_t n)
{
    struct jv v = jv_of(JV_STR);

    *s = (struct jstr){.p = p, .n = n, .chars = jinja_str_count(p, n)};
    v.u.str = s;
    return v;
}

struct jv jinja_str_sub(struct jrun *r, struct jv v, size_t from, size_t to)
{
    struct jv out;

    if (from == 0 && to == v.u.str->n)
        return v;
    out = jinja_str_ref(r, v.u.str->p + from, to - from);
    out.flags = v.flags;
    return out;
}

/* Copies A and B into fresh room that can still grow by as much again. */
static struct jv concat_with_room(struct jrun *r, const struct jstr *a, const struct jstr *b, size_t n)
{
    struct jroom *room = jinja_run_alloc(r, n > SIZE_MAX / 4 ? SIZE_MAX : sizeof(*room) + 2 * n);
    struct jstr *s = jinja_run_alloc(r, sizeof(*s));
    struct jv v = jv_of(JV_STR);

    if (!room || !s)
        return no_str();
    memcpy(room->bytes, a->p, a->n);
    memcpy(room->bytes + a->n, b->p, b->n);
    room->used = n;
    room->cap = 2 * n;
    *s = (struct jstr){.p = room->bytes, .n = n, .chars = SIZE_MAX, .room = room};
    v.u.str = s;
    return v;
}

struct jv jinja_str_concat(struct jrun *r, struct jv va, struct jv vb)
{
    const struct jstr *a = va.u.str, *b = vb.u.str;
    struct jroom *room = a->room;
    struct jv v;
    char *p;
    size_t n;

    if (__builtin_add_overflow(a->n, b->n, &n))
        n = SIZE_MAX;
    if (room && room->used == a->n && room->cap - room->used >= b->n) {
        if (!jinja_run_step(r, b->n / 64))
            return no_str();
        memcpy(room->bytes + a->n, b->p, b->n);
        v = jinja_str_ref(r, room->bytes, n);
        if (!r->rc) {
            room->used = n;
            ((struct jstr *)(uintptr_t)v.u.str)->room = room;
        }
        return v;
    }
    if (n >= 256)
        return concat_with_room(r, a, b, n);
    p = jinja_run_alloc(r, n);
    if (!p)
        return no_str();
    if (a->n)
        memcpy(p, a->p, a->n);
    if (b->n)
        memcpy(p + a->n, b->p, b->n);
    return jinja_str_ref(r, p, n);
}

size_t jinja_str_chars(const struct jstr *s)
{
    if (s->chars == SIZE_MAX)
        ((struct jstr *)(uintptr_t)s)->chars = jinja_str_count(s->p, s->n);
    return s->chars;
}

size_t jinja_str_offset(const struct jstr *s, size_t i)
{
    size_t n = jinja_str_chars(s), at = 0;

    if (n == s->n)
        return i;
    if (i >= n)
        return s->n;
    while (i--)
        at += jinja_str_step(s->p + at);
    return at;
}

size_t jinja_str_find(const char *p, size_t n, const char *q, size_t m)
{
    const char *hit;

    if (m == 0)
        return 0;
    if (m > n)
        return SIZE_MAX;
    hit = memmem(p, n, q, m);
    return hit ? (size_t)(hit - p) : SIZE_MAX;
}

size_t jinja_str_rfind(struct jrun *r, const char *p, size_t n, const char *q, size_t m)
{
    if (m == 0)
        return n;
    if (m > n || !jinja_run_step(r, n / 16))
        return SIZE_MAX;
    for (size_t i = n - m + 1; i-- > 0;)
        if (p[i] == q[0]) {
            if (memcmp(p + i, q, m) == 0)
                return i;
            if (!jinja_run_step(r, m / 64))
                break;
        }
    return SIZE_MAX;
}

bool jinja_str_is(struct jv v, const char *literal)
{
    return jv_is(v, JV_STR) && v.u.str->n == strlen(literal) && memcmp(v.u.str->p, literal, v.u.str->n) == 0;
}

static bool make_room(struct jbuf *b, size_t n)
{
    size_t need, cap;
    char *p;

    if (b->r->rc)
        return false;
    if (__builtin_add_overflow(b->n, n, &need))
        need = SIZE_MAX;
    if (b->max && need > b->max) {
        jinja_run_fail(b->r, "the text grows over the %zu bytes it may have", b->max);
        return false;
    }
    if (need <= b->cap)
        return true;
    cap = need < 64 ? 64 : need > SIZE_MAX / 2 ? SIZE_MAX : need * 2;
    if (b->max && cap > b->max)
        cap = b->max;
    p = jinja_run_alloc(b->r, cap);
    if (!p)
        return false;
    if (b->n)
        memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = cap;
    return true;
}

void jinja_str_put_slowly(struct jbuf *b, const char *p, size_t n)
{
    if (!make_room(b, n))
        return;
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

void jinja_str_puts(struct jbuf *b, const char *s)
{
    jinja_str_put(b, s, strlen(s));
}

void jinja_str_putc(struct jbuf *b, char c)
{
    jinja_str_put(b, &c, 1);
}

void jinja_str_putu(struct jbuf *b, uint32_t c)
{
    char text[4];

    jinja_str_put(b, text, utf8_encode(c, text));
}

void jinja_str_pad(struct jbuf *b, struct jv fill, size_t times)
{
    size_t bytes, n = fill.u.str->n;

    if (__builtin_mul_overflow(n, times, &bytes))
        bytes = SIZE_MAX;
    if (bytes == 0 || !make_room(b, bytes) || !jinja_run_step(b->r, bytes / 64))
        return;
    if (n == 1)
        memset(b->p + b->n, (unsigned char)fill.u.str->p[0], bytes);
    else
        for (size_t i = 0; i < times; i++)
            memcpy(b->p + b->n + i * n, fill.u.str->p, n);
    b->n += bytes;
}

void jinja_str_putf(struct jbuf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n <= 0 || !make_room(b, (size_t)n + 1))
        return;
    va_start(ap, fmt);
    vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

struct jv jinja_str_done(struct jbuf *b)
{
    return jinja_str_ref(b->r, b->p ? b->p : "", b->n);
}
