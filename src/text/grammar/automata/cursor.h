/* cursor.h - a position in the text of a pattern or of a grammar, and the first error of its reader. */
#ifndef GALLOP_TEXT_GRAMMAR_AUTOMATA_CURSOR_H
#define GALLOP_TEXT_GRAMMAR_AUTOMATA_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct cursor {
    const char *text; /* [n] borrowed; it may contain zeros */
    size_t n, at;     /* AT: offset of the next byte */
    int code;         /* the code of the first error; 0: none */
};

/* Returns whether nothing is left to read, or an error ended the reading. */
static inline bool cursor_at_end(const struct cursor *c)
{
    return c->code || c->at >= c->n;
}

/* Returns the next byte without consuming it; 0 at the end. */
static inline char cursor_next(const struct cursor *c)
{
    return cursor_at_end(c) ? '\0' : c->text[c->at];
}

/* Consumes TEXT if it comes next. Returns whether it did. */
static inline bool cursor_skip(struct cursor *c, const char *text)
{
    size_t n = strlen(text);

    if (c->code || c->n - c->at < n || memcmp(c->text + c->at, text, n) != 0)
        return false;
    c->at += n;
    return true;
}

#endif
