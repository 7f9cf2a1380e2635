/* parser.c - three state machines over one text: plain text with marks, a tool call, and the channels of
 * harmony.
 *
 * Text stays in `in` while it may have to be read again: a call is parsed from its mark on. If it turns
 * out not to be a call, the mark is plain text and parsing continues after the mark. At each byte a
 * machine decides from the bytes up to it, or reports that it needs more text. Therefore the result does
 * not depend on how the text was split.
 */
#include "text/markup/parser.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/utf8.h"

enum { MAX_BLANKS = 4096, MAX_HEADER = 1024, MAX_MARKS = 5 };

enum machine { TEXT, CALL, HEADER, BODY, BETWEEN };

enum call_state {
    AT_HEAD,     /* after the opening mark */
    AT_ITEM,     /* in a list of calls: '{' must follow */
    AT_FIRST,    /* after '{': the first key follows */
    AT_KEY,      /* after ',': the next key follows */
    IN_KEY,      /* inside a key string */
    AT_COLON,    /* after a key */
    AT_VALUE,    /* after ':' */
    IN_NAME,     /* inside the string value of "name" */
    IN_VALUE,    /* inside the value of a member other than name and arguments */
    IN_ARGS,     /* inside arguments that are an object */
    IN_QUOTED,   /* inside arguments that are a string with JSON text */
    AFTER_VALUE, /* ',' or '}' must follow */
    AFTER_ITEM,  /* ',' or ']' must follow */
    IN_NAMED,    /* inside f[ARGS] before '{' */
    AT_CLOSE,    /* after a complete call: the closing mark or another call may follow */
};

enum member { MEMBER_OTHER, MEMBER_NAME, MEMBER_ARGS };

/* Position inside a JSON value: depth of lists and objects, and whether inside a string. */
struct nesting {
    size_t depth;
    bool quoted, escaped;
};

/* State of decoding the escapes of a JSON string. */
struct escapes {
    bool begun; /* a backslash was read */
    int digits; /* number of digits of \uXXXX still to be read */
    uint32_t unit, high;
};

struct tool_call {
    enum call_state state;
    size_t start; /* offset in `in` from which text is plain if this is not a call */
    /* if this is not a call: number of bytes at START that become plain text and are not searched for marks
     * again */
    size_t mark_len;
    bool bare, list, named;
    enum member member;
    struct buf word; /* a key, a name, or the text before '{' in f[ARGS]{ */
    struct buf name; /* name of the function; empty: unknown yet */
    struct buf args; /* arguments that were read before the name */
    struct nesting nesting;
    struct escapes escapes;
    bool begun;    /* the piece PARSER_CALL was put out */
    bool has_args; /* the arguments have begun */
    bool args_done;
    bool lost; /* memory ran out for a buffer that was cleared since */
};

struct slot {
    enum parser_kind kind;
    unsigned call;
    bool complete;
    size_t at, len; /* offset and length in `out` */
    char id[PARSER_ID_SIZE];
};

struct parser {
    struct parser_options o;
    struct buf in, out, blanks; /* BLANKS: white space that is held back because a mark may follow */
    size_t at;                  /* offset of the next byte in `in` */
    struct slot *slot;
    size_t n_slots, slots_cap, taken;
    enum machine machine;
    enum parser_kind mode; /* kind of plain text: CONTENT or REASONING; in BODY also ARGUMENTS */
    bool finishing, muted;
    bool content_begun, reasoning_begun;
    bool after_reasoning; /* drop line ends now: they belong to the mark that closed the reasoning */
    bool ended_by_call;   /* a call ended the reasoning, whose closing mark may still follow */
    size_t line_ends;     /* number of line ends held back in reasoning: the closing mark may follow */
    unsigned n_calls;
    struct tool_call call;
    /* The following members are used only for the channels of harmony. */
    size_t header; /* offset of the header in `in` */
    bool fresh;    /* no byte of the answer was read yet */
    bool separate; /* put a line end before the message, because an earlier message of its kind had text */
};

/* Clears B, and remembers in C->lost if memory had run out for it. */
static void empty(struct tool_call *c, struct buf *b)
{
    c->lost |= b->oom;
    buf_clear(b);
}

/* ---- pieces ---- */

static void parser_put(struct parser *a, enum parser_kind kind, const char *s, size_t n)
{
    struct slot *last = a->n_slots ? &a->slot[a->n_slots - 1] : NULL;
    unsigned call = kind >= PARSER_CALL ? a->n_calls - 1 : 0;

    if (a->muted || (kind >= PARSER_CALL && a->o.one_call && call > 0))
        return;
    if (n == 0 && kind != PARSER_CALL && kind != PARSER_CALL_END)
        return;
    if (!last || last->kind != kind || last->call != call || a->n_slots == a->taken ||
        kind == PARSER_CALL_END) {
        void *slots = a->slot;

        if (!mem_grow(&slots, &a->slots_cap, a->n_slots + 1, sizeof(*a->slot), MEM_TEXT)) {
            a->out.oom = true;
            return;
        }
        a->slot = slots;
        last = &a->slot[a->n_slots++];
        *last = (struct slot){.kind = kind, .call = call, .at = a->out.len};
    }
    buf_add(&a->out, s, n);
    last->len += n;
}

static void put_id(const struct parser *a, struct slot *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    bool brief = a->o.calls && a->o.calls->short_id;
    size_t n = brief ? 9 : 24, at = 0;
    uint32_t random[4] = {0};

    if (!brief) {
        memcpy(s->id, "call_", 5);
        at = 5;
    }
    for (size_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            rng_block(a->o.seed, s->call, i / 4, random);
        s->id[at + i] = letters[random[i % 4] % (sizeof(letters) - 1)];
    }
    s->id[at + n] = 0;
}

static void put_call(struct parser *a, const char *name, size_t n)
{
    size_t before = a->n_slots;

    a->n_calls++;
    parser_put(a, PARSER_CALL, name, n);
    if (a->n_slots > before)
        put_id(a, &a->slot[before]);
}

static void put_call_end(struct parser *a, bool complete)
{
    size_t before = a->n_slots;

    parser_put(a, PARSER_CALL_END, "", 0);
    if (a->n_slots > before)
        a->slot[before].complete = complete;
}

bool parser_take(struct parser *a, struct parser_piece *p)
{
    const struct slot *s;

    if (a->taken == a->n_slots)
        return false;
    s = &a->slot[a->taken++];
    *p = (struct parser_piece){.kind = s->kind,
                               .call = s->call,
                               .text = a->out.data ? a->out.data + s->at : "",
                               .len = s->len,
                               .complete = s->complete};
    memcpy(p->id, s->id, sizeof(p->id));
    return true;
}

/* ---- plain text ---- */

/* Puts out the white space that was held back, as content. */
static void put_blanks(struct parser *a)
{
    size_t skip = 0;

    while (a->after_reasoning && skip < a->blanks.len && a->blanks.data[skip] == '\n')
        skip++;
    if (a->blanks.len > skip)
        parser_put(a, PARSER_CONTENT, a->blanks.data + skip, a->blanks.len - skip);
    empty(&a->call, &a->blanks);
}

static void plain_content(struct parser *a, char c)
{
    if (utf8_is_blank(c) && a->blanks.len < MAX_BLANKS && (a->o.calls || !a->content_begun)) {
        buf_char(&a->blanks, c);
        return;
    }
    put_blanks(a);
    a->after_reasoning = false;
    a->content_begun = true;
    parser_put(a, PARSER_CONTENT, &c, 1);
}

static void put_line_ends(struct parser *a)
{
    if (a->reasoning_begun)
        for (; a->line_ends; a->line_ends--)
            parser_put(a, PARSER_REASONING, "\n", 1);
    a->line_ends = 0;
}

static void plain(struct parser *a, char c)
{
    if (a->mode == PARSER_CONTENT) {
        plain_content(a, c);
    } else if (c == '\n' && a->line_ends < MAX_BLANKS) {
        a->line_ends++;
    } else {
        put_line_ends(a);
        a->reasoning_begun = true;
        parser_put(a, PARSER_REASONING, &c, 1);
    }
}

enum match { NO_MATCH, MAY_MATCH, IS_MATCH };

static enum match match(const struct parser *a, size_t at, const char *mark)
{
    size_t n = a->in.len - at, len = strlen(mark);

    if (memcmp(a->in.data + at, mark, n < len ? n : len) != 0)
        return NO_MATCH;
    return n >= len ? IS_MATCH : MAY_MATCH;
}

/* Returns the mark of MARKS [n] that begins at the next byte, or NULL. *MORE: a mark may begin there, but
 * more text is needed to decide. */
static const char *match_any(const struct parser *a, const char *const *marks, size_t n, bool *more)
{
    *more = false;
    for (size_t i = 0; i < n; i++) {
        enum match m = match(a, a->at, marks[i]);

        if (m == IS_MATCH)
            return marks[i];
        *more |= m == MAY_MATCH && !a->finishing;
    }
    return NULL;
}

static void start_object(struct tool_call *c)
{
    c->state = AT_FIRST;
    c->has_args = c->args_done = false;
    empty(c, &c->name);
    empty(c, &c->args);
}

static void begin_call(struct parser *a, size_t mark_len, enum call_state state)
{
    struct tool_call *c = &a->call;

    c->start = a->at;
    c->mark_len = mark_len;
    c->bare = c->list = c->named = c->begun = false;
    start_object(c);
    c->state = state;
    a->machine = CALL;
    a->at += mark_len;
}

/* Skips MARK, a mark of the reasoning row, and enters or leaves reasoning. */
static void enter(struct parser *a, const char *mark)
{
    a->at += strlen(mark);
    if (mark == a->o.reasoning->open) {
        a->mode = PARSER_REASONING;
        a->line_ends = a->reasoning_begun;
        empty(&a->call, &a->blanks);
        return;
    }
    a->after_reasoning = a->mode == PARSER_REASONING;
    a->ended_by_call = false;
    a->mode = PARSER_CONTENT;
    a->line_ends = 0;
}

/* Collects in MARKS the marks that are valid at this position, and returns their number. Reasoning can open
 * only before any content, because content may mention the mark. */
static size_t marks_here(const struct parser *a, const char **marks)
{
    const struct markup_reasoning *r = a->o.reasoning;
    bool reasoning = a->mode == PARSER_REASONING;
    size_t n = 0;

    if (a->o.calls && a->n_calls < PARSER_MAX_CALLS)
        for (size_t i = 0; i < MARKUP_MAX_OPEN && a->o.calls->open[i]; i++)
            marks[n++] = a->o.calls->open[i];
    if (r && (reasoning ? !a->reasoning_begun : !a->content_begun))
        marks[n++] = r->open;
    if (r && (reasoning || a->ended_by_call))
        marks[n++] = r->close;
    return n;
}

/* Reads one byte or mark of plain text. Returns false if more text is needed. */
static bool text_step(struct parser *a)
{
    const char *marks[MAX_MARKS], *mark;
    bool more;

    mark = match_any(a, marks, marks_here(a, marks), &more);
    if (mark && a->o.reasoning && (mark == a->o.reasoning->open || mark == a->o.reasoning->close)) {
        enter(a, mark);
    } else if (mark) {
        begin_call(a, strlen(mark), AT_HEAD);
    } else if (more) {
        return false;
    } else if (a->o.calls && a->o.calls->bare && a->mode == PARSER_CONTENT && !a->content_begun &&
               a->in.data[a->at] == '{' && a->n_calls < PARSER_MAX_CALLS) {
        begin_call(a, 1, AT_FIRST);
        a->call.bare = true;
    } else {
        plain(a, a->in.data[a->at++]);
    }
    return true;
}

static void finish_text(struct parser *a)
{
    if (a->mode == PARSER_REASONING)
        put_line_ends(a);
    else if (a->n_calls == 0)
        put_blanks(a);
}

/* ---- calls ---- */

/* Advances N by the byte C of a JSON value. Returns true if C ends the value. */
static bool nest(struct nesting *n, char c)
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

static size_t decode_unit(struct escapes *s, char *out)
{
    uint32_t c = s->unit;

    if (c >= 0xDC00 && c < 0xE000)
        c = s->high ? 0x10000 + ((s->high - 0xD800) << 10) + (c - 0xDC00) : 0xFFFD;
    s->high = 0;
    if (c >= 0xD800 && c < 0xDC00) {
        s->high = c;
        return 0;
    }
    return utf8_encode(c, out);
}

/* Decodes one byte of a JSON string into OUT [8] and returns the number of decoded bytes. An unknown escape
 * is decoded as its letter, half a surrogate pair as U+FFFD. */
static size_t decode(struct escapes *s, char c, char *out)
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
static bool ends_string(const struct escapes *s, char c)
{
    return c == '"' && !s->begun && !s->digits;
}

/* Returns to plain text, because the text is not a call: the first mark_len bytes are plain, and parsing
 * continues after them. */
static void give_up(struct parser *a)
{
    struct tool_call *c = &a->call;

    a->machine = TEXT;
    a->at = c->start;
    for (; c->mark_len; c->mark_len--)
        plain(a, a->in.data[a->at++]);
}

/* Ends the complete call. The text after it begins at offset BEHIND in `in`. */
static void end_call(struct parser *a, size_t behind)
{
    struct tool_call *c = &a->call;

    put_call_end(a, true);
    c->begun = false;
    c->start = behind;
    c->mark_len = 0;
    c->state = AT_CLOSE;
}

/* Handles a byte that cannot be part of the call: ends a call that has begun, or treats the text as plain. */
static void misfit(struct parser *a)
{
    struct tool_call *c = &a->call;

    if (!c->begun) {
        give_up(a);
        return;
    }
    a->at = c->start;
    end_call(a, c->start);
}

static bool is_known(const struct parser *a, const char *name, size_t n)
{
    for (size_t i = 0; i < a->o.n_names; i++)
        if (strlen(a->o.names[i]) == n && memcmp(a->o.names[i], name, n) == 0)
            return true;
    return false;
}

/* Puts the call out if its name is known and its arguments have begun. */
static void maybe_begin(struct parser *a)
{
    struct tool_call *c = &a->call;

    if (c->begun || c->name.len == 0 || !c->has_args)
        return;
    if (a->mode == PARSER_REASONING) {
        a->mode = PARSER_CONTENT;
        a->ended_by_call = true;
        a->line_ends = 0;
    }
    put_call(a, c->name.data, c->name.len);
    c->begun = true;
    if (c->args.len)
        parser_put(a, PARSER_ARGUMENTS, c->args.data, c->args.len);
    empty(c, &c->args);
}

static void args_bytes(struct parser *a, const char *s, size_t n)
{
    if (a->call.begun)
        parser_put(a, PARSER_ARGUMENTS, s, n);
    else
        buf_add(&a->call.args, s, n);
}

static void args_end(struct parser *a)
{
    struct tool_call *c = &a->call;

    c->args_done = true;
    maybe_begin(a);
    if (c->begun)
        c->start = a->at + 1;
}

static void args_begin(struct parser *a, enum call_state state)
{
    struct tool_call *c = &a->call;

    c->state = state;
    c->has_args = true;
    c->nesting = (struct nesting){0};
    c->escapes = (struct escapes){0};
    maybe_begin(a);
}

/* Reads the first byte of a member's value. Returns false if no value can begin with it. */
static bool value_begins(struct parser *a, char ch)
{
    struct tool_call *c = &a->call;

    c->escapes = (struct escapes){0};
    c->nesting = (struct nesting){0};
    empty(c, &c->word);
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
                nest(&c->nesting, ch);
                args_bytes(a, &ch, 1);
            }
            return true;
        }
        if (ch != 'n') /* if the value is null, the call has no arguments */
            return false;
    }
    c->state = IN_VALUE;
    nest(&c->nesting, ch);
    return ch != ',' && ch != '}' && ch != ']' && ch != ':';
}

static void key_ends(struct tool_call *c)
{
    static const char *const names[] = {"arguments", "parameters"};

    c->member = c->word.len == 4 && memcmp(c->word.data, "name", 4) == 0 ? MEMBER_NAME : MEMBER_OTHER;
    for (size_t i = 0; i < 2; i++)
        if (c->word.len == strlen(names[i]) && memcmp(c->word.data, names[i], c->word.len) == 0)
            c->member = MEMBER_ARGS;
    c->state = AT_COLON;
}

/* Reads a byte of a key or of the function's name. Returns false if it does not fit. */
static bool word_byte(struct parser *a, char ch)
{
    struct tool_call *c = &a->call;
    char bytes[8];

    if (!ends_string(&c->escapes, ch)) {
        buf_add(&c->word, bytes, decode(&c->escapes, ch, bytes));
        return c->word.len <= PARSER_MAX_NAME;
    }
    if (c->state == IN_KEY) {
        key_ends(c);
        return true;
    }
    if (c->word.len == 0 || (c->bare && a->o.n_names && !is_known(a, c->word.data, c->word.len)))
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
    struct tool_call *c = &a->call;

    if (c->name.len == 0 || (c->bare && !c->has_args))
        return false;
    if (!c->has_args) {
        c->has_args = true;
        buf_add(&c->args, "{}", 2);
        maybe_begin(a);
    }
    end_call(a, a->at + 1);
    if (c->list)
        c->state = AFTER_ITEM;
    return true;
}

/* Parses the text before '{': f[ARGS], f[CALL_ID]id[ARGS] or f. The name is the text before the first
 * bracket. Returns false if it is not valid. */
static bool named_begins(struct parser *a)
{
    static const char args[] = "[ARGS]", id[] = "[CALL_ID]";
    struct tool_call *c = &a->call;
    const char *s, *bracket;
    size_t n, rest;

    while (c->word.len && utf8_is_blank(c->word.data[c->word.len - 1]))
        c->word.data[--c->word.len] = 0;
    s = c->word.data ? c->word.data : "";
    bracket = strchr(s, '[');
    n = bracket ? (size_t)(bracket - s) : c->word.len;
    rest = c->word.len - n;
    if (n == 0 || n > PARSER_MAX_NAME || strpbrk(s, " \t\r\n") || memchr(s, ']', n))
        return false;
    if (bracket && (rest < sizeof(args) - 1 || strcmp(s + c->word.len - (sizeof(args) - 1), args) != 0 ||
                    (rest >= sizeof(args) && strncmp(bracket, id, sizeof(id) - 1) != 0)))
        return false;
    start_object(c);
    buf_add(&c->name, s, n);
    args_begin(a, IN_ARGS);
    return true;
}

static bool named_byte(struct parser *a, char ch)
{
    struct tool_call *c = &a->call;
    bool letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
                  strchr("_-.[] \t\r\n", ch);

    if (ch == '{' && named_begins(a)) {
        nest(&c->nesting, ch);
        args_bytes(a, &ch, 1);
        return true;
    }
    buf_char(&c->word, ch);
    return ch && letter && c->word.len <= 2 * PARSER_MAX_NAME;
}

/* Reads a byte after a complete call: white space, a separator, or the beginning of another call. Returns
 * false otherwise. */
static bool close_byte(struct parser *a, char ch)
{
    struct tool_call *c = &a->call;
    bool more_calls = a->n_calls < PARSER_MAX_CALLS;

    if (utf8_is_blank(ch) || (a->o.calls->bare && ch == ';'))
        return true;
    if (a->o.calls->bare && ch == '{' && more_calls) {
        start_object(c);
        return true;
    }
    if (c->named && more_calls && ch != '[' && ch != '{') {
        c->state = IN_NAMED;
        empty(c, &c->word);
        return named_byte(a, ch);
    }
    return false;
}

static bool head_byte(struct parser *a, char ch)
{
    struct tool_call *c = &a->call;
    unsigned shapes = a->o.calls->shapes;

    if (ch == '[' && shapes & MARKUP_LIST) {
        c->list = true;
        c->state = AT_ITEM;
    } else if (ch == '{' && shapes & MARKUP_OBJECT) {
        start_object(c);
    } else if (shapes & MARKUP_NAMED) {
        c->named = true;
        c->state = IN_NAMED;
        empty(c, &c->word);
        return named_byte(a, ch);
    } else {
        return false;
    }
    return true;
}

/* Reads a byte inside the value of a member. Returns false if it does not fit. */
static bool value_byte(struct parser *a, char ch)
{
    struct tool_call *c = &a->call;
    char bytes[8];

    if (c->state == IN_ARGS) {
        args_bytes(a, &ch, 1);
        if (nest(&c->nesting, ch)) {
            args_end(a);
            c->state = AFTER_VALUE;
            if (c->named)
                end_call(a, a->at + 1);
        }
    } else if (c->state == IN_QUOTED) {
        if (ends_string(&c->escapes, ch)) {
            args_end(a);
            c->state = AFTER_VALUE;
        } else {
            args_bytes(a, bytes, decode(&c->escapes, ch, bytes));
        }
    } else if (c->nesting.depth || c->nesting.quoted) {
        if (nest(&c->nesting, ch))
            c->state = AFTER_VALUE;
    } else if (ch == ',' || ch == '}' || utf8_is_blank(ch)) { /* end of a number or literal */
        c->state = AFTER_VALUE;
        a->at--; /* read this byte again */
    } else {
        return strchr("\"[]{:", ch) == NULL;
    }
    return true;
}

/* Reads a byte of the call's syntax, outside of keys and values; white space is skipped before. Returns
 * false if it does not fit. */
static bool structure_byte(struct parser *a, char ch)
{
    struct tool_call *c = &a->call;

    switch (c->state) {
    case AT_HEAD: return head_byte(a, ch);
    case AT_ITEM: start_object(c); return ch == '{' && a->n_calls < PARSER_MAX_CALLS;
    case AT_FIRST:
    case AT_KEY:
        c->state = IN_KEY;
        c->escapes = (struct escapes){0};
        empty(c, &c->word);
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
    default: return close_byte(a, ch);
    }
}

static bool call_byte(struct parser *a, char ch)
{
    switch (a->call.state) {
    case IN_KEY:
    case IN_NAME: return word_byte(a, ch);
    case IN_VALUE:
    case IN_ARGS:
    case IN_QUOTED: return value_byte(a, ch);
    case IN_NAMED: return named_byte(a, ch);
    default: return utf8_is_blank(ch) || structure_byte(a, ch);
    }
}

/* Returns whether the arguments are being put out. Text read so far is then never read again. */
static bool streaming(const struct tool_call *c)
{
    return c->begun && !c->args_done;
}

static bool call_step(struct parser *a)
{
    struct tool_call *c = &a->call;
    const char *close = a->o.calls->close;
    bool more = false;

    if (c->state == AT_CLOSE && close && match_any(a, &close, 1, &more)) {
        a->at += strlen(close);
        a->machine = TEXT;
        return true;
    }
    if (more)
        return false;
    if (!streaming(c) && a->at - c->start >= PARSER_MAX_HELD) {
        c->mark_len = c->begun ? 0 : a->at - c->start;
        misfit(a);
        return true;
    }
    if (!call_byte(a, a->in.data[a->at]))
        misfit(a);
    else
        a->at++;
    return true;
}

/* Ends a call that is incomplete at the end of the text. */
static void finish_call(struct parser *a)
{
    struct tool_call *c = &a->call;

    if (streaming(c)) {
        put_call_end(a, false);
        a->machine = TEXT;
    } else {
        misfit(a);
        if (a->machine == CALL)
            give_up(a);
    }
}

/* ---- channels of harmony ---- */

static const char message_mark[] = "<|message|>", start_mark[] = "<|start|>", channel_mark[] = "<|channel|>",
                  end_mark[] = "<|end|>", call_mark[] = "<|call|>", return_mark[] = "<|return|>",
                  role[] = "assistant";

static void begin_header(struct parser *a)
{
    a->header = a->at;
    a->machine = HEADER;
}

static void begin_body(struct parser *a, enum parser_kind kind)
{
    a->machine = BODY;
    a->mode = kind;
    a->separate = kind == PARSER_CONTENT ? a->content_begun : a->reasoning_begun;
}

/* Finds the word after MARK in a header: <|channel|>NAME or to=RECIPIENT, in either order. Returns its
 * length; 0: none. */
static size_t header_word(const char *header, const char *mark, const char **word)
{
    const char *at = strstr(header, mark);

    *word = at ? at + strlen(mark) : "";
    return strcspn(*word, " \t\r\n<");
}

/* Handles <|message|>, which ends the header before the next byte. A message to a function is a tool call.
 * A message in the channel analysis, or to a built-in tool of the model, is reasoning. Any other message is
 * content. */
static void open_message(struct parser *a)
{
    static const char functions[] = "functions.", analysis[] = "analysis";
    char header[MAX_HEADER + 1];
    size_t n = a->at - a->header, n_channel, n_name;
    const char *channel, *name;
    bool function;

    memcpy(header, a->in.data + a->header, n);
    header[n] = 0;
    n_channel = header_word(header, channel_mark, &channel);
    n_name = header_word(header, "to=", &name);
    function = n_name > strlen(functions) && memcmp(name, functions, strlen(functions)) == 0;
    if (function) {
        name += strlen(functions);
        n_name -= strlen(functions);
    }
    if (a->o.calls && n_name <= PARSER_MAX_NAME && a->n_calls < PARSER_MAX_CALLS &&
        (function || is_known(a, name, n_name))) {
        begin_body(a, PARSER_ARGUMENTS);
        put_call(a, name, n_name);
        a->call.has_args = false;
    } else if ((n_channel == strlen(analysis) && memcmp(channel, analysis, n_channel) == 0) ||
               (n_name && !function)) {
        begin_body(a, PARSER_REASONING);
    } else {
        begin_body(a, PARSER_CONTENT);
    }
}

static void body_byte(struct parser *a, char c)
{
    if (a->mode == PARSER_ARGUMENTS) {
        a->call.has_args |= !utf8_is_blank(c);
    } else if (a->separate) {
        parser_put(a, a->mode, "\n", 1);
        a->separate = false;
    }
    a->content_begun |= a->mode == PARSER_CONTENT;
    a->reasoning_begun |= a->mode == PARSER_REASONING;
    parser_put(a, a->mode, &c, 1);
}

static void close_message(struct parser *a, bool complete)
{
    if (a->mode != PARSER_ARGUMENTS)
        return;
    if (complete && !a->call.has_args)
        parser_put(a, PARSER_ARGUMENTS, "{}", 2);
    put_call_end(a, complete);
}

/* Treats the text of an invalid header as content, except for the role at its beginning. */
static void header_is_content(struct parser *a)
{
    size_t at = a->header, n = strlen(role);

    begin_body(a, PARSER_CONTENT);
    if (a->at - at >= n && memcmp(a->in.data + at, role, n) == 0)
        at += n;
    for (; at < a->at; at++)
        body_byte(a, a->in.data[at]);
}

/* Skips MARK between two messages. Begins a header if MARK is the beginning of one. */
static void pass(struct parser *a, const char *mark)
{
    if (mark != channel_mark)
        a->at += strlen(mark);
    if (mark == channel_mark || mark == start_mark)
        begin_header(a);
    else
        a->machine = BETWEEN;
}

/* Decides whether the answer begins with a header or with content. Returns false if more text is needed. */
static bool first_step(struct parser *a)
{
    static const char *const headers[] = {channel_mark, message_mark, start_mark, role, " to=", "to="};
    bool more, found = match_any(a, headers, sizeof(headers) / sizeof(headers[0]), &more) != NULL;

    if (!found && more)
        return false;
    a->fresh = false;
    if (!found)
        begin_body(a, PARSER_CONTENT);
    return true;
}

static bool header_step(struct parser *a)
{
    static const char *const marks[] = {message_mark, start_mark, end_mark, call_mark, return_mark};
    const char *mark;
    bool more;

    mark = match_any(a, marks, sizeof(marks) / sizeof(marks[0]), &more);
    if (mark == message_mark) {
        open_message(a);
        a->at += strlen(mark);
    } else if (mark) {
        header_is_content(a);
        pass(a, mark);
    } else if (more) {
        return false;
    } else if (a->at - a->header == MAX_HEADER) {
        header_is_content(a);
    } else {
        a->at++;
    }
    return true;
}

static bool body_step(struct parser *a)
{
    static const char *const marks[] = {end_mark, call_mark, return_mark, start_mark, channel_mark};
    const char *mark;
    bool more;

    mark = match_any(a, marks, sizeof(marks) / sizeof(marks[0]), &more);
    if (!mark && more)
        return false;
    if (mark) {
        if (a->machine == BODY)
            close_message(a, true);
        pass(a, mark);
    } else if (a->machine == BODY) {
        body_byte(a, a->in.data[a->at++]);
    } else if (utf8_is_blank(a->in.data[a->at])) {
        a->at++;
    } else {
        begin_body(a, PARSER_CONTENT);
    }
    return true;
}

/* ---- the parser ---- */

static bool step(struct parser *a)
{
    switch (a->machine) {
    case TEXT: return text_step(a);
    case CALL: return call_step(a);
    case HEADER: return a->fresh ? first_step(a) : header_step(a);
    default: return body_step(a);
    }
}

static void parser_run(struct parser *a)
{
    while (a->at < a->in.len && step(a))
        ;
}

/* Removes from `in` the text that the parser will not read again. */
static void compact(struct parser *a)
{
    size_t keep = a->at;

    if (a->machine == HEADER)
        keep = a->header;
    else if (a->machine == CALL && !streaming(&a->call))
        keep = a->call.start;
    if (keep == 0)
        return;
    memmove(a->in.data, a->in.data + keep, a->in.len - keep);
    a->in.len -= keep;
    a->at -= keep;
    a->header = 0;
    a->call.start = 0;
}

static int check(const struct parser *a, struct err *e)
{
    const struct tool_call *c = &a->call;

    if (a->in.oom || a->out.oom || a->blanks.oom || c->word.oom || c->name.oom || c->args.oom || c->lost)
        return err_nomem(e, "the parts of an answer");
    return 0;
}

int parser_feed(struct parser *a, const char *text, size_t n, struct err *e)
{
    int rc = check(a, e);

    if (rc)
        return rc;
    if (a->taken == a->n_slots) {
        buf_clear(&a->out);
        a->n_slots = a->taken = 0;
    }
    buf_add(&a->in, text, n);
    if (!a->in.oom) {
        parser_run(a);
        compact(a);
    }
    return check(a, e);
}

/* Drops the incomplete call and the white space before it. */
static void drop_call(struct parser *a)
{
    buf_clear(&a->blanks);
    if (streaming(&a->call))
        put_call_end(a, false);
    a->at = a->in.len;
    a->machine = TEXT;
}

int parser_finish(struct parser *a, enum parser_end end, struct err *e)
{
    a->finishing = true;
    parser_run(a);
    if (end == PARSER_STOPPED && a->machine == CALL)
        drop_call(a);
    while (a->machine == CALL) {
        finish_call(a);
        parser_run(a);
    }
    if (a->machine == TEXT)
        finish_text(a);
    else if (a->machine == BODY)
        close_message(a, end == PARSER_ENDED);
    return check(a, e);
}

static bool has_channels(const struct parser_options *o)
{
    return (o->calls && o->calls->channels) || (o->reasoning && o->reasoning->channels);
}

/* Reads the beginning of the last message, which the prompt already contains: a header and perhaps text. */
static int parser_read_prompt(struct parser *a, struct err *e)
{
    const char *prompt = a->o.prompt;
    size_t n = strlen(start_mark), at = a->o.prompt_len;
    int rc = 0;

    a->machine = HEADER;
    a->muted = true;
    for (bool found = false; at >= n && !found; at--) {
        found = memcmp(prompt + at - n, start_mark, n) == 0;
        if (found)
            rc = parser_feed(a, prompt + at, a->o.prompt_len - at, e);
    }
    a->muted = false;
    a->fresh = a->machine == HEADER;
    return rc;
}

int parser_open(struct parser **out, const struct parser_options *o, struct err *e)
{
    struct parser *a = mem_zalloc(1, sizeof(*a), MEM_TEXT);
    int rc = 0;

    *out = NULL;
    if (!a)
        return err_nomem(e, "the parts of an answer");
    a->in.tag = a->out.tag = a->blanks.tag = MEM_TEXT;
    a->call.word.tag = a->call.name.tag = a->call.args.tag = MEM_TEXT;
    a->o = *o;
    if (has_channels(o))
        rc = parser_read_prompt(a, e);
    else if (markup_begins_inside(o->reasoning, o->prompt, o->prompt_len))
        a->mode = PARSER_REASONING;
    a->o.prompt = NULL;
    if (rc)
        parser_close(a);
    else
        *out = a;
    return rc;
}

void parser_close(struct parser *a)
{
    if (!a)
        return;
    buf_fini(&a->in);
    buf_fini(&a->out);
    buf_fini(&a->blanks);
    buf_fini(&a->call.word);
    buf_fini(&a->call.name);
    buf_fini(&a->call.args);
    mem_free(a->slot);
    mem_free(a);
}
