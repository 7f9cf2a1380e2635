/* call_words.c - the state machine of calls that are written as in a programming language: Python's f(a="x",
 * b=1), and f{a:1,b:{...}} with a mark around strings. */
#include <string.h>

#include "base/utf8.h"
#include "text/markup/parser_priv.h"

static bool is_python(const struct parser *a)
{
    return a->o.calls->shapes & MARKUP_PYTHON;
}

static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-.", c)) || (unsigned char)c >= 0x80;
}

/* Ends the call before the next byte, which is not valid in its arguments. A call that has not begun becomes
 * plain text. */
static void break_off(struct parser *a)
{
    if (a->call.begun)
        parser_end_call(a, a->at, false);
    else
        parser_misfit(a);
}

static void trim_word(struct parser_call *c)
{
    while (c->word.len && utf8_is_blank(c->word.data[c->word.len - 1]))
        c->word.len--;
}

/* Ends the innermost object or list, or the call. */
static void close_level(struct parser *a)
{
    struct parser_call *c = &a->call;

    call_open(a);
    call_pop(a);
    a->at++;
    c->state = WORDS_AFTER;
    if (c->depth)
        return;
    parser_end_call(a, a->at, true);
    if (is_python(a))
        c->state = WORDS_NEXT;
}

/* Returns whether an opening quote stands at the current position, and sets *LEN to its length. Python calls
 * have ', ", ''' or """, for which the quote and is_triple of the call are set too. Other calls have the
 * string delimiter of the format's row. */
static enum parser_found quote_match(struct parser *a, size_t *len)
{
    static const char *const triple[] = {"\"\"\"", "'''"};
    struct parser_call *c = &a->call;
    char ch = a->in.data[a->at];
    enum parser_found m;

    if (!is_python(a))
        return parser_match(a, a->at, a->o.calls->quote, len);
    if (ch != '"' && ch != '\'')
        return NO_MATCH;
    m = parser_match(a, a->at, triple[ch == '\''], len);
    if (m == MAY_MATCH)
        return m;
    c->is_triple = m == IS_MATCH;
    c->quote = ch;
    *len = c->is_triple ? 3 : 1;
    return IS_MATCH;
}

/* Skips the opening quote of LEN bytes, and begins to read the string. IS_KEY: the string is a key. */
static void begin_string(struct parser *a, size_t len, bool is_key)
{
    struct parser_call *c = &a->call;

    a->at += len;
    c->state = WORDS_STRING;
    c->is_key = is_key;
    c->types = is_key ? 0 : c->types;
    c->escapes = (struct parser_escapes){0};
    /* outside Python, an argument of the call may have a value of another type in quotes */
    call_text_begin(a, is_key || (!is_python(a) && c->depth == 1 && c->types != VALUE_STRING));
}

/* Reads a byte of a string in Python. */
static void python_byte(struct parser *a, char ch)
{
    struct parser_escapes *s = &a->call.escapes;
    char bytes[8];
    size_t n;

    if (s->begun && (ch == 'x' || ch == 'U')) {
        s->begun = false;
        s->digits = ch == 'x' ? 2 : 8;
        s->unit = 0;
    } else if (s->begun && ch == '\n') {
        s->begun = false; /* an escaped line end is dropped */
    } else if (s->begun && !strchr("\\'\"nrtbfu", ch)) {
        s->begun = false; /* Python keeps the backslash of an unknown escape */
        call_text(a, '\\');
        call_text(a, ch);
    } else {
        n = call_decode(s, ch, bytes);
        for (size_t i = 0; i < n; i++)
            call_text(a, bytes[i]);
    }
}

/* Reads a byte of a string, or its end. Returns false if more text is needed. */
static bool string_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    const char quotes[] = {c->quote, c->is_triple ? c->quote : (char)0, c->quote, 0};
    size_t len = 0;
    enum parser_found m = NO_MATCH;

    if (!is_python(a))
        m = parser_match(a, a->at, a->o.calls->quote, &len);
    else if (!c->escapes.begun && !c->escapes.digits)
        m = parser_match(a, a->at, quotes, &len);
    if (m == MAY_MATCH)
        return false;
    if (m == IS_MATCH) {
        a->at += len;
        c->state = c->is_key ? WORDS_COLON : WORDS_AFTER;
        if (!c->is_key)
            call_text_end(a);
    } else if (is_python(a)) {
        python_byte(a, a->in.data[a->at++]);
    } else {
        call_text(a, a->in.data[a->at++]);
    }
    return true;
}

/* Reads a key, or the closing bracket, after the opening bracket or a comma of an object or of the call's arguments.
 * Returns false if more text is needed. */
static bool key_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    char ch = a->in.data[a->at];
    size_t len;
    enum parser_found m;

    if (ch == c->level[c->depth - 1].end) {
        close_level(a);
        return true;
    }
    m = c->depth == 1 && is_python(a) ? NO_MATCH : quote_match(a, &len);
    if (m == MAY_MATCH)
        return false;
    if (m == IS_MATCH) {
        begin_string(a, len, true);
        return true;
    }
    c->word.len = 0;
    c->is_key = false;
    if (is_word_byte(ch))
        c->state = WORDS_IN_KEY;
    else
        break_off(a);
    return true;
}

/* Reads a byte of a key without quotes, or the '=' or ':' after a key. */
static void key_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;
    char separator = c->depth == 1 && is_python(a) ? '=' : ':';
    bool was_blank = c->word.len && utf8_is_blank(c->word.data[c->word.len - 1]);

    if (ch == separator) {
        if (!c->is_key)
            trim_word(c);
        call_open(a);
        call_key(a, c->word.data, c->word.len);
        c->state = WORDS_VALUE;
        a->at++;
    } else if (c->state == WORDS_IN_KEY && c->word.len < PARSER_MAX_NAME &&
               (utf8_is_blank(ch) || (!was_blank && is_word_byte(ch)) ||
                (!is_python(a) && ch && !strchr(",{}[]()", ch)))) {
        buf_char(&c->word, ch);
        a->at++;
    } else {
        break_off(a);
    }
}

static bool opens(struct parser *a, char ch)
{
    static const char open[] = "{[(", close[] = "}])";
    const char *found = ch ? strchr(open, ch) : NULL;
    bool is_object = ch == '{';

    if (!found || (ch == '(' && !is_python(a)))
        return false;
    if (!call_push(a, is_object ? '{' : '[', is_object ? '}' : ']', close[found - open])) {
        break_off(a);
        return true;
    }
    a->call.state = is_object ? WORDS_KEY : WORDS_VALUE;
    a->at++;
    return true;
}

/* Reads the first byte of a value. Returns false if more text is needed. */
static bool value_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    struct parser_level *l = &c->level[c->depth - 1];
    char ch = a->in.data[a->at];
    size_t len;
    enum parser_found m;

    if (l->close == ']' && ch == l->end) {
        close_level(a);
        return true;
    }
    m = quote_match(a, &len);
    if (m == MAY_MATCH)
        return false;
    if (l->close == ']')
        call_key(a, "", 0);
    if (m == IS_MATCH) {
        begin_string(a, len, false);
    } else if (!opens(a, ch)) {
        c->word.len = 0;
        c->state = WORDS_BARE;
    }
    return true;
}

/* Writes the value without quotes in c->word as JSON. Returns false if it is not valid in Python. */
static bool put_bare(struct parser *a)
{
    struct parser_call *c = &a->call;
    const char *s;

    trim_word(c);
    s = c->word.data ? c->word.data : "";
    if (c->schema && !is_python(a))
        call_value(a, c->types, s, c->word.len);
    else if (!call_literal(a, s, c->word.len)) {
        if (is_python(a))
            return false;
        call_value(a, VALUE_STRING, s, c->word.len);
    }
    return true;
}

/* Reads a byte of a value without quotes, or the byte that ends the value. */
static void bare_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;

    if (ch == ',' || ch == c->level[c->depth - 1].end || (is_python(a) && utf8_is_blank(ch))) {
        if (put_bare(a))
            c->state = WORDS_AFTER;
        else
            break_off(a);
    } else if (is_python(a) ? is_word_byte(ch) || ch == '+' : ch != 0) {
        buf_char(&c->word, ch);
        a->at++;
    } else {
        break_off(a);
    }
}

static void after_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;
    struct parser_level *l = &c->level[c->depth - 1];

    if (ch == l->end) {
        close_level(a);
    } else if (ch == ',') {
        c->state = l->close == ']' ? WORDS_VALUE : WORDS_KEY;
        a->at++;
    } else {
        break_off(a);
    }
}

/* Reads a byte after a call in Python: a separator, or the end of the list. */
static void next_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;

    if (ch == ']' && c->list) {
        c->start = ++a->at;
        c->state = AT_CLOSE;
    } else if (ch == ',') {
        a->at++;
    } else if (is_word_byte(ch) && a->n_calls < PARSER_MAX_CALLS) {
        c->word.len = 0;
        c->state = IN_FUNCTION;
    } else {
        a->at = c->start;
        c->state = AT_CLOSE;
    }
}

bool call_words_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    char ch = a->in.data[a->at];

    if (c->state != WORDS_IN_KEY && c->state != WORDS_STRING && c->state != WORDS_BARE && utf8_is_blank(ch)) {
        a->at++;
        return true;
    }
    switch (c->state) {
    case WORDS_KEY: return key_step(a);
    case WORDS_IN_KEY:
    case WORDS_COLON: key_byte(a, ch); return true;
    case WORDS_VALUE: return value_step(a);
    case WORDS_STRING: return string_step(a);
    case WORDS_BARE: bare_byte(a, ch); return true;
    case WORDS_AFTER: after_byte(a, ch); return true;
    default: next_byte(a, ch); return true;
    }
}
