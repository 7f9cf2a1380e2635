/* json_tree.c - represents integers of any size in jansson trees, and writes trees as text. */
#include "base/json/json_tree.h"

#include "base/buf.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char large_key[] = "\xff"; /* a byte that never occurs in UTF-8 */

json_t *json_large(const char *text, size_t n)
{
    json_t *o = json_object(), *digits = json_stringn_nocheck(text, n);

    if (o && digits && json_object_set_new_nocheck(o, large_key, digits) == 0)
        return o;
    if (!o)
        json_decref(digits);
    json_decref(o);
    return NULL;
}

const char *json_large_text(const json_t *v, size_t *n)
{
    const json_t *digits = json_object_size(v) == 1 ? json_object_get(v, large_key) : NULL;

    *n = json_string_length(digits);
    return json_string_value(digits);
}

json_t *json_unsigned(uint64_t x)
{
    char text[24];

    if (x <= INT64_MAX)
        return json_integer((json_int_t)x);
    return json_large(text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, x));
}

bool json_bits(const json_t *v, uint64_t *out)
{
    size_t n;
    const char *text = json_large_text(v, &n);

    if (json_is_integer(v)) {
        *out = (uint64_t)json_integer_value(v);
        return true;
    }
    if (!text || text[0] == '-')
        return false;
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0;
}

void json_real_text(double f, char text[JSON_REAL_TEXT])
{
    /* starts with 15 digits, which most numbers need at least, except subnormals */
    int precision = fabs(f) < DBL_MIN ? 0 : 14, exponent;

    do
        snprintf(text, JSON_REAL_TEXT, "%.*e", precision, f);
    while (strtod(text, NULL) != f && ++precision < 17);
    for (const char *end = strchr(text, 'e'); precision > 0 && end[-1] == '0'; end--)
        precision--;
    snprintf(text, JSON_REAL_TEXT, "%.*e", precision, f);
    exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, JSON_REAL_TEXT, "%.*f", precision - exponent > 1 ? precision - exponent : 1, f);
}

static void put_string(struct buf *b, const char *s, size_t n)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    size_t kept = 0; /* s[kept, i) needs no escape */

    buf_char(b, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        const char *known;

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_add(b, s + kept, i - kept);
        kept = i + 1;
        known = c ? strchr(from, c) : NULL;
        if (known)
            buf_fmt(b, "\\%c", to[known - from]);
        else
            buf_fmt(b, "\\u%04x", c);
    }
    buf_add(b, s + kept, n - kept);
    buf_char(b, '"');
}

/* How a tree is written. */
struct style {
    bool spaced;  /* put a space after each comma and colon */
    int n_digits; /* significant digits of reals; 0: as many as their value needs */
};

static void put_tree(struct buf *b, const json_t *v, const struct style *style);

static void put_object(struct buf *b, const json_t *v, const struct style *style)
{
    json_t *o = (json_t *)(uintptr_t)v; /* jansson's iterators lack const, but do not change the object */
    const char *between = "";
    size_t n;
    const char *digits = json_large_text(v, &n);

    if (digits) {
        buf_add(b, digits, n);
        return;
    }
    buf_char(b, '{');
    for (void *i = json_object_iter(o); i; i = json_object_iter_next(o, i)) {
        buf_str(b, between);
        put_string(b, json_object_iter_key(i), json_object_iter_key_len(i));
        buf_str(b, style->spaced ? ": " : ":");
        put_tree(b, json_object_iter_value(i), style);
        between = style->spaced ? ", " : ",";
    }
    buf_char(b, '}');
}

static void put_array(struct buf *b, const json_t *v, const struct style *style)
{
    buf_char(b, '[');
    for (size_t i = 0; i < json_array_size(v); i++) {
        buf_str(b, i == 0 ? "" : style->spaced ? ", " : ",");
        put_tree(b, json_array_get(v, i), style);
    }
    buf_char(b, ']');
}

static void put_tree(struct buf *b, const json_t *v, const struct style *style)
{
    char text[JSON_REAL_TEXT];

    switch (json_typeof(v)) {
    case JSON_OBJECT: put_object(b, v, style); break;
    case JSON_ARRAY: put_array(b, v, style); break;
    case JSON_STRING: put_string(b, json_string_value(v), json_string_length(v)); break;
    case JSON_INTEGER: buf_fmt(b, "%" PRId64, (int64_t)json_integer_value(v)); break;
    case JSON_REAL:
        if (style->n_digits)
            snprintf(text, sizeof(text), "%.*g", style->n_digits, json_real_value(v));
        else
            json_real_text(json_real_value(v), text);
        buf_str(b, text);
        buf_str(b, text[strspn(text, "-0123456789")] ? "" : ".0"); /* a real stays one */
        break;
    case JSON_TRUE: buf_str(b, "true"); break;
    case JSON_FALSE: buf_str(b, "false"); break;
    case JSON_NULL: buf_str(b, "null"); break;
    }
}

void buf_json_tree(struct buf *b, const json_t *v, bool spaced)
{
    put_tree(b, v, &(struct style){.spaced = spaced});
}

void json_tree_put_rounded(struct buf *b, const json_t *v, int n_digits)
{
    put_tree(b, v, &(struct style){.n_digits = n_digits});
}
