/* lex.c - splits a template into tokens: text between tags; names, literals and operators within tags.
 *
 * The lexer follows the regular expressions of Jinja's lexer with the settings of chat templates: {{ }}, {%
 * %} and {# #}; trim_blocks, which removes a line break after a block tag; lstrip_blocks, which removes
 * blanks before a block tag on its line; - and + at the tags; {% raw %}. Line ends become LF, and one line
 * break at the end of the template is removed.
 */
#include "text/jinja/lex.h"

#include <ctype.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/value/characters.h"
#include "text/jinja/value/number.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

enum { NESTING_MAX = 256, NAME_BYTES = 1000 };

struct lexer {
    struct rendering *r;
    const char *s;
    size_t n, at;
    bool line_start; /* the last tag ended with a line break */
    struct lex_token *tokens;
    size_t count, room;
    char closing[NESTING_MAX]; /* [open] the closing characters of the open brackets */
    size_t open;
};

const char *jinja_token_name(const struct lex_token *t)
{
    /* clang-format off */
    static const char *const names[] = {
        "end of template", "template data / text", "begin of print statement", "end of print statement",
        "begin of statement block", "end of statement block", "name", "string", "integer", "float",
        "//", "**", "==", "!=", ">=", "<="};
    /* clang-format on */
    static const char signs[] = "+\0-\0*\0/\0%\0~\0[\0]\0(\0)\0{\0}\0>\0<\0=\0.\0:\0|\0,\0;";
    const char *sign = memchr(signs, t->kind, sizeof(signs));

    return t->kind >= LEX_END_OF_TEMPLATE ? names[t->kind - LEX_END_OF_TEMPLATE] : sign;
}

static void push(struct lexer *x, int kind, uint32_t line, struct value value)
{
    struct lex_token *tokens = jinja_room(x->r, x->tokens, x->count, &x->room, sizeof(*tokens));

    if (!tokens)
        return;
    x->tokens = tokens;
    x->tokens[x->count++] = (struct lex_token){.kind = kind, .line = line, .value = value};
}

/* Moves to the offset TO and counts the lines up to there. */
static void lex_advance(struct lexer *x, size_t to)
{
    for (size_t i = x->at; i < to; i++)
        x->r->line += x->s[i] == '\n';
    x->at = to;
}

/* Moves to END, the offset after a tag. */
static void leave_tag(struct lexer *x, size_t end)
{
    lex_advance(x, end);
    x->line_start = x->s[end - 1] == '\n';
}

static size_t skip_space(const struct lexer *x, size_t i)
{
    while (i < x->n && jinja_is_space(jinja_character(x->s + i)))
        i += jinja_width(x->s + i);
    return i;
}

/* Returns where the white space at the end of s[from, to) begins. LINES: line breaks are white space. */
static size_t skip_space_back(const struct lexer *x, size_t from, size_t to, bool lines)
{
    while (to > from) {
        size_t k = jinja_width_before(x->s + from, to - from);

        if (!jinja_is_space(jinja_character(x->s + to - k)) || (!lines && x->s[to - 1] == '\n'))
            break;
        to -= k;
    }
    return to;
}

static bool looking_at(const struct lexer *x, size_t i, const char *what)
{
    size_t n = strlen(what);

    return i <= x->n && x->n - i >= n && memcmp(x->s + i, what, n) == 0;
}

/* Returns the offset after the tag end END ("%}" or "}}") at offset I and after the white space that it
 * removes. 0: there is no END at I. */
static size_t tag_end(const struct lexer *x, size_t i, const char *end, bool plus, bool trim)
{
    if (i + 3 <= x->n && x->s[i] == '-' && looking_at(x, i + 1, end))
        return skip_space(x, i + 3);
    if (plus && i + 3 <= x->n && x->s[i] == '+' && looking_at(x, i + 1, end))
        return i + 3;
    if (!looking_at(x, i, end))
        return 0;
    return i + 2 + (trim && i + 2 < x->n && x->s[i + 2] == '\n');
}

/* Returns the offset after the tag {% WORD %} at I ("raw" or "endraw"); 0: there is no such tag at I. */
static size_t raw_tag(const struct lexer *x, size_t i, const char *word, bool trim)
{
    i += 2;
    i += i < x->n && (x->s[i] == '-' || x->s[i] == '+');
    i = skip_space(x, i);
    if (!looking_at(x, i, word))
        return 0;
    i = skip_space(x, i + strlen(word));
    return tag_end(x, i, "%}", trim, trim);
}

/* Emits the text s[at, tag) before a tag. SIGN is the character after the tag's opening braces. */
static void put_data(struct lexer *x, size_t tag, char sign, bool print)
{
    size_t from = x->at, to = tag, line;

    if (sign == '-') {
        to = skip_space_back(x, from, tag, true);
    } else if (sign != '+' && !print) {
        line = skip_space_back(x, from, tag, false);
        if (line > from ? x->s[line - 1] == '\n' : x->line_start)
            to = line;
    }
    if (to > from)
        push(x, LEX_DATA, x->r->line, jinja_string(x->s + from, to - from));
    lex_advance(x, tag);
}

static void fail_character(struct lexer *x)
{
    struct value c = jinja_string(x->s + x->at, jinja_width(x->s + x->at));

    jinja_fail(x->r, "unexpected char %s at %zu", jinja_brief(x->r, c), utf8_count(x->s, x->at));
}

static bool digit_at(const struct lexer *x, size_t i)
{
    return i < x->n && isdigit((unsigned char)x->s[i]);
}

/* Returns the offset after the digits at I, which may have single underscores between them. */
static size_t digits(const struct lexer *x, size_t i)
{
    while (digit_at(x, i) ||
           (i > x->at && i < x->n && x->s[i] == '_' && digit_at(x, i - 1) && digit_at(x, i + 1)))
        i++;
    return i;
}

/* Reads an integer of any base, or a float. Behind a dot it is an integer: a.0.1 has two subscripts. */
static void lex_number(struct lexer *x)
{
    bool whole = true, overflow = false, good, dotted = x->at > 0 && x->s[x->at - 1] == '.';
    size_t end = digits(x, x->at), e;
    int64_t i = 0;
    double f = 0;

    if (end == x->at + 1 && x->s[x->at] == '0' && end < x->n && strchr("xXoObB", x->s[end]) && x->s[end]) {
        while (end < x->n && (isalnum((unsigned char)x->s[end]) || x->s[end] == '_'))
            end++;
    } else if (!dotted) {
        if (end < x->n && x->s[end] == '.' && digit_at(x, end + 1)) {
            end = digits(x, end + 1);
            whole = false;
        }
        e = end + 1 + (end + 1 < x->n && (x->s[end + 1] == '+' || x->s[end + 1] == '-'));
        if (end < x->n && (x->s[end] | 32) == 'e' && digit_at(x, e)) {
            end = digits(x, e);
            whole = false;
        }
    }
    good = whole ? jinja_parse_integer(x->s + x->at, end - x->at, 0, &i, &overflow)
                 : jinja_parse_float(x->s + x->at, end - x->at, &f);
    if (whole && overflow) {
        push(x, LEX_INTEGER, x->r->line, jinja_parse_large(x->r, jinja_string(x->s + x->at, end - x->at)));
        x->at = end;
        return;
    }
    if (!good)
        jinja_fail(x->r, "malformed number %s", jinja_brief(x->r, jinja_string(x->s + x->at, end - x->at)));
    push(x, whole ? LEX_INTEGER : LEX_FLOAT, x->r->line, whole ? jinja_integer(i) : jinja_float(f));
    x->at = end;
}

static void lex_name(struct lexer *x)
{
    size_t end = x->at;

    while (end < x->n && jinja_is_name(jinja_character(x->s + end)))
        end += jinja_width(x->s + end);
    if (end - x->at > NAME_BYTES)
        jinja_fail(x->r, "a name has %zu bytes; the maximum is %d", end - x->at, NAME_BYTES);
    push(x, LEX_NAME, x->r->line, jinja_string(x->s + x->at, end - x->at));
    x->at = end;
}

/* Appends the character whose code point is the N hexadecimal digits at P. Returns the end of the digits. */
static const char *put_hex(struct text *t, const char *p, const char *end, int n)
{
    uint32_t c = 0;

    for (int i = 0; i < n; i++, p++) {
        int digit = p < end ? utf8_hex_digit(*p) : -1;

        if (digit < 0) {
            jinja_fail(t->r, "truncated escape in a string");
            return end;
        }
        c = (c << 4) | (uint32_t)digit;
    }
    if (c > 0x10ffff)
        jinja_fail(t->r, "illegal Unicode character");
    else if (c >= 0xd800 && c < 0xe000)
        jinja_fail(t->r, "\\u%04x is a lone surrogate, which is not a character", c);
    else
        jinja_put_character(t, c);
    return p;
}

/* Reads an escape of Python's unicode-escape codec; an unknown escape is kept as written. Returns its end. */
static const char *put_escape(struct text *t, const char *p, const char *end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    unsigned char c = (unsigned char)*p;
    const char *known = c ? strchr(from, c) : NULL;

    p++;
    if (known) {
        jinja_put_byte(t, to[known - from]);
        return p;
    }
    switch (c) {
    case '\n': return p;
    case 'x': return put_hex(t, p, end, 2);
    case 'u': return put_hex(t, p, end, 4);
    case 'U': return put_hex(t, p, end, 8);
    default: break;
    }
    if (c == 'N' || c >= 0x80 || (c >= '0' && c < '8'))
        jinja_fail(t->r, "the escape \\%.*s is not supported", (int)jinja_width(p - 1), p - 1);
    jinja_put_byte(t, '\\');
    jinja_put_byte(t, (char)c);
    return p;
}

static struct value unescape(struct rendering *r, const char *p, size_t n)
{
    struct text t = {.r = r};
    const char *end = p + n;

    if (!memchr(p, '\\', n))
        return jinja_string(p, n);
    while (p < end && !r->rc) {
        const char *stop = memchr(p, '\\', (size_t)(end - p));

        if (!stop)
            stop = end;
        jinja_put(&t, p, (size_t)(stop - p));
        p = stop;
        if (p < end && ++p < end)
            p = put_escape(&t, p, end);
    }
    return jinja_finish(&t);
}

static void lex_string(struct lexer *x)
{
    char quote = x->s[x->at];
    size_t end = x->at + 1;

    while (end < x->n && x->s[end] != quote)
        end += x->s[end] == '\\' && end + 1 < x->n ? 1 + jinja_width(x->s + end + 1) : 1;
    if (end >= x->n) {
        fail_character(x);
        return;
    }
    push(x, LEX_STRING, x->r->line, unescape(x->r, x->s + x->at + 1, end - x->at - 1));
    lex_advance(x, end + 1);
}

/* Checks that the bracket C matches, and records it if it opens. */
static void balance(struct lexer *x, char c)
{
    char closes = c == '{' ? '}' : c == '(' ? ')' : c == '[' ? ']' : 0;

    if (closes) {
        if (x->open == NESTING_MAX)
            jinja_fail(x->r, "brackets are nested deeper than %d", NESTING_MAX);
        else
            x->closing[x->open++] = closes;
    } else if (c == '}' || c == ')' || c == ']') {
        if (x->open == 0)
            jinja_fail(x->r, "unexpected '%c'", c);
        else if (x->closing[--x->open] != c)
            jinja_fail(x->r, "unexpected '%c', expected '%c'", c, x->closing[x->open]);
    }
}

static void lex_operator(struct lexer *x)
{
    static const char pairs[] = "//**==!=>=<=", single[] = "+-*/%~[](){}><=.:|,;";
    const char *s = x->s + x->at;

    for (int i = 0; pairs[2 * i] && x->at + 1 < x->n; i++)
        if (memcmp(s, pairs + 2 * i, 2) == 0) {
            push(x, LEX_FLOOR_DIVIDE + i, x->r->line, value_none);
            x->at += 2;
            return;
        }
    if (!*s || !strchr(single, *s)) {
        fail_character(x);
        return;
    }
    balance(x, *s);
    push(x, *s, x->r->line, value_none);
    x->at++;
}

/* Reads the tokens of a tag up to its end or to the end of the template. */
static void lex_tag(struct lexer *x, bool print)
{
    x->open = 0;
    while (x->at < x->n && jinja_step(x->r, 0)) {
        size_t end = x->open ? 0 : tag_end(x, x->at, print ? "}}" : "%}", !print, !print);
        uint32_t c = jinja_character(x->s + x->at);

        if (end) {
            push(x, print ? LEX_PRINT_END : LEX_TAG_END, x->r->line, value_none);
            leave_tag(x, end);
            return;
        }
        if (jinja_is_space(c))
            lex_advance(x, skip_space(x, x->at));
        else if (c >= '0' && c <= '9')
            lex_number(x);
        else if (jinja_is_name(c))
            lex_name(x);
        else if (c == '\'' || c == '"')
            lex_string(x);
        else
            lex_operator(x);
    }
}

static void lex_comment(struct lexer *x)
{
    size_t hit = jinja_find(x->s + x->at, x->n - x->at, "#}", 2), end;

    if (x->at == x->n) /* as in Jinja, "{#" at the end of a template does not open a comment */
        return;
    if (hit == SIZE_MAX) {
        jinja_fail(x->r, "Missing end of comment tag");
        return;
    }
    end = x->at + hit;
    if (hit > 0 && (x->s[end - 1] == '-' || x->s[end - 1] == '+'))
        end--;
    end = tag_end(x, end, "#}", true, true);
    leave_tag(x, end);
}

static void lex_raw(struct lexer *x)
{
    size_t tag = x->at, end = 0;

    for (; tag < x->n; tag++) {
        const char *hit = memmem(x->s + tag, x->n - tag, "{%", 2);

        tag = hit ? (size_t)(hit - x->s) : x->n;
        if (!hit || (end = raw_tag(x, tag, "endraw", true)) != 0)
            break;
    }
    if (x->at == x->n)
        return;
    if (!end) {
        jinja_fail(x->r, "Missing end of raw directive");
        return;
    }
    put_data(x, tag, x->s[tag + 2], false);
    leave_tag(x, end);
}

/* Reads the text up to the next tag, and then that tag. */
static void lex_next(struct lexer *x)
{
    size_t tag = x->at, end;
    char kind, sign;

    while (tag + 1 < x->n &&
           !(x->s[tag] == '{' && (x->s[tag + 1] == '{' || x->s[tag + 1] == '%' || x->s[tag + 1] == '#')))
        tag++;
    if (tag + 1 >= x->n) {
        push(x, LEX_DATA, x->r->line, jinja_string(x->s + x->at, x->n - x->at));
        x->at = x->n;
        return;
    }
    kind = x->s[tag + 1];
    sign = tag + 2 < x->n ? x->s[tag + 2] : 0;
    put_data(x, tag, sign, kind == '{');
    end = kind == '%' ? raw_tag(x, tag, "raw", false) : 0;
    if (end) {
        leave_tag(x, end);
        lex_raw(x);
        return;
    }
    x->at += sign == '-' || sign == '+' ? 3 : 2;
    x->line_start = false;
    if (kind == '#') {
        lex_comment(x);
        return;
    }
    push(x, kind == '{' ? LEX_PRINT_BEGIN : LEX_TAG_BEGIN, x->r->line, value_none);
    lex_tag(x, kind == '{');
}

/* Copies the template, with LF for every line end and without one line break at its end. */
static bool normalize(struct lexer *x, const char *src, size_t len)
{
    char *s = jinja_allocate(x->r, len + 1);
    size_t n = 0;

    if (!s)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (src[i] == '\r') {
            s[n++] = '\n';
            i += i + 1 < len && src[i + 1] == '\n';
        } else {
            s[n++] = src[i];
        }
    }
    x->s = s;
    x->n = n && s[n - 1] == '\n' ? n - 1 : n;
    s[n] = 0;
    return true;
}

struct lex_token *jinja_lex(struct rendering *r, const char *src, size_t len, size_t *n)
{
    struct lexer x = {.r = r, .line_start = true};

    *n = 0;
    r->line = 1;
    if (!normalize(&x, src, len))
        return NULL;
    while (x.at < x.n && jinja_step(r, 0))
        lex_next(&x);
    push(&x, LEX_END_OF_TEMPLATE, r->line, value_none);
    *n = r->rc ? 0 : x.count;
    return x.tokens;
}
