/* call_json.c - the state machine of calls whose arguments are JSON: objects, lists of objects, and arguments after a
 * name. */
#include <string.h>

#include "base/utf8.h"
#include "text/markup/parser_priv.h"

bool call_nest(struct parser_nesting *n, char c)
{
    if (n->quoted) {
        if (n->escaped)
            n->escaped = false;
        else if (c == '\\')
            n->escaped = true;
        else if (c == '"')
            n->quoted = false;
        return !n->quoted && n->depth == 0;
    }
    if (c == '"')
        n->quoted = true;
    else if (c == '{' || c == '[')
        n->depth++;
    else if (c == '}' || c == ']')
        return --n->depth == 0;
    return false;
}

static size_t decode_unit(struct parser_escapes *s, char *out)
{
    uint32_t c = s->unit;

    if (c >= 0xDC00 && c < 0xE000)
        c = s->high ? 0x10000 + ((s->high - 0xD800) << 10) + (c - 0xDC00) : 0xFFFD;
    s->high = 0;
    if (c >= 0xD800 && c < 0xDC00) {
        s->high = c;
        return 0;
    }
    return utf8_encode(c < 0x110000 ? c : 0xFFFD, out);
}

/* An unknown escape is decoded as its letter, half a surrogate pair as U+FFFD. */
size_t call_decode(struct parser_escapes *s, char c, char *out)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    const char *letter;
    size_t n = 0;

    if (s->digits) {
        int v = utf8_hex_digit(c);

        s->unit = s->unit * 16 + (v < 0 ? 0 : (uint32_t)v);
        return --s->digits ? 0 : decode_unit(s, out);
    }
    if (s->begun && c == 'u') {
        s->begun = false;
        s->digits = 4;
        s->unit = 0;
        return 0;
    }
    if (!s->begun && c == '\\') {
        s->begun = true;
        return 0;
    }
    if (s->high)
        n = utf8_encode(0xFFFD, out);
    letter = s->begun ? strchr(from, c) : NULL;
    out[n++] = letter && c ? to[letter - from] : c;
    s->high = 0;
    s->begun = false;
    return n;
}

/* Returns whether C is the quote that ends the string. */
static bool ends_string(const struct parser_escapes *s, char c)
{
    return c == '"' && !s->begun && !s->digits;
}

void call_json_object(struct parser_call *c)
{
    c->state = AT_KEY;
    c->has_args = c->args_done = false;
    c->name.len = 0;
    c->held.len = 0;
}

/* Emits the beginning of the call and the arguments that were held back, once the function's name is known
 * and its arguments have begun. */
static void maybe_begin(struct parser *a)
{
    struct parser_call *c = &a->call;

    if (c->begun || c->name.len == 0 || !c->has_args)
        return;
    parser_begin_call(a);
    call_release(a);
}

static void args_end(struct parser *a)
{
    struct parser_call *c = &a->call;

    c->args_done = true;
    maybe_begin(a);
    if (c->begun)
        c->start = a->at + 1;
}

static void args_begin(struct parser *a, enum parser_call_state state)
{
    struct parser_call *c = &a->call;

    c->state = state;
    c->has_args = true;
    c->nesting = (struct parser_nesting){0};
    c->escapes = (struct parser_escapes){0};
    maybe_begin(a);
}

/* Reads the first byte of a member's value. Returns false if no value can begin with it. */
static bool value_begins(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;

    c->escapes = (struct parser_escapes){0};
    c->nesting = (struct parser_nesting){0};
    c->word.len = 0;
    if (c->member == MEMBER_NAME) {
        c->state = IN_NAME;
        return ch == '"' && c->name.len == 0;
    }
    if (c->member == MEMBER_ARGS) {
        if (c->has_args)
            return false;
        if (ch == '{' || ch == '"') {
            args_begin(a, ch == '{' ? IN_ARGS : IN_QUOTED);
            if (ch == '{') {
                call_nest(&c->nesting, ch);
                parser_args(a, &ch, 1);
            }
            return true;
        }
        if (ch != 'n') /* if the value is null, the call has no arguments */
            return false;
    }
    c->state = IN_VALUE;
    call_nest(&c->nesting, ch);
    return ch != ',' && ch != '}' && ch != ']' && ch != ':';
}

/* Returns whether the key in c->word is NAME, which may be NULL. */
static bool is_key(const struct parser_call *c, const char *name)
{
    return name && c->word.len == strlen(name) && memcmp(c->word.data, name, c->word.len) == 0;
}

/* Recognizes the key in c->word. Returns false if it is not valid. */
static bool key_ends(struct parser *a)
{
    struct parser_call *c = &a->call;
    const struct markup_calls *row = a->o.calls;

    c->state = AT_COLON;
    if (row->shapes & MARKUP_KEYED) {
        if (c->name.len || c->word.len == 0)
            return false;
        buf_add(&c->name, c->word.data, c->word.len);
        c->member = MEMBER_ARGS;
        return true;
    }
    c->member = MEMBER_OTHER;
    if (is_key(c, "name") || is_key(c, row->name_key))
        c->member = MEMBER_NAME;
    if (is_key(c, "arguments") || is_key(c, "parameters") || is_key(c, row->args_key))
        c->member = MEMBER_ARGS;
    return true;
}

/* Reads a byte of a key or of the function's name. Returns false if it does not fit. */
static bool word_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;
    char bytes[8];

    if (!ends_string(&c->escapes, ch)) {
        buf_add(&c->word, bytes, call_decode(&c->escapes, ch, bytes));
        return c->word.len <= PARSER_MAX_NAME;
    }
    if (c->state == IN_KEY)
        return key_ends(a);
    if (c->word.len == 0 || (c->bare && a->o.n_names && !parser_knows(a, c->word.data, c->word.len)))
        return false;
    buf_add(&c->name, c->word.data, c->word.len);
    c->state = AFTER_VALUE;
    maybe_begin(a);
    if (c->begun)
        c->start = a->at + 1;
    return true;
}

/* Reads the '}' that ends the call's object. Returns false if the call is not valid. */
static bool object_ends(struct parser *a)
{
    struct parser_call *c = &a->call;

    if (c->name.len == 0 || (c->bare && !c->has_args))
        return false;
    if (!c->has_args) {
        c->has_args = true;
        parser_args(a, "{}", 2);
        maybe_begin(a);
    }
    parser_end_call(a, a->at + 1, true);
    if (c->list)
        c->state = AFTER_ITEM;
    return true;
}

/* Switches to the state that reads a function's name, whose first byte is at offset AT of `in`. Returns
 * true. */
static bool begins_name(struct parser *a, size_t at)
{
    a->call.state = IN_FUNCTION;
    a->call.word.len = 0;
    a->at = at - 1;
    return true;
}

/* ---- the structure ---- */

/* Reads a byte after a complete call: a separator, or the beginning of another call. Returns false
 * otherwise. */
static bool close_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;
    const struct markup_calls *row = a->o.calls;
    bool more_calls = a->n_calls < PARSER_MAX_CALLS;

    if (row->bare == '{' && ch == ';')
        return true;
    if (row->bare == '{' && ch == '{' && more_calls) {
        call_json_object(c);
        return true;
    }
    return row->no_mark && c->named && more_calls && call_is_name(row, ch) && begins_name(a, a->at);
}

/* Reads the first byte of a call. Returns false if no call begins with it. */
static bool head_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;
    unsigned shapes = a->o.calls->shapes;

    if (ch == '[' && shapes & MARKUP_LIST) {
        c->list = true;
        c->state = AT_ITEM;
    } else if (ch == '{' && shapes & MARKUP_OBJECT) {
        call_json_object(c);
    } else {
        c->list = ch == '[' && shapes & MARKUP_PYTHON;
        return shapes & ~(unsigned)(MARKUP_OBJECT | MARKUP_LIST | MARKUP_KEYED) &&
               begins_name(a, a->at + c->list);
    }
    return true;
}

/* Reads a byte inside the value of a member. Returns false if it does not fit. */
static bool value_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;
    char bytes[8];

    if (c->state == IN_ARGS) {
        parser_args(a, &ch, 1);
        if (call_nest(&c->nesting, ch)) {
            args_end(a);
            c->state = AFTER_VALUE;
            if (c->named)
                parser_end_call(a, a->at + 1, true);
        }
    } else if (c->state == IN_QUOTED) {
        if (ends_string(&c->escapes, ch)) {
            args_end(a);
            c->state = AFTER_VALUE;
        } else {
            parser_args(a, bytes, call_decode(&c->escapes, ch, bytes));
        }
    } else if (c->nesting.depth || c->nesting.quoted) {
        if (call_nest(&c->nesting, ch))
            c->state = AFTER_VALUE;
    } else if (ch == ',' || ch == '}' || utf8_is_blank(ch)) { /* end of a number or literal */
        c->state = AFTER_VALUE;
        a->at--; /* read this byte again */
    } else {
        return strchr("\"[]{:", ch) == NULL;
    }
    return true;
}

/* Reads a byte of the call's syntax, outside of keys and values. The caller has skipped white space. Returns
 * false if the byte is not valid there. */
static bool structure_byte(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;

    switch (c->state) {
    case AT_OPEN:
    case AT_HEAD: return head_byte(a, ch);
    case AT_ITEM: call_json_object(c); return ch == '{' && a->n_calls < PARSER_MAX_CALLS;
    case AT_KEY:
        c->state = IN_KEY;
        c->escapes = (struct parser_escapes){0};
        c->word.len = 0;
        return ch == '"';
    case AT_COLON: c->state = AT_VALUE; return ch == ':';
    case AT_VALUE: return value_begins(a, ch);
    case AFTER_VALUE:
        if (ch == '}')
            return object_ends(a);
        c->state = AT_KEY;
        return ch == ',';
    case AFTER_ITEM:
        if (ch == ']') {
            c->start = a->at + 1;
            c->state = AT_CLOSE;
            return true;
        }
        c->state = AT_ITEM;
        return ch == ',';
    case AT_ARGS:
        if (ch != '{')
            return false;
        args_begin(a, IN_ARGS);
        call_nest(&c->nesting, ch);
        parser_args(a, &ch, 1);
        return true;
    default: return close_byte(a, ch);
    }
}

bool call_json_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    char ch = a->in.data[a->at];
    bool fits;

    switch (c->state) {
    case IN_KEY:
    case IN_NAME: fits = word_byte(a, ch); break;
    case IN_VALUE:
    case IN_ARGS:
    case IN_QUOTED: fits = value_byte(a, ch); break;
    default: fits = utf8_is_blank(ch) || structure_byte(a, ch);
    }
    if (fits)
        a->at++;
    else
        parser_misfit(a);
    return true;
}
