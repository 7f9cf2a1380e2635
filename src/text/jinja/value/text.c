/* text.c - builds strings. */
#include "text/jinja/value/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/value/origin.h"
#include "text/jinja/value/rendering.h"

static bool make_room(struct text *t, size_t n)
{
    size_t room = t->room * 2;
    char *grown;

    if (t->r->rc)
        return false;
    if (t->most && n > t->most - t->size) {
        jinja_fail(t->r, "the rendered text exceeds the limit of %zu bytes", t->most);
        return false;
    }
    if (n <= t->room - t->size)
        return true;
    if (n > UINT32_MAX - t->size) {
        jinja_fail(t->r, "the template exceeds the limit of %zu bytes of memory", t->r->limit.bytes);
        return false;
    }
    room = room < t->size + n ? t->size + n : room;
    room = room < 64 ? 64 : room;
    grown = jinja_allocate_text(t->r, room);
    if (!grown)
        return false;
    jinja_copy(t->r, grown, t->bytes, t->size, 0);
    t->bytes = grown;
    t->room = room;
    return true;
}

void jinja_put(struct text *t, const char *bytes, size_t n)
{
    if (!make_room(t, n) || n == 0 || (n >= 64 && !jinja_step(t->r, n / 64)))
        return;
    jinja_copy(t->r, t->bytes + t->size, bytes, n, t->origin);
    t->size += n;
}

void jinja_put_literal(struct text *t, const char *s)
{
    jinja_put(t, s, strlen(s));
}

void jinja_put_byte(struct text *t, char c)
{
    jinja_put(t, &c, 1);
}

void jinja_put_character(struct text *t, uint32_t c)
{
    char bytes[4];

    jinja_put(t, bytes, utf8_encode(c, bytes));
}

void jinja_put_format(struct text *t, const char *format, ...)
{
    char bytes[200];
    va_list ap;

    va_start(ap, format);
    vsnprintf(bytes, sizeof(bytes), format, ap);
    va_end(ap);
    jinja_put_literal(t, bytes);
}

void jinja_put_times(struct text *t, struct value s, size_t times)
{
    size_t n;

    if (s.size == 0 || times == 0)
        return;
    if (__builtin_mul_overflow(s.size, times, &n))
        n = SIZE_MAX / 2;
    if (!make_room(t, n) || !jinja_step(t->r, n / 64 + times / 4))
        return;
    for (size_t i = 0; i < times; i++)
        jinja_copy(t->r, t->bytes + t->size + i * s.size, s.bytes, s.size, 0);
    t->size += n;
}

struct value jinja_finish(struct text *t)
{
    return t->r->rc ? value_empty : jinja_string(t->bytes ? t->bytes : "", t->size);
}

const char *jinja_finish_terminated(struct text *t)
{
    jinja_put_byte(t, 0);
    return t->r->rc ? "?" : t->bytes;
}

/* A joined string is allocated with unused room after its end. If A is such a string and its room is still free, B is
 * copied there, so that a text that grows by many joins is not copied each time. */
struct value jinja_join(struct rendering *r, struct value a, struct value b)
{
    size_t n = (size_t)a.size + b.size, room;
    struct rendering_tail *tail;
    char *grown;

    if (a.size == 0 || b.size == 0) {
        a = a.size ? a : b;
        a.mark = VALUE_PLAIN;
        return a;
    }
    if (n > UINT32_MAX)
        jinja_fail(r, "a string has %zu bytes; the maximum is 4294967295", n);
    if (!jinja_step(r, b.size / 64))
        return value_empty;
    for (tail = r->tails; tail < r->tails + RENDERING_TAILS; tail++)
        if (tail->end == a.bytes + a.size && tail->room >= b.size) {
            jinja_copy(r, tail->end, b.bytes, b.size, 0);
            tail->end += b.size;
            tail->room -= b.size;
            return jinja_string(a.bytes, n);
        }
    room = n < 256 ? n : 2 * n;
    grown = jinja_allocate_text(r, room);
    if (!grown)
        return value_empty;
    jinja_copy(r, grown, a.bytes, a.size, 0);
    jinja_copy(r, grown + a.size, b.bytes, b.size, 0);
    if (room > n)
        r->tails[r->next_tail++ % RENDERING_TAILS] = (struct rendering_tail){grown + n, room - n};
    return jinja_string(grown, n);
}
