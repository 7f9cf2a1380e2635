/* json_pull.c - the JSON scanner, and the reader of jansson trees on top of it. */
#include "base/json/json_pull.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json/json_tree.h"
#include "base/utf8.h"

/* Always returns an error code, not 0. So functions of type bool can end with return !json_pull_fail(...). */
int json_pull_fail(struct json_pull *j, const char *fmt, ...)
{
    char at[48] = "";
    size_t line = 1;
    ERR_SENTENCE(text, fmt);

    if (j->rc)
        return j->rc;
    for (const char *p = j->begin; p < j->p; p++)
        line += *p == '\n';
    if (line > 1) /* omitted in line 1, since large files often have one line */
        snprintf(at, sizeof(at), " (line %zu)", line);
    j->rc = err_set(j->e, ERR_INPUT, "%s%sat byte %zu%s: %s", j->path ? j->path : "", j->path ? ": " : "",
                    (size_t)(j->p - j->begin), at, text);
    j->p = j->end;
    return j->rc;
}

int json_pull_open(struct json_pull *j, const char *text, size_t len, const char *path, struct arena *a,
                   struct err *e)
{
    size_t good;

    if (!text) /* TEXT is NULL for an empty file */
        text = "";
    good = utf8_valid_prefix(text, len);
    *j = (struct json_pull){.begin = text, .p = text, .end = text + len, .path = path, .arena = a, .e = e};
    if (good != len) {
        j->p = text + good;
        return json_pull_fail(j, "the text is not UTF-8: found byte 0x%02x", (unsigned char)text[good]);
    }
    return 0;
}

static void skip_blanks(struct json_pull *j)
{
    while (j->p < j->end && utf8_is_blank(*j->p))
        j->p++;
}

/* Returns the length of the number at j->p that only Python writes; 0: there is none. */
static size_t python_number(const struct json_pull *j)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    size_t left = (size_t)(j->end - j->p);

    for (size_t i = 0; j->is_python && i < sizeof(words) / sizeof(words[0]); i++)
        if (left >= strlen(words[i]) && memcmp(j->p, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    return 0;
}

enum json_pull_type json_pull_peek(struct json_pull *j)
{
    if (j->rc)
        return JSON_PULL_NONE;
    skip_blanks(j);
    if (j->p == j->end) {
        json_pull_fail(j, "the text ends where a value is expected");
        return JSON_PULL_NONE;
    }
    if (*j->p == '-' || isdigit((unsigned char)*j->p) || python_number(j))
        return JSON_PULL_NUMBER;
    switch (*j->p) {
    case '{': return JSON_PULL_OBJECT;
    case '[': return JSON_PULL_ARRAY;
    case '"': return JSON_PULL_STRING;
    case 't': return JSON_PULL_TRUE;
    case 'f': return JSON_PULL_FALSE;
    case 'n': return JSON_PULL_NULL;
    default: break;
    }
    json_pull_fail(j, "a value cannot begin with byte 0x%02x", (unsigned char)*j->p);
    return JSON_PULL_NONE;
}

static void pull_enter(struct json_pull *j, enum json_pull_type type, char open, const char *what)
{
    if (json_pull_peek(j) != type) {
        json_pull_fail(j, "%s is expected here", what);
        return;
    }
    if (j->depth == JSON_PULL_MAX_DEPTH) {
        json_pull_fail(j, "values are nested deeper than %d", JSON_PULL_MAX_DEPTH);
        return;
    }
    j->p++;
    j->depth++;
    j->kind[j->depth] = (unsigned char)open;
    j->first[j->depth] = true;
}

void json_pull_enter_object(struct json_pull *j)
{
    pull_enter(j, JSON_PULL_OBJECT, '{', "an object");
}

void json_pull_enter_array(struct json_pull *j)
{
    pull_enter(j, JSON_PULL_ARRAY, '[', "an array");
}

/* Reads ',' or CLOSE. True: another member follows. */
static bool next_member(struct json_pull *j, char open, char close)
{
    if (j->rc)
        return false;
    ASSERT(j->depth > 0 && j->kind[j->depth] == (unsigned char)open, "depth %d", j->depth);
    skip_blanks(j);
    if (j->p == j->end)
        return !json_pull_fail(j, "the text ends inside an %s", open == '{' ? "object" : "array");
    if (*j->p == close) {
        j->p++;
        j->depth--;
        return false;
    }
    if (!j->first[j->depth]) {
        if (*j->p != ',')
            return !json_pull_fail(j, "a comma or '%c' is expected here", close);
        j->p++;
        skip_blanks(j);
    }
    j->first[j->depth] = false;
    return true;
}

bool json_pull_elem(struct json_pull *j)
{
    if (!next_member(j, '[', ']'))
        return false;
    return json_pull_peek(j) != JSON_PULL_NONE;
}

bool json_pull_key(struct json_pull *j, struct json_str *key)
{
    *key = (struct json_str){"", 0};
    if (!next_member(j, '{', '}'))
        return false;
    if (!json_pull_string(j, key))
        return false;
    skip_blanks(j);
    if (j->p == j->end || *j->p != ':')
        return !json_pull_fail(j, "a colon is expected here");
    j->p++;
    return true;
}

static int hex4(const char *p)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        int d = utf8_hex_digit(p[i]);

        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Decodes the escape at P, which begins with a backslash, to at most 4 bytes in OUT. Returns the number of
 * bytes read; 0: the escape is invalid. */
static size_t unescape(struct json_pull *j, const char *p, char *out, size_t *written)
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
        return 0; /* an unpaired surrogate is invalid */
    *written = utf8_encode(0x10000u + ((uint32_t)(hi - 0xd800) << 10) + (uint32_t)(lo - 0xdc00), out);
    return 12;
}

/* Decodes a string whose first escape is at ESC into the arena; j->p is after the opening quote. */
static bool copy_unescaped(struct json_pull *j, const char *esc, struct json_str *s)
{
    const char *start = j->p, *p = start, *close = esc;
    char *out, *o;

    while (close < j->end && *close != '"')
        close += *close == '\\' && j->end - close > 1 ? 2 : 1;
    out = o = arena_alloc(j->arena, (size_t)(close - start) + 1);
    if (!out) {
        j->rc = err_nomem(j->e, j->path ? j->path : "a JSON text");
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
            return !json_pull_fail(j, "this escape or control character is not allowed in a string");
        }
        p += read;
        o += written;
    }
    j->p = p;
    *s = (struct json_str){out, (size_t)(o - out)};
    return true;
}

bool json_pull_string(struct json_pull *j, struct json_str *s)
{
    const char *p;

    *s = (struct json_str){"", 0};
    if (json_pull_peek(j) != JSON_PULL_STRING)
        return !json_pull_fail(j, "a string is expected here");
    j->p++;
    for (p = j->p; p < j->end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20; p++)
        ;
    if (p < j->end && *p == '\\') {
        if (!copy_unescaped(j, p, s))
            return false;
        p = j->p;
    } else {
        *s = (struct json_str){j->p, (size_t)(p - j->p)};
    }
    if (p == j->end || *p != '"') {
        j->p = p;
        return !json_pull_fail(j, p == j->end ? "the text ends inside a string"
                                              : "a string contains a control character");
    }
    j->p = p + 1;
    return true;
}

/* Returns the end of the decimal digits at P. */
static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Returns the length of the JSON number at j->p; 0: there is no number at j->p. Sets *INTEGER to whether it
 * has neither fraction nor exponent. */
static size_t scan_number(const struct json_pull *j, bool *integer)
{
    const char *p = j->p, *end = j->end, *digits;
    size_t n = python_number(j);

    *integer = n == 0;
    if (n)
        return n;
    if (p < end && *p == '-')
        p++;
    digits = p;
    p = skip_digits(p, end);
    if (p == digits || (*digits == '0' && p - digits > 1))
        return 0;
    if (p < end && *p == '.') {
        *integer = false;
        digits = ++p;
        if ((p = skip_digits(p, end)) == digits)
            return 0;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *integer = false;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        digits = p;
        if ((p = skip_digits(p, end)) == digits)
            return 0;
    }
    return (size_t)(p - j->p);
}

/* Reads the next number and copies its text to TEXT [size]. */
static bool take_number(struct json_pull *j, char *text, size_t size, bool *integer)
{
    size_t n;

    if (json_pull_peek(j) != JSON_PULL_NUMBER)
        return !json_pull_fail(j, "a number is expected here");
    n = scan_number(j, integer);
    if (n == 0 || n >= size)
        return !json_pull_fail(j, n ? "this number is too long" : "this is not a JSON number");
    memcpy(text, j->p, n);
    text[n] = 0;
    j->p += n;
    return true;
}

bool json_pull_i64(struct json_pull *j, int64_t *v)
{
    char text[64];
    bool integer;

    *v = 0;
    if (!take_number(j, text, sizeof(text), &integer))
        return false;
    errno = 0;
    *v = strtoll(text, NULL, 10);
    if (!integer || errno)
        return !json_pull_fail(j, "%s is not an integer of 64 bits", text);
    return true;
}

bool json_pull_u64(struct json_pull *j, uint64_t *v)
{
    char text[64];
    bool integer;

    *v = 0;
    if (!take_number(j, text, sizeof(text), &integer))
        return false;
    errno = 0;
    *v = strtoull(text, NULL, 10);
    if (!integer || errno || text[0] == '-')
        return !json_pull_fail(j, "%s is not a non-negative integer of 64 bits", text);
    return true;
}

/* Returns the C locale, in which numbers have a decimal point. The host program's locale may have a comma. */
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

bool json_pull_f64(struct json_pull *j, double *v)
{
    char text[512];
    bool integer;

    *v = 0;
    if (!take_number(j, text, sizeof(text), &integer))
        return false;
    *v = strtod_l(text, NULL, plain_locale());
    if (*v - *v != 0.0)
        return !json_pull_fail(j, "%s is too large", text);
    return true;
}

static bool take_word(struct json_pull *j, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(j->end - j->p) < n || memcmp(j->p, word, n) != 0)
        return !json_pull_fail(j, "this is not a JSON value");
    j->p += n;
    return true;
}

bool json_pull_bool(struct json_pull *j, bool *v)
{
    enum json_pull_type t = json_pull_peek(j);

    *v = t == JSON_PULL_TRUE;
    if (t == JSON_PULL_TRUE)
        return take_word(j, "true");
    if (t == JSON_PULL_FALSE)
        return take_word(j, "false");
    return !json_pull_fail(j, "true or false is expected here");
}

bool json_pull_null(struct json_pull *j)
{
    return json_pull_peek(j) == JSON_PULL_NULL && take_word(j, "null");
}

static void skip_scalar(struct json_pull *j, enum json_pull_type t)
{
    struct json_str s;
    bool b;

    if (t == JSON_PULL_STRING) {
        json_pull_string(j, &s);
    } else if (t == JSON_PULL_NUMBER) {
        size_t n = scan_number(j, &b);
        if (n == 0)
            json_pull_fail(j, "this is not a JSON number");
        else
            j->p += n;
    } else if (t == JSON_PULL_NULL) {
        json_pull_null(j);
    } else if (t != JSON_PULL_NONE) {
        json_pull_bool(j, &b);
    }
}

void json_pull_skip(struct json_pull *j)
{
    int base = j->depth;
    struct json_str key;

    do {
        enum json_pull_type t;

        if (j->depth > base) { /* inside a container: goes to its next member, or leaves it */
            bool more = j->kind[j->depth] == '{' ? json_pull_key(j, &key) : json_pull_elem(j);
            if (!more)
                continue;
        }
        t = json_pull_peek(j);
        if (t == JSON_PULL_OBJECT)
            json_pull_enter_object(j);
        else if (t == JSON_PULL_ARRAY)
            json_pull_enter_array(j);
        else
            skip_scalar(j, t);
    } while (!j->rc && j->depth > base);
}

struct json_str json_pull_raw(struct json_pull *j)
{
    const char *start;

    json_pull_peek(j);
    start = j->p;
    json_pull_skip(j);
    return j->rc ? (struct json_str){"", 0} : (struct json_str){start, (size_t)(j->p - start)};
}

bool json_str_is(const struct json_str *s, const char *literal)
{
    return strlen(literal) == s->n && memcmp(s->s, literal, s->n) == 0;
}

int json_pull_rc(const struct json_pull *j)
{
    return j->rc;
}

int json_pull_finish(struct json_pull *j)
{
    if (j->rc)
        return j->rc;
    skip_blanks(j);
    if (j->p != j->end)
        json_pull_fail(j, "text follows the end of the value");
    return j->rc;
}

/* ---- trees ---- */

static json_t *load_value(struct json_pull *j);

/* Returns V. Sets the out-of-memory error if V is NULL. */
static json_t *made(struct json_pull *j, json_t *v)
{
    if (!v && !j->rc) {
        j->rc = err_nomem(j->e, j->path ? j->path : "a JSON text");
        j->p = j->end;
    }
    return v;
}

/* Reads the value of the member KEY of O. */
static void load_member(struct json_pull *j, json_t *o, const struct json_str *key)
{
    enum json_pull_large large = j->large;
    json_t *v;

    if (j->depth == 1 && j->exact && json_str_is(key, j->exact))
        j->large = JSON_PULL_EXACT;
    v = load_value(j);
    j->large = large;
    if (v && json_object_setn_new_nocheck(o, key->s, key->n, v) != 0)
        made(j, NULL);
}

static json_t *load_object(struct json_pull *j)
{
    json_t *o = made(j, json_object());
    struct json_str key;

    json_pull_enter_object(j);
    while (o && json_pull_key(j, &key)) {
        if (memchr(key.s, 0, key.n))
            json_pull_fail(j, "a key has a NUL");
        else if (j->large == JSON_PULL_REFUSED && json_object_getn(o, key.s, key.n))
            json_pull_fail(j, "duplicate key \"%.*s\"", (int)(key.n < 60 ? key.n : 60), key.s);
        else
            load_member(j, o, &key);
    }
    return o;
}

static json_t *load_array(struct json_pull *j)
{
    json_t *a = made(j, json_array()), *v;

    json_pull_enter_array(j);
    while (a && json_pull_elem(j))
        if ((v = load_value(j)) != NULL && json_array_append_new(a, v) != 0)
            made(j, NULL);
    return a;
}

/* Returns whether the integer TEXT [n] fits into 64 bits. */
static bool is_i64(const char *text, size_t n)
{
    char copy[24];

    if (n >= sizeof(copy))
        return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    errno = 0;
    strtoll(copy, NULL, 10);
    return errno == 0;
}

/* Reads the integer of N bytes at J, which does not fit into 64 bits. */
static json_t *load_large(struct json_pull *j, size_t n)
{
    const char *text = j->p;

    if (n > JSON_LARGE_DIGITS) {
        json_pull_fail(j, "the integer has %zu digits, expected at most %d", n, (int)JSON_LARGE_DIGITS);
        return NULL;
    }
    j->p += n;
    return made(j, json_large(text, n));
}

static json_t *load_number(struct json_pull *j)
{
    bool integer = false;
    size_t n = scan_number(j, &integer);
    int64_t i;
    double x;

    if (n && integer && (j->large == JSON_PULL_REFUSED || is_i64(j->p, n)))
        return json_pull_i64(j, &i) ? made(j, json_integer(i)) : NULL;
    if (n && integer && (j->large == JSON_PULL_EXACT || j->depth > 1))
        return load_large(j, n);
    return json_pull_f64(j, &x) ? made(j, json_real(x)) : NULL;
}

static json_t *load_value(struct json_pull *j)
{
    struct json_str s;
    bool b;

    switch (json_pull_peek(j)) {
    case JSON_PULL_OBJECT: return load_object(j);
    case JSON_PULL_ARRAY: return load_array(j);
    case JSON_PULL_STRING: return json_pull_string(j, &s) ? made(j, json_stringn_nocheck(s.s, s.n)) : NULL;
    case JSON_PULL_NUMBER: return load_number(j);
    case JSON_PULL_TRUE:
    case JSON_PULL_FALSE: return json_pull_bool(j, &b) ? json_boolean(b) : NULL;
    case JSON_PULL_NULL: return json_pull_null(j) ? json_null() : NULL;
    default: return NULL;
    }
}

static int load(json_t **out, const char *text, size_t n, const char *path, enum json_pull_large large,
                const char *exact, struct err *e)
{
    struct json_pull j;
    struct arena a;
    int rc;

    arena_init(&a, MEM_BASE);
    *out = NULL;
    if (json_pull_open(&j, text, n, path, &a, e) == 0) {
        j.large = large;
        j.exact = exact;
        *out = load_value(&j);
    }
    rc = json_pull_finish(&j);
    arena_fini(&a);
    if (rc) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

int json_pull_load(json_t **out, const char *text, size_t n, const char *path, struct err *e)
{
    return load(out, text, n, path, JSON_PULL_REFUSED, NULL, e);
}

int json_pull_load_exact(json_t **out, const char *text, size_t n, const char *path, struct err *e)
{
    return load(out, text, n, path, JSON_PULL_EXACT, NULL, e);
}

int json_pull_load_large(json_t **out, const char *text, size_t n, const char *path, const char *exact,
                         struct err *e)
{
    return load(out, text, n, path, JSON_PULL_REAL_OUTSIDE, exact, e);
}
