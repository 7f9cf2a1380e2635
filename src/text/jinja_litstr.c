/* jinja_litstr.c - escapes of Python's unicode-escape codec; an unknown one stays as it is written. */
#include "text/jinja_litstr.h"

#include <ctype.h>
#include <string.h>

#include "text/jinja_str.h"

struct lit {
    struct jbuf out;
    const char *p, *end;
};

static void put_code(struct lit *l, uint32_t c)
{
    if (c > 0x10ffff)
        jinja_run_fail(l->out.r, "illegal Unicode character");
    else if (c >= 0xd800 && c < 0xe000)
        jinja_run_fail(l->out.r, "half of a surrogate pair (\\u%04x) is no character", c);
    else
        jinja_str_putu(&l->out, c);
}

static void put_hex(struct lit *l, int digits, char kind)
{
    uint32_t c = 0;

    for (int i = 0; i < digits; i++, l->p++) {
        if (l->p == l->end || !isxdigit((unsigned char)*l->p)) {
            jinja_run_fail(l->out.r, "truncated \\%c escape", kind);
            return;
        }
        c = c << 4 | (uint32_t)(isdigit((unsigned char)*l->p) ? *l->p - '0' : (*l->p | 32) - 'a' + 10);
    }
    put_code(l, c);
}

static void put_octal(struct lit *l)
{
    uint32_t c = 0;

    for (int i = 0; i < 3 && l->p < l->end && *l->p >= '0' && *l->p < '8'; i++)
        c = c << 3 | (uint32_t)(*l->p++ - '0');
    put_code(l, c);
}

/* What a backslash before a character beyond ASCII comes to in Jinja: it spells that character's escape. */
static void put_spelled(struct lit *l)
{
    uint32_t c = jinja_str_char(l->p);

    l->p += jinja_str_step(l->p);
    if (c < 0x100)
        jinja_str_putf(&l->out, "\\x%02x", c);
    else if (c < 0x10000)
        jinja_str_putf(&l->out, "\\u%04x", c);
    else
        jinja_str_putf(&l->out, "\\U%08x", c);
}

static void put_escape(struct lit *l)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    unsigned char c = (unsigned char)*l->p;
    const char *known = c ? strchr(from, c) : NULL;

    if (c >= 0x80) {
        put_spelled(l);
        return;
    }
    if (c >= '0' && c < '8') {
        put_octal(l);
        return;
    }
    l->p++;
    if (known) {
        jinja_str_putc(&l->out, to[known - from]);
        return;
    }
    switch (c) {
    case '\n': break;
    case 'x': put_hex(l, 2, 'x'); break;
    case 'u': put_hex(l, 4, 'u'); break;
    case 'U': put_hex(l, 8, 'U'); break;
    case 'N': jinja_run_fail(l->out.r, "the escape \\N{...} is not offered"); break;
    default: jinja_str_putc(&l->out, '\\'); jinja_str_putc(&l->out, (char)c);
    }
}

struct jv jinja_litstr_read(struct jrun *r, const char *p, size_t n)
{
    struct lit l = {.out = {.r = r}, .p = p, .end = p + n};
    struct jv v;

    while (l.p < l.end && !r->rc) {
        const char *stop = memchr(l.p, '\\', (size_t)(l.end - l.p));

        if (!stop)
            stop = l.end;
        jinja_str_put(&l.out, l.p, (size_t)(stop - l.p));
        l.p = stop;
        if (l.p < l.end && ++l.p < l.end)
            put_escape(&l);
    }
    v = jinja_str_done(&l.out);
    if (jv_is(v, JV_STR))
        jinja_str_chars(v.u.str);
    return v;
}
