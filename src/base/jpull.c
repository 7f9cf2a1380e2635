/* jpull.c - the scanner behind jpull.h. */
#include "base/jpull.h"

#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

int jp_fail(struct jp *j, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (j->rc)
        return j->rc;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    j->rc = err_set(j->e, ERR_INPUT, "%s: at byte %zu: %s", j->path, (size_t)(j->p - j->begin), text);
    j->p = j->end;
    return j->rc;
}

int jp_open(struct jp *j, const char *text, size_t len, const char *path, struct arena *a, struct err *e)
{
    size_t good;

    if (!text) /* an empty file has no bytes to point at */
        text = "";
    good = utf8_valid_prefix(text, len);
    *j = (struct jp){.begin = text, .p = text, .end = text + len, .path = path, .arena = a, .e = e};
    if (good != len) {
        j->p = text + good;
        return jp_fail(j, "this is not UTF-8");
    }
    return 0;
}

static void skip_blanks(struct jp *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t'))
        j->p++;
}

enum jp_type jp_peek(struct jp *j)
{
    if (j->rc)
        return JP_NONE;
    skip_blanks(j);
    if (j->p == j->end) {
        jp_fail(j, "the file ends where a value should be");
        return JP_NONE;
    }
    switch (*j->p) {
    case '{': return JP_OBJECT;
    case '[': return JP_ARRAY;
    case '"': return JP_STRING;
    case 't': return JP_TRUE;
    case 'f': return JP_FALSE;
    case 'n': return JP_NULL;
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return JP_NUMBER;
    default: break;
    }
    jp_fail(j, "a value cannot begin with byte 0x%02x", (unsigned char)*j->p);
    return JP_NONE;
}

static void enter(struct jp *j, enum jp_type type, char open, const char *what)
{
    if (jp_peek(j) != type) {
        jp_fail(j, "%s is expected here", what);
        return;
    }
    if (j->depth == JP_MAX_DEPTH) {
        jp_fail(j, "values are nested deeper than %d", JP_MAX_DEPTH);
        return;
    }
    j->p++;
    j->depth++;
    j->kind[j->depth] = (unsigned char)open;
    j->first[j->depth] = true;
}

void jp_enter_object(struct jp *j)
{
    enter(j, JP_OBJECT, '{', "an object");
}

void jp_enter_array(struct jp *j)
{
    enter(j, JP_ARRAY, '[', "an array");
}

/* Steps over ',' or CLOSE. True when another member follows. */
static bool next_member(struct jp *j, char open, char close)
{
    if (j->rc)
        return false;
    ASSERT(j->depth > 0 && j->kind[j->depth] == (unsigned char)open, "depth %d", j->depth);
    skip_blanks(j);
    if (j->p == j->end) {
        jp_fail(j, "the file ends inside an %s", open == '{' ? "object" : "array");
        return false;
    }
    if (*j->p == close) {
        j->p++;
        j->depth--;
        return false;
    }
    if (!j->first[j->depth]) {
        if (*j->p != ',') {
            jp_fail(j, "a comma or '%c' is expected here", close);
            return false;
        }
        j->p++;
        skip_blanks(j);
    }
    j->first[j->depth] = false;
    return true;
}

bool jp_elem(struct jp *j)
{
    if (!next_member(j, '[', ']'))
        return false;
    return jp_peek(j) != JP_NONE;
}

bool jp_key(struct jp *j, struct jp_str *key)
{
    *key = (struct jp_str){"", 0};
    if (!next_member(j, '{', '}'))
        return false;
    if (!jp_string(j, key))
        return false;
    skip_blanks(j);
    if (j->p == j->end || *j->p != ':') {
        jp_fail(j, "a colon is expected here");
        return false;
    }
    j->p++;
    return true;
}

static int hex4(const char *p)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)p[i], d;
        if (c >= '0' && c <= '9')
            d = c - '0';
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            d = (c | 32) - 'a' + 10;
        else
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Undoes the escape at p[0] == '\\'. Returns bytes read, 0 on error; writes up to 4 bytes. */
static size_t unescape(struct jp *j, const char *p, char *out, size_t *written)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t left = (size_t)(j->end - p);
    const char *at;
    int hi, lo;

    *written = 1;
    if (left < 2)
        return 0;
    if (p[1] != 'u') {
        at = p[1] ? strchr(from, p[1]) : NULL;
        if (!at)
            return 0;
        out[0] = to[at - from];
        return 2;
    }
    if (left < 6 || (hi = hex4(p + 2)) < 0)
        return 0;
    if (hi < 0xd800 || hi > 0xdfff) {
        *written = utf8_encode((uint32_t)hi, out);
        return 6;
    }
    if (hi > 0xdbff || left < 12 || p[6] != '\\' || p[7] != 'u' || (lo = hex4(p + 8)) < 0xdc00 || lo > 0xdfff)
        return 0; /* half of a surrogate pair is no character */
    *written = utf8_encode(0x10000u + ((uint32_t)(hi - 0xd800) << 10) + (uint32_t)(lo - 0xdc00), out);
    return 12;
}

/* The string at j->p (after its quote) holds an escape at ESC: copies it into the arena with escapes
 * undone. */
static bool copy_unescaped(struct jp *j, const char *esc, struct jp_str *s)
{
    const char *start = j->p, *p = start, *close = esc;
    char *out, *o;

    while (close < j->end && *close != '"')
        close += *close == '\\' && j->end - close > 1 ? 2 : 1;
    out = o = arena_alloc(j->arena, (size_t)(close - start) + 1);
    if (!out) {
        j->rc = err_nomem(j->e, j->path);
        return false;
    }
    while (p < j->end && *p != '"') {
        size_t read = 1, written = 1;
        if (*p == '\\')
            read = unescape(j, p, o, &written);
        else if ((unsigned char)*p < 0x20)
            read = 0;
        else
            *o = *p;
        if (read == 0) {
            j->p = p;
            jp_fail(j, "this escape or control character is not allowed in a string");
            return false;
        }
        p += read;
        o += written;
    }
    j->p = p;
    *s = (struct jp_str){out, (size_t)(o - out)};
    return true;
}

bool jp_string(struct jp *j, struct jp_str *s)
{
    const char *p;

    *s = (struct jp_str){"", 0};
    if (jp_peek(j) != JP_STRING) {
        jp_fail(j, "a string is expected here");
        return false;
    }
    j->p++;
    for (p = j->p; p < j->end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20; p++)
        ;
    if (p < j->end && *p == '\\') {
        if (!copy_unescaped(j, p, s))
            return false;
        p = j->p;
    } else {
        *s = (struct jp_str){j->p, (size_t)(p - j->p)};
    }
    if (p == j->end || *p != '"') {
        j->p = p;
        jp_fail(j, p == j->end ? "the file ends inside a string" : "a control character stands in a string");
        return false;
    }
    j->p = p + 1;
    return true;
}

/* The extent of the number at j->p by the JSON grammar; *integer: no fraction, no exponent. 0: not a
 * number. */
static size_t scan_number(const struct jp *j, bool *integer)
{
    const char *p = j->p, *end = j->end, *digits;

    *integer = true;
    if (p < end && *p == '-')
        p++;
    digits = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    if (p == digits || (*digits == '0' && p - digits > 1))
        return 0;
    if (p < end && *p == '.') {
        *integer = false;
        digits = ++p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits)
            return 0;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *integer = false;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        digits = p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits)
            return 0;
    }
    return (size_t)(p - j->p);
}

/* Copies the next number into text[] and steps over it. */
static bool take_number(struct jp *j, char *text, size_t size, bool *integer)
{
    size_t n;

    if (jp_peek(j) != JP_NUMBER) {
        jp_fail(j, "a number is expected here");
        return false;
    }
    n = scan_number(j, integer);
    if (n == 0 || n >= size) {
        jp_fail(j, n ? "this number is too long" : "this is not a JSON number");
        return false;
    }
    memcpy(text, j->p, n);
    text[n] = 0;
    j->p += n;
    return true;
}

bool jp_i64(struct jp *j, int64_t *v)
{
    char text[64];
    bool integer;

    *v = 0;
    if (!take_number(j, text, sizeof(text), &integer))
        return false;
    errno = 0;
    *v = strtoll(text, NULL, 10);
    if (!integer || errno) {
        jp_fail(j, "%s is not an integer of 64 bits", text);
        return false;
    }
    return true;
}

bool jp_u64(struct jp *j, uint64_t *v)
{
    char text[64];
    bool integer;

    *v = 0;
    if (!take_number(j, text, sizeof(text), &integer))
        return false;
    errno = 0;
    *v = strtoull(text, NULL, 10);
    if (!integer || errno || text[0] == '-') {
        jp_fail(j, "%s is not a non-negative integer of 64 bits", text);
        return false;
    }
    return true;
}

/* Numbers have a point, also where the program that uses us has set a locale with a comma. */
static locale_t plain_locale(void)
{
    static _Atomic(locale_t) plain;
    locale_t made = plain, none = (locale_t)0;

    if (made != (locale_t)0)
        return made;
    made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    ASSERT(made != (locale_t)0, "the C locale is built in");
    if (!atomic_compare_exchange_strong(&plain, &none, made)) {
        freelocale(made);
        made = none;
    }
    return made;
}

bool jp_f64(struct jp *j, double *v)
{
    char text[512];
    bool integer;

    *v = 0;
    if (!take_number(j, text, sizeof(text), &integer))
        return false;
    *v = strtod_l(text, NULL, plain_locale());
    if (*v - *v != 0.0) {
        jp_fail(j, "%s is too large", text);
        return false;
    }
    return true;
}

static bool take_word(struct jp *j, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(j->end - j->p) < n || memcmp(j->p, word, n) != 0) {
        jp_fail(j, "this is not a JSON value");
        return false;
    }
    j->p += n;
    return true;
}

bool jp_bool(struct jp *j, bool *v)
{
    enum jp_type t = jp_peek(j);

    *v = t == JP_TRUE;
    if (t == JP_TRUE)
        return take_word(j, "true");
    if (t == JP_FALSE)
        return take_word(j, "false");
    jp_fail(j, "true or false is expected here");
    return false;
}

bool jp_null(struct jp *j)
{
    return jp_peek(j) == JP_NULL && take_word(j, "null");
}

static void skip_scalar(struct jp *j, enum jp_type t)
{
    struct jp_str s;
    bool b;

    if (t == JP_STRING) {
        jp_string(j, &s);
    } else if (t == JP_NUMBER) {
        size_t n = scan_number(j, &b);
        if (n == 0)
            jp_fail(j, "this is not a JSON number");
        else
            j->p += n;
    } else if (t == JP_NULL) {
        jp_null(j);
    } else if (t != JP_NONE) {
        jp_bool(j, &b);
    }
}

void jp_skip(struct jp *j)
{
    int base = j->depth;
    struct jp_str key;

    do {
        enum jp_type t;

        if (j->depth > base) { /* inside a container: step to its next member, or leave it */
            bool more = j->kind[j->depth] == '{' ? jp_key(j, &key) : jp_elem(j);
            if (!more)
                continue;
        }
        t = jp_peek(j);
        if (t == JP_OBJECT)
            jp_enter_object(j);
        else if (t == JP_ARRAY)
            jp_enter_array(j);
        else
            skip_scalar(j, t);
    } while (!j->rc && j->depth > base);
}

struct jp_str jp_raw(struct jp *j)
{
    const char *start;

    jp_peek(j);
    start = j->p;
    jp_skip(j);
    return j->rc ? (struct jp_str){"", 0} : (struct jp_str){start, (size_t)(j->p - start)};
}

bool jp_is(const struct jp_str *s, const char *literal)
{
    return strlen(literal) == s->n && memcmp(s->s, literal, s->n) == 0;
}

int jp_rc(const struct jp *j)
{
    return j->rc;
}

int jp_finish(struct jp *j)
{
    if (j->rc)
        return j->rc;
    skip_blanks(j);
    if (j->p != j->end)
        jp_fail(j, "text follows the closing of the value");
    return j->rc;
}
