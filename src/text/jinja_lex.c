/* jinja_lex.c - follows the regular expressions of Jinja's lexer, alternative by alternative, by hand. */
#include "text/jinja_lex.h"

#include <ctype.h>
#include <string.h>

#include "text/jinja_int.h"
#include "text/jinja_litstr.h"
#include "text/jinja_num.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_uni.h"

enum { NESTING_MAX = 256 };

struct lex {
    struct jrun *r;
    const char *s;
    size_t n, at;
    bool line_start; /* the last match ended a line */
    struct jtok *tok;
    size_t n_tok, cap;
    char close[NESTING_MAX]; /* what closes the brackets that are open */
    size_t n_close;
};

const char *jinja_lex_name(enum jtok_type t)
{
    static const char *const name[] = {
        [JT_EOF] = "end of template",
        [JT_DATA] = "template data / text",
        [JT_VAR_BEGIN] = "begin of print statement",
        [JT_VAR_END] = "end of print statement",
        [JT_BLOCK_BEGIN] = "begin of statement block",
        [JT_BLOCK_END] = "end of statement block",
        [JT_NAME] = "name",
        [JT_STRING] = "string",
        [JT_INTEGER] = "integer",
        [JT_FLOAT] = "float",
        [JT_ADD] = "+",
        [JT_SUB] = "-",
        [JT_MUL] = "*",
        [JT_DIV] = "/",
        [JT_FLOORDIV] = "//",
        [JT_MOD] = "%",
        [JT_POW] = "**",
        [JT_TILDE] = "~",
        [JT_LBRACKET] = "[",
        [JT_RBRACKET] = "]",
        [JT_LPAREN] = "(",
        [JT_RPAREN] = ")",
        [JT_LBRACE] = "{",
        [JT_RBRACE] = "}",
        [JT_EQ] = "==",
        [JT_NE] = "!=",
        [JT_GT] = ">",
        [JT_GE] = ">=",
        [JT_LT] = "<",
        [JT_LE] = "<=",
        [JT_ASSIGN] = "=",
        [JT_DOT] = ".",
        [JT_COLON] = ":",
        [JT_PIPE] = "|",
        [JT_COMMA] = ",",
        [JT_SEMICOLON] = ";",
    };

    return name[t];
}

static void push(struct lex *x, enum jtok_type type, uint32_t line, struct jv value)
{
    if (x->n_tok == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 64;
        struct jtok *grown = jinja_run_alloc(x->r, cap * sizeof(*grown));

        if (!grown)
            return;
        if (x->n_tok)
            memcpy(grown, x->tok, x->n_tok * sizeof(*grown));
        x->tok = grown;
        x->cap = cap;
    }
    x->tok[x->n_tok++] = (struct jtok){.type = type, .line = line, .value = value};
}

/* A constant of the template: counted now, so that renderings only read it. */
static struct jv constant(struct lex *x, size_t from, size_t to)
{
    struct jv v = jinja_str_ref(x->r, x->s + from, to - from);

    if (jv_is(v, JV_STR))
        jinja_str_chars(v.u.str);
    return v;
}

/* Counts the lines of s[at, to) and goes there. */
static void advance(struct lex *x, size_t to)
{
    for (size_t i = x->at; i < to; i++)
        x->r->line += x->s[i] == '\n';
    x->at = to;
}

static size_t skip_space(const struct lex *x, size_t i)
{
    while (i < x->n && jinja_uni_space(jinja_str_char(x->s + i)))
        i += jinja_str_step(x->s + i);
    return i;
}

static bool looking_at(const struct lex *x, size_t i, const char *what)
{
    size_t n = strlen(what);

    return x->n - i >= n && memcmp(x->s + i, what, n) == 0;
}

/* The end of a tag at I, END being "%}" or the like: behind it and the white space it takes along; 0 if
 * none is there. */
static size_t tag_end(const struct lex *x, size_t i, const char *end, bool plus, bool trim)
{
    if (i + 3 <= x->n && x->s[i] == '-' && looking_at(x, i + 1, end))
        return skip_space(x, i + 3);
    if (plus && i + 3 <= x->n && x->s[i] == '+' && looking_at(x, i + 1, end))
        return i + 3;
    if (!looking_at(x, i, end))
        return 0;
    return i + 2 + (trim && i + 2 < x->n && x->s[i + 2] == '\n');
}

/* {% raw %} or, for WORD "endraw", its end: the offset behind it, 0 if the tag at I is not that. */
static size_t raw_tag(const struct lex *x, size_t i, const char *word, bool trim)
{
    bool closing = trim;

    i += 2;
    i += i < x->n && (x->s[i] == '-' || x->s[i] == '+');
    i = skip_space(x, i);
    if (!looking_at(x, i, word))
        return 0;
    i = skip_space(x, i + strlen(word));
    return tag_end(x, i, "%}", closing, trim);
}

/* Emits the text s[at, tag) before a tag, of which SIGN is the character behind its two braces. */
static void put_data(struct lex *x, size_t tag, char sign, bool variable)
{
    size_t from = x->at, to = tag, line = tag;

    if (sign == '-') {
        while (to > from &&
               jinja_uni_space(jinja_str_char(x->s + to - jinja_str_back(x->s + from, to - from))))
            to -= jinja_str_back(x->s + from, to - from);
    } else if (sign != '+' && !variable) {
        while (line > from && x->s[line - 1] != '\n' &&
               jinja_uni_space(jinja_str_char(x->s + line - jinja_str_back(x->s + from, line - from))))
            line -= jinja_str_back(x->s + from, line - from);
        if (line > from ? x->s[line - 1] == '\n' : x->line_start)
            to = line;
    }
    if (to > from)
        push(x, JT_DATA, x->r->line, constant(x, from, to));
    advance(x, tag);
}

static void fail_char(struct lex *x)
{
    struct jv c = jinja_str_ref(x->r, x->s + x->at, jinja_str_step(x->s + x->at));

    jinja_run_fail(x->r, "unexpected char %s at %zu", jinja_repr_brief(x->r, c),
                   jinja_str_count(x->s, x->at));
}

static size_t digits(const struct lex *x, size_t i)
{
    while (i < x->n && (isdigit((unsigned char)x->s[i]) ||
                        (x->s[i] == '_' && i > x->at && isdigit((unsigned char)x->s[i - 1]) && i + 1 < x->n &&
                         isdigit((unsigned char)x->s[i + 1]))))
        i++;
    return i;
}

/* The end of a float literal at the current place, or 0. */
static size_t float_end(const struct lex *x)
{
    size_t i = digits(x, x->at), e;
    bool some = false;

    if (x->at > 0 && x->s[x->at - 1] == '.')
        return 0;
    if (i + 1 < x->n && x->s[i] == '.' && isdigit((unsigned char)x->s[i + 1])) {
        i = digits(x, i + 1);
        some = true;
    }
    if (i < x->n && (x->s[i] | 32) == 'e') {
        e = i + 1;
        e += e < x->n && (x->s[e] == '+' || x->s[e] == '-');
        if (e < x->n && isdigit((unsigned char)x->s[e]))
            return digits(x, e);
    }
    return some ? i : 0;
}

static bool in_base(char c, unsigned base)
{
    return base == 16 ? isxdigit((unsigned char)c) != 0 : c >= '0' && c < (char)('0' + base);
}

static size_t integer_end(const struct lex *x, unsigned *base)
{
    size_t i = x->at, from;
    char kind = i + 1 < x->n ? (char)(x->s[i + 1] | 32) : 0;

    *base = 10;
    if (x->s[i] == '0' && (kind == 'x' || kind == 'o' || kind == 'b')) {
        *base = kind == 'x' ? 16 : kind == 'o' ? 8 : 2;
        for (from = i = x->at + 2; i < x->n; i++)
            if (!in_base(x->s[i], *base) && !(x->s[i] == '_' && i + 1 < x->n && in_base(x->s[i + 1], *base)))
                break;
        if (i > from)
            return i;
        *base = 10;
        i = x->at;
    }
    if (x->s[i] == '0') { /* zeros only: 007 is two literals */
        for (i++; i < x->n; i++)
            if (x->s[i] != '0' && !(x->s[i] == '_' && i + 1 < x->n && x->s[i + 1] == '0'))
                break;
        return i;
    }
    return digits(x, i);
}

static void lex_number(struct lex *x)
{
    uint32_t line = x->r->line;
    size_t end = float_end(x);
    struct jv v = jv_none();
    unsigned base;
    double f = 0;

    if (end) {
        if (!jinja_num_parse_float(x->s + x->at, end - x->at, &f))
            jinja_run_fail(x->r, "a number of %zu characters is too long", end - x->at);
        push(x, JT_FLOAT, line, jv_float(f));
    } else {
        end = integer_end(x, &base);
        if (!jinja_num_parse_int(x->r, x->s + x->at, end - x->at, base == 10 ? 10 : 0, &v))
            jinja_run_fail(x->r, "a number of %zu characters is too long", end - x->at);
        push(x, JT_INTEGER, line, v);
    }
    x->at = end;
}

static void lex_name(struct lex *x)
{
    size_t end = x->at;

    while (end < x->n && jinja_uni_name(jinja_str_char(x->s + end)))
        end += jinja_str_step(x->s + end);
    push(x, JT_NAME, x->r->line, constant(x, x->at, end));
    x->at = end;
}

static void lex_string(struct lex *x)
{
    char quote = x->s[x->at];
    size_t end = x->at + 1;
    struct jv v;

    while (end < x->n && x->s[end] != quote)
        end += x->s[end] == '\\' && end + 1 < x->n ? 1 + jinja_str_step(x->s + end + 1) : 1;
    if (end >= x->n) {
        fail_char(x);
        return;
    }
    v = jinja_litstr_read(x->r, x->s + x->at + 1, end - x->at - 1);
    push(x, JT_STRING, x->r->line, v);
    advance(x, end + 1);
}

static const struct {
    const char *text;
    enum jtok_type type;
} operators[] = {
    /* longer ones first */
    {"//", JT_FLOORDIV}, {"**", JT_POW},   {"==", JT_EQ},      {"!=", JT_NE},      {">=", JT_GE},
    {"<=", JT_LE},       {"+", JT_ADD},    {"-", JT_SUB},      {"*", JT_MUL},      {"/", JT_DIV},
    {"%", JT_MOD},       {"~", JT_TILDE},  {"[", JT_LBRACKET}, {"]", JT_RBRACKET}, {"(", JT_LPAREN},
    {")", JT_RPAREN},    {"{", JT_LBRACE}, {"}", JT_RBRACE},   {">", JT_GT},       {"<", JT_LT},
    {"=", JT_ASSIGN},    {".", JT_DOT},    {":", JT_COLON},    {"|", JT_PIPE},     {",", JT_COMMA},
    {";", JT_SEMICOLON},
};

static void balance(struct lex *x, char c)
{
    char closes = c == '{' ? '}' : c == '(' ? ')' : c == '[' ? ']' : 0;

    if (closes) {
        if (x->n_close == NESTING_MAX)
            jinja_run_fail(x->r, "brackets are nested deeper than %d", NESTING_MAX);
        else
            x->close[x->n_close++] = closes;
    } else if (c == '}' || c == ')' || c == ']') {
        if (x->n_close == 0)
            jinja_run_fail(x->r, "unexpected '%c'", c);
        else if (x->close[--x->n_close] != c)
            jinja_run_fail(x->r, "unexpected '%c', expected '%c'", c, x->close[x->n_close]);
    }
}

static void lex_operator(struct lex *x)
{
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (looking_at(x, x->at, operators[i].text)) {
            balance(x, x->s[x->at]);
            push(x, operators[i].type, x->r->line, jv_none());
            x->at += strlen(operators[i].text);
            return;
        }
    fail_char(x);
}

/* The tokens of one tag up to its end, or to the end of the template. */
static void lex_tag(struct lex *x, bool variable)
{
    x->n_close = 0;
    while (x->at < x->n && jinja_run_step(x->r, 0)) {
        size_t end = x->n_close ? 0 : tag_end(x, x->at, variable ? "}}" : "%}", !variable, !variable);
        unsigned char c = (unsigned char)x->s[x->at];

        if (end) {
            push(x, variable ? JT_VAR_END : JT_BLOCK_END, x->r->line, jv_none());
            advance(x, end);
            x->line_start = x->s[end - 1] == '\n';
            return;
        }
        if (jinja_uni_space(jinja_str_char(x->s + x->at)))
            advance(x, skip_space(x, x->at));
        else if (isdigit(c))
            lex_number(x);
        else if (jinja_uni_name_start(jinja_str_char(x->s + x->at)))
            lex_name(x);
        else if (c == '\'' || c == '"')
            lex_string(x);
        else
            lex_operator(x);
    }
}

static void lex_comment(struct lex *x)
{
    size_t hit = jinja_str_find(x->s + x->at, x->n - x->at, "#}", 2), end;

    if (x->at == x->n) /* as in Jinja, a comment of which there is only the beginning is none */
        return;
    if (hit == SIZE_MAX) {
        jinja_run_fail(x->r, "Missing end of comment tag");
        return;
    }
    end = x->at + hit;
    if (hit > 0 && (x->s[end - 1] == '-' || x->s[end - 1] == '+'))
        end--;
    end = tag_end(x, end, "#}", true, true);
    advance(x, end);
    x->line_start = x->s[end - 1] == '\n';
}

static void lex_raw(struct lex *x)
{
    size_t tag = x->at, end = 0;
    char sign;

    for (; tag < x->n; tag++) {
        const char *hit = memmem(x->s + tag, x->n - tag, "{%", 2);

        tag = hit ? (size_t)(hit - x->s) : x->n;
        if (!hit || (end = raw_tag(x, tag, "endraw", true)) != 0)
            break;
    }
    if (x->at == x->n)
        return;
    if (!end) {
        jinja_run_fail(x->r, "Missing end of raw directive");
        return;
    }
    sign = x->s[tag + 2];
    put_data(x, tag, sign, false);
    advance(x, end);
    x->line_start = x->s[end - 1] == '\n';
}

/* Text up to the next tag, and the tag. */
static void lex_root(struct lex *x)
{
    size_t tag = x->at, end;
    char kind, sign;

    while (tag + 1 < x->n && !(x->s[tag] == '{' && strchr("{%#", x->s[tag + 1]) && x->s[tag + 1]))
        tag++;
    if (tag + 1 >= x->n) {
        push(x, JT_DATA, x->r->line, constant(x, x->at, x->n));
        x->at = x->n;
        return;
    }
    kind = x->s[tag + 1];
    sign = tag + 2 < x->n ? x->s[tag + 2] : 0;
    put_data(x, tag, sign, kind == '{');
    end = kind == '%' ? raw_tag(x, tag, "raw", false) : 0;
    if (end) {
        advance(x, end);
        x->line_start = x->s[end - 1] == '\n';
        lex_raw(x);
        return;
    }
    x->at += sign == '-' || sign == '+' ? 3 : 2;
    x->line_start = false;
    if (kind == '#') {
        lex_comment(x);
        return;
    }
    push(x, kind == '{' ? JT_VAR_BEGIN : JT_BLOCK_BEGIN, x->r->line, jv_none());
    lex_tag(x, kind == '{');
}

/* The text with \n for every line end and without one trailing line break. */
static bool normalize(struct lex *x, const char *src, size_t len)
{
    char *s = jinja_run_alloc(x->r, len);
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
    return true;
}

void jinja_lex_run(struct jrun *r, const char *src, size_t len, struct jtoks *out)
{
    struct lex x = {.r = r, .line_start = true};

    *out = (struct jtoks){.v = NULL};
    r->line = 1;
    if (!normalize(&x, src, len))
        return;
    while (x.at < x.n && jinja_run_step(r, 0))
        lex_root(&x);
    push(&x, JT_EOF, r->line, jv_none());
    *out = (struct jtoks){.v = x.tok, .n = x.n_tok};
}
