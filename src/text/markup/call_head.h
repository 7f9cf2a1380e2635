/* call_head.h - decides whether a tool call follows its opening mark, or whether a text only mentions the mark.
 *
 * A tool call has begun when its name and the beginning of its arguments are known, or its object ends with a name and
 * no arguments. These are the rules of parser.h, without the names of the functions, which are not known here.
 */
#ifndef GALLOP_TEXT_MARKUP_CALL_HEAD_H
#define GALLOP_TEXT_MARKUP_CALL_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes behind a mark after which the text is no tool call unless its arguments have begun, and blank bytes before the
 * first other one. */
enum { CALL_HEAD_MOST = 1024, CALL_HEAD_BLANKS = 64 };

enum call_head_is { CALL_HEAD_OPEN, CALL_HEAD_CALL, CALL_HEAD_MENTION };

/* The state behind a mark. Zeroed: at the mark. */
struct call_head {
    uint8_t state;
    bool takes_name;       /* f[ARGS]{ and f{ are tool calls, too */
    bool is_name, is_args; /* the member whose value follows */
    bool has_name, has_args;
    bool is_quoted, is_escaped; /* inside a string */
    uint8_t depth;              /* open brackets of a value that is neither name nor arguments */
    uint8_t n_word;             /* bytes of the key, of the name of a function, or of a mark in brackets */
    char word[16];              /* the first bytes of the key */
    size_t n;                   /* bytes so far */
};

/* Reads the byte C. */
enum call_head_is call_head_add(struct call_head *h, char c);

#endif
