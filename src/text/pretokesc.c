/* pretokesc.c - the escapes that mean the same inside and outside a class, and the writing of literal
 * characters. */
#include "text/pretokesc.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pretokonig.h"
#include "text/pretokprop.h"

int pretokesc_refuse(const struct pretokesc_reader *r, const char *what)
{
    return err_set(r->e, ERR_UNSUPPORTED, "%s at byte %zu of the pattern %.*s is not understood", what,
                   (size_t)(r->p - r->begin), (int)(r->end - r->begin > 300 ? 300 : r->end - r->begin),
                   r->begin);
}

void pretokesc_put(struct buf *b, const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0];

    if (n == 1 && c < 0x20) {
        buf_fmt(b, "\\x{%x}", c);
        return;
    }
    if (n == 1 && !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && c < 0x7f)
        buf_char(b, '\\');
    buf_add(b, s, n);
}

/* Hex digits at *p, at least LO and at most HI of them. */
static bool take_hex(struct pretokesc_reader *r, int lo, int hi, uint32_t *v)
{
    int n = 0;

    for (*v = 0; n < hi && r->p < r->end; n++, r->p++) {
        char c = *r->p;
        if (c >= '0' && c <= '9')
            *v = *v << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            *v = *v << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            break;
    }
    return n >= lo && *v <= 0x10ffff && (*v < 0xd800 || *v > 0xdfff);
}

/* \xHH, \x{...} and \uHHHH; r->p is behind the letter. */
static int read_code(struct pretokesc_reader *r, char letter, struct pretokesc *x)
{
    bool ok;

    if (letter == 'u') {
        ok = take_hex(r, 4, 4, &x->ch);
    } else if (r->p < r->end && *r->p == '{') {
        r->p++;
        ok = take_hex(r, 1, 8, &x->ch) && r->p < r->end && *r->p++ == '}';
    } else {
        ok = take_hex(r, 1, 2, &x->ch) && x->ch < 0x80;
    }
    return ok ? 0 : pretokesc_refuse(r, "the character code");
}

static int read_property(struct pretokesc_reader *r, bool negated, struct pretokesc *x)
{
    const char *name, *close;

    if (r->p == r->end || *r->p != '{')
        return pretokesc_refuse(r, "a property without braces");
    name = r->p + 1;
    close = memchr(name, '}', (size_t)(r->end - name));
    if (!close)
        return pretokesc_refuse(r, "a property without its closing brace");
    if (name < close && *name == '^') {
        negated = !negated;
        name++;
    }
    x->is_set = true;
    x->negated = negated;
    if (!pretokprop_find(name, (size_t)(close - name), x->set, sizeof(x->set)))
        return pretokesc_refuse(r, "the property");
    r->p = close + 1;
    return 0;
}

/* The escape at r->p[0] == '\\', for those that mean the same inside and outside a class. */
int pretokesc_read(struct pretokesc_reader *r, struct pretokesc *x)
{
    static const char plain[] = "tnrfvae", value[] = "\t\n\r\f\v\a\x1b";
    const char *at_plain;
    size_t len;
    char c;

    *x = (struct pretokesc){0};
    if (r->end - r->p < 2)
        return pretokesc_refuse(r, "a backslash at the end");
    c = r->p[1];
    if ((unsigned char)c >= 0x80) {
        x->ch = utf8_decode(r->p + 1, &len);
        r->p += 1 + len;
        return 0;
    }
    r->p += 2;
    at_plain = c ? strchr(plain, c) : NULL;
    if (at_plain) {
        x->ch = (uint32_t)value[at_plain - plain];
        return 0;
    }
    if (c == 'x' || c == 'u')
        return read_code(r, c, x);
    if (c == 'p' || c == 'P')
        return read_property(r, c == 'P', x);
    x->is_set = true;
    x->negated = c >= 'A' && c <= 'Z';
    switch (c) {
    case 's':
    case 'S': strcpy(x->set, PRETOKONIG_SPACE); return 0;
    case 'w':
    case 'W': strcpy(x->set, PRETOKONIG_WORD); return 0;
    case 'd':
    case 'D': strcpy(x->set, "\\p{Nd}"); return 0;
    case 'h':
    case 'H': strcpy(x->set, "0-9a-fA-F"); return 0;
    default: break;
    }
    *x = (struct pretokesc){.ch = (unsigned char)c};
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        r->p -= 2;
        return pretokesc_refuse(r, "the escape");
    }
    return 0;
}
