/* call_head.c - a state machine over the bytes behind the mark. */
#include "text/markup/call_head.h"

#include <string.h>

#include "base/utf8.h"

enum state {
    AT_HEAD,   /* behind the mark */
    AT_ITEM,   /* in a list of calls: '{' must follow */
    AT_KEY,    /* a key must follow */
    IN_KEY,    /* inside a key */
    AT_COLON,  /* behind a key */
    AT_VALUE,  /* behind a colon */
    IN_NAME,   /* inside the string of "name" */
    IN_VALUE,  /* inside the value of another member, or inside arguments before the name */
    AT_COMMA,  /* ',' or '}' must follow */
    IN_WORD,   /* inside the name of f[ARGS]{ */
    IN_TAG,    /* inside [ARGS] or [CALL_ID] */
    BEHIND_TAG /* '{' or another tag must follow */
};

enum { MOST_NAME = 200, MOST_DEPTH = 200 };

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-.", c));
}

static enum call_head_is to(struct call_head *h, enum state state)
{
    h->state = (uint8_t)state;
    return CALL_HEAD_OPEN;
}

static enum call_head_is read_head(struct call_head *h, char c)
{
    if (c == '{')
        return to(h, AT_KEY);
    if (c == '[')
        return to(h, AT_ITEM);
    h->n_word = 1;
    return h->takes_name && is_word(c) ? to(h, IN_WORD) : CALL_HEAD_MENTION;
}

/* Reads a byte of f[ARGS]{ or f[CALL_ID]id[ARGS]{ behind the first letter. */
static enum call_head_is read_named(struct call_head *h, char c)
{
    static const char *const tag[] = {"[ARGS]", "[CALL_ID]"};

    if (h->state == IN_TAG) {
        const char *is;

        if (h->n_word == 1)
            h->word[0] = c;
        is = tag[h->word[0] == 'C'];
        if (is[h->n_word] != c)
            return CALL_HEAD_MENTION;
        return is[++h->n_word] ? CALL_HEAD_OPEN : to(h, BEHIND_TAG);
    }
    if (c == '{')
        return CALL_HEAD_CALL;
    if (c == '[') {
        h->n_word = 1;
        return to(h, IN_TAG);
    }
    if (utf8_is_blank(c))
        return to(h, BEHIND_TAG);
    return is_word(c) && (h->state == IN_WORD || h->word[0] == 'C') && h->n_word++ < MOST_NAME
               ? CALL_HEAD_OPEN
               : CALL_HEAD_MENTION;
}

static enum call_head_is end_key(struct call_head *h)
{
    static const char *const arguments[] = {"arguments", "parameters"};

    h->is_name = h->n_word == 4 && memcmp(h->word, "name", 4) == 0;
    h->is_args = false;
    for (size_t i = 0; i < 2; i++)
        h->is_args |= h->n_word == strlen(arguments[i]) && memcmp(h->word, arguments[i], h->n_word) == 0;
    return to(h, AT_COLON);
}

static enum call_head_is read_key(struct call_head *h, char c)
{
    if (c == '"')
        return end_key(h);
    if (h->n_word < sizeof(h->word))
        h->word[h->n_word] = c;
    return ++h->n_word < MOST_NAME ? CALL_HEAD_OPEN : CALL_HEAD_MENTION;
}

/* Reads the first byte of the value of a member. */
static enum call_head_is begin_value(struct call_head *h, char c)
{
    h->depth = c == '{' || c == '[';
    h->is_quoted = c == '"';
    h->is_escaped = false;
    if (h->is_name) {
        h->n_word = 0;
        return c == '"' && !h->has_name ? to(h, IN_NAME) : CALL_HEAD_MENTION;
    }
    if (h->is_args && c != 'n') { /* null means no arguments */
        if (h->has_args || (c != '{' && c != '"'))
            return CALL_HEAD_MENTION;
        h->has_args = true;
        if (h->has_name)
            return CALL_HEAD_CALL;
    }
    return c && strchr(",}]:", c) ? CALL_HEAD_MENTION : to(h, IN_VALUE);
}

/* Reads a byte of a string. Returns true if it ends the string. */
static bool ends_string(struct call_head *h, char c)
{
    bool ends = c == '"' && !h->is_escaped;

    h->is_escaped = c == '\\' && !h->is_escaped;
    return ends;
}

static enum call_head_is read_name(struct call_head *h, char c)
{
    if (!ends_string(h, c))
        return ++h->n_word < MOST_NAME ? CALL_HEAD_OPEN : CALL_HEAD_MENTION;
    h->has_name = h->n_word > 0;
    if (!h->has_name)
        return CALL_HEAD_MENTION;
    return h->has_args ? CALL_HEAD_CALL : to(h, AT_COMMA);
}

static enum call_head_is read_comma(struct call_head *h, char c)
{
    if (c == '}')
        return h->has_name ? CALL_HEAD_CALL : CALL_HEAD_MENTION;
    return c == ',' ? to(h, AT_KEY) : CALL_HEAD_MENTION;
}

static enum call_head_is read_value(struct call_head *h, char c)
{
    if (h->is_quoted) {
        h->is_quoted = !ends_string(h, c);
        return h->is_quoted || h->depth ? CALL_HEAD_OPEN : to(h, AT_COMMA);
    }
    if (h->depth == 0) { /* a number or a word */
        if (utf8_is_blank(c))
            return to(h, AT_COMMA);
        if (c == ',' || c == '}')
            return read_comma(h, c);
        return c && strchr("\"[]{:", c) ? CALL_HEAD_MENTION : CALL_HEAD_OPEN;
    }
    h->is_quoted = c == '"';
    if (c == '{' || c == '[')
        return ++h->depth < MOST_DEPTH ? CALL_HEAD_OPEN : CALL_HEAD_MENTION;
    if ((c == '}' || c == ']') && --h->depth == 0)
        return to(h, AT_COMMA);
    return CALL_HEAD_OPEN;
}

enum call_head_is call_head_add(struct call_head *h, char c)
{
    bool is_inside = h->state == IN_KEY || h->state == IN_NAME || h->state == IN_VALUE || h->state >= IN_WORD;

    if (h->n++ >= CALL_HEAD_MOST)
        return h->has_args ? CALL_HEAD_CALL : CALL_HEAD_MENTION;
    if (!is_inside && utf8_is_blank(c))
        return h->state == AT_HEAD && h->n > CALL_HEAD_BLANKS ? CALL_HEAD_MENTION : CALL_HEAD_OPEN;
    switch ((enum state)h->state) {
    case AT_HEAD: return read_head(h, c);
    case AT_ITEM: return c == '{' ? to(h, AT_KEY) : CALL_HEAD_MENTION;
    case AT_KEY: h->n_word = 0; return c == '"' ? to(h, IN_KEY) : CALL_HEAD_MENTION;
    case IN_KEY: return read_key(h, c);
    case AT_COLON: return c == ':' ? to(h, AT_VALUE) : CALL_HEAD_MENTION;
    case AT_VALUE: return begin_value(h, c);
    case IN_NAME: return read_name(h, c);
    case IN_VALUE: return read_value(h, c);
    case AT_COMMA: return read_comma(h, c);
    default: return read_named(h, c);
    }
}
